"""The sums of a scan: which missteps, how often, in what share of sessions, by agent, with what outcome."""

from __future__ import annotations

from collections import Counter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

EXAMPLES = 3


Attempts = tuple[list[bool], list[bool]]
"""Outcomes of attempts with the misstep, and of those without it."""


class Tally:
    """One misstep over all sessions that count."""

    def __init__(self, id: str, info: dict[str, Any]) -> None:
        self.id = id
        self.info = info
        """What the header says of it."""
        self.sessions = 0
        """Sessions with at least one occurrence."""
        self.occurrences = 0
        self.right = 0
        """Opportunities at which the step was right."""
        self.unknown = 0
        """Opportunities at which the record cannot tell."""
        self.judged = 0
        """Sessions with at least one opportunity, of any verdict."""
        self.in_scope = 0
        """Scoped missteps: sessions whose task is in scope."""
        self.shown = 0
        """Scoped missteps: sessions in scope in which the right behaviour was shown."""
        self.agents: dict[str, Counter[str]] = {}
        self.examples: list[dict[str, Any]] = []
        self.tasks: dict[tuple[str, str], Attempts] = {}
        """Outcomes of the attempts at each task by each agent and model."""


class Summary:
    """Everything that is counted. Fed with the records in their order."""

    def __init__(self, known: dict[str, Any]) -> None:
        self.known = known
        """The missteps that are counted, from the header."""
        self.tallies = {name: Tally(name, info) for name, info in known.items()}
        self.sessions = 0
        self.subagents = 0
        """How many of the sessions are a sub-agent's."""
        self.steps = 0
        self.calls = 0
        self.affected = 0
        """Sessions with any occurrence."""
        self.first: float | None = None
        self.last: float | None = None
        self.agents: Counter[str] = Counter()
        self.policies: dict[str, dict[str, Any]] = {}
        self.copies = 0
        self.empty = 0
        """Trajectories without a step of an agent."""
        self.faults: Counter[str] = Counter()
        """Attempts that say nothing about the agent, by why."""
        self.outcomes: Counter[str] = Counter()
        self.unread: Counter[str] = Counter()
        """Units that gave nothing, by reason."""
        self.partial: Counter[str] = Counter()
        """Units that were read in part, by reason."""
        self.skipped: Counter[str] = Counter()
        """Records within sessions that could not be used, by reason."""
        self.errors: Counter[str] = Counter()
        """Detectors that failed, by misstep."""
        self.units = 0
        self.filtered: dict[str, int] = {}

    def add(self, record: dict[str, Any]) -> None:
        """Count one record."""
        if record["kind"] == "skipped":
            (self.partial if record.get("partial") else self.unread)[record["reason"]] += 1
            return
        if not self.counts(record):
            return
        self.sessions += 1
        self.subagents += bool(record["parent"])
        self.steps += record["steps"]
        self.calls += record["calls"]
        self.agents[record["agent"]] += 1
        self.skipped.update(record["skipped"])
        self.errors.update(record["errors"].keys())
        if record["started"] is not None:
            self.first = record["started"] if self.first is None else min(self.first, record["started"])
        if record["ended"] is not None:
            self.last = record["ended"] if self.last is None else max(self.last, record["ended"])
        passed = (record["outcome"] or {}).get("passed")
        if record["outcome"]:
            self.outcomes["passed" if passed else "failed" if passed is False else "not recorded"] += 1
        self.affected += any(wrong for _, wrong, _ in record["missteps"].values())
        for name, tally in self.tallies.items():
            self._tally(tally, record, record["missteps"].get(name), passed)
        for firing in record["firings"]:
            policy = self.policies.setdefault(
                firing["policy"], {"misstep": firing["misstep"], "action": firing["action"], "times": 0, "sessions": 0}
            )
            policy["times"] += 1
        for name in {f["policy"] for f in record["firings"]}:
            self.policies[name]["sessions"] += 1

    def counts(self, record: dict[str, Any]) -> bool:
        """Whether a trajectory counts; why it does not is counted."""
        fault = (record["outcome"] or {}).get("fault")
        if "copy_of" in record:
            self.copies += 1
        elif fault:
            self.faults[fault] += 1
        elif not record["steps"]:
            self.empty += 1
        else:
            return True
        return False

    def _tally(self, tally: Tally, record: dict[str, Any], count: list[int] | None, passed: bool | None) -> None:
        agent = tally.agents.setdefault(record["agent"], Counter())
        agent["sessions"] += 1
        if tally.id in record["scope"]:
            tally.in_scope += 1
            agent["in_scope"] += 1
            tally.shown += record["scope"][tally.id] is True
        right, wrong, unknown = count or (0, 0, 0)
        if count:
            tally.judged += 1
            tally.right += right
            tally.occurrences += wrong
            tally.unknown += unknown
        if wrong:
            tally.sessions += 1
            agent["with"] += 1
            agent["occurrences"] += wrong
            if len(tally.examples) < EXAMPLES:
                first = next((o for o in record["occurrences"] if o["misstep"] == tally.id), None)
                if first is not None:
                    tally.examples.append(
                        {"session": record["ref"], "path": record["path"], "n": record["n"], **_example(first)}
                    )
        # Outcomes of attempts that cannot tell whether they hold the misstep say nothing about it.
        if passed is not None and record["outcome"]["task"] and (wrong or not unknown):
            key = (record["outcome"]["task"], f"{record['agent']} {record['model']}")
            tally.tasks.setdefault(key, ([], []))[0 if wrong else 1].append(passed)

    def sorted(self) -> list[Tally]:
        """The tallies by share of sessions, then by number."""
        return sorted(self.tallies.values(), key=lambda t: (-t.sessions, -t.occurrences, t.id))

    def outcome(self, tally: Tally) -> dict[str, Any]:
        """How attempts with the misstep ended against attempts at the same tasks without it, or why that is not available."""
        sides = [[o for pair in tally.tasks.values() for o in pair[side]] for side in (0, 1)]
        found: dict[str, Any] = {
            "with": [sum(sides[0]), len(sides[0])],
            "without": [sum(sides[1]), len(sides[1])],
            "available": False,
        }
        if not tally.tasks:
            return {
                **found,
                "reason": "no outcomes recorded" if not self.outcomes else "no judged attempts at named tasks",
            }
        if not sides[0]:
            return {**found, "reason": "no attempt with it has an outcome"}
        if not any(w and wo for w, wo in tally.tasks.values()):
            return {**found, "reason": "no task was attempted both with and without it"}
        try:
            return {**found, "available": True, **_difference(tally.tasks)}
        except ValueError as error:
            return {**found, "reason": str(error)}

    def to_json(self) -> dict[str, Any]:
        """The summary as JSON values, in a fixed order."""
        return {
            "sessions": self.sessions,
            "subagents": self.subagents,
            "affected": self.affected,
            "steps": self.steps,
            "calls": self.calls,
            "first": self.first,
            "last": self.last,
            "agents": dict(sorted(self.agents.items())),
            "outcomes": dict(sorted(self.outcomes.items())),
            "missteps": [self._tally_json(t) for t in self.sorted()],
            "policies": dict(sorted(self.policies.items())),
            "not_counted": {
                "copies": self.copies,
                "without_steps": self.empty,
                "faults": dict(sorted(self.faults.items())),
                "unread": dict(sorted(self.unread.items())),
                "partly_read": dict(sorted(self.partial.items())),
                "records": dict(sorted(self.skipped.items())),
                "detector_errors": dict(sorted(self.errors.items())),
            },
        }

    def _tally_json(self, tally: Tally) -> dict[str, Any]:
        base = tally.in_scope if tally.info["scoped"] else self.sessions
        decided = tally.right + tally.occurrences
        shown: dict[str, Any] = {
            "id": tally.id,
            "name": tally.info["name"],
            "status": tally.info["status"],
            "sessions": tally.sessions,
            "of_sessions": base,
            "share": share(tally.sessions, base),
            "occurrences": tally.occurrences,
            "per_step": share(tally.occurrences, self.steps),
            "per_opportunity": share(tally.occurrences, decided),
            "right": tally.right,
            "unknown": tally.unknown,
            "agents": {name: dict(sorted(c.items())) for name, c in sorted(tally.agents.items())},
            "outcome": self.outcome(tally),
            "examples": tally.examples,
        }
        if tally.info["scoped"]:
            shown["right_behaviour_shown"] = tally.shown
        return shown


