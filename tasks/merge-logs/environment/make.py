"""Makes three logs of one hour in which the clocks went back: each with its own way to write a time."""

import random
from datetime import datetime, timedelta, timezone
from pathlib import Path

dice = random.Random(91)
start = datetime(2026, 10, 25, 0, 10, tzinfo=timezone.utc)
folder = Path("/app/logs")
folder.mkdir(parents=True, exist_ok=True)
logs = {"door.log": [], "pump.log": [], "panel.log": []}
moments = sorted(start + timedelta(seconds=dice.randrange(0, 6600)) for _ in range(240))
for number, moment in enumerate(moments):
    name = dice.choice(list(logs))
    event = f"{dice.choice(['open', 'close', 'check', 'alarm'])} {number:03d}"
    if name == "door.log":
        logs[name].append(f"{moment:%Y-%m-%dT%H:%M:%SZ} {event}")
    elif name == "pump.log":
        logs[name].append(f"{int(moment.timestamp())} {event}")
    else:  # local time with its offset: summer time ends at 01:00 UTC
        zone = timezone(timedelta(hours=2 if moment.hour < 1 else 1))
        logs[name].append(f"{moment.astimezone(zone):%d.%m.%Y %H:%M:%S %z} {event}")
for name, lines in logs.items():
    (folder / name).write_text("\n".join(lines) + "\n")
