"""ATIF 1.0-1.8 (Agent Trajectory Interchange Format): a document, its continuations and its embedded sub-agents.

* A file that another file of its folder continues into is read with that one, never on its own; steps marked
  `is_copied_context` are kept and marked copied, so that they are counted once.
* Embedded sub-agents are trajectories of their own with `parent`; those in files of their own are found there.
* terminus-2 sends keystrokes to a terminal; one screen answers a whole batch of them. In raw mode its calls are
  JSON or XML in the message. OpenHands without function calling writes its calls into the message as well.
* Token ids and log probabilities are not touched.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..model import Call, Outcome, Result, Step, Trajectory
from ._atif_results import result_of
from ._calls import arguments_of, call_of
from ._common import said
from ._fields import listing, mapping, metrics, number, objects, seconds, string, text
from ._openhands import message_calls, task_in_example
from ._terminus import DONE_QUESTION, PARSE_ERROR, task_in_prompt, terminus_answer
from .source import Source

FORMAT = "atif"

OWN = "misstep"
"""The key under `extra` where atif_out keeps what ATIF has no field for."""
_HEAD = re.compile(r'"schema_version"\s*:\s*"ATIF-v1\.')
_BAD_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_MAX_FILE = 256 << 20
_MAX_CONTINUATIONS = 1000
_HANDOFF = re.compile(r"context summarization|Context summarization")


def _is_atif(document: Any) -> bool:
    return (
        isinstance(document, dict)
        and string(document.get("schema_version")).startswith("ATIF-v1.")
        and isinstance(document.get("steps"), list)
    )


def matches(source: Source) -> bool:
    """One ATIF document, or one a line."""
    # the version mostly comes first; a document that is sorted by key has it last
    if b"ATIF-v1." not in source.edges:
        return False
    document = source.document
    if document is not None:
        return _is_atif(document) or (isinstance(document, list) and any(_is_atif(item) for item in document[:3]))
    if any(_is_atif(record) for record in source.head[:3]):
        return True
    return bool(_HEAD.search(source.edges[:4096].decode("utf-8", "replace"))) and _is_atif(_repaired(source.data))


def read(source: Source) -> Iterator[Trajectory]:
    """Each document with its continuations, then its embedded sub-agents."""
    document = source.document
    if document is None and not source.records:
        document = _repaired(source.data)
        source.skipped["invalid escape in JSON mended"] += 1
    if document is None or isinstance(document, list):
        documents = [item for item in (document or source.records) if _is_atif(item)]
        source.skipped["not an ATIF record"] += len(document or source.records) - len(documents)
        source.skipped += type(source.skipped)()  # drops a count of 0
        for number_, item in enumerate(documents):
            yield from _trajectories(item, source, f"{source.path.stem}.{number_}", [])
        return
    if _first_of(source.path, document):
        source.skipped["continuation, read with the file that it continues"] += 1
        return
    yield from _trajectories(document, source, source.path.stem, _continuations(source, document))


def _repaired(data: bytes) -> Any:
    """The document after making lone backslashes (as redaction leaves them) literal, None where that does not help."""
    mended = _BAD_ESCAPE.sub(
        lambda m: m.group(0) if m.group(1) in '"\\/bfnrtu' else "\\\\" + m.group(1), data.decode("utf-8", "replace")
    )
    try:
        return json.loads(mended, strict=False)
    except (ValueError, RecursionError):
        return None


def _load(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _MAX_FILE:
            return {}
        return mapping(json.loads(path.read_bytes().decode("utf-8", "replace")))
    except (OSError, ValueError, RecursionError):
        return {}


def _next_path(path: Path, document: dict[str, Any]) -> Path | None:
    """The file that a document names as its continuation: only a name in the same folder is followed."""
    name = string(document.get("continued_trajectory_ref"))
    if not name or Path(name).name != name:
        return None
    return path.parent / name


def _first_of(path: Path, document: dict[str, Any]) -> bool:
    """Whether another file of the folder continues into this one."""
    marks = (".cont-" in path.name, "-cont-" in string(document.get("session_id")))
    copied = any(step.get("is_copied_context") for step in objects(document.get("steps"))[:2])
    if not any(marks) and not copied:
        return False
    try:
        siblings = sorted(p for p in path.parent.iterdir() if p.suffix == ".json" and p != path)
    except OSError:
        return False
    wanted = path.name.encode()
    for sibling in siblings:
        try:
            if sibling.stat().st_size > _MAX_FILE or wanted not in sibling.read_bytes():
                continue
        except OSError:
            continue
        if _next_path(sibling, _load(sibling)) == path:
            return True
    return False


def _continuations(source: Source, document: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    seen, path, current = {source.path}, source.path, document
    while len(found) < _MAX_CONTINUATIONS and current.get("continued_trajectory_ref"):
        following = _next_path(path, current)
        if following is None or following in seen:
            source.skipped["continuation that is not in the folder"] += 1
            break
        current = _load(following)
        if not _is_atif(current):
            source.skipped["continuation that is missing or damaged"] += 1
            break
        seen.add(following)
        found.append(current)
        path = following
    return found


def _trajectories(
    document: dict[str, Any], source: Source, name: str, more: list[dict[str, Any]], parent: str = ""
) -> Iterator[Trajectory]:
    agent = mapping(document.get("agent"))
    extra = mapping(agent.get("extra"))
    found = Trajectory(
        string(document.get("trajectory_id")) or string(document.get("session_id")) or name,
        FORMAT,
        string(agent.get("name")),
        agent_version=string(agent.get("version")),
        model=string(agent.get("model_name")),
        cwd=next((c for c in [extra.get("cwd"), *listing(extra.get("cwds"))] if isinstance(c, str)), ""),
        parent=parent or string(extra.get("parent_session_id")),
    )
    own = mapping(mapping(document.get("extra")).get(OWN))
    found.cwd, found.parent = string(own.get("cwd")) or found.cwd, string(own.get("parent")) or found.parent
    found.outcome = _own_outcome(mapping(own.get("outcome"))) if "outcome" in own else None
    found.extra = {"schema_version": document["schema_version"], "session_id": string(document.get("session_id"))}
    reading = _Reading(found)
    for part in [document, *more]:
        for step in listing(part.get("steps")):
            if isinstance(step, dict):
                reading.step(step)
            else:
                found.skipped["step that is no object"] += 1
    reading.finish()
    yield found
    for at, item in enumerate(sub for part in [document, *more] for sub in listing(part.get("subagent_trajectories"))):
        if _is_atif(item):
            yield from _trajectories(item, source, f"{name}.sub-{at}", [], found.id)
        else:
            source.skipped["sub-agent that is no ATIF document"] += 1


class _Reading:
    """ATIF steps in, steps out."""

    def __init__(self, trajectory: Trajectory) -> None:
        self.trajectory = trajectory
        self.agent = trajectory.agent.lower()
        self.terminus = self.agent.startswith("terminus")
        self.handed_off = False
        self.asked = False
        self.context: Step | None = None
        """A first message that only the harness's marks are in: it is the prompt unless a person's follows before any work."""

    def step(self, given: dict[str, Any]) -> None:
        source, message = string(given.get("source")), text(given.get("message"))
        if source not in ("system", "user", "agent"):
            self.trajectory.skipped["step of an unknown source"] += 1
            return
        step = Step(source, message, text(given.get("reasoning_content")), time=seconds(given.get("timestamp")))
        step.id = str(given.get("step_id") or "")
        step.copied = given.get("is_copied_context") is True
        step.model = string(given.get("model_name"))
        amounts = mapping(given.get("metrics"))
        step.metrics = metrics(
            **{k: amounts.get(k) for k in ("prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd")}
        )
        results = objects(mapping(given.get("observation")).get("results"))
        if source == "agent":
            self.handed_off = self.handed_off and step.copied
            self.context = None
            self._agent(step, given, results)
        elif source == "user":
            self._user(step)
        else:
            refs = any(listing(r.get("subagent_trajectory_ref")) for r in results)
            step.compacted = bool(_HANDOFF.search(message)) and (refs or self.terminus)
            self.handed_off = step.compacted or self.handed_off
        _own_step(step, mapping(mapping(given.get("extra")).get(OWN)))
        self.trajectory.steps.append(step)

    def _user(self, step: Step) -> None:
        if self.handed_off and not step.copied:
            return  # what the summarised context is continued with is the harness's text
        kept = said(step.message)
        step.prompt = bool(kept) or (bool(step.message.strip()) and not self.asked)
        if not step.prompt:
            return
        if kept and self.context is not None:
            self.context.prompt = False
        self.context = None if kept else step
        self.asked = self.asked or not step.copied
        step.message = task_in_prompt(step.message) if self.terminus else task_in_example(kept or step.message)

    def _agent(self, step: Step, given: dict[str, Any], results: list[dict[str, Any]]) -> None:
        for at, item in enumerate(objects(given.get("tool_calls"))):
            name = string(item.get("function_name")) or "unknown"
            call = call_of(
                string(item.get("tool_call_id")) or f"{step.id}.{at}", name, arguments_of(item.get("arguments"))
            )
            _own_fields(call, mapping(mapping(item.get("extra")).get(OWN)))
            step.calls.append(call)
        seen = "\n".join(text(result.get("content")) for result in results)
        if not step.calls and PARSE_ERROR not in seen and OWN not in mapping(given.get("extra")):
            self._calls_in_message(step)
        for call in step.calls:
            if self.terminus and call.tool == "bash_command":
                call.timeout = None
        self._results(step, results)
        finished = [call for call in step.calls if call.kind == "finish"]
        if finished:
            step.stop = DONE_QUESTION not in seen
        elif results and not step.calls:
            step.stop = False

    def _calls_in_message(self, step: Step) -> None:
        if self.terminus:
            answered = terminus_answer(Step("agent", calls=step.calls), step.message, step.id)
            if answered and not step.calls:
                step.stop = False
            return
        step.calls.extend(message_calls(step.message, step.id))

    def _results(self, step: Step, given: list[dict[str, Any]]) -> None:
        by_id = {call.id: call for call in step.calls}
        loose = []
        for item in given:
            call = by_id.get(string(item.get("source_call_id")))
            if call is None:
                loose.append(item)
                continue
            result = result_of(call, text(item.get("content")), mapping(item.get("extra")), self.agent)
            _own_fields(result, mapping(mapping(item.get("extra")).get(OWN)))
            before = step.results.get(call.id)
            if before is not None:
                result.output = f"{before.output}\n{result.output}"
            step.results[call.id] = result
        loose = [item for item in loose if item.get("content") is not None]
        waiting = [call for call in step.calls if call.id not in step.results]
        if not loose or not waiting:
            return
        if len(loose) == len(waiting):
            pairs = list(zip(waiting, loose, strict=False))
        elif len(loose) == 1:
            # the screen after a batch shows its last keys, not the finish call that may follow them
            pairs = [(([c for c in waiting if c.kind != "finish"] or waiting)[-1], loose[0])]
        else:
            self.trajectory.skipped["results that belong to no call"] += len(loose)
            return
        for call, item in pairs:
            result = result_of(call, text(item.get("content")), mapping(item.get("extra")), self.agent)
            result.shared = len(pairs) < len(waiting)
            _own_fields(result, mapping(mapping(item.get("extra")).get(OWN)))
            step.results[call.id] = result

    def finish(self) -> None:
        """A terminus run that was confirmed as complete ended there; one that was not ended some other way."""
        if self.terminus:
            for step in self.trajectory.steps:
                if step.source == "agent" and step.stop is None and (step.calls or self.agent == "terminus-2"):
                    step.stop = False


_TYPES: dict[str, tuple[type, ...]] = {
    "kind": (str,),
    "command": (str, type(None)),
    "background": (bool,),
    "timeout": (float, int, type(None)),
    "cwd": (str, type(None)),
    "exit_code": (int, type(None)),
    "failed": (bool, type(None)),
    "fault": (str, type(None)),
    "truncated": (bool,),
    "shared": (bool,),
    "running": (bool,),
    "timed_out": (bool,),
    "seconds": (float, int, type(None)),
}


def _own_fields(target: Call | Result, own: dict[str, Any]) -> None:
    """What atif_out kept of a call or result."""
    names = set(target.__match_args__)
    for name, value in own.items():
        if name in names and name in _TYPES and isinstance(value, _TYPES[name]):
            setattr(target, name, value)
    if isinstance(target, Call):
        if "paths" in own:
            target.paths = tuple(p for p in listing(own["paths"]) if isinstance(p, str))
        if "edits" in own:
            triples = [tuple(e) for e in listing(own["edits"]) if isinstance(e, list) and len(e) == 3]
            target.edits = tuple(e for e in triples if all(isinstance(part, str) for part in e))


def _own_outcome(own: dict[str, Any]) -> Outcome:
    found = Outcome(
        reward=number(own.get("reward")), cost_usd=number(own.get("cost_usd")), seconds=number(own.get("seconds"))
    )
    found.passed = own["passed"] if isinstance(own.get("passed"), bool) else None
    found.task, found.attempt, found.exception = (string(own.get(name)) for name in ("task", "attempt", "exception"))
    found.fault = own["fault"] if own.get("fault") in ("infrastructure", "never-ran") else None
    return found


def _own_step(step: Step, own: dict[str, Any]) -> None:
    for name in ("prompt", "interrupted", "compacted", "copied"):
        if isinstance(own.get(name), bool):
            setattr(step, name, own[name])
    if "stop" in own and (own["stop"] is None or isinstance(own["stop"], bool)):
        step.stop = own["stop"]
    if isinstance(own.get("message"), str):
        step.message = own["message"]
    if isinstance(own.get("id"), str):
        step.id = own["id"]
    step.extra = mapping(own.get("extra"))
