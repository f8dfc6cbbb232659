"""Line by line: for each start, the choices of words that fill a line, kept by where the next line starts."""

import re
from pathlib import Path

WIDTH, LEAST = 36, 30
text = Path("/app/text.txt").read_text()
given = dict(line.split(": ") for line in Path("/app/synonyms.txt").read_text().splitlines())
parts = re.findall(r"\S+|\s+", text)
words = parts[::2]


def choices(word):
    core = word.strip(",.")
    return [word, *(word.replace(core, other) for other in given.get(core, "").split(", ") if other)]


# Two words that stand for one may be broken between: choices are lists of tokens.
best = {(0, ""): []}  # (words set, the open line) -> what was chosen
for position, word in enumerate(words):
    after = {}
    for (_, line), chosen in best.items():
        for choice in choices(word):
            now, fits = line, True
            for token in choice.split(" "):
                if now and len(now) + 1 + len(token) > WIDTH:
                    fits = fits and LEAST <= len(now)
                    now = token
                else:
                    now = f"{now} {token}" if now else token
            if fits:
                after.setdefault((position + 1, now), [*chosen, choice])
    best = after
chosen = next(iter(best.values()))
parts[::2] = chosen
Path("/app/text.txt").write_text("".join(parts))
