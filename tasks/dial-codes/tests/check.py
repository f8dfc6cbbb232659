import itertools
import sys
from pathlib import Path

wanted = [
    "".join(code)
    for code in itertools.permutations("0123456789", 4)
    if code[2] > code[3] and code[1] in "013579" and int("".join(code)) % 7 == 0
]
found = Path("/app/codes.txt").read_text().splitlines()
if found != sorted(wanted):
    missing, more = set(wanted) - set(found), set(found) - set(wanted)
    sys.exit(f"{len(found)} codes, expected {len(wanted)}; missing {sorted(missing)[:5]}, too many {sorted(more)[:5]}")
if Path("/app/count.txt").read_text().strip() != str(len(wanted)):
    sys.exit("the count is wrong")
print("all codes are there")
