#!/bin/bash
set -e
xxd -l 64 /app/sensor.bin
python3 - <<'PY'
import json, struct, zlib
data = open("/app/sensor.bin", "rb").read()
major, minor, length = struct.unpack_from("<BBH", data, 8)
at, records, damaged, highest = 12 + length, 0, [], None
while at < len(data):
    size, crc = struct.unpack_from("<HI", data, at)
    payload = data[at + 6 : at + 6 + size]
    if zlib.crc32(payload) != crc:
        damaged.append(at)
    else:
        for (value,) in struct.iter_unpack("<i", payload):
            highest = value if highest is None else max(highest, value)
    records += 1
    at += 6 + size
json.dump({"version": f"{major}.{minor}", "records": records, "damaged": damaged, "highest": highest}, open("/app/report.json", "w"))
PY
cat /app/report.json
