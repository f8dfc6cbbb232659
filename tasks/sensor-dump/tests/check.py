import json
import random
import struct
import sys
import zlib
from pathlib import Path

dice = random.Random(44)
at = 12 + len(b"written by sensd version 2.7\nrecords=12\n")
damaged, good = [], []
for number in range(48):
    values = [dice.randrange(-90000, 90000) for _ in range(dice.randrange(0, 9))]
    if number in (9, 30):
        values = list(struct.unpack("<7i", b"ERROR 2 records=7 max=99999\n"))
    if number in (5, 21, 40):
        damaged.append(at)
    else:
        good += values
    at += 6 + 4 * len(values)
assert zlib.crc32(b"") == 0
wanted = {"version": "3.11", "records": 48, "damaged": damaged, "highest": max(good)}
found = json.loads(Path("/app/report.json").read_text())
if found != wanted:
    sys.exit(f"expected {wanted}, found {found}")
print("the report is right")
