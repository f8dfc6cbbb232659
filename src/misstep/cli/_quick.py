"""The arguments of a plain scan, read without click: loading it takes as long as a scan of unchanged files.

Only what leaves nothing to interpret is read here: known options with their values, and paths. Anything else (an
abbreviation, a value that begins with a dash, `--help`, an error) is left to click.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FLAGS = {
    "--preview": "preview",
    "--merge": "merge",
    "--no-index": "no_index",
    "--quiet": "quiet",
    "-q": "quiet",
}
VALUES = {
    "--html": "html_path",
    "--json": "json_path",
    "--since": "since",
    "--workers": "workers",
    "--shard": "shard",
}
LISTS = {"--agent": "agents", "--misstep": "ids", "--fail-on": "fail_on"}


def parse(words: list[str]) -> dict[str, Any] | None:
    """The arguments by name, None where click has to look at them."""
    found: dict[str, Any] = dict.fromkeys(FLAGS.values(), False)
    found |= dict.fromkeys(VALUES.values())
    many: dict[str, list[str]] = {name: [] for name in (*LISTS.values(), "paths")}
    rest = iter(words)
    for word in rest:
        if word in FLAGS:
            found[FLAGS[word]] = True
            continue
        if not word.startswith("-"):
            many["paths"].append(word)
            continue
        option, assigned, value = word.partition("=")
        if option not in VALUES and option not in LISTS:
            return None
        if not assigned:
            value = next(rest, "")
            if not value or (value.startswith("-") and not (value == "-" and option == "--json")):
                return None
        if option in LISTS:
            many[LISTS[option]].append(value)
        else:
            found[VALUES[option]] = value
    return found | {name: tuple(values) for name, values in many.items()}
