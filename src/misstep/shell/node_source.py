"""Effects of a JavaScript text (`node -e`): only calls whose argument is a literal."""

from __future__ import annotations

import re

from .context import Context
from .effects_files import is_local

CALLS = re.compile(
    r"\b(writeFileSync|writeFile|appendFileSync|appendFile|createWriteStream|readFileSync|readFile|createReadStream|unlinkSync|unlink|rmSync|rm|"
    r"copyFileSync|copyFile|renameSync|rename|execSync|exec|fetch|get|request)\s*\(\s*(['\"`])([^'\"`$\n]+)\2"
    r"(?:\s*,\s*(['\"`])([^'\"`$\n]+)\4)?"
)
LISTEN = re.compile(r"\.listen\s*\(\s*(\d+)?")
DATABASE = re.compile(r"new\s+(?:\w+\.)?Database(?:Sync)?\(\s*(['\"`])([^'\"`$\n]+)\1([^)]*)\)")


def node_effects(x: Context, text: str) -> None:
    if len(text) > 200_000:
        return
    for m in CALLS.finditer(text):
        name, _, first, _, second = m.groups()
        if name.startswith(("write", "append", "createWrite")):
            x.add("write", (first,), append=name.startswith("append"), in_place=False)
        elif name in ("readFileSync", "readFile", "createReadStream"):
            x.add("read", (first,), to="program", partial=False, raw=False, through=())
        elif name in ("unlinkSync", "unlink", "rmSync", "rm"):
            x.add("delete", (first,), recursive=name.startswith("rm"))
        elif name.startswith("copyFile") and second:
            x.add("copy", (first,), dest=second)
        elif name.startswith("rename") and second:
            x.add("move", (first,), dest=second)
        elif name in ("execSync", "exec"):
            from .effects import nested_text

            nested_text(x, first, "node")
        elif name in ("fetch", "get", "request") and first.startswith("http"):
            x.add("probe", target=first, local=is_local(first))
    listens = LISTEN.search(text)
    if listens:
        from .effects_serve import serve

        serve(x, launcher="node -e", port=listens.group(1) or "")
    for m in DATABASE.finditer(text):
        if m.group(2) != ":memory:":
            x.add(
                "database",
                (m.group(2),),
                mutates="readonly: true" not in m.group(3).replace("readonly:true", "readonly: true"),
                engine="sqlite",
                writes=None,
            )
