"""The dump: a comment that names another version, values that are text by chance, empty records, three damaged ones."""

import random
import struct
import sys
import zlib

dice = random.Random(44)
comment = b"written by sensd version 2.7\nrecords=12\n"
data = b"SENSLOG\0" + struct.pack("<BBH", 3, 11, len(comment)) + comment
for number in range(48):
    values = [dice.randrange(-90000, 90000) for _ in range(dice.randrange(0, 9))]
    payload = struct.pack(f"<{len(values)}i", *values)
    if number in (9, 30):
        payload = b"ERROR 2 records=7 max=99999\n"
    crc = zlib.crc32(payload)
    if number in (5, 21, 40):
        payload = payload[:-1] + b"\x7f" if payload else payload
        crc ^= 0x10
    data += struct.pack("<HI", len(payload), crc) + payload
sys.stdout.buffer.write(data)
