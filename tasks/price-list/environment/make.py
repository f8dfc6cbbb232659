"""The price list: CR LF at most line ends, LF at some, Latin-1 bytes, a form feed, and no newline at the end."""

import random
import sys

dice = random.Random(31)
lines = []
for section in ["winter", "spring", "summer"]:
    lines.append(f"[{section}]".encode() + b"\r\n")
    for i in range(60):
        name = dice.choice([b"caf\xe9", b"tarte", b"cr\xeape", b"th\xe9 \xe0 la menthe", b"pain"])
        code = dice.choice([b"EUR-A", b"EUR-AX", b"EUR-A", b"USD-A", b"EUR-C"])
        end = dice.choice([b"\r\n", b"\r\n", b"\r\n", b"\n"])
        note = dice.choice([b"", b"", b" see EUR-A;EUR-A", b"\tMEUR-A"])
        lines.append(b"%03d  %s\t%s %d,%02d%s" % (i, name, code, dice.randrange(1, 40), dice.randrange(100), note) + end)
    lines.append(b"\x0c")
sys.stdout.buffer.write(b"".join(lines) + b"[end] EUR-A")
