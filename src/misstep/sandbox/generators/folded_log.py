"""Lines of a printed page that must fit, as a log says whose own lines are folded.

The seed chooses the program's measures, the sheets and the words that may stand for others. The log folds everything at a
fixed width, within words too: a search for the complaint's word finds only those that happen to lie on one line. The page and
the log must be those of the final text.
"""

from __future__ import annotations

import re

from misstep.sandbox.generators._dice import Dice
from misstep.sandbox.generators._folder import Folder, fill, folder
from misstep.sandbox.generators._words import COLOURS, PEOPLE, SERVICES, THINGS, TOWNS

KIND = "typesetting"
MISSTEPS = ("latex-final-log",)
SAYS = {
    "what-a-search-finds": "still complains",
    "log-of-before": "is not that of the final text",
    "wider-page": "was changed",
}

_PRESS = '''\
"""Sets the sheets in lines as they stand: writes the page, and a log of what went wrong; both anew at each run."""

import sys
from pathlib import Path

WIDTH, LEAST, FOLD = @width@, @least@, @fold@
home = Path(sys.argv[1] if len(sys.argv) > 1 else "/app")
log = "This is press 2.@minor@, width @width@, least @least@. "
page = ""
for sheet in sorted((home / "@sheets@").glob("*.txt")):
    log += f"(@sheets@/{sheet.name} "
    for number, line in enumerate(sheet.read_text().splitlines(), 1):
        log += f"[{number}] "
        if len(line) > WIDTH:
            log += f"@over@ line, {len(line) - WIDTH} too many, at {sheet.name}:{number} "
        elif len(line) < LEAST:
            log += f"@under@ line, {LEAST - len(line)} too few, at {sheet.name}:{number} "
        page += line.center(WIDTH).rstrip() + "\\n"
    log += f"<{sheet.stem}.set>) "
log += "Output written on page.out."
(home / "page.out").write_text(page)
(home / "press.log").write_text("".join(log[at : at + FOLD] + "\\n" for at in range(0, len(log), FOLD)))
'''
_SOLVE = """\
set -e
cd /app
python3 press.py
python3 - <<'PY'
import re
from pathlib import Path
WIDTH, LEAST = @width@, @least@
given = dict(line.split(": ") for line in Path("@words@").read_text().splitlines())
log = Path("press.log").read_text()@unfold@
for name, number in re.findall(r"(?:@over@|@under@) line, \\d+ too \\w+, at (\\S+?):(\\d+)", log):
    sheet = Path("@sheets@", name)
    lines = sheet.read_text().splitlines()
    line = lines[int(number) - 1]
    for word in re.findall(r"[a-z]+", line):
        for other in given.get(word, "").split(", "):
            changed = re.sub(rf"\\b{word}\\b", other, line, count=1)
            if other and LEAST <= len(changed) <= WIDTH:
                lines[int(number) - 1] = changed
    sheet.write_text("\\n".join(lines) + "\\n")
PY
"""
_CHECK = """
import re
import shutil
import subprocess

home, sheets = Path("/app"), expected["sheets"]
if (home / "press.py").read_bytes() != Path("/tests/press.py").read_bytes():
    sys.exit("press.py was changed")
if sorted(one.name for one in (home / sheets).iterdir()) != sorted(expected["lines"]):
    sys.exit("the sheets are others")
for name, lines in expected["lines"].items():
    found = (home / sheets / name).read_text()
    wanted = "\\n".join(lines) + "\\n"
    first, second = re.findall(r"[a-z]+|[^a-z]", found), re.findall(r"[a-z]+|[^a-z]", wanted)
    if len(first) != len(second):
        sys.exit(f"{name}: something else was changed")
    for one, other in zip(first, second):
        if one != other and one not in expected["words"].get(other, []):
            sys.exit(f"{name}: {other!r} may not become {one!r}")
work = Path("/tmp/press")
shutil.rmtree(work, ignore_errors=True)
work.mkdir()
shutil.copytree(home / sheets, work / sheets)
subprocess.run([sys.executable, "-I", "/tests/press.py", str(work)], check=True)
log = (work / "press.log").read_text()
left = [word for word in expected["complaints"] if word in log.replace("\\n", "")]
if left:
    sys.exit(f"press still complains: {left}")
for name in ("press.log", "page.out"):
    if not (home / name).exists() or (home / name).read_bytes() != (work / name).read_bytes():
        sys.exit(f"{name} is not that of the final text")
print("no complaint, and nothing else was changed")
"""


def generate(seed: int) -> Folder:
    for turn in range(200):  # until the log folds one complaint and shows another whole
        made = _attempt(seed, Dice(__name__, seed, turn))
        if made:
            return made
    raise AssertionError(f"seed {seed}: no such sheets")


