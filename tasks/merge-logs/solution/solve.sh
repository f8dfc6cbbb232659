#!/bin/bash
set -e
head -n 2 /app/logs/*.log
python3 - <<'PY'
from datetime import datetime, timezone
from pathlib import Path
rows = []
for name in ("door", "panel", "pump"):
    for number, line in enumerate(Path(f"/app/logs/{name}.log").read_text().splitlines()):
        if name == "door":
            time, event = line.split(" ", 1)
            moment = datetime.strptime(time, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
        elif name == "pump":
            time, event = line.split(" ", 1)
            moment = datetime.fromtimestamp(int(time), timezone.utc)
        else:
            day, clock, offset, event = line.split(" ", 3)
            moment = datetime.strptime(f"{day} {clock} {offset}", "%d.%m.%Y %H:%M:%S %z").astimezone(timezone.utc)
        rows.append((moment, name, number, event))
lines = [f"{moment:%Y-%m-%dT%H:%M:%SZ} {name} {event}\n" for moment, name, _, event in sorted(rows)]
Path("/app/merged.log").write_text("".join(lines))
print(len(lines), "lines")
PY
