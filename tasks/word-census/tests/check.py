import json
import sys
from pathlib import Path

sys.path.insert(0, "/tests")
from tokenizer import pieces  # noqa: E402

rows = sorted((json.loads(line) for line in Path("/app/archive.jsonl").read_text(encoding="utf-8").splitlines()), key=lambda row: row["version"])
latest = {row["id"]: row for row in rows}
assert len(rows) == 230 and len(latest) == 140, (len(rows), len(latest))
wanted = sum(
    len(pieces(row["title"])) + len(pieces(row["body"]))
    for row in latest.values()
    if row["status"] == "published" and row["lang"].lower() == "en"
)
found = Path("/app/count.txt").read_text().strip()
if found != str(wanted):
    sys.exit(f"counted {found}, expected {wanted}")
print("the count is right")
