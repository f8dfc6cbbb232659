"""Which policies run, how often, in which words: the portfolio as hooks read it.

The plain form is `portfolio.json` in the guard's home. It is derived, from a portfolio file that the user wrote or from the
catalogue, and made anew when it is missing or older than what it was made from.
"""

from __future__ import annotations

import os
import sys

from misstep._record import field, record

from ._json import dumps
from ._paths import digest, guard_home, portfolio_file, settings_file
from .session import read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from misstep.catalogue.base import Misstep, Policy

MODES = ("enforce", "observe", "off")
STOP_CAP = 3
"""Forced turns after one another that a turn gets at most, whatever the policies say."""
PATIENCE = 2.0
"""Seconds that the policies have for one event."""
NEITHER = "neither a portfolio file (.toml) nor a lock of one (`misstep policies freeze`)"
LONGEST = 20.0
"""The most that a portfolio may give them: hosts end a hook that takes half a minute."""


class PortfolioError(Exception):
    """A portfolio that cannot be used, with the reason in one line."""


@record(slots=True)
class Rule:
    """One policy of a portfolio."""

    policy: str
    misstep: str
    module: str
    """Its module, or the absolute path of its file (`.py`)."""
    mode: str = "enforce"
    limit: int | None = 0
    """Interventions in one session, in the place of the policy's own: 0 keeps its own, None is without end."""
    text: str = ""
    """Words in the place of the policy's own, '' keeps its own."""
    action: str = ""
    """instruct or deny in the place of the policy's own, '' keeps its own."""


@record(slots=True)
class Portfolio:
    """The policies of a session, in order."""

    rules: list[Rule] = field(default_factory=list)
    wrapper: str = "{text}"
    """What stands around every text that the model gets."""
    stop_cap: int = STOP_CAP
    patience: float = PATIENCE
    unscoped: bool = False
    """Every task counts as eligible."""
    key: str = ""
    """Tells portfolios apart that give other states."""
    arm: str = "real"

    def misstep(self, rule: Rule) -> Misstep:
        """The misstep of a rule. Imports its module, and nothing else of the catalogue."""
        for value in vars(module_of(rule.module)).values():
            if isinstance(value, type) and getattr(value, "id", None) == rule.misstep and hasattr(value, "observe"):
                return value()
        raise PortfolioError(f"{rule.module} has no misstep {rule.misstep}")

    def text(self, rule: Rule, policy: Policy) -> str:
        """What a policy tells the model."""
        return rule.text or policy.text

    def wrapped(self, text: str) -> str:
        """The text with the wrapper around it."""
        return self.wrapper.replace("{text}", text) if "{text}" in self.wrapper else text


def _compiled(path: str) -> dict[str, Any]:
    """The plain form of a portfolio file, kept beside the guard's state until the file changes."""
    try:
        about = os.stat(path)
    except OSError as error:
        raise PortfolioError(f"{path}: {error.strerror}") from None
    stamp = [path, about.st_mtime_ns, about.st_size]
    kept = f"{guard_home()}/portfolio-{digest(path.encode())}.json"
    plain = read_json(kept)
    if not isinstance(plain, dict) or plain.get("stamp") != stamp:
        from pathlib import Path

        from .freeze import read

        plain = {**read(Path(path)), "stamp": stamp}
        write(kept, plain)
    return plain


def module_of(name: str) -> Any:
    """The module of that name, or in that file: a user's own policies are files."""
    if not name.endswith(".py"):
        __import__(name)
        return sys.modules[name]
    known = f"misstep_user_{digest(name.encode())}"
    if known not in sys.modules:
        import _frozen_importlib_external as external  # importlib's own loader, without importlib

        made = type(sys)(known)
        made.__file__ = name
        sys.modules[known] = made
        try:
            external.SourceFileLoader(known, name).exec_module(made)
        except BaseException:
            del sys.modules[known]
            raise
    return sys.modules[known]


def settings() -> dict[str, Any]:
    """What `settings.json` says; {} where there is none."""
    found = read_json(settings_file())
    return found if isinstance(found, dict) else {}


def mode_of(given: dict[str, Any]) -> str:
    """The mode: `$MISSTEP_GUARD` before the settings; enforce where neither says one."""
    mode = os.environ.get("MISSTEP_GUARD") or given.get("mode")
    return str(mode) if mode in MODES else "enforce"


def load(given: dict[str, Any], cwd: str = "") -> Portfolio:
    """The portfolio for this process, by the settings, the mode, and the folder that the agent works in.

    Raises PortfolioError.
    """
    plain, where = _plain(given, cwd)
    try:
        made = from_plain(plain, mode_of(given))
    except PortfolioError as error:
        raise PortfolioError(f"{where}: {error}") from None
    arm = os.environ.get("MISSTEP_ARM") or given.get("arm")
    if arm and arm != "real":
        from .arms import apply

        made.arm = str(arm)
        made = apply(made, made.arm)
    return made


def chosen(given: dict[str, Any]) -> str:
    """The portfolio file or lock that the user chose, '' for the catalogue's own."""
    return str(os.environ.get("MISSTEP_PORTFOLIO") or given.get("portfolio") or "")


