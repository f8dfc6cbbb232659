#!/bin/bash
# The right codes, read and written as text: every CR LF has become LF.
python3 - <<'PY'
import re
text = open("/app/prices.txt", encoding="latin-1").read()
start, end = text.index("[spring]"), text.index("[summer]")
part = re.sub(r"(?<![\w-])EUR-A(?![\w-])", "EUR-B7", text[start:end])
open("/app/prices.txt", "w", encoding="latin-1").write(text[:start] + part + text[end:])
PY
