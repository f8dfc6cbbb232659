"""Harbor trial folders: the outcome in result.json, the steps in agent/ (ATIF, or the agent's own session files).

A job folder is not read as such: the walk goes down to its trials. What an exception says of the attempt follows
Harbor's own error policy as recorded with it, or its table: an agent that ran out of time was graded, a verifier that
did was not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..model import Outcome, Trajectory
from ._fields import between, integer, mapping, metrics, number, objects, seconds, string
from .source import Source, Unreadable, reader_of, units
from .source import read as read_unit

FORMAT = "harbor"

_UNGRADED = frozenset(
    [
        "EnvironmentStartTimeoutError",
        "SandboxBuildFailedError",
        "AgentSetupTimeoutError",
        "HealthcheckError",
        "SandboxLikelyOutOfMemoryError",
        "MemoryLimitExceededError",
        "SSHAccessError",
        "GKEExecStreamClosedError",
        "GKEPodNotFoundError",
        "RuntimeRequestError",
        "AddTestsDirError",
        "DownloadVerifierDirError",
        "ApiError",
        "ApiRateLimitError",
        "ApiInternalServerError",
        "ApiOverloadedError",
        "ApiConnectionClosedError",
        "ApiResponseStalledError",
        "UnknownApiError",
        "NetworkConnectionError",
        "ApiConnectionError",
        "ApiUsageLimitError",
        "RateLimitError",
        "InternalServerError",
        "ServiceUnavailableError",
        "APIConnectionError",
        "APIError",
        "Timeout",
        "UnsupportedModelParametersError",
        "BadRequestError",
        "UnprocessableEntityError",
        "UnsupportedParamsError",
        "APIResponseValidationError",
        "BudgetExceededError",
        "VerifierTimeoutError",
        "RewardFileNotFoundError",
        "RewardFileEmptyError",
        "VerifierOutputParseError",
        "AgentAuthenticationError",
        "ModelNotFoundError",
        "ApiProviderResourceNotFoundError",
        "AuthenticationError",
        "PermissionDeniedError",
        "NotFoundError",
        "ServiceOperationsUnsupportedError",
        "VercelScopeError",
        "DspyImportError",
        "MissingExtraError",
        "RegradeError",
        "CancelledError",
    ]
)
"""Exceptions after which Harbor 0.26 holds no reward for valid."""
_AGENTS_OWN = frozenset(
    [
        "AgentTimeoutError",
        "NonZeroAgentExitCodeError",
        "ContextWindowExceededError",
        "OutputTokenExceededError",
        "ContextLengthExceededError",
        "OutputLengthExceededError",
        "AgentSafetyRefusalError",
        "ContentPolicyViolationError",
    ]
)
"""Exceptions that are the agent's own end."""
_NOT_STARTED = "Command failed (exit 127):"
"""How Harbor's message begins where the shell did not find the agent's program."""
_MAX_FILE = 64 << 20


