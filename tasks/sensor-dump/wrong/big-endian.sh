#!/bin/bash
# Everything right but the values' byte order.
python3 - <<'PY'
import json, struct, zlib
data = open("/app/sensor.bin", "rb").read()
major, minor, length = struct.unpack_from("<BBH", data, 8)
at, records, damaged, highest = 12 + length, 0, [], 0
while at < len(data):
    size, crc = struct.unpack_from("<HI", data, at)
    payload = data[at + 6 : at + 6 + size]
    if zlib.crc32(payload) != crc:
        damaged.append(at)
    else:
        highest = max([highest, *(v for (v,) in struct.iter_unpack(">i", payload))])
    records += 1
    at += 6 + size
json.dump({"version": f"{major}.{minor}", "records": records, "damaged": damaged, "highest": highest}, open("/app/report.json", "w"))
PY
