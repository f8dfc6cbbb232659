"""A portfolio file (TOML) made into what hooks read, and its lock. Hooks come here only where the file has changed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .portfolio import PATIENCE, STOP_CAP, PortfolioError, from_plain, module_of, wrong

if TYPE_CHECKING:
    from .portfolio import Watch

PACKAGE = Path(__file__).resolve().parents[1]
VERSION = 1
_KEYS = {"version", "wrapper", "stop_cap", "patience", "policy"}
_POLICY_KEYS = {"id", "mode", "limit", "text", "file"}


def read(path: Path, watch: Watch | None = None) -> dict[str, Any]:
    """The plain form of a portfolio file. Raises PortfolioError with the file's name and what was expected.

    watch: as hooks read it: a policy whose file cannot be used is in it with its error, and the others stay.
    """
    given = _parsed(path)
    try:
        return _plain(path, given, watch)
    except PortfolioError as error:
        raise PortfolioError(f"{path}: {error}") from None


def files_of(path: Path) -> list[Path]:
    """The policies' files that a portfolio file names. Nothing of them is run. Raises PortfolioError."""
    items = _parsed(path).get("policy", [])
    if not isinstance(items, list):
        raise PortfolioError(f"{path}: {wrong('policy', '[[policy]] tables', items)}")
    found = []
    for number, item in enumerate(items, 1):
        if not isinstance(item, dict):
            raise PortfolioError(f"{path}: {wrong(f'policy {number}', 'a [[policy]] table', item)}")
        if "file" in item:
            if not isinstance(item["file"], str):
                raise PortfolioError(f"{path}: {wrong(f'policy {number}: file', 'a path', item['file'])}")
            found.append((path.parent / item["file"]).resolve())
    return found


def _parsed(path: Path) -> dict[str, Any]:
    if sys.version_info < (3, 11):
        raise PortfolioError(f"{path}: a portfolio file needs Python 3.11; make a lock of it elsewhere")
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise PortfolioError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise PortfolioError(f"{path}: UTF-8 is expected") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise PortfolioError(f"{path}: no TOML: {error}") from None


def _plain(path: Path, given: dict[str, Any], watch: Watch | None) -> dict[str, Any]:
    _known(given, _KEYS, "")
    version = given.get("version", VERSION)
    if version != VERSION or isinstance(version, (bool, float)):
        raise wrong("version", str(VERSION), version)
    plain: dict[str, Any] = {
        "v": 1,
        "rules": [],
        "wrapper": _text(given.get("wrapper", "{text}"), "wrapper", "a text with {text} in it"),
        "stop_cap": given.get("stop_cap", STOP_CAP),
        "patience": given.get("patience", PATIENCE),
    }
    if "{text}" not in plain["wrapper"]:
        raise wrong("wrapper", "a text with {text} in it", plain["wrapper"])
    from_plain(plain)
    items = given.get("policy", [])
    if not isinstance(items, list):
        raise wrong("policy", "[[policy]] tables", items)
    if not items:
        raise PortfolioError("no policies: a [[policy]] table with an id is expected for each")
    plain["rules"] = [_rule(path, number, item, watch) for number, item in enumerate(items, 1)]
    from_plain(plain)
    return plain


def _rule(path: Path, number: int, given: Any, watch: Watch | None) -> dict[str, Any]:
    where = f"policy {number}"
    if not isinstance(given, dict):
        raise wrong(where, "a [[policy]] table", given)
    where = f"policy {_text(given.get('id'), f'{where}: id')}"
    rule: dict[str, Any]
    _known(given, _POLICY_KEYS, f"{where}: ")
    if "file" in given:
        file = (path.parent / _text(given["file"], f"{where}: file", "the path of a Python file")).resolve()
        rule = {"policy": given["id"], "misstep": given["id"], "module": str(file)}
        try:
            rule["misstep"] = _in_file(where, file, given["id"], watch)
        except PortfolioError as error:
            if watch is None:
                raise
            rule["error"] = str(error)
    else:
        misstep, module = _in_catalogue(where, given["id"])
        rule = {"policy": given["id"], "misstep": misstep, "module": module}
    if "mode" in given:
        rule["mode"] = given["mode"]
    if "limit" in given:
        limit = given["limit"]
        if limit != "none" and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
            raise wrong(f"{where}: limit", 'a whole number from 1, or "none",', limit)
        rule["limit"] = None if limit == "none" else limit
    if "text" in given:
        rule["text"] = _text(given["text"], f"{where}: text")
    return rule


def _in_catalogue(where: str, policy: str) -> tuple[str, str]:
    from misstep.catalogue import missteps

    found = {p.id: (m.id, type(m).__module__) for m in missteps() for p in m.policies}
    if policy in found:
        return found[policy]
    import difflib

    near = difflib.get_close_matches(policy, found, 1)
    meant = f": {near[0]}?" if near else " (`misstep guard status` lists its policies)"
    raise PortfolioError(f"{where}: the catalogue has no policy {policy!r}{meant}")


