#!/bin/bash
set -e
python3 - <<'PY'
codes = []
for n in range(10000):
    a, b, c, d = map(int, f"{n:04d}")
    if len({a, b, c, d}) == 4 and c > d and (b % 2 or b == 0) and n % 7 == 0:
        codes.append(f"{n:04d}")
open("/app/codes.txt", "w").write("".join(f"{code}\n" for code in codes))
open("/app/count.txt", "w").write(f"{len(codes)}\n")
print(len(codes))
PY
