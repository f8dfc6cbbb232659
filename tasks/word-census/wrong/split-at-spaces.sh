#!/bin/bash
# The right articles, counted in words.
python3 - <<'PY'
import json
latest = {}
for line in open("/app/archive.jsonl", encoding="utf-8"):
    row = json.loads(line)
    if row["version"] > latest.get(row["id"], {"version": 0})["version"]:
        latest[row["id"]] = row
kept = [row for row in latest.values() if row["status"] == "published" and row["lang"].lower() == "en"]
open("/app/count.txt", "w").write(str(sum(len(row["title"].split()) + len(row["body"].split()) for row in kept)))
PY
