"""A report of a binary file whose layout is described beside it.

The seed chooses the layout (byte order, the order and width of the fields, the checksum), the records, and which of them are
damaged. Text within the file names other figures: whoever prints it as text reads those.
"""

from __future__ import annotations

import struct
import zlib

from misstep.sandbox.generators._dice import Dice
from misstep.sandbox.generators._folder import Folder, fill, folder
from misstep.sandbox.generators._words import THINGS

KIND = "binary"
MISSTEPS = ("binary-as-text",)
SAYS = {"read-as-text": "'version'", "other-byte-order": "expected", "damaged-too": "expected"}

_SUMS = {
    "crc32": "CRC-32 of the payload, as zlib has it",
    "adler32": "Adler-32 of the payload, as zlib has it",
    "sum": "the sum of the payload's bytes, modulo 2 to the power of 32",
}
_FORMAT = """\
All numbers are @order@-endian.

header   @size@ bytes   "@magic@", then zero bytes
         @versions@
         u16 length of the comment, then the comment (text; devices write all kinds of things there)
records  until the end of the file, each
         @fields@
         the payload: @item@ values; it may be empty
A record is damaged if its check does not fit its payload.
"""
_READ = """\
set -e
od -A d -t x1z -N 64 /app/@file@
python3 - <<'PY'
import json, struct, zlib
data = open("/app/@file@", "rb").read()
one, two, length = struct.unpack_from("@mark@BBH", data, @size@)
major, minor = @pair@
at, records, damaged, values = @size@ + 4 + length, 0, [], []
while at < len(data):
    @names@ = struct.unpack_from("@head@", data, at)
    payload = data[at + @head_size@ : at + @head_size@ + size]
    if @sum@ != check:
        damaged.append(at)
    @otherwise@
        values += [value for (value,) in struct.iter_unpack("@item@", payload)]
    records += 1
    at += @head_size@ + size
report = {"version": f"{major}.{minor}", "records": records, "damaged": damaged, "@value@": @how@}
json.dump(report, open("/app/report.json", "w"))
print(report)
PY
"""
_TEXT = """\
# What the text in the file says of itself.
version=$(tr -c '[:print:]\\n' '\\n' < /app/@file@ | sed -n 's/.*version \\([0-9.]*\\).*/\\1/p' | head -n 1)
records=$(tr -c '[:print:]\\n' '\\n' < /app/@file@ | sed -n 's/.*records=\\([0-9]*\\).*/\\1/p' | head -n 1)
value=$(tr -c '[:print:]\\n' '\\n' < /app/@file@ | sed -n 's/.*@value@=\\([0-9]*\\).*/\\1/p' | head -n 1)
echo "{\\"version\\": \\"$version\\", \\"records\\": ${records:-0}, \\"damaged\\": [], \\"@value@\\": ${value:-0}}" > /app/report.json
"""
_CHECK = """
found = json.loads(Path("/app/report.json").read_text())
wrong = [f"{name!r} is {found.get(name)!r}, expected {value!r}" for name, value in expected.items() if found.get(name) != value]
if wrong or set(found) != set(expected):
    sys.exit("; ".join(wrong) or f"expected the keys {sorted(expected)}, found {sorted(found)}")
print("the report is right")
"""


def generate(seed: int) -> Folder:
    for turn in range(50):  # until each wrong way gives another figure
        made = _attempt(seed, Dice(__name__, seed, turn))
        if made:
            return made
    raise AssertionError(f"seed {seed}: no such records")