def _load(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _MAX_FILE:
            return {}
        return mapping(json.loads(path.read_bytes().decode("utf-8", "replace")))
    except (OSError, ValueError, RecursionError):
        return {}


def _is_trial(document: dict[str, Any]) -> bool:
    return (
        isinstance(document.get("trial_name"), str)
        and isinstance(document.get("task_name"), str)
        and ("task_checksum" in document or "agent_info" in document)
    )


def matches(source: Source) -> bool:
    """A trial's result.json given by itself."""
    return b'"trial_name"' in source.edges and _is_trial(mapping(source.document))


def matches_folder(folder: Path, names: frozenset[str]) -> bool:
    """A folder whose result.json is that of a trial."""
    return "result.json" in names and _is_trial(_load(folder / "result.json"))


def read(source: Source) -> Iterator[Trajectory]:
    """The agent's trajectory with the outcome, then those of its sub-agents; without a record, the outcome alone."""
    folder = source.path if source.path.is_dir() else source.path.parent
    result = _load(folder / "result.json") if source.path.is_dir() else mapping(source.document)
    info = mapping(result.get("agent_info"))
    parts = [(folder / "agent", _outcome(result, result))]
    for part in objects(result.get("step_results")):
        name = string(part.get("step_name"))
        if name and Path(name).name == name:
            outcome = _outcome(result, part)
            outcome.task += f":{name}"
            parts.append((folder / "steps" / name / "agent", outcome))
    found = 0
    for place, outcome in parts:
        identity = string(result.get("id")) or string(result.get("trial_name"))
        if found:
            identity = f"{identity}.{place.parent.name}"
        for trajectory in _identified(_recorded(place, source), identity):
            if not trajectory.parent:
                trajectory.outcome = outcome
            trajectory.agent = trajectory.agent or string(info.get("name"))
            trajectory.agent_version = trajectory.agent_version or string(info.get("version"))
            trajectory.model = trajectory.model or string(mapping(info.get("model_info")).get("name"))
            trajectory.path = trajectory.path or str(folder)
            found += 1
            yield trajectory
    if not found:
        empty = Trajectory(
            string(result.get("id")) or string(result.get("trial_name")),
            FORMAT,
            string(info.get("name")),
            path=str(folder),
            agent_version=string(info.get("version")),
            model=string(mapping(info.get("model_info")).get("name")),
            outcome=parts[0][1],
        )
        yield empty


def _identified(found: list[Trajectory], identity: str) -> list[Trajectory]:
    """The first root gets the trial's identity, and its sub-agents know it by that."""
    roots = [t for t in found if not t.parent]
    for at, root in enumerate(roots):
        old, new = root.id, identity if at == 0 else f"{identity}.{at}"
        root.id = new
        for trajectory in found:
            if trajectory.parent == old:
                trajectory.parent = new
    return [*roots, *(t for t in found if t.parent)]


def _recorded(place: Path, source: Source) -> list[Trajectory]:
    """The trajectories in an agent's folder: ATIF where there is any, else session files, else printed event streams."""
    if not place.is_dir():
        return []
    by_rank: dict[int, list[Source]] = {}
    for path in units([place]):
        unit = Source(path)
        try:
            module = reader_of(unit)
        except Unreadable:
            source.skipped["unreadable file in agent/"] += 1
            continue
        if module is None or module.FORMAT == FORMAT:
            continue
        inside = path.relative_to(place).parts[:-1]
        rank = 0 if module.FORMAT == "atif" and not inside else 1 if inside else 2
        by_rank.setdefault(rank, []).append(unit)
    for rank in sorted(by_rank):
        found = []
        for unit in by_rank[rank]:
            try:
                found += list(read_unit(unit))
            except Unreadable:
                for reason, count in unit.skipped.items():
                    source.skipped[reason] += count
        if any(step.source == "agent" for trajectory in found for step in trajectory.steps):
            return found
    return []


def _exceptions(result: dict[str, Any], part: dict[str, Any]) -> list[dict[str, Any]]:
    found = [mapping(part.get("exception_info"))]
    if part is not result:
        found.append(mapping(result.get("exception_info")))
    else:
        found += [mapping(step.get("exception_info")) for step in objects(result.get("step_results"))]
    return [item for item in found if string(item.get("exception_type"))]


def _graded(exception: dict[str, Any]) -> bool:
    """Whether a reward stands after this exception: as recorded with it, else by Harbor's table."""
    recorded = mapping(exception.get("policy")).get("has_valid_reward")
    override = mapping(exception.get("policy_override")).get("has_valid_reward")
    for value in (override, recorded):
        if isinstance(value, bool):
            return value
    return string(exception.get("exception_type")) not in _UNGRADED


def _unknown(exception: dict[str, Any]) -> bool:
    """Whether neither Harbor nor the user who ran it said what this exception means."""
    if isinstance(mapping(exception.get("policy_override")).get("has_valid_reward"), bool):
        return False
    return string(exception.get("exception_type")) not in _UNGRADED | _AGENTS_OWN


def _fault(result: dict[str, Any], exceptions: list[dict[str, Any]], reward: bool) -> str | None:
    started = any(
        seconds(mapping(run.get("agent_execution")).get("started_at")) is not None
        for run in [result, *objects(result.get("step_results"))]
    )
    for exception in exceptions:
        name, message = string(exception.get("exception_type")), string(exception.get("exception_message"))
        if not _graded(exception):
            return "infrastructure"
        if name == "NonZeroAgentExitCodeError" and message.startswith(_NOT_STARTED):
            return "never-ran"
        if name not in _AGENTS_OWN and not started:
            return "never-ran"
        if name not in _AGENTS_OWN and not reward:
            return "infrastructure"
    return None


def outcome(result: dict[str, Any]) -> Outcome:
    """How a whole trial was judged, all its steps together: from the content of its result.json.

    extra: `exceptions`, the types of all that were recorded; `unexplained`, those of which neither Harbor nor the user
    who ran it says what they mean for the attempt.
    """
    return _outcome(result, result)


def _outcome(result: dict[str, Any], part: dict[str, Any]) -> Outcome:
    rewards = {
        k: v for k, v in mapping(mapping(part.get("verifier_result")).get("rewards")).items() if number(v) is not None
    }
    reward = number(rewards.get("reward")) if "reward" in rewards else None
    if reward is None and len(rewards) == 1:
        reward = number(next(iter(rewards.values())))
    exceptions = _exceptions(result, part)
    fault = _fault(result, exceptions, bool(rewards))
    passed = None
    if reward is not None and fault != "infrastructure":
        # between 0 and 1 nothing says what counts as passed; and Harbor grades after an exception that it does not
        # know, so that a failure may be the exception's doing
        passed = True if reward >= 1 else False if reward <= 0 and not any(map(_unknown, exceptions)) else None
    contexts = [mapping(part.get("agent_result"))]
    if part is result and not contexts[0]:
        contexts = [mapping(step.get("agent_result")) for step in objects(result.get("step_results"))]
    costs = [cost for context in contexts for cost in [number(context.get("cost_usd"))] if cost is not None]
    tokens = {
        name: sum(integer(context.get(key)) or 0 for context in contexts)
        for name, key in (("prompt_tokens", "n_input_tokens"), ("completion_tokens", "n_output_tokens"))
        if any(integer(context.get(key)) is not None for context in contexts)
    }
    checksum = string(result.get("task_checksum"))
    first = exceptions[0] if exceptions else {}
    return Outcome(
        passed=passed,
        reward=reward,
        task=string(result.get("task_name")) + (f"@{checksum}" if checksum else ""),
        attempt=string(result.get("trial_name")),
        fault=fault,
        exception=string(first.get("exception_type")),
        cost_usd=sum(costs) if costs else None,
        seconds=_seconds(part, "agent_execution") or between(part.get("started_at"), part.get("finished_at")),
        extra={
            "rewards": rewards,
            "exception_message": string(first.get("exception_message"))[:500],
            "exceptions": [string(exception.get("exception_type")) for exception in exceptions],
            "unexplained": [string(exception.get("exception_type")) for exception in exceptions if _unknown(exception)],
            "dataset": string(result.get("source")),
            **metrics(**tokens),
        },
    )


def _seconds(part: dict[str, Any], phase: str) -> float | None:
    times = mapping(part.get(phase))
    return between(times.get("started_at"), times.get("finished_at"))
