"""Every way through a network of roads that a traveller may take.

The seed chooses the towns, the roads (some lead one way only), the start, the end and the rule on length and stops. The
shortest way alone, and roads taken against their direction, are the plausible wrong deliveries.
"""

from __future__ import annotations

from misstep.sandbox.generators._dice import Dice
from misstep.sandbox.generators._folder import Folder, fill, folder
from misstep.sandbox.generators._words import PEOPLE, TOWNS

KIND = "enumeration"
MISSTEPS = ("complete-enumeration",)
SAYS = {"the-shortest": "missing", "both-directions": "too many", "stricter": "missing"}

_SOLVE = """\
set -e
python3 - <<'PY'
roads = {}
for line in open("/app/roads.txt"):
    one, way, other, km = line.split()
    roads.setdefault(one, []).append((other, int(km)))
    if way == "--"@both@:
        roads.setdefault(other, []).append((one, int(km)))
found = []


def go(path, km):
    if path[-1] == "@end@":
        if "@through@" in path:
            found.append((km, path))
        return
    for town, more in roads.get(path[-1], []):
        if town not in path and km + more @less@ @limit@:
            go([*path, town], km + more)


go(["@start@"], 0)
found.sort(key=lambda one: " ".join(one[1]))
@cut@open("/app/@file@", "w").write("".join(" ".join(path) + f" {km}\\n" for km, path in found))
print(len(found), "ways")
PY
"""
_CHECK = """
wanted = expected["ways"]
found = Path(expected["file"]).read_text().splitlines()
if found != wanted:
    missing, more = [one for one in wanted if one not in found], [one for one in found if one not in wanted]
    if missing or more:
        sys.exit(f"{len(found)} ways, expected {len(wanted)}; missing {missing[:2]}" if missing else f"{len(found)} ways, expected {len(wanted)}; too many: {more[:2]}")
    sys.exit("all ways, but not in order, or twice")
print("all ways are there")
"""


def generate(seed: int) -> Folder:
    for turn in range(300):  # until there are some ways, and each wrong way gives others
        made = _attempt(seed, Dice(__name__, seed, turn))
        if made:
            return made
    raise AssertionError(f"seed {seed}: no such roads")


def _ways(
    roads: list[tuple[str, str, str, int]], start: str, end: str, through: str, limit: int, both: bool = False
) -> list[tuple[int, str]]:
    to: dict[str, list[tuple[str, int]]] = {}
    for one, way, other, km in roads:
        to.setdefault(one, []).append((other, km))
        if way == "--" or both:
            to.setdefault(other, []).append((one, km))
    found, open_ = [], [([start], 0)]
    while open_:
        path, km = open_.pop()
        if path[-1] == end:
            if through in path:
                found.append((km, " ".join(path)))
            continue
        open_ += [
            ([*path, town], km + more) for town, more in to.get(path[-1], []) if town not in path and km + more <= limit
        ]
    return sorted(found, key=lambda one: one[1])


def _attempt(seed: int, dice: Dice) -> Folder | None:
    towns = dice.sample(TOWNS, dice.between(7, 9))
    start, end, through = towns[:3]
    pairs = [(one, other) for at, one in enumerate(towns) for other in towns[at + 1 :]]
    marked = []
    for pair in dice.sample(pairs, dice.between(14, 18)):
        one, other = dice.shuffled(pair)
        marked.append((one, "->" if dice.chance(30) else "--", other, dice.between(3, 30)))
    everything = _ways(marked, start, end, through, 10**6)
    if len(everything) < 8:
        return None
    lengths = sorted(km for km, _ in everything)
    limit = lengths[dice.between(5, min(len(lengths) - 1, 40))]  # one way has just this length
    ways = _ways(marked, start, end, through, limit)
    if len(_ways(marked, start, end, through, limit, both=True)) == len(ways) or len(ways) > 60:
        return None
    file = dice.choice(["ways.txt", "routes.txt", "all.txt"])
    values = {"start": start, "end": end, "through": through, "limit": limit, "file": file}
    who = dice.choice(PEOPLE).capitalize()
    instruction = (
        f"`/app/roads.txt` lists roads, one a line: `ONE -- OTHER KM` can be taken both ways, `ONE -> OTHER KM` from ONE to OTHER only. {who} travels from {start} to {end}, comes "
        f"through {through}, visits no town twice, ends the journey on reaching {end}, and makes at most {limit} km.\n\nWrite all ways that {who} can take to `/app/{file}`, one a line: "
        f"the towns in their order from {start} to {end}, separated by spaces, then a space and the length in km. Sort the lines by the towns (as text)."
    )
    solve = {"both": "", "less": "<=", "cut": ""}
    return folder(
        __name__,
        seed,
        kind=KIND,
        missteps=MISSTEPS,
        instruction=instruction,
        environment={
            "roads.txt": "".join(f"{one} {way} {other} {km}\n" for one, way, other, km in dice.shuffled(marked))
        },
        expected={"file": f"/app/{file}", "ways": [f"{path} {km}" for km, path in ways]},
        check=_CHECK,
        solve=fill(_SOLVE, **values, **solve),
        wrong={
            "the-shortest": "# A way that fits, and the shortest one; others fit too.\n"
            + fill(_SOLVE, **values, **{**solve, "cut": "found = [min(found)]\n"}),
            "both-directions": "# As if every road could be taken both ways.\n"
            + fill(_SOLVE, **values, **{**solve, "both": " or True"}),
            "stricter": "# Less than the limit, not at most.\n" + fill(_SOLVE, **values, **{**solve, "less": "<"}),
        },
    )
