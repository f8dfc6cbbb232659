import runpy
import sys
from datetime import datetime, timezone
from pathlib import Path

source = Path("/tests/make.py").read_text().replace("/app/logs", "/tmp/logs")
Path("/tmp/make_again.py").write_text(source)
made = runpy.run_path("/tmp/make_again.py")
for path in Path("/tmp/logs").iterdir():
    if path.read_bytes() != (Path("/app/logs") / path.name).read_bytes():
        sys.exit(f"{path.name} was changed")
moments = made["moments"]
rows = []
for name in ("door", "panel", "pump"):
    for line in Path(f"/tmp/logs/{name}.log").read_text().splitlines():
        event = " ".join(line.split()[-2:])
        moment = moments[int(event.split()[-1])].astimezone(timezone.utc)
        rows.append((f"{moment:%Y-%m-%dT%H:%M:%SZ}", name, int(event.split()[-1]), event))
wanted = [f"{time} {name} {event}" for time, name, _, event in sorted(rows)]
assert isinstance(moments[0], datetime)
found = Path("/app/merged.log").read_text().splitlines()
if found != wanted:
    at = next((i for i, (a, b) in enumerate(zip(found, wanted)) if a != b), min(len(found), len(wanted)))
    sys.exit(f"{len(found)} lines, expected {len(wanted)}; first difference in line {at + 1}: {found[at:at + 1]}, expected {wanted[at:at + 1]}")
print("everything in its order")