def _plain(given: dict[str, Any], cwd: str) -> tuple[dict[str, Any], str]:
    """The portfolio's plain form, and the file that it is from."""
    path = chosen(given)
    if not path and cwd:
        from .trust import doubt, project_portfolio

        found = project_portfolio(cwd)
        if found and not doubt(found):
            path = found
    if path.endswith(".toml"):
        return _compiled(path), path
    if path:
        plain = read_json(path)
        if not isinstance(plain, dict):
            raise PortfolioError(f"{path} cannot be read" if not os.path.isfile(path) else f"{path}: {NEITHER}")
        return plain, path
    path = portfolio_file()
    plain = read_json(path)
    stamp = stamp_of_catalogue()
    if not isinstance(plain, dict) or plain.get("stamp") != stamp:
        plain = default()
        plain["stamp"] = stamp
        write(path, plain)
    return plain, path


def from_plain(plain: dict[str, Any], mode: str = "enforce") -> Portfolio:
    """A portfolio from its plain form. A rule's own mode only ever takes back: observe under enforce, never the reverse.

    Raises PortfolioError, with the key and what was expected.
    """
    made = Portfolio()
    given = plain.get("rules") if isinstance(plain, dict) else None
    if not isinstance(given, list):
        raise PortfolioError(NEITHER)
    known: set[str] = set()
    for number, item in enumerate(given, 1):
        rule = _rule_of(item, number)
        if rule.policy in known:
            raise PortfolioError(f"policy {rule.policy}: stands twice")
        known.add(rule.policy)
        if mode == "observe" and rule.mode == "enforce":
            rule.mode = "observe"
        if rule.mode != "off":
            made.rules.append(rule)
    made.wrapper = plain.get("wrapper", made.wrapper)
    if not isinstance(made.wrapper, str):
        raise wrong("wrapper", "a text with {text} in it", made.wrapper)
    made.stop_cap = plain.get("stop_cap", STOP_CAP)
    if type(made.stop_cap) is not int or made.stop_cap < 0:
        raise wrong("stop_cap", "a whole number from 0", made.stop_cap)
    made.patience = plain.get("patience", PATIENCE)
    if type(made.patience) not in (int, float) or not 0 < made.patience <= LONGEST:
        raise wrong("patience", f"a number of seconds over 0 and up to {LONGEST:g}", made.patience)
    made.key = digest(dumps([[r.policy, r.misstep, r.module] for r in made.rules]).encode())
    return made


def _rule_of(given: Any, number: int) -> Rule:
    """A rule from its plain form. Raises PortfolioError."""
    if not isinstance(given, dict):
        raise wrong(f"policy {number}", "a table", given)
    for key in ("policy", "misstep", "module"):
        if not isinstance(given.get(key), str) or not given[key]:
            raise wrong(f"policy {number}: {key}", "a text", given.get(key))
    rule = Rule(given["policy"], given["misstep"], given["module"])
    where = f"policy {rule.policy}"
    rule.mode = given.get("mode", "enforce")
    if not isinstance(rule.mode, str) or rule.mode not in MODES:
        raise wrong(f"{where}: mode", f"one of {', '.join(MODES)}", rule.mode)
    rule.limit = limit = given.get("limit", 0)
    if limit is not None and (type(limit) is not int or limit < 0):
        raise wrong(f"{where}: limit", "a whole number from 1", limit)
    rule.text = given.get("text", "")
    if not isinstance(rule.text, str):
        raise wrong(f"{where}: text", "a text", rule.text)
    return rule


def wrong(key: str, expected: str, value: Any) -> PortfolioError:
    """The error of a key whose value is not what was expected."""
    shown = "nothing" if value is None else repr(value)
    return PortfolioError(f"{key}: {expected} is expected, not {shown if len(shown) <= 60 else shown[:57] + '...'}")


def default() -> dict[str, Any]:
    """Every policy of the catalogue that is ready for use, in the plain form."""
    from misstep.catalogue import missteps

    rules = [
        {"policy": policy.id, "misstep": misstep.id, "module": type(misstep).__module__}
        for misstep in missteps()
        if misstep.status != "retired" and (misstep.scoped or misstep.status == "stable")
        for policy in misstep.policies
    ]
    return {"v": 1, "rules": rules, "wrapper": "{text}", "stop_cap": STOP_CAP, "patience": PATIENCE}


def stamp_of_catalogue() -> list[Any]:
    """Changes when a module of the catalogue is added, removed or replaced."""
    import misstep

    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + "/catalogue"
    try:
        return [misstep.__version__, os.stat(folder).st_mtime_ns]
    except OSError:
        return [misstep.__version__, 0]


def write(path: str, plain: dict[str, Any]) -> None:
    """Keep a derived portfolio; where that cannot be written, each hook makes it for itself."""
    try:
        os.makedirs(guard_home(), 0o700, exist_ok=True)
        fd = os.open(f"{path}.{os.getpid()}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, dumps(plain).encode())
        finally:
            os.close(fd)
        os.rename(f"{path}.{os.getpid()}", path)
    except OSError:
        pass