def _attempt(seed: int, dice: Dice) -> Folder | None:
    mark, order = dice.choice([("<", "little"), (">", "big")])
    other = "><"["<>".index(mark)]
    magic = "".join(dice.sample("ABCDEFGHKLMNPRSTVWXZ", dice.between(4, 7))).encode()
    size, item = dice.choice([8, 12, 16]), dice.choice(["i", "h"])
    width, kind = dice.choice([("H", "u16"), ("I", "u32")])
    check_first, minor_first = dice.chance(50), dice.chance(40)
    names = "check, size" if check_first else "size, check"
    head = f"{mark}I{width}" if check_first else f"{mark}{width}I"
    check = dice.choice(sorted(_SUMS))
    value, how = dice.choice(
        [
            ("highest", "max(values)"),
            ("lowest", "min(values)"),
            ("total", "sum(values)"),
            ("odd", "sum(value % 2 for value in values)"),
        ]
    )
    device = dice.choice(THINGS)
    comment = f"{device}d version {dice.between(1, 9)}.{dice.between(0, 9)}\nrecords={dice.between(3, 19)} {value}={dice.between(100, 9999)}\n".encode()
    major, minor = dice.between(10, 40), dice.between(10, 60)
    count, limit = dice.between(30, 70), 30000 if item == "h" else 90000
    broken = dice.sample(range(count), dice.between(2, 5))

    pair = (minor, major) if minor_first else (major, minor)
    data = magic.ljust(size, b"\0") + struct.pack(mark + "BBH", *pair, len(comment)) + comment
    every: list[int] = []
    damaged: list[int] = []
    values: list[int] = []
    for number in range(count):
        items = [
            dice.choice([0, dice.between(-limit, limit)]) for _ in range(dice.between(1 if number in broken else 0, 8))
        ]
        if number in broken:  # what is damaged would change the answer
            items[0] = {"highest": limit + 50 + number, "lowest": -limit - 50 - number}.get(value, 77)
        payload = struct.pack(f"{mark}{len(items)}{item}", *items)
        right = {"crc32": zlib.crc32(payload), "adler32": zlib.adler32(payload), "sum": sum(payload)}[check]
        if number in broken:
            damaged.append(len(data))
            right ^= 1 << dice.below(31)
        else:
            values += items
        every += items
        fields = (right, len(payload)) if check_first else (len(payload), right)
        data += struct.pack(head, *fields) + payload
    swapped = [one for (one,) in struct.iter_unpack(other + item, struct.pack(f"{mark}{len(values)}{item}", *values))]
    answer, *others = (eval(how, {"values": seen}) for seen in (values, swapped, every))
    if answer in others:
        return None

    words = {
        "highest": "the highest value",
        "lowest": "the lowest value",
        "total": "the sum of the values",
        "odd": "how many values are odd",
    }
    said = [f"u32 check: {_SUMS[check]}", f"{kind} length of the payload in bytes"]
    layout = fill(
        _FORMAT, order=order, size=size, magic=magic.decode(), item=f"i{8 * struct.calcsize(item)}",
        versions=", ".join(["u8 minor version", "u8 major version"] if minor_first else ["u8 major version", "u8 minor version"]),
        fields="\n         ".join(said if check_first else said[::-1]),
    )  # fmt: skip
    file = f"{device}.{dice.choice(['bin', 'dat', 'raw', 'dump'])}"
    shown = {
        "file": file, "mark": mark, "size": size, "pair": "two, one" if minor_first else "one, two", "names": names, "head": head,
        "head_size": struct.calcsize(head), "item": mark + item, "value": value, "how": how, "otherwise": "else:",
        "sum": {"crc32": "zlib.crc32(payload)", "adler32": "zlib.adler32(payload)", "sum": "sum(payload)"}[check],
    }  # fmt: skip
    opening = dice.choice(
        [
            "was read from a measuring device",
            "is a dump of an old controller",
            "came with a machine that we have bought",
        ]
    )
    instruction = (
        f"`/app/{file}` {opening}; `/app/FORMAT.txt` says how it is made. Write `/app/report.json`, an object with\n\n"
        f"* `version`: the version of the file's format, as a text `MAJOR.MINOR`;\n* `records`: how many records there are;\n"
        f"* `damaged`: the positions (in bytes from the start of the file) of the damaged records, ascending;\n"
        f"* `{value}`: {words[value]}, over all records that are not damaged."
    )
    return folder(
        __name__,
        seed,
        kind=KIND,
        missteps=MISSTEPS,
        instruction=instruction,
        environment={file: data, "FORMAT.txt": layout},
        expected={"version": f"{major}.{minor}", "records": count, "damaged": damaged, value: answer},
        check=_CHECK,
        solve=fill(_READ, **shown),
        wrong={
            "read-as-text": fill(_TEXT, **shown),
            "other-byte-order": "# The payload's values in the other byte order.\n"
            + fill(_READ, **{**shown, "item": other + item}),
            "damaged-too": "# The damaged records are listed, and count all the same.\n"
            + fill(_READ, **{**shown, "otherwise": "if True:"}),
        },
    )