def _line(dice: Dice, length: int, word: str) -> str:
    """A line of about that length with the word in it."""
    start = dice.sample([*PEOPLE, *COLOURS], 1)
    left = [*start, word]
    while len(" ".join(left)) < length:
        left.insert(dice.between(1, len(left)), dice.choice([*THINGS, *TOWNS]))
    return " ".join(left).capitalize()


def _attempt(seed: int, dice: Dice) -> Folder | None:
    width = dice.between(40, 56)
    least, fold = width - dice.between(9, 12), dice.choice([41, 47, 53, 59, 61])
    over, under = dice.choice([("overfull", "underfull"), ("overlong", "overshort"), ("protruding", "gaping")])
    replaced = dice.sample(SERVICES, 4)
    short = dice.sample(["yard", "barn", "shed", "inn", "dock", "hut"], 4)
    long_ = dice.sample(
        ["manufactory", "establishment", "headquarters", "conservatory", "observatory", "slaughterhouse"], 4
    )
    words = {word: [a, b] for word, a, b in zip(replaced, short, long_, strict=True)}
    sheets = dice.choice(["sheets", "pages", "leaves"])
    lines: dict[str, list[str]] = {}
    for name in dice.sample([*TOWNS, *COLOURS], dice.between(2, 3)):
        lines[f"{name}.txt"] = []
        for _ in range(dice.between(5, 9)):
            word = dice.choice(replaced)
            kind = dice.choice(["fits", "fits", "over", "under"])
            for _ in range(400):
                line = _line(dice, dice.between(least - 6, width + 3), word)
                size = len(line)
                fits = [len(line) - len(word) + len(other) for other in words[word]]
                mended = any(least <= one <= width for one in fits)
                if {"fits": least <= size <= width, "over": width < size and mended, "under": size < least and mended}[
                    kind
                ]:
                    break
            else:
                return None
            lines[f"{name}.txt"].append(line)

    # What the program will write: some complaints whole, some folded.
    log = f"This is press 2.{seed % 10}, width {width}, least {least}. "
    for name in sorted(lines):
        log += f"({sheets}/{name} "
        for number, line in enumerate(lines[name], 1):
            log += f"[{number}] "
            if len(line) > width:
                log += f"{over} line, {len(line) - width} too many, at {name}:{number} "
            elif len(line) < least:
                log += f"{under} line, {least - len(line)} too few, at {name}:{number} "
        log += f"<{name[:-4]}.set>) "
    folded = "\n".join(log[at : at + fold] for at in range(0, len(log), fold))
    pattern = rf"(?:{over}|{under}) line, \d+ too \w+, at (\S+?):(\d+)"
    whole, all_ = re.findall(pattern, folded), re.findall(pattern, log)
    if not 1 <= len(whole) < len(all_):
        return None

    values = {"width": width, "least": least, "fold": fold, "minor": seed % 10, "sheets": sheets, "over": over, "under": under,
              "words": f"{sheets}.words"}  # fmt: skip
    press = fill(_PRESS, **values)
    listed = "".join(f"{word}: {', '.join(others)}\n" for word, others in sorted(words.items()))
    right = fill(_SOLVE, **values, unfold='.replace("\\n", "")')
    partly = fill(_SOLVE, **values, unfold="")
    instruction = (
        f"`/app/press.py` sets the sheets in `/app/{sheets}` and writes `/app/page.out` and the log `/app/press.log`. The log complains of {over} and {under} lines; "
        f"{dice.choice(['its exit code does not tell', 'press itself ends without an error'])}. Change the sheets so that a run of press, as it is, has no complaint.\n\n"
        f"A word may only be replaced by one of the words that `/app/{sheets}.words` gives for it; nothing else in the sheets may change, and press not at all. "
        f"Leave the page and the log of the final text in place."
    )
    return folder(
        __name__,
        seed,
        kind=KIND,
        missteps=MISSTEPS,
        instruction=instruction,
        environment={
            "press.py": press,
            f"{sheets}.words": listed,
            **{f"{sheets}/{name}": "\n".join(one) + "\n" for name, one in lines.items()},
        },
        build=["python3 /app/press.py"],
        expected={"sheets": sheets, "lines": lines, "words": words, "complaints": [over, under]},
        check=_CHECK,
        more={"tests/press.py": press},
        solve=right + "python3 press.py\n",
        wrong={
            "what-a-search-finds": "# What a search of the log for the complaint finds, line by line; then the search finds nothing.\n"
            + partly
            + "python3 press.py\n",
            "log-of-before": "# The sheets are right; page and log are those of before.\n" + right,
            "wider-page": f"# No complaint, since press no longer minds.\nsed -i 's/^WIDTH, LEAST, FOLD = .*/WIDTH, LEAST, FOLD = 99, 1, {fold}/' /app/press.py\npython3 /app/press.py\n",
        },
    )
