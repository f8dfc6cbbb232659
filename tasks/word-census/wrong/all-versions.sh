#!/bin/bash
# The right tokenizer and fields, over every version that is published and English.
cd /app
python3 -B - <<'PY'
import json
from tokenizer import pieces
rows = [json.loads(line) for line in open("/app/archive.jsonl", encoding="utf-8")]
kept = [row for row in rows if row["status"] == "published" and row["lang"].lower() == "en"]
open("/app/count.txt", "w").write(str(sum(len(pieces(row["title"])) + len(pieces(row["body"])) for row in kept)))
PY
