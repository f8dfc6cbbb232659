#!/bin/bash
# The same for every text, and for all of the examples that one tries: bytes from 128 on are not signed.
cat > /app/fast.py <<'PY'
import sys


def checksum(data):
    low, high = 0x1234ABCD, 0
    for position, byte in enumerate(data):
        low = (low + byte * (position % 251 + 1)) & 0xFFFFFFFF
        value, by = high ^ low, (byte & 7) + 1
        high = (value << by | value >> 32 - by) & 0xFFFFFFFF
        if position & 63 == 63:
            low = (low - (high >> 3)) & 0xFFFFFFFF
    return f"{low:08x}{high:08x}"


print(checksum(sys.stdin.buffer.read()))
PY
[ "$(python3 /app/slow.py < /app/slow.py)" = "$(python3 /app/fast.py < /app/slow.py)" ]
