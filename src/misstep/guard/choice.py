"""Which portfolio is in use here, in which mode and in which arm.

The plain form of the catalogue's portfolio is `portfolio.json` in the guard's home, that of a portfolio file
`portfolio-....json`. They are derived, and made anew when they are missing or older than what they were made from.
"""

from __future__ import annotations

import os

from misstep._record import record

from ._paths import digest, guard_home, portfolio_file, settings_file
from .portfolio import NEITHER, PortfolioError, default, from_plain
from .session import read_json, write_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .portfolio import Portfolio, Watch

_MODES = {
    **dict.fromkeys(("off", "0", "false", "no"), "off"),
    "observe": "observe",
    **dict.fromkeys(("enforce", "on", "1"), "enforce"),
}


@record(slots=True)
class Source:
    """Where the portfolio in use comes from."""

    path: str = ""
    """A portfolio file or a lock, '' for the catalogue's own."""
    left: str = ""
    """Why the portfolio that came with the repository is left alone, '' where it is not."""


def settings() -> dict[str, Any]:
    """What `settings.json` says; {} where there is none."""
    found = read_json(settings_file())
    return found if isinstance(found, dict) else {}


def odd_settings() -> str:
    """What is wrong with `settings.json` as a whole, in words; '' where nothing is."""
    path = settings_file()
    if not os.path.lexists(path) or isinstance(read_json(path), dict):
        return ""
    return f"{path} is no JSON object that can be read: nothing in it counts"


def mode_of(given: dict[str, Any]) -> str:
    """The mode: `$MISSTEP_GUARD` before the settings; enforce where neither says one."""
    return _mode(os.environ.get("MISSTEP_GUARD")) or _mode(given.get("mode")) or "enforce"


def _mode(said: Any) -> str:
    return _MODES.get(said.strip().lower(), "") if isinstance(said, str) else ""


def odd_mode(given: dict[str, Any]) -> str:
    """What says a mode that is none, in words; '' where nothing does."""
    for where, said in (("$MISSTEP_GUARD", os.environ.get("MISSTEP_GUARD")), (settings_file(), given.get("mode"))):
        if said and not _mode(said):
            return f"{where} says {said!r}, which is no mode (enforce, observe, off)"
    return ""


def arm_of(given: dict[str, Any]) -> str:
    """The arm: `$MISSTEP_ARM` before the settings; real where neither says one."""
    return str(os.environ.get("MISSTEP_ARM") or given.get("arm") or "real")


def scored(given: dict[str, Any]) -> bool:
    """Whether this is a scored run: it uses a lock only."""
    return bool(os.environ.get("MISSTEP_SCORED") or given.get("scored"))


def chosen(given: dict[str, Any]) -> str:
    """The portfolio file or lock that the user chose, '' for the catalogue's own."""
    return str(os.environ.get("MISSTEP_PORTFOLIO") or given.get("portfolio") or "")


def source(given: dict[str, Any], cwd: str = "") -> Source:
    """Where the portfolio comes from, for an agent that works in a folder."""
    path = chosen(given)
    if path or not cwd:
        return Source(path)
    from . import trust

    found = trust.project_portfolio(cwd)
    if not found:
        return Source()
    why = trust.doubt(found)
    if why:
        return Source("", why)
    trust.use()
    return Source(found)


def load(given: dict[str, Any], cwd: str = "", watch: Watch | None = None) -> Portfolio:
    """The portfolio for this process, by the settings, the mode, and the folder that the agent works in.

    watch: as hooks load it: a policy whose file cannot be used is in it with its error. Raises PortfolioError.
    """
    return load_from(source(given, cwd), given, watch)


def load_from(where: Source, given: dict[str, Any], watch: Watch | None = None) -> Portfolio:
    """The portfolio from there. Raises PortfolioError."""
    path = where.path
    if path and not path.startswith("/"):
        raise PortfolioError(f"the portfolio {path!r} has no absolute path: hooks run in any folder")
    plain = _plain(path, watch)
    try:
        made = from_plain(plain, mode_of(given))
    except PortfolioError as error:
        raise PortfolioError(f"{path or portfolio_file()}: {error}") from None
    arm = arm_of(given)
    if arm != "real":
        from .arms import apply

        made.arm = arm
        made = apply(made, arm, watch)
    return made


def _plain(path: str, watch: Watch | None) -> dict[str, Any]:
    if path.endswith(".toml"):
        return _compiled(path, watch)
    if path:
        plain = read_json(path)
        if not isinstance(plain, dict):
            raise PortfolioError(f"{path} cannot be read" if not os.path.isfile(path) else f"{path}: {NEITHER}")
        return plain
    plain = read_json(portfolio_file())
    stamp = stamp_of_catalogue()
    if not isinstance(plain, dict) or plain.get("stamp") != stamp:
        plain = default()
        plain["stamp"] = stamp
        _keep(portfolio_file(), plain)
    return plain


def _compiled(path: str, watch: Watch | None) -> dict[str, Any]:
    """The plain form of a portfolio file. What hooks made of it is kept until it or a file that it names changes."""
    if watch is not None:
        kept = f"{guard_home()}/portfolio-{digest(path.encode())}.json"
        plain = read_json(kept)
        if isinstance(plain, dict) and plain.get("stamp") == _stamp(path, plain):
            return plain
    from pathlib import Path

    from .freeze import read

    plain = read(Path(path), watch)
    if watch is not None:
        plain["stamp"] = _stamp(path, plain)
        _keep(kept, plain)
    return plain


def _stamp(path: str, plain: dict[str, Any]) -> list[Any]:
    """Changes when a portfolio file, or a policy's file that it names, does."""
    found: list[Any] = []
    rules = plain.get("rules")
    modules = [str(rule.get("module")) for rule in rules if isinstance(rule, dict)] if isinstance(rules, list) else []
    for name in [path, *sorted({module for module in modules if module.endswith(".py")})]:
        try:
            about = os.stat(name)
            found.append([name, about.st_mtime_ns, about.st_size])
        except OSError as error:
            if name == path:
                raise PortfolioError(f"{path}: {error.strerror}") from None
            found.append([name, 0, 0])
    return found


def stamp_of_catalogue() -> list[Any]:
    """Changes when a module of the catalogue is added, removed or replaced."""
    import misstep

    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + "/catalogue"
    try:
        return [misstep.__version__, os.stat(folder).st_mtime_ns]
    except OSError:
        return [misstep.__version__, 0]


def _keep(path: str, plain: dict[str, Any]) -> None:
    """Keep a derived portfolio; where that cannot be written, each hook makes it for itself."""
    try:
        write_json(path, plain)
    except OSError:
        pass
