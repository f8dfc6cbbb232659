#!/bin/bash
set -e
cat > /app/fast.py <<'PY'
import sys


def checksum(data):
    low, high = 0x1234ABCD, 0
    for position, byte in enumerate(data):
        if byte >= 128:
            byte -= 256
        low = (low + byte * (position % 251 + 1)) & 0xFFFFFFFF
        value, by = high ^ low, (byte & 7) + 1
        high = (value << by | value >> 32 - by) & 0xFFFFFFFF
        if position & 63 == 63:
            low = (low - (high >> 3)) & 0xFFFFFFFF
    return f"{low:08x}{high:08x}"


print(checksum(sys.stdin.buffer.read()))
PY
for size in 0 1 63 64 65 1000 20000; do
    head -c $size /bin/ls > /tmp/some
    [ "$(python3 /app/slow.py < /tmp/some)" = "$(python3 /app/fast.py < /tmp/some)" ] || { echo "differs at $size"; exit 1; }
done
echo same
