"""Makes the archive: articles with several versions, other languages, drafts, and fields that look like the right one."""

import json
import random

dice = random.Random(63)
words = ["harbour", "Straße", "naïve", "re-entry", "42nd", "fish_market", "it's", "12,50", "…", "ﬁsh", "Ångström", "water", "night"]


def text(n):
    return " ".join(dice.choice(words) for _ in range(n))


rows = []
for number in range(140):
    for version in range(1, dice.choice([1, 1, 2, 3]) + 1):
        row = {
            "id": f"a{number:03d}", "version": version, "lang": dice.choice(["en", "en", "EN", "de", "fr"]),
            "status": dice.choice(["published"] * 4 + ["draft"]), "title": text(4), "summary": text(12), "body": text(dice.randrange(20, 90)),
        }
        rows.append(row)
dice.shuffle(rows)
with open("/app/archive.jsonl", "w", encoding="utf-8") as out:
    for row in rows:
        out.write(json.dumps(row, ensure_ascii=dice.random() < 0.5) + "\n")
