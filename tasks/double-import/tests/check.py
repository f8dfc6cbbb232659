import runpy
import sqlite3
import sys
from pathlib import Path

source = Path("/tests/make.py").read_text().replace("/app/bank.db", "/tmp/made.db")
Path("/tmp/made.db").unlink(missing_ok=True)
Path("/tmp/make_again.py").write_text(source)
runpy.run_path("/tmp/make_again.py")
made, found = sqlite3.connect("/tmp/made.db"), sqlite3.connect("/app/bank.db")


def rows(bank, query):
    return bank.execute(query).fetchall()


if rows(found, "PRAGMA integrity_check") != [("ok",)]:
    sys.exit("the database is damaged")
payments = "SELECT * FROM payments WHERE batch = 1 ORDER BY id"
if rows(found, "SELECT * FROM payments ORDER BY id") != rows(made, payments):
    count = rows(found, "SELECT count(*) FROM payments")[0][0]
    sys.exit(f"{count} payments are not the {len(rows(made, payments))} that were made")
first = [row[0] for row in rows(made, payments)]
again = [row[0] for row in rows(made, "SELECT id FROM payments WHERE batch = 2 ORDER BY id")]
moved = dict(zip(again, first))
wanted = sorted((moved.get(payment, payment), printed) for payment, printed in rows(made, "SELECT * FROM receipts"))
if sorted(rows(found, "SELECT * FROM receipts")) != wanted:
    sys.exit("the receipts are not those that were printed")
for table in ("accounts", "batches", "sqlite_master"):
    if rows(found, f"SELECT * FROM {table}") != rows(made, f"SELECT * FROM {table}"):
        sys.exit(f"{table} was changed")
print("every payment is there once, with its receipts")
