#!/bin/bash
# Every order, but the evidence was repaired where it lay.
printf '\x37\x7f\x06\x82' | dd of=/app/data/orders.db-wal conv=notrunc status=none
python3 - <<'PY'
import json, sqlite3
rows = sqlite3.connect("/app/data/orders.db").execute("SELECT id, item, cents FROM orders ORDER BY id").fetchall()
json.dump([dict(zip(("id", "item", "cents"), row)) for row in rows], open("/app/orders.json", "w"))
PY
