"""Codes replaced under a closed map, in one section of a file of which every other byte is protected.

The seed chooses the file, its sections, and the map, in which one code becomes what another one was: whoever replaces one
after the other replaces twice. Line ends are mixed, some bytes are Latin-1, and the last line may have a newline or not.
"""

from __future__ import annotations

from misstep.sandbox.generators._dice import Dice
from misstep.sandbox.generators._folder import Folder, fill, folder
from misstep.sandbox.generators._words import COLOURS, SERVICES, TOWNS

KIND = "replacement"
MISSTEPS = ("exact-replacement",)
SAYS = {
    "as-text": "first difference at byte",
    "everywhere": "first difference at byte",
    "one-after-another": "first difference at byte",
    "newline-at-the-end": "first difference at byte",
}

_WORDS = ["café", "tarte", "crêpe", "thé à la menthe", "pain", "oeufs", "pâté", "noix", "déjà vu", "été"]
_SOLVE = """\
set -e
python3 - <<'PY'
import re
path, allowed = "/app/@file@", @map@
data = open(path, "rb").read()
start = data.index(b"[@section@]")
end = data.index(b"[@next@]", start)
names = b"|".join(re.escape(name.encode()) for name in allowed)
part = re.sub(rb"(?<![\\w-])(" + names + rb")(?![\\w-])", lambda m: allowed[m[1].decode()].encode(), data[start:end])
open(path, "wb").write(data[:start] + part + data[end:])
PY
"""
_AS_TEXT = """\
# The right codes, read and written as text: every CR LF has become LF.
python3 - <<'PY'
import re
path, allowed = "/app/@file@", @map@
text = open(path, encoding="latin-1").read()
start, end = text.index("[@section@]"), text.index("[@next@]")
names = "|".join(map(re.escape, allowed))
part = re.sub(rf"(?<![\\w-])({names})(?![\\w-])", lambda m: allowed[m[1]], text[start:end])
open(path, "w", encoding="latin-1").write(text[:start] + part + text[end:])
PY
"""
_EVERYWHERE = """\
# Every byte is kept, and the other sections' codes are replaced too.
python3 - <<'PY'
import re
path, allowed = "/app/@file@", @map@
data = open(path, "rb").read()
names = b"|".join(re.escape(name.encode()) for name in allowed)
open(path, "wb").write(re.sub(rb"(?<![\\w-])(" + names + rb")(?![\\w-])", lambda m: allowed[m[1].decode()].encode(), data))
PY
"""
_CHAIN = """\
# In the right section, one code after the other: some are replaced twice.
python3 - <<'PY'
import re
path, allowed = "/app/@file@", @map@
data = open(path, "rb").read()
start = data.index(b"[@section@]")
end = data.index(b"[@next@]", start)
part = data[start:end]
for old, new in allowed.items():
    part = re.sub(rb"(?<![\\w-])" + re.escape(old.encode()) + rb"(?![\\w-])", new.encode(), part)
open(path, "wb").write(data[:start] + part + data[end:])
PY
"""
_CHECK = """
wanted = expected["wanted"].encode("latin-1")
found = Path(expected["file"]).read_bytes()
if found != wanted:
    at = next((i for i, (a, b) in enumerate(zip(found, wanted)) if a != b), min(len(found), len(wanted)))
    sys.exit(f"{len(found)} bytes, expected {len(wanted)}; first difference at byte {at}: {found[at:at + 12]!r}, expected {wanted[at:at + 12]!r}")
print("right to the byte")
"""


def generate(seed: int) -> Folder:
    dice = Dice(__name__, seed)
    sections = dice.sample(dice.choice([TOWNS, COLOURS, SERVICES]), 4)
    chosen = dice.between(1, 2)
    stem, letters = dice.choice(["EUR", "GBP", "LOT", "BIN", "REF", "QTY"]), dice.sample("ABCDEFGHJKLM", 5)
    first, second, third, fourth, other = (f"{stem}-{letter}" for letter in letters)
    # A code that becomes what another one was, or two that change places.
    allowed = {first: second, second: dice.choice([third, first]), fourth: f"{fourth}{dice.between(2, 9)}"}
    # Replaced in the order of the map, the first is replaced twice, in every seed.
    codes = [first, second, fourth, f"{first}X", f"{second}{dice.between(0, 9)}", other, third]
    note = dice.choice([" see ", "; also ", " (was ", " instead of "])
    last = dice.choice(["", "\n", "\r\n"])

    def text(swap: bool) -> str:
        mine = Dice(__name__, seed, "text")  # the same lines in both
        parts = []
        for index, section in enumerate(sections):
            now = allowed if swap and index == chosen else {}
            parts.append(f"[{section}]\r\n")
            for line in range(mine.between(24, 48)):
                code = now.get(*[mine.choice(codes)] * 2) if line > 2 else now.get(codes[line], codes[line])
                more = mine.choice(codes)
                extra = mine.choice(["", "", "\t", "  ", f"{note}{now.get(more, more)}", f" M{first}"])
                end = mine.choice(["\r\n", "\r\n", "\n"]) if line else "\r\n"
                amount = f"{mine.between(1, 90)},{mine.between(0, 99):02d}"
                parts.append(f"{line:03d}  {mine.choice(_WORDS)}\t{code} {amount}{extra}{end}")
            parts.append("\x0c")
        return "".join(parts) + f"[end] {first}{last}"

    file = f"{dice.choice(['prices', 'labels', 'parts', 'stock', 'menu'])}.{dice.choice(['txt', 'lst', 'dat'])}"
    values = {"file": file, "map": allowed, "section": sections[chosen], "next": sections[chosen + 1]}
    shown = "\n".join(f"* `{old}` becomes `{new}`" for old, new in allowed.items())
    machine = dice.choice(["a printing machine", "a label cutter", "an old till", "a punch"])
    opening = dice.choice(
        [
            f"`/app/{file}` is read by {machine} that minds every byte.",
            f"{machine.capitalize()} reads `/app/{file}`, and fails at any byte that it does not know.",
        ]
    )
    instruction = (
        f"{opening} In the section `[{sections[chosen]}]`, up to the next section's heading, codes have to be replaced; these, and no others:\n\n{shown}\n\n"
        f"A code is a word of its own: `{first}X` and `M{first}` are others. Each code that stands there now is replaced once. Everything else, "
        f"other sections included, stays as it is, to the byte."
    )
    solve = fill(_SOLVE, **values)
    return folder(
        __name__,
        seed,
        kind=KIND,
        missteps=MISSTEPS,
        instruction=instruction,
        environment={file: text(False).encode("latin-1")},
        expected={"file": f"/app/{file}", "wanted": text(True)},
        check=_CHECK,
        solve=solve,
        wrong={
            "as-text": fill(_AS_TEXT, **values),
            "everywhere": fill(_EVERYWHERE, **values),
            "one-after-another": fill(_CHAIN, **values),
            "newline-at-the-end": "# Right, and then a newline at the end, as editors add it.\n"
            + solve
            + fill("echo >> /app/@file@\n", **values),
        },
    )
