#!/bin/bash
set -e
# Work on a copy of all files: opening the evidence itself would throw the damaged log away.
mkdir /tmp/copy
cp -p /app/data/orders.db /app/data/orders.db-wal /tmp/copy/
python3 - <<'PY'
import json, sqlite3
with open("/tmp/copy/orders.db-wal", "r+b") as log:
    log.write((0x377F0682).to_bytes(4, "big"))  # a log written on a little-endian machine
rows = sqlite3.connect("/tmp/copy/orders.db").execute("SELECT id, item, cents FROM orders ORDER BY id").fetchall()
with open("/app/orders.json", "w") as out:
    json.dump([dict(zip(("id", "item", "cents"), row)) for row in rows], out)
print(len(rows), "orders")
PY
