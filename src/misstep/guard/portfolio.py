"""Which policies run, how often, in which words: the portfolio and its plain form. `choice` says which one is in use."""

from __future__ import annotations

import sys

from misstep._record import field, record

from ._json import dumps
from ._paths import digest

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
    error: str = ""
    """Why its file cannot be used, '' where it can."""


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

    def misstep(self, rule: Rule, watch: Watch | None = None) -> Misstep:
        """The misstep of a rule. Imports its module, and nothing else of the catalogue. Raises PortfolioError."""
        if rule.error:
            raise PortfolioError(rule.error)
        for value in vars(module_of(rule.module, watch)).values():
            if isinstance(value, type) and getattr(value, "id", None) == rule.misstep and hasattr(value, "observe"):
                return value()
        raise PortfolioError(f"{rule.module} has no misstep {rule.misstep}")

    def text(self, rule: Rule, policy: Policy) -> str:
        """What a policy tells the model."""
        return rule.text or policy.text

    def wrapped(self, text: str) -> str:
        """The text with the wrapper around it."""
        return self.wrapper.replace("{text}", text) if "{text}" in self.wrapper else text


class Interrupted(KeyboardInterrupt):
    """A person's Ctrl-C, raised by a handler of ours: a policy's own KeyboardInterrupt is none."""


class Watch:
    """Whose code runs at the moment."""

    __slots__ = ("aside", "asking", "knows")

    def __init__(self) -> None:
        self.asking = ""
        """The misstep, or the file, whose code runs."""
        self.aside: dict[str, str] = {}
        """Misstep or file -> why its code is not run."""
        self.knows = False
        """Whether a real Ctrl-C comes as Interrupted."""

    def begin(self, name: str, file: str) -> None:
        """Code of that name begins; file: its source, '' where it is the catalogue's own."""
        self.asking = name

    def end(self) -> None:
        self.asking = ""

    def condemn(self) -> None:
        """What runs now will not come back."""

    def close(self) -> None:
        """Nothing more will run."""

    def passes(self, error: BaseException) -> bool:
        """Whether an error is none of the code that ran, but a person's wish to end."""
        return isinstance(error, KeyboardInterrupt) and (not self.knows or isinstance(error, Interrupted))


def module_of(name: str, watch: Watch | None = None) -> Any:
    """The module of that name, or in that file: a user's own policies are files. Raises what its code raises.

    A file's code is compiled from what can be read in it: a `__pycache__` beside it may hold something else.
    watch: with it, whatever a file's code raises is a PortfolioError.
    """
    if not name.endswith(".py"):
        __import__(name)
        return sys.modules[name]
    known = f"misstep_user_{digest(name.encode())}"
    if known in sys.modules:
        return sys.modules[known]
    made: Any = type(sys)(known)
    made.__file__ = name
    if watch is None:
        _run(made)
        return made
    if name in watch.aside:
        raise PortfolioError(watch.aside[name])
    outer = watch.asking
    if not outer:
        watch.begin(name, name)
    try:
        _run(made)
    except BaseException as error:
        if watch.passes(error):
            raise
        watch.aside[name] = f"{name}: {type(error).__name__}: {error}"
        raise PortfolioError(watch.aside[name]) from None
    finally:
        if not outer:
            watch.end()
    return made


def _run(module: Any) -> None:
    with open(module.__file__, "rb") as file:
        code = compile(file.read(), module.__file__, "exec", dont_inherit=True)
    sys.modules[module.__name__] = module
    try:
        exec(code, module.__dict__)
    except BaseException:
        sys.modules.pop(module.__name__, None)
        raise


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
    rule.error = str(given.get("error", ""))
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
