"""How an attempt ended: the one place where a recorded outcome becomes a termination (FIRE, Table 7).

In this order, the first that holds:

1. `never-ran`: the record says that the agent's program could not be started, or there is a record of its session (or of
   its tokens: none) without one step of the agent. Where nothing at all is recorded (an agent that leaves no session file)
   the verifier's verdict stands: that an attempt counts must not hang on how it ended.
2. `invalid`: an infrastructure fault by Harbor's own error policy; an exception that neither Harbor nor the user explains
   (a failing reward after one is not trusted, so a passing one is not counted either: else only failures would be left
   out); no reward although the agent ran to its end (a fault of the verifier).
3. `pass`: the verifier passed it. That the agent had run out of time or had crashed by then stands in `extra`, as
   `passed_after_timeout` or `passed_after_crash`.
4. `timeout`: the agent ran out of time. A reward between 0 and 1 is no pass.
5. `gave-up`: the model refused the task, or the agent's last message says that the task was not done (see words.GAVE_UP).
6. `crash`: the agent's own program ended in an error.
7. `fail`: all else.

Terminal-Bench v1 (`ending_v1`) has no policy for errors. Its leaderboards count an attempt without a verdict as a failure,
whether the tests ran out of time, could not be read, or the agent's harness broke; so does this rule, but for agents that
never ran: pass@k is then what was published. `ungraded="missing"` takes them for infrastructure faults instead.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from misstep.experiment.attempts import Attempt, AttemptsError
from misstep.experiment.outcomes import funnel as funnels
from misstep.experiment.outcomes.words import last_words, said_so
from misstep.trajectory.readers import Source, Unreadable, read, reader_of, units
from misstep.trajectory.readers import harbor as harbor_reader

if TYPE_CHECKING:
    from misstep.guard.portfolio import Portfolio
    from misstep.trajectory import Trajectory
    from misstep.trajectory.model import Outcome

GUARD_LOGS = Path("agent", "misstep")
"""Where a trial keeps what the guard logged in it."""
PASSES = 1.0
"""The reward from which on an attempt has passed."""

_TIMEOUTS = frozenset(["AgentTimeoutError", "agent_timeout"])
_REFUSALS = frozenset(["AgentSafetyRefusalError", "ContentPolicyViolationError"])
_CRASHES_V1 = frozenset(["unknown_agent_error", "context_length_exceeded", "output_length_exceeded"])


@dataclass(frozen=True, slots=True)
class Ending:
    """How an attempt ended, and why it is no observation where it is none."""

    termination: str
    passed: bool | None
    fault: str = ""
    extra: dict[str, Any] = field(default_factory=dict)


def ending(
    outcome: Outcome,
    *,
    ran: bool | None,
    message: str = "",
    gave_up: Sequence[str] = (),
    own: Iterable[str] = (),
    passes: float = PASSES,
) -> Ending:
    """The rule of this module.

    Args:
        ran: whether a step of the agent is on record; None where nothing is recorded of it.
        message: the agent's last words, '' where the record does not end with any.
        gave_up: regular expressions in the place of words.GAVE_UP.
        own: types of exceptions that are the agent's own end, besides those that Harbor knows.
        passes: the reward from which on an attempt has passed.
    """
    own = frozenset(own)
    exceptions: list[str] = outcome.extra.get("exceptions") or ([outcome.exception] if outcome.exception else [])
    passed = verdict(outcome, passes)
    if outcome.fault == "never-ran" or ran is False:
        return Ending("never-ran", passed, f"the agent never ran{_because(exceptions)}")
    if outcome.fault and not (exceptions and own.issuperset(exceptions)):
        return Ending("invalid", None, f"{outcome.fault}{_because(exceptions)}")
    unexplained = [name for name in outcome.extra.get("unexplained", ()) if name not in own]
    if unexplained:
        return Ending("invalid", None, f"an exception that nobody explains: {', '.join(unexplained)}")
    if outcome.reward is None and passed is None:
        return Ending("invalid", None, f"no reward{_because(exceptions)}")
    timed_out = not _TIMEOUTS.isdisjoint(exceptions)
    crashed = bool(exceptions) and not timed_out
    if passed:
        extra = {"passed_after_timeout": True} if timed_out else {"passed_after_crash": True} if crashed else {}
        return Ending("pass", True, extra=extra)
    if timed_out:
        return Ending("timeout", passed)
    if not _REFUSALS.isdisjoint(exceptions) or said_so(message, gave_up):
        return Ending("gave-up", passed)
    return Ending("crash" if crashed else "fail", passed)


def verdict(outcome: Outcome, passes: float = PASSES) -> bool | None:
    """Whether the verifier passed it. A reward between 0 and 1 tells nothing unless the user said what passes."""
    reward = outcome.reward
    if reward is None:
        return outcome.passed
    if reward >= passes:
        return True
    return False if reward <= 0 or passes != PASSES else None


def ending_v1(
    outcome: Outcome, *, ran: bool | None, message: str = "", gave_up: Sequence[str] = (), ungraded: str = "failure"
) -> Ending:
    """How an attempt of terminal-bench v1 ended, by its failure_mode (`outcome.extra`) and verdict.

    Args:
        ungraded: what an attempt without a verdict is: "failure" or "missing".
    """
    mode, passed = str(outcome.extra.get("failure_mode") or ""), outcome.passed
    extra: dict[str, Any] = {"failure_mode": mode} if mode not in ("", "unset", "none") else {}
    if outcome.fault == "never-ran" or mode == "agent_installation_failed" or ran is False:
        return Ending("never-ran", passed, f"the agent never ran{': ' + mode if extra else ''}", extra)
    if passed is None and ungraded == "missing":
        return Ending("invalid", None, f"no verdict{': ' + mode if extra else ''}", extra)
    if passed:
        if mode in _TIMEOUTS:
            extra["passed_after_timeout"] = True
        elif mode in _CRASHES_V1:
            extra["passed_after_crash"] = True
        return Ending("pass", True, extra=extra)
    if passed is None:
        extra["no_verdict"] = True
    if mode in _TIMEOUTS:
        return Ending("timeout", passed, extra=extra)
    if said_so(message, gave_up):
        return Ending("gave-up", passed, extra=extra)
    return Ending("crash" if mode in _CRASHES_V1 else "fail", passed, extra=extra)


def _because(exceptions: list[str]) -> str:
    return f": {', '.join(exceptions)}" if exceptions else ""


def attempt_of(
    trial_folder: Path,
    *,
    task: str,
    arm: str,
    replicate: int = 1,
    candidate: int = 1,
    gave_up: Sequence[str] = (),
    root: Path | None = None,
    own: Iterable[str] = (),
    passes: float = PASSES,
    portfolio: Portfolio | None = None,
    funnel: bool = True,
    instruction: str = "",
) -> Attempt:
    """The attempt that a Harbor trial's folder holds.

    A trial without a readable result.json did not end: it is invalid, never a failure.

    Args:
        task, arm, replicate, candidate: as planned; what the folder says of them is not asked.
        gave_up: regular expressions over the last message, in the place of words.GAVE_UP.
        root: what `trial` is relative to; the folder's own name without it.
        own: types of exceptions that are the agent's own end, besides those that Harbor knows.
        passes: the reward from which on an attempt has passed.
        portfolio: what is replayed where no guard ran; the catalogue's without it.
        funnel: whether eligible, state and behaviour are looked for (it takes the time that reading the steps takes).
        instruction: the task's text, which says who takes it where no prompt of the agent's is on record.

    Where `extra["unrecorded"]` is true no step is on record: what state there was, and what behaviour, is unknown.

    Raises:
        AttemptsError: there is no such folder.
    """
    if not trial_folder.is_dir():
        raise AttemptsError(f"{trial_folder}: no folder of a trial")
    name = _relative(trial_folder, root)
    try:
        result = json.loads((trial_folder / "result.json").read_bytes().decode("utf-8", "replace"))
        if not isinstance(result, dict) or "trial_name" not in result:
            raise ValueError("not a trial's")
    except (OSError, ValueError, RecursionError) as error:
        missing = isinstance(error, FileNotFoundError)
        fault = "no result.json: the trial did not end" if missing else "result.json cannot be read"
        return Attempt(
            task=task,
            arm=arm,
            replicate=replicate,
            candidate=candidate,
            id=trial_folder.name,
            termination="invalid",
            fault=fault,
            trial=name,
        )
    outcome = harbor_reader.outcome(result)
    trajectories = trajectories_of(trial_folder)
    ended = ending(
        outcome,
        ran=_ran(trial_folder, result, trajectories),
        message=last_words(trajectories),
        gave_up=gave_up,
        own=own,
        passes=passes,
    )
    seen = funnels.Funnel()
    if funnel:
        seen = funnels.funnel_of(trajectories, guard_logs(trial_folder), portfolio, instruction)
    steps = steps_of(trajectories)
    extra = {
        "checksum": result.get("task_checksum"),
        "dataset": outcome.extra.get("dataset"),
        "exception_message": outcome.extra.get("exception_message"),
        "rewards": outcome.extra.get("rewards") if len(outcome.extra.get("rewards", ())) > 1 else None,
        "guard": seen.guard,
        "unrecorded": (steps is None and not seen.guard.get("before")) or None,
        **ended.extra,
    }
    info = _object(result.get("agent_info"))
    model = _object(info.get("model_info"))
    tokens = _tokens(result, trajectories)
    return Attempt(
        task=task,
        arm=arm,
        replicate=replicate,
        candidate=candidate,
        id=str(result.get("trial_name") or trial_folder.name),
        agent=str(info.get("name") or ""),
        agent_version=str(info.get("version") or ""),
        model="/".join(str(model[key]) for key in ("provider", "name") if model.get(key)),
        termination=ended.termination,
        passed=ended.passed,
        reward=outcome.reward,
        fault=ended.fault,
        exception=outcome.exception,
        started=utc(result.get("started_at")),
        seconds=outcome.seconds,
        total_seconds=between(result.get("started_at"), result.get("finished_at")),
        input_tokens=tokens["n_input_tokens"],
        cached_tokens=tokens["n_cache_tokens"],
        output_tokens=tokens["n_output_tokens"],
        cost_usd=outcome.cost_usd if outcome.cost_usd is not None else _metric(trajectories, "cost_usd"),
        steps=steps,
        eligible=seen.eligible,
        state=seen.state,
        fired=seen.fired,
        behaviour=seen.behaviour,
        trial=name,
        extra={key: value for key, value in extra.items() if value not in (None, "", {}, [])},
    )


def guard_logs(trial: Path) -> list[Path]:
    """Where the guard's logs of a trial are: in the agent's folder, and in that of each step of a task that has several."""
    return [trial / GUARD_LOGS, *sorted(trial.glob(f"steps/*/{GUARD_LOGS}"))]


def trajectories_of(folder: Path) -> list[Trajectory]:
    """What a trial's folder tells of the agent's steps; [] where nothing can be read."""
    try:
        return list(read(folder))
    except Unreadable:
        return []


def steps_of(trajectories: Iterable[Trajectory]) -> int | None:
    """Steps of the agent and its sub-agents; None where none is on record."""
    count = sum(step.source == "agent" and not step.copied for one in trajectories for step in one.steps)
    return count or None


def _ran(folder: Path, result: dict[str, Any], trajectories: Sequence[Trajectory]) -> bool | None:
    """Whether a step of the agent is on record; None where nothing is recorded of its session, or only a part."""
    if steps_of(trajectories):
        return True
    contexts = [_object(part.get("agent_result")) for part in _parts(result)]
    said = [context["n_output_tokens"] for context in contexts if isinstance(context.get("n_output_tokens"), int)]
    if any(said):
        return True  # and its session file is lost
    if said:
        return False
    return False if any(map(_begun, [folder / "agent", *folder.glob("steps/*/agent")])) else None


def _begun(agent: Path) -> bool:
    """Whether there is a session in the agent's folder that begins with a prompt."""
    if not agent.is_dir():
        return False
    for path in units([agent]):
        unit = Source(path)
        try:
            if reader_of(unit) is not None and any(step.prompt for one in read(unit) for step in one.steps):
                return True
        except Unreadable:
            continue
    return False


