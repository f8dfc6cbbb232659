"""What a portfolio would do, without an agent: over task descriptions, over recorded sessions, over its own examples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from misstep.catalogue.base import Misstep
from misstep.trajectory import Before, Event, Stop, Trajectory, events

from .engine import Engine
from .portfolio import Portfolio, PortfolioError, module_of

INSTRUCTIONS = ("instruction.md", "task.md", "prompt.md", "instruction.txt", "prompt.txt")
"""Names of the file that holds the description in a task's folder."""


# -- routing -------------------------------------------------------------------------------------------------------------


def tasks_of(folder: Path) -> Iterator[tuple[str, str]]:
    """(name, description) of every task below a folder: task folders, and single text files. Raises OSError."""
    if folder.is_file():
        yield folder.stem, folder.read_text(encoding="utf-8", errors="replace")
        return
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            found = _description(path)
            if found is not None:
                yield path.name, found
            else:
                yield from ((f"{path.name}/{name}", text) for name, text in tasks_of(path))
        elif path.suffix in (".md", ".txt"):
            yield path.stem, path.read_text(encoding="utf-8", errors="replace")


def _description(folder: Path) -> str | None:
    for name in INSTRUCTIONS:
        if (folder / name).is_file():
            return (folder / name).read_text(encoding="utf-8", errors="replace")
    task = folder / "task.yaml"
    if task.is_file():
        import yaml

        try:
            given = yaml.safe_load(task.read_text(encoding="utf-8", errors="replace"))
        except yaml.YAMLError:
            return None
        text = given.get("instruction") if isinstance(given, dict) else None
        return text if isinstance(text, str) else None
    return None


@dataclass
class Route:
    """A policy that takes a task for its own, and the words that made it so."""

    policy: str
    task: str
    words: str


def audit(portfolio: Portfolio, tasks: Iterable[tuple[str, str]]) -> list[Route]:
    """Which tasks are eligible for which policies, in the order of the portfolio. Raises PortfolioError."""
    policies = [(rule, *_policy(portfolio, rule)) for rule in portfolio.rules]
    found = []
    for name, text in tasks:
        for rule, misstep, policy in policies:
            words = policy.eligible(misstep, text)
            if words is not None:
                found.append(Route(rule.policy, name, words))
    order = {rule.policy: n for n, rule in enumerate(portfolio.rules)}
    return sorted(found, key=lambda r: (order[r.policy], r.task))


def _policy(portfolio: Portfolio, rule: Any) -> tuple[Misstep, Any]:
    try:
        misstep = portfolio.misstep(rule)
        return misstep, next(p for p in misstep.policies if p.id == rule.policy)
    except StopIteration:
        raise PortfolioError(f"{rule.module} has no policy {rule.policy}") from None
    except (Exception, SystemExit) as error:
        raise PortfolioError(f"{rule.module}: {type(error).__name__}: {error}") from None


# -- recorded sessions ---------------------------------------------------------------------------------------------------


@dataclass
class Fired:
    """A policy that would have fired at an event of a recorded session."""

    policy: str
    action: str
    path: str
    session: str
    step: int
    """In the record, from 0."""
    what: str
    """The call or the last words."""
    then: list[str] = field(default_factory=list)
    """What the agent did next."""
    passed: bool | None = None


def replay(portfolio: Portfolio, trajectory: Trajectory) -> list[Fired]:
    """Where the policies would have fired. Nothing is done, so a policy fires as often as its limit allows."""
    for rule in portfolio.rules:
        rule.mode = "observe"
    engine = Engine(portfolio)
    stream = list(events(trajectory))
    passed = trajectory.outcome.passed if trajectory.outcome else None
    found = []
    for number, event in enumerate(stream):
        if isinstance(event, (Before, Stop)):
            decision = engine.consider(event, str(event.step))
            for row in decision.rows:
                if row["fires"]:
                    then = [shown(e) for e in stream[number + 1 : number + 8] if isinstance(e, (Before, Stop))][:2]
                    action = _action(engine, row["policy"])
                    what = shown(event)
                    found.append(
                        Fired(row["policy"], action, trajectory.path, trajectory.id, event.step, what, then, passed)
                    )
        engine.see(event)
    return found


def _action(engine: Engine, policy: str) -> str:
    return next(rule.action or p.action for rule, _, p in engine.slots if p.id == policy)


def shown(event: Event) -> str:
    """An event in one line."""
    if isinstance(event, Before):
        call = event.call
        return " ".join((call.command or " ".join([call.tool, *call.paths])).split())[:300]
    if isinstance(event, Stop):
        return "stop: " + " ".join(event.message.split())[:200]
    return type(event).__name__.lower()


# -- examples ------------------------------------------------------------------------------------------------------------


def examples_of(misstep: Misstep) -> Iterator[tuple[str, str]]:
    """(example, what is wrong with it, '' where nothing is) of every example beside a misstep. Raises ValueError or OSError."""
    from misstep.catalogue.examples import load
    from misstep.catalogue.fold import Fold

    fires, silent = load(misstep)
    for example in [*fires, *silent]:
        fold = Fold([misstep])
        for event in example.events:
            fold.push(event)
        found = fold.finish()
        verdicts = found.verdicts.get(misstep.id, [])
        occurrences = sorted({v.at for v in verdicts if v.holds})
        firings = [(f.policy, f.at) for f in found.firings]
        wrong = []
        if occurrences != example.occurrences:
            wrong.append(f"occurrences at {occurrences}, expected at {example.occurrences}")
        if firings != example.firings:
            wrong.append(f"policies fire at {firings}, expected at {example.firings}")
        yield example.name, "; ".join(wrong)


def missteps_in(path: Path) -> list[Misstep]:
    """The missteps that a Python file defines. Raises PortfolioError."""
    try:
        module = module_of(str(path.resolve()))
    except (Exception, SystemExit) as error:
        raise PortfolioError(f"{path}: {type(error).__name__}: {error}") from None
    found = [
        value()
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Misstep) and value.id and value.__module__ == module.__name__
    ]
    if not found:
        raise PortfolioError(f"{path}: no misstep in it")
    return found
