"""Every code of a lock that fits what is remembered of it.

The seed chooses the number of wheels, their digits, and the rules. Codes may begin with 0: whoever counts up through the
numbers misses those; whoever overlooks that the last rule is strict has too many.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from misstep.sandbox.generators._dice import Dice
from misstep.sandbox.generators._folder import Folder, fill, folder
from misstep.sandbox.generators._words import SERVICES

KIND = "enumeration"
MISSTEPS = ("complete-enumeration",)
SAYS = {"no-leading-zero": "missing ['0", "a-sample": "missing ["}

_ORDINAL = ["first", "second", "third", "fourth", "fifth"]
_SOLVE = """\
set -e
python3 - <<'PY'
import itertools
found = []
for digits in itertools.product(range(@base@), repeat=@wheels@):
    d, n = digits, int("".join(map(str, digits)))
    if @rule@:
        found.append("".join(map(str, digits)))
@cut@open("/app/@file@", "w").write("".join(f"{code}\\n" for code in found))
open("/app/@count@", "w").write(f"{len(found)}\\n")
print(len(found))
PY
"""
_CHECK = """
wanted = expected["codes"]
found = Path(expected["file"]).read_text().splitlines()
if found != wanted:
    missing, more = sorted(set(wanted) - set(found)), sorted(set(found) - set(wanted))
    sys.exit(f"{len(found)} codes, expected {len(wanted)}; missing {missing[:5]}, too many {more[:5]}")
if Path(expected["count"]).read_text().strip() != str(len(wanted)):
    sys.exit("the count is wrong")
print("all codes are there")
"""


def _rules(dice: Dice, wheels: int) -> list[tuple[str, str]]:
    """Rules as a person says them, and as Python tests them on the digits `d` and the number `n`."""
    a, b, c = dice.sample(range(wheels), 3)
    name = _ORDINAL
    total, divisor, gap, twice = (
        dice.between(9, 17),
        dice.choice([3, 7, 9, 11, 13]),
        dice.between(2, 4),
        dice.between(0, 9),
    )
    pool = [
        ("no digit occurs twice", f"len(set(d)) == {wheels}"),
        (f"the {name[a]} digit is greater than the {name[b]}", f"d[{a}] > d[{b}]"),
        (f"the {name[c]} digit is odd or 0", f"(d[{c}] % 2 or d[{c}] == 0)"),
        (f"read as a decimal number, the code is divisible by {divisor}", f"n % {divisor} == 0"),
        (f"the sum of its digits is less than {total}", f"sum(d) < {total}"),
        (f"the {name[a]} and the {name[c]} digit differ by at least {gap}", f"abs(d[{a}] - d[{c}]) >= {gap}"),
        (f"the {name[b]} digit is no prime number", f"d[{b}] not in (2, 3, 5, 7)"),
        (f"the digit {twice % 6} occurs in it", f"{twice % 6} in d"),
        ("two digits that stand side by side are never the same", "all(x != y for x, y in zip(d, d[1:]))"),
    ]
    return dice.sample(pool, dice.between(3, 4))


def generate(seed: int) -> Folder:
    dice = Dice(__name__, seed)
    while True:
        wheels, base = dice.choice([(4, 10), (4, 10), (4, 8), (5, 7), (5, 6)])
        rules = _rules(dice, wheels)
        rule = " and ".join(code for _, code in rules)
        fits: Callable[..., bool] = eval(f"lambda d, n: bool({rule})")
        every = ("".join(map(str, d)) for d in itertools.product(range(base), repeat=wheels))
        codes = [code for code in every if fits(tuple(map(int, code)), int(code))]
        zeros = sum(code[0] == "0" for code in codes)
        if 12 <= len(codes) <= 600 and 3 <= zeros < len(codes):
            break
    what, owner = dice.choice(["dial lock", "safe", "locker", "cash box", "gate"]), dice.choice(SERVICES)
    file, count = dice.choice(["codes.txt", "all.txt", "possible.txt"]), dice.choice(["count.txt", "number.txt"])
    lines = "\n".join(f"{i}. {said};" for i, (said, _) in enumerate(rules, 1)).rstrip(";") + "."
    instruction = (
        f"The {what} of the {owner} has {['four', 'five'][wheels - 4]} wheels, each with the digits 0 to {base - 1}. Of its code this is remembered:\n\n{lines}\n\n"
        f"Write every code that fits to `/app/{file}`, one a line, {['four', 'five'][wheels - 4]} characters each, in ascending order, and how many "
        f"there are to `/app/{count}`."
    )
    values = {"base": base, "wheels": wheels, "rule": rule, "file": file, "count": count}
    return folder(
        __name__,
        seed,
        kind=KIND,
        missteps=MISSTEPS,
        instruction=instruction,
        environment={},
        expected={"codes": codes, "file": f"/app/{file}", "count": f"/app/{count}"},
        check=_CHECK,
        solve=fill(_SOLVE, **values, cut=""),
        wrong={
            "no-leading-zero": "# Numbers, not codes: those that begin with 0 are missing.\n"
            + fill(_SOLVE, **values, cut='found = [code for code in found if code[0] != "0"]\n'),
            "a-sample": "# The first ten, as a proof that it can be done.\n"
            + fill(_SOLVE, **values, cut="found = found[:10]\n"),
        },
    )