def _parts(result: dict[str, Any]) -> list[dict[str, Any]]:
    """The trial, or each of its steps where it has several and sums nothing up."""
    given = result.get("step_results")
    steps = [part for part in given if isinstance(part, dict)] if isinstance(given, list) else []
    own = _object(result.get("agent_result"))
    return [result] if not steps or any(value is not None for value in own.values()) else steps


def _tokens(result: dict[str, Any], trajectories: Sequence[Trajectory]) -> dict[str, int | None]:
    """As Harbor has them, else as the agent's record has them."""
    found: dict[str, int | None] = {}
    for key, metric in (
        ("n_input_tokens", "prompt_tokens"),
        ("n_cache_tokens", "cached_tokens"),
        ("n_output_tokens", "completion_tokens"),
    ):
        told = [_object(part.get("agent_result")).get(key) for part in _parts(result)]
        known = [value for value in told if isinstance(value, int) and not isinstance(value, bool)]
        recorded = _metric(trajectories, metric)
        found[key] = sum(known) if known else None if recorded is None else int(recorded)
    return found


def _metric(trajectories: Iterable[Trajectory], name: str) -> float | None:
    """The sum of a metric over all steps, None where no step has it."""
    values = [
        step.metrics[name] for one in trajectories for step in one.steps if not step.copied and name in step.metrics
    ]
    return sum(values) if values else None


def _relative(folder: Path, root: Path | None) -> str:
    if root is None:
        return folder.name
    try:
        return folder.resolve().relative_to(root.resolve()).as_posix()
    except ValueError:
        return str(folder.resolve())


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def time_of(value: Any) -> datetime | None:
    """An ISO 8601 time, in UTC where it has no zone; None for all else."""
    try:
        found = datetime.fromisoformat(str(value).replace("Z", "+00:00"))
    except ValueError:
        return None
    return found.replace(tzinfo=timezone.utc) if found.tzinfo is None else found.astimezone(timezone.utc)


def utc(value: Any) -> str:
    """The time as ISO 8601 in UTC, '' where it is none."""
    found = time_of(value)
    return found.isoformat().replace("+00:00", "Z") if found else ""


def between(start: Any, end: Any) -> float | None:
    """Seconds from one time to another, None where one is unknown or they are the wrong way round."""
    begun, ended = time_of(start), time_of(end)
    if begun is None or ended is None or ended < begun:
        return None
    return (ended - begun).total_seconds()
