import random
import sys
from pathlib import Path

dice = random.Random(31)
wanted = b""
for section in ["winter", "spring", "summer"]:
    wanted += f"[{section}]".encode() + b"\r\n"
    right = b"EUR-B7" if section == "spring" else b"EUR-A"
    for i in range(60):
        name = dice.choice([b"caf\xe9", b"tarte", b"cr\xeape", b"th\xe9 \xe0 la menthe", b"pain"])
        code = dice.choice([right, b"EUR-AX", right, b"USD-A", b"EUR-C"])
        end = dice.choice([b"\r\n", b"\r\n", b"\r\n", b"\n"])
        note = dice.choice([b"", b"", b" see " + right + b";" + right, b"\tMEUR-A"])
        wanted += b"%03d  %s\t%s %d,%02d%s" % (i, name, code, dice.randrange(1, 40), dice.randrange(100), note) + end
    wanted += b"\x0c"
wanted += b"[end] EUR-A"
found = Path("/app/prices.txt").read_bytes()
if found != wanted:
    at = next((i for i, (a, b) in enumerate(zip(found, wanted)) if a != b), min(len(found), len(wanted)))
    sys.exit(f"{len(found)} bytes, expected {len(wanted)}; first difference at byte {at}: {found[at:at+12]!r}, expected {wanted[at:at+12]!r}")
print("the list is right to the byte")
