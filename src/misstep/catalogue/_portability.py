"""Options that a tool has in one family of systems (GNU) and not in the other (BSD, macOS)."""

from __future__ import annotations

_LONG = "*"
"""Long options: the tools of BSD know hardly any."""
_OPTIONS = {
    "awk": "* i",
    "base64": "* w i D b o",
    "basename": "* z",
    "cat": "* A E T",
    "chgrp": "*",
    "chmod": "* c",
    "chown": "* c",
    "cmp": "* n b",
    "column": "* o N J",
    "comm": "* z",
    "cp": "* u t T b d c X",
    "cut": "* z",
    "date": "* d I v j",
    "df": "* T B",
    "diff": "*",
    "dirname": "* z",
    "du": "* b B S",
    "egrep": "* P T",
    "env": "* C",
    "expand": "*",
    "fgrep": "* P T",
    "find": "s x E",
    "fold": "*",
    "grep": "* P T",
    "head": "* q v z",
    "hostname": "* I i A",
    "id": "* z",
    "install": "* D t T",
    "join": "*",
    "killall": "*",
    "ln": "* t T r b",
    "ls": "* X v I N Q Z W O e",
    "mkdir": "* Z",
    "mktemp": "* p",
    "mv": "* t T u b",
    "netstat": "* t u e",
    "nl": "*",
    "od": "* w",
    "paste": "* z",
    "pgrep": "* c",
    "ping": "* w",
    "ps": "* H",
    "readlink": "* e m f",
    "realpath": "* e m s z",
    "rm": "*",
    "rmdir": "*",
    "sed": "* r s u z",
    "seq": "*",
    "shuf": "*",
    "sort": "* z",
    "split": "* n d",
    "stat": "* c s x",
    "tac": "*",
    "tail": "* v z s",
    "tar": "*",
    "tee": "* p",
    "time": "* v f l",
    "top": "* b",
    "touch": "* d",
    "tr": "*",
    "truncate": "*",
    "uname": "* i o",
    "uniq": "* w z D",
    "wc": "* L",
    "xargs": "* d a r J R S",
}
"""Program -> its options of one letter that only one of the families has, and `*` where so it is with long ones."""


def only_elsewhere(program: str, option: str, message: str) -> bool:
    """Whether a refused option is one that the tool has on other systems, as far as is known.

    program: its name. option: as refused, with or without its dashes. message: the line that refuses it; `illegal option`
    are BSD's words, and straight quotes about a long one are GNU's.
    """
    known = _OPTIONS.get(program, "").split()
    letters = option.lstrip("-")
    if not known:
        return False
    if "illegal option" in message.lower() or letters in known:
        return True
    return len(letters) > 1 and _LONG in known and "unrecognized option '--" not in message
