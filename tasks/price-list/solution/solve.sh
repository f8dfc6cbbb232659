#!/bin/bash
set -e
python3 - <<'PY'
import re
data = open("/app/prices.txt", "rb").read()
start = data.index(b"[spring]")
end = data.index(b"[summer]", start)
part = re.sub(rb"(?<![\w-])EUR-A(?![\w-])", b"EUR-B7", data[start:end])
open("/app/prices.txt", "wb").write(data[:start] + part + data[end:])
PY
cmp -s /app/prices.txt /dev/null || grep -c -a 'EUR-B7' /app/prices.txt
