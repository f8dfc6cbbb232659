import json
import random
import shutil
import sqlite3
import sys
from pathlib import Path

dice = random.Random(20)
items = ["lamp", "desk", "chair", "shelf", "clock", "mirror"]
made = [{"id": i, "item": dice.choice(items), "cents": dice.randrange(500, 90000)} for i in range(1, 228)]
wanted = [row for row in made if row["id"] % 25]

found = json.loads(Path("/app/orders.json").read_text())
if found != wanted:
    ids = {row.get("id") for row in found}
    missing = [row["id"] for row in wanted if row["id"] not in ids]
    sys.exit(f"{len(found)} orders, expected {len(wanted)}; missing ids: {missing[:5]}{'...' if len(missing) > 5 else ''}")

data, copy = Path("/app/data"), Path("/tmp/evidence")
if sorted(path.name for path in data.iterdir()) != ["orders.db", "orders.db-wal"]:
    sys.exit(f"the evidence is not as it was: {sorted(path.name for path in data.iterdir())}")
shutil.rmtree(copy, ignore_errors=True)
shutil.copytree(data, copy)
with (copy / "orders.db-wal").open("r+b") as log:
    if log.read(4) != b"\xff\xff\xff\xff":
        sys.exit("the log of the evidence was changed")
    log.seek(0)
    log.write((0x377F0682).to_bytes(4, "big"))
alone = sqlite3.connect(f"file:{copy}/orders.db?immutable=1", uri=True).execute("SELECT count(*) FROM orders").fetchone()[0]
both = sqlite3.connect(copy / "orders.db").execute("SELECT count(*) FROM orders").fetchone()[0]
if (alone, both) != (180, len(wanted)):
    sys.exit(f"the evidence was changed: {alone} orders in the file and {both} with its log")
print("every order is there, and the evidence is as it was")
