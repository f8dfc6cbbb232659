#!/bin/bash
set -e
cd /app
python3 -B - <<'PY'
import json
from tokenizer import pieces
latest = {}
for line in open("/app/archive.jsonl", encoding="utf-8"):
    row = json.loads(line)
    if row["version"] > latest.get(row["id"], {"version": 0})["version"]:
        latest[row["id"]] = row
kept = [row for row in latest.values() if row["status"] == "published" and row["lang"].lower() == "en"]
total = sum(len(pieces(row["title"])) + len(pieces(row["body"])) for row in kept)
open("/app/count.txt", "w").write(f"{total}\n")
print(len(latest), "articles,", len(kept), "count,", total, "pieces")
PY