def _in_file(where: str, file: Path, policy: str, watch: Watch | None) -> str:
    if file.suffix != ".py" or not file.is_file():
        raise PortfolioError(f"{where}: file: {file} is no Python file")
    try:
        module = module_of(str(file), watch)
    except PortfolioError as error:
        raise PortfolioError(f"{where}: file: {error}") from None
    except (Exception, SystemExit) as error:
        raise PortfolioError(f"{where}: file: {file}: {type(error).__name__}: {error}") from None
    for value in vars(module).values():
        if isinstance(value, type) and hasattr(value, "observe") and any(p.id == policy for p in value.policies):  # type: ignore[attr-defined]
            return str(value.id)  # type: ignore[attr-defined]
    raise PortfolioError(f"{where}: file: {file} has no such policy")


def _known(given: dict[str, Any], keys: set[str], where: str) -> None:
    for key in given:
        if key not in keys:
            raise PortfolioError(f"{where}unknown key {key!r} (known: {', '.join(sorted(keys))})")


def _text(value: Any, what: str, expected: str = "a text") -> str:
    if not isinstance(value, str) or not value:
        raise wrong(what, expected, value)
    return value


# -- the lock ------------------------------------------------------------------------------------------------------------


def lock(plain: dict[str, Any], routing: dict[str, list[str]] | None = None) -> dict[str, Any]:
    """The lock of a portfolio: what hooks read, the SHA-256 of every source that decides, the versions, the routing."""
    import misstep

    names = sources(plain)
    frozen = {k: v for k, v in plain.items() if k != "stamp"}
    return {
        **frozen,
        "lock": 1,
        "misstep": misstep.__version__,
        "python": ".".join(map(str, sys.version_info[:3])),
        "sources": {name: sha256(where) for name, where in names.items()},
        "routing": routing or {},
    }


def sources(plain: dict[str, Any]) -> dict[str, Path]:
    """Every file that decides what a portfolio does, by a name that does not depend on where misstep is installed."""
    found = [PACKAGE / "_record.py", *(PACKAGE / "guard").glob("*.py"), *(PACKAGE / "guard" / "hosts").glob("*.py")]
    found += [*(PACKAGE / "shell").glob("*.py"), *(PACKAGE / "trajectory").glob("*.py")]
    found += [PACKAGE / "catalogue" / "base.py", PACKAGE / "catalogue" / "fold.py"]
    found += (PACKAGE / "catalogue").glob("_*.py")
    named = {f"misstep/{p.relative_to(PACKAGE).as_posix()}": p for p in sorted(found)}
    for rule in plain["rules"]:
        module = str(rule["module"])
        if module.endswith(".py"):
            named.update((str(file), file) for file in reached(Path(module)))
        else:
            where = PACKAGE.joinpath(*module.split(".")[1:]).with_suffix(".py")
            named[f"misstep/{where.relative_to(PACKAGE).as_posix()}"] = where
    return named


def reached(file: Path) -> list[Path]:
    """A policy's file, and what it imports from beside it, wherever in the code that stands."""
    import ast

    found: dict[Path, None] = {file: None}
    waiting = [file]
    while waiting:
        path = waiting.pop()
        try:
            tree = ast.parse(path.read_bytes())
        except (OSError, SyntaxError, ValueError, RecursionError):
            continue  # it is hashed, or named as missing, all the same
        names = {a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names}
        names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        for name in sorted({name.partition(".")[0] for name in names} - {""}):
            for beside in {file.parent, path.parent}:
                package = beside / name
                inner = [beside / f"{name}.py", *(sorted(package.rglob("*.py")) if package.is_dir() else ())]
                new = [p for p in inner if p.is_file() and p not in found]
                found.update(dict.fromkeys(new))
                waiting += new
    return list(found)


def verify(locked: dict[str, Any]) -> str:
    """'' where every source is as the lock says, else what is not, by the file's name."""
    kept = locked.get("sources")
    if not isinstance(kept, dict) or not kept:
        return "the lock names no sources"
    import misstep

    if locked.get("misstep") != misstep.__version__:
        return f"the lock was made with misstep {locked.get('misstep')}, this is {misstep.__version__}"
    now = sources(locked)
    for name in sorted(kept.keys() & now.keys()):  # what changed comes before what follows from it
        try:
            if sha256(now[name]) != kept[name]:
                return f"{name} changed since the lock was made"
        except OSError as error:
            return f"{name}: {error.strerror}"
    for name in sorted(kept.keys() ^ now.keys()):
        return f"{name} is not in the lock" if name in now else f"{name} is in the lock, and no longer used"
    return ""


def sha256(path: Path) -> str:
    """The hash of a file's bytes."""
    import hashlib

    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_lock(path: Path, locked: dict[str, Any]) -> None:
    """Write a lock for people to read and for hooks to use."""
    import json

    path.write_text(json.dumps(locked, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


__all__ = ["lock", "read", "sources", "verify", "write_lock"]
