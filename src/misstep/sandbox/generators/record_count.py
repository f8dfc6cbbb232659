"""A figure over the records that a selector means, of a file with older versions of the same records.

The seed chooses the form of the file (JSON lines, or CSV with quotes), the fields, the selector's conditions, and the figure
(how many, the sum of a field, how many words of two fields). Older versions, other spellings and a field of a similar name
are there to be counted by mistake.
"""

from __future__ import annotations

import csv
import io
import json

from misstep.sandbox.generators._dice import Dice
from misstep.sandbox.generators._folder import Folder, fill, folder
from misstep.sandbox.generators._words import COLOURS, PEOPLE, THINGS, TOWNS

KIND = "counting"
MISSTEPS = ("token-accounting",)
SAYS = {"all-versions": "expected", "one-spelling": "expected", "first-version": "expected"}

_SOLVE = """\
set -e
head -n 3 /app/@file@
python3 - <<'PY'
import csv, json
@load@
latest = {}
for row in rows:
    row["@version@"], row["@number@"] = int(row["@version@"]), int(row["@number@"])
    @keep@
kept = [row for row in latest.values() if @rule@]
answer = @figure@
open("/app/answer.txt", "w").write(f"{answer}\\n")
print(len(rows), "lines,", len(latest), "records,", len(kept), "count:", answer)
PY
"""
_LATEST = 'if row["@version@"] > latest.get(row["@key@"], row | {"@version@": 0})["@version@"]:\n        latest[row["@key@"]] = row'
_FIRST = 'if row["@version@"] == 1:\n        latest[row["@key@"]] = row'
_EVERY = "latest[len(latest)] = row"
_CHECK = """
found = Path("/app/answer.txt").read_text().strip()
if found != str(expected["answer"]):
    sys.exit(f"found {found}, expected {expected['answer']}")
print("the figure is right")
"""


def generate(seed: int) -> Folder:
    for turn in range(50):  # until each wrong way gives another figure
        made = _attempt(seed, Dice(__name__, seed, turn))
        if made:
            return made
    raise AssertionError(f"seed {seed}: no such records")


def _attempt(seed: int, dice: Dice) -> Folder | None:
    key, version = dice.choice(["id", "number", "code", "ref"]), dice.choice(["version", "revision", "edition"])
    state, states = dice.choice(
        [
            ("status", ["open", "closed", "draft"]),
            ("state", ["active", "retired", "planned"]),
            ("stage", ["final", "trial", "void"]),
        ]
    )
    place, places = dice.choice(
        [("town", dice.sample(TOWNS, 4)), ("depot", dice.sample(TOWNS, 3)), ("colour", dice.sample(COLOURS, 4))]
    )
    number, title, body = (
        dice.choice(["weight", "price", "pages", "minutes"]),
        dice.choice(["title", "name"]),
        dice.choice(["note", "text"]),
    )
    wanted_state, wanted_places, least = dice.choice(states), dice.sample(places, 2), dice.between(15, 60)
    as_csv = dice.chance(50)
    rows: list[dict[str, object]] = []

    def spelled(word: str) -> str:
        return dice.choice([word, word, word.upper(), word.capitalize()])

    def record(count: int, at: int) -> dict[str, object]:
        notes = [" ".join(dice.sample([*THINGS, *PEOPLE], dice.between(1, 4))) for _ in range(dice.between(0, 3))]
        return {
            key: f"{count:04d}",
            version: at,
            state: spelled(dice.choice(states)),
            place: spelled(dice.choice(places)),
            number: dice.between(1, 100),
            f"old_{number}": dice.between(1, 100),
            title: " ".join(dice.sample(THINGS, 2)),
            body: ", ".join(notes),
        }

    for count in range(dice.between(90, 160)):
        rows += [record(count, at) for at in range(1, dice.choice([1, 1, 2, 3]) + 1)]
    rows = dice.shuffled(rows)

    name, how, words = dice.choice(
        [
            ("count", "len(kept)", "how many of those records there are"),
            ("sum", f'sum(row["{number}"] for row in kept)', f"the sum of their `{number}`"),
            ("words", f'sum(len(row["{title}"].split()) + len(row["{body}"].split()) for row in kept)',
             f"how many words their fields `{title}` and `{body}` have together (words are what stands between spaces)"),
        ]
    )  # fmt: skip
    clauses = [
        (f"whose `{state}` is `{wanted_state}`", f'row["{state}"].lower() == "{wanted_state}"'),
        (
            f"whose `{place}` is `{wanted_places[0]}` or `{wanted_places[1]}`",
            f'row["{place}"].lower() in {tuple(wanted_places)}',
        ),
        (f"whose `{number}` is at least {least}", f'row["{number}"] >= {least}'),
    ]
    some = [clauses[0], *dice.sample(clauses[1:], dice.between(1, 2))]
    rule = " and ".join(code for _, code in some)

    def figure(kept: list[dict[str, object]], rule: str) -> int:
        found: int = eval(how, {"kept": [row for row in kept if eval(rule, {"row": row})], "len": len, "sum": sum})
        return found

    latest: dict[object, dict[str, object]] = {}
    for row in sorted(rows, key=lambda row: row[version]):  # type: ignore[arg-type, return-value]
        latest[row[key]] = row
    exact = rule.replace(".lower()", "")
    answer = figure(list(latest.values()), rule)
    others = [
        figure(rows, rule),
        figure(list(latest.values()), exact),
        figure([row for row in rows if row[version] == 1], rule),
    ]
    if answer in others or not answer:
        return None

    stem = dice.choice(["records", "catalogue", "register", "archive"])
    file = f"{stem}.{'csv' if as_csv else 'jsonl'}"
    if as_csv:
        out = io.StringIO()
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        text = out.getvalue()
        load = f'rows = list(csv.DictReader(open("/app/{file}", newline="")))'
        form = "CSV with quotes where they are needed; its first line names the fields"
    else:
        text = "".join(json.dumps(row) + "\n" for row in rows)
        load = f'rows = [json.loads(line) for line in open("/app/{file}")]'
        form = "one JSON object a line"
    values = {"file": file, "load": load, "version": version, "number": number, "figure": how}
    keep = {
        one: fill(text_, key=key, version=version)
        for one, text_ in (("latest", _LATEST), ("first", _FIRST), ("every", _EVERY))
    }
    instruction = (
        f"`/app/{file}` holds a {stem if stem != 'records' else 'register'} with all its versions, in no order: {form}. A record (`{key}`) has several versions; the one with "
        f"the highest `{version}` counts, and the others do not.\n\nWrite to `/app/answer.txt`, as a number and nothing else, {words}, over the records "
        + ", ".join(said for said, _ in some[:-1])
        + f" and {some[-1][0]}. Spelling in capital or small letters makes no difference."
    )
    return folder(
        __name__,
        seed,
        kind=KIND,
        missteps=MISSTEPS,
        instruction=instruction,
        environment={file: text},
        expected={"answer": answer, "figure": name},
        check=_CHECK,
        solve=fill(_SOLVE, **values, rule=rule, keep=keep["latest"]),
        wrong={
            "all-versions": "# Every version counts.\n" + fill(_SOLVE, **values, rule=rule, keep=keep["every"]),
            "first-version": "# The first version of each record counts.\n"
            + fill(_SOLVE, **values, rule=rule, keep=keep["first"]),
            "one-spelling": "# The selector's values as the task spells them, and no other way.\n"
            + fill(_SOLVE, **values, rule=exact, keep=keep["latest"]),
        },
    )
