import re
import shutil
import subprocess
import sys
from pathlib import Path

app, copy = Path("/app"), Path("/tmp/again")
for name in ("typeset.py", "synonyms.txt"):
    if (app / name).read_bytes() != (Path("/tests/given") / name).read_bytes():
        sys.exit(f"{name} was changed")
given = dict(line.split(": ") for line in (app / "synonyms.txt").read_text().splitlines())
pattern = ""
for part in re.findall(r"\w+|\W+", Path("/tests/given/text.txt").read_text()):
    others = [part, *(other for other in given.get(part, "").split(", ") if other)]
    pattern += "(?:" + "|".join(map(re.escape, others)) + ")"
text = (app / "text.txt").read_text()
if not re.fullmatch(pattern, text):
    sys.exit("the text has changes that the synonyms do not allow")
shutil.rmtree(copy, ignore_errors=True)
copy.mkdir()
(copy / "text.txt").write_text(text)
subprocess.run([sys.executable, "/tests/given/typeset.py", str(copy)], check=True)
log = (copy / "page.log").read_text()
if not log.endswith(", 0 complaints\n"):
    sys.exit(f"the text still has complaints:\n{log}")
for name in ("page.txt", "page.log"):
    if (app / name).read_bytes() != (copy / name).read_bytes():
        sys.exit(f"{name} is not that of the final text")
print("no complaint, and page and log are those of the final text")