def _difference(tasks: dict[tuple[str, str], Attempts]) -> dict[str, Any]:
    """Pass rate with the misstep less that without it, over tasks. Raises ValueError where that cannot be computed.

    A weak agent both errs and fails more often, so attempts are compared within one agent and model only; where there
    are several, a task's difference is the mean of theirs, for the task is the unit.
    """
    from fractions import Fraction

    from misstep.stats import association, attainable_note, paired_effect

    doers = {doer for _, doer in tasks}
    p_within = None
    if len(doers) == 1:
        known = association(pair for _, pair in sorted(tasks.items()))
        assert known.effect is not None
        effect, p_within = known.effect, known.p_within
    else:
        by_task: dict[str, list[Fraction]] = {}
        for (task, _), (with_, without) in sorted(tasks.items()):
            if with_ and without:
                less = Fraction(sum(without), len(without))
                by_task.setdefault(task, []).append(Fraction(sum(with_), len(with_)) - less)
        effect = paired_effect([sum(found, Fraction(0)) / len(found) for found in by_task.values()])
    return {
        "tasks": effect.tasks,
        "difference": round(effect.mean, 6),
        "low": round(effect.interval.low, 6),
        "high": round(effect.interval.high, 6),
        "level": effect.interval.level,
        "p": round(effect.p if p_within is None else p_within, 6),
        "changed": effect.changed,
        "note": attainable_note(effect.changed),
        "agents": len(doers),
    }


def _example(occurrence: dict[str, Any]) -> dict[str, Any]:
    return {name: occurrence[name] for name in ("step", "event", "why", "command")}


def share(part: int, whole: int) -> float | None:
    """part / whole, or None where there is nothing to share."""
    return round(part / whole, 6) if whole else None


def summarise(records: Iterable[dict[str, Any]], known: dict[str, Any]) -> Summary:
    """The summary of records."""
    summary = Summary(known)
    for record in records:
        summary.add(record)
    return summary
