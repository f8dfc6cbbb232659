#!/bin/bash
set -e
cp /app/bank.db /tmp/bank.db.before
python3 - <<'PY'
import sqlite3
bank = sqlite3.connect("/app/bank.db")
first = [row[0] for row in bank.execute("SELECT id FROM payments WHERE batch = 1 ORDER BY id")]
again = [row[0] for row in bank.execute("SELECT id FROM payments WHERE batch = 2 ORDER BY id")]
with bank:
    bank.executemany("UPDATE receipts SET payment = ? WHERE payment = ?", zip(first, again))
    bank.execute("DELETE FROM payments WHERE batch = 2")
    print(bank.execute("SELECT count(*) FROM payments").fetchone()[0], "payments")
PY
