"""Claude Code: session files (~/.claude/projects/*/*.jsonl), sub-agents among them, and `claude -p --output-format stream-json`.

One API message is written as several lines with the same `message.id`, one block each: they are one step.
Results are matched by tool use id. Sub-agents are in files of their own (`isSidechain`, `agentId`), in
`progress` lines of the parent, or, in a stream, marked by `parent_tool_use_id`: each is a trajectory.
A session that was resumed is in several files as growing prefixes: `Step.id` is the uuid that finds the copies.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..model import Call, Step, Trajectory
from ._claude import call_of, measure, result_of
from ._common import INTERRUPTED, is_harness_text, said, text_of, time_of
from ._fields import listing, mapping, number, parsed, string
from .source import Source

FORMAT = "claude-code"

_TYPES = frozenset(
    {
        "user",
        "assistant",
        "system",
        "summary",
        "attachment",
        "progress",
        "result",
        "file-history-snapshot",
        "queue-operation",
    }
)
_TURN_ENDS = frozenset({"stop_hook_summary", "turn_duration"})
_AFTER_STOP = ("Stop hook feedback:", "Stop hook blocking error", "<task-notification>")


def matches(source: Source) -> bool:
    """A JSONL file with Claude Code's records in its head, or one such record, or a JSON list of a stream's."""
    return any(_is_record(r) for r in source.head or _of_document(source))


def _of_document(source: Source) -> list[dict[str, Any]]:
    value = source.document
    if isinstance(value, dict):
        return [value] if "type" in value else []
    return [r for r in value if isinstance(r, dict)] if isinstance(value, list) else []


def _is_record(record: dict[str, Any]) -> bool:
    kind = string(record.get("type"))
    if kind not in _TYPES:
        return False
    if kind in ("user", "assistant"):
        message = record.get("message")
        return (
            isinstance(message, dict)
            and "content" in message
            and "role" in message
            and ("sessionId" in record or "session_id" in record or "isSidechain" in record)
        )
    if kind == "summary":
        return "leafUuid" in record
    if kind == "file-history-snapshot":
        return "messageId" in record
    if kind == "system":
        return "isSidechain" in record or (record.get("subtype") == "init" and "session_id" in record)
    if kind == "result":
        return "session_id" in record and "num_turns" in record
    return "sessionId" in record


def read(source: Source) -> Iterator[Trajectory]:
    """The session's own trajectory first, where it has one, then its sub-agents'."""
    session = _Session(source)
    # The first record of a session has no parent: a file whose first one names a parent begins in the middle.
    first = next((record for record in source.head if "parentUuid" in record), None)
    if first is not None and first["parentUuid"] and not first.get("isSidechain"):
        session.thread("").late = True
    records = source.stream(_is_noise) if source.head else enumerate(_of_document(source), 1)
    for number_, record in records:
        session.add(record, number_)
    yield from session.finish()


def _is_noise(line: bytes) -> bool:
    """Whether a line is none of the conversation, told without parsing it (40% of a session's lines)."""
    if line.startswith(b'{"type":"file-history-snapshot"'):
        return True
    at = line.find(b'"type":"progress"', 0, 1000)
    if at < 0 or b'"agent_progress"' in line:
        return False
    before = line.find(b'"message"', 0, at)
    return before < 0


class _Session:
    """Sorts a file's records into threads: the main one and one a sub-agent."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.threads: dict[str, _Thread] = {}
        self.chains: dict[str, str] = {}
        """uuid of a record of a side chain that names no agent -> key of its thread."""
        self.id = ""

    def add(self, record: dict[str, Any], line: int) -> None:
        kind = string(record.get("type"))
        if not self.id:
            self.id = string(record.get("sessionId")) or string(record.get("session_id"))
        if kind == "progress":
            data = mapping(record.get("data"))
            inner = data.get("message")
            if data.get("type") == "agent_progress" and isinstance(inner, dict):
                key = string(data.get("agentId")) or string(record.get("parentToolUseID")) or "agent"
                whole = dict(inner, cwd=record.get("cwd"), version=record.get("version"))
                self.thread(key).add(whole, line)
            return
        if kind not in _TYPES and not isinstance(record.get("message"), dict):
            if kind not in _SILENT:
                self.source.skipped[f"unknown record: {str(kind)[:40]}"] += 1
            return
        self.thread(self.key_of(record)).add(record, line)

    def key_of(self, record: dict[str, Any]) -> str:
        if "session_id" in record and "sessionId" not in record:
            return string(record.get("parent_tool_use_id"))
        if not record.get("isSidechain"):
            return ""
        if record.get("agentId"):
            return string(record["agentId"])
        own, parent = string(record.get("uuid")), string(record.get("parentUuid"))
        key = self.chains.get(parent) or own or "sidechain"
        self.chains[own] = key
        return key

    def thread(self, key: str) -> _Thread:
        found = self.threads.get(key)
        if found is None:
            found = self.threads[key] = _Thread(self.source, key)
        return found

    def finish(self) -> Iterator[Trajectory]:
        name = self.id or self.source.path.stem
        found = [self.threads[key].finish(name, self.source.cut) for key in sorted(self.threads, key=bool)]
        done = [trajectory for trajectory in found if trajectory is not None]
        if done:
            # What could not be used in the file is told once.
            done[0].skipped = self.source.skipped.copy()
        return iter(done)


_SILENT = frozenset(
    {
        "api-request",
        "api-request-shape",
        "atis-latch",
        "pr-link",
        "last-prompt",
        "tools-used",
        "ai-title",
        "custom-title",
        "agent-name",
        "agent-setting",
        "agent-color",
        "permission-mode",
        "tag",
        "mode",
        "cost-state",
        "content-replacement",
        "worktree-state",
        "stream_event",
        "rate_limit_event",
        "tool_progress",
        "task-summary",
        "attribution-snapshot",
        "speculation-accept",
        "marble-origami-commit",
        "marble-origami-snapshot",
    }
)
"""Record types that tell nothing of what the agent did."""


class _Thread:
    """Builds one trajectory, record by record."""

    def __init__(self, source: Source, key: str) -> None:
        self.source = source
        self.key = key
        self.steps: list[Step] = []
        self.by_message: dict[str, Step] = {}
        self.open: dict[str, tuple[Step, Call]] = {}
        """Calls that wait for their result, by tool use id."""
        self.early: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
        """(block, record) of results that came before their call was written."""
        self.seen: set[str] = set()
        self.late = False
        """The record begins in the middle of the session."""
        self.cwd = ""
        self.model = ""
        self.version = ""
        self.cost: float | None = None

    def add(self, record: dict[str, Any], line: int) -> None:
        kind, uuid = record.get("type"), string(record.get("uuid"))
        if uuid:
            if uuid in self.seen:
                self.source.skipped["duplicate record"] += 1
                return
            self.seen.add(uuid)
        if not self.cwd:
            self.cwd = string(record.get("cwd"))
        if kind == "assistant":
            self.assistant(record, line)
        elif kind == "user":
            self.user(record, line)
        elif kind == "system":
            self.system(record, line)
        elif kind == "attachment":
            self.attachment(record, line)
        elif kind == "result":
            self.cost = number(record.get("total_cost_usd"))
            if record.get("subtype") == "success" and not record.get("is_error"):
                self.ends_turn()
        if not self.version:
            self.version = string(record.get("version")) or string(record.get("claude_code_version"))

    def step(self, source: str, record: dict[str, Any], line: int, message: str = "") -> Step:
        step = Step(source, message, time=time_of(record.get("timestamp")), id=string(record.get("uuid")))
        step.extra["line"] = line
        self.steps.append(step)
        return step

    def assistant(self, record: dict[str, Any], line: int) -> None:
        message = mapping(record.get("message"))
        model = string(message.get("model"))
        if model == "<synthetic>" or record.get("isApiErrorMessage"):
            self.step("system", record, line, text_of(message.get("content"))).extra["harness"] = "synthetic"
            return
        key = string(message.get("id"))
        step = self.by_message.get(key) if key else None
        if step is None:
            step = self.step("agent", record, line)
            step.model = model
            if key:
                self.by_message[key] = step
        if model:
            self.model = model
        usage = message.get("usage")
        if isinstance(usage, dict):
            measure(step, usage)
        reason = message.get("stop_reason")
        if reason in ("tool_use", "max_tokens", "pause_turn"):
            step.stop = False
        elif reason in ("end_turn", "stop_sequence"):
            step.stop = True
        content = message.get("content")
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else listing(content):
            kind = string(block.get("type")) if isinstance(block, dict) else ""
            if kind == "text":
                text = string(block.get("text"))
                if text.strip():
                    step.message = f"{step.message}\n{text}" if step.message else text
            elif kind == "tool_use":
                self.call(step, block, record)
            elif kind == "thinking":
                text = string(block.get("thinking"))
                if text:
                    step.reasoning = f"{step.reasoning}\n{text}" if step.reasoning else text
            elif kind not in _QUIET_BLOCKS:
                self.source.skipped[f"unknown block: {str(kind)[:40]}"] += 1

    def call(self, step: Step, block: dict[str, Any], record: dict[str, Any]) -> None:
        call = call_of(block, record.get("cwd"))
        if any(c.id == call.id for c in step.calls):
            return
        step.calls.append(call)
        step.stop = False
        early = self.early.pop(call.id, None)
        if early is not None:
            step.results[call.id] = result_of(*early, call.kind)
        elif call.id:
            self.open[call.id] = (step, call)

    def user(self, record: dict[str, Any], line: int) -> None:
        content = mapping(record.get("message")).get("content")
        if isinstance(content, str):
            self.said(content, record, line)
            return
        texts = []
        for block in listing(content):
            kind = string(block.get("type")) if isinstance(block, dict) else ""
            if kind == "tool_result":
                self.result(block, record)
            elif kind == "text":
                text = string(block.get("text"))
                if text.startswith(INTERRUPTED):
                    self.step("user", record, line, text).interrupted = True
                else:
                    texts.append(text)
            elif kind in ("image", "document"):
                texts.append(f"[{kind}]")
        if texts:
            self.said("\n".join(texts), record, line)

    def said(self, text: str, record: dict[str, Any], line: int) -> None:
        """A text with the role of a user: a person's prompt, or one of the many that the harness writes so."""
        if text.startswith(INTERRUPTED):
            self.step("user", record, line, text).interrupted = True
            return
        if record.get("isCompactSummary"):
            fresh = not self.steps or not self.steps[-1].compacted
            self.step("user", record, line, text).compacted = fresh
            return
        own = not record.get("isMeta") and record.get("promptSource") != "system" and "origin" not in record
        if "origin" in record:
            own = not record.get("isMeta") and mapping(record["origin"]).get("kind") in ("human", "user", None)
        spoken = said(text) if own else ""
        if not spoken and (text.startswith(_AFTER_STOP) or (own and is_harness_text(text))):
            self.ends_turn()
        self.step("user", record, line, spoken or text).prompt = bool(spoken)

    def system(self, record: dict[str, Any], line: int) -> None:
        kind = string(record.get("subtype"))
        if kind in ("compact_boundary", "microcompact_boundary"):
            step = self.step("system", record, line, string(record.get("content")))
            step.compacted = True
            step.extra["compaction"] = kind
        elif kind in _TURN_ENDS:
            self.ends_turn()
        elif kind == "api_error":
            self.step("system", record, line, _error_text(record)).extra["harness"] = "api_error"

    def attachment(self, record: dict[str, Any], line: int) -> None:
        attachment = mapping(record.get("attachment"))
        if attachment.get("type") == "queued_command" and attachment.get("commandMode", "prompt") == "prompt":
            # What a person typed while the agent was at work.
            spoken = said(text_of(attachment.get("prompt")))
            if spoken and mapping(attachment.get("origin")).get("kind") in (None, "human", "user"):
                self.step("user", record, line, spoken).prompt = True

        elif attachment.get("hookEvent") == "PreToolUse" and "updatedInput" in string(attachment.get("stdout")):
            # A hook put another input in the place of the agent's: the result belongs to that.
            waiting = self.open.get(string(attachment.get("toolUseID")))
            output = mapping(mapping(parsed(attachment["stdout"])).get("hookSpecificOutput"))
            if waiting is not None and isinstance(output.get("updatedInput"), dict):
                waiting[0].extra.setdefault("rewritten", {})[waiting[1].id] = output["updatedInput"]

    def ends_turn(self) -> None:
        """The turn ended here: the last step of the agent was its stop, if it is a message."""
        for step in reversed(self.steps):
            if step.source == "agent":
                if step.message and not step.calls:
                    step.stop = True
                return
            if step.interrupted or step.prompt or step.extra.get("harness"):
                return

    def result(self, block: dict[str, Any], record: dict[str, Any]) -> None:
        key = string(block.get("tool_use_id"))
        found = self.open.pop(key, None)
        if found is None:
            if key in self.early or not key:
                self.source.skipped["result without a call"] += 1
            else:
                self.early[key] = (block, record)
            return
        step, call = found
        step.results[key] = result_of(block, record, call.kind)

    def finish(self, session: str, cut: bool) -> Trajectory | None:
        if self.early:
            self.source.skipped["result without a call"] += len(self.early)
        if not any(s.source != "system" for s in self.steps):
            return None
        last = self.steps[-1]
        if cut and last.source == "agent" and last.stop is None:
            # The rest of this message may have been lost with the end of the file.
            last.stop = False
        trajectory = Trajectory(
            f"{session}/{self.key}" if self.key else session,
            FORMAT,
            "claude-code",
            self.steps,
            str(self.source.path),
            self.version,
            self.model,
            self.cwd,
            session if self.key else "",
            late=self.late,
        )
        if self.cost is not None:
            trajectory.extra["cost_usd"] = self.cost
        return trajectory


_QUIET_BLOCKS = frozenset(
    {
        "redacted_thinking",
        "server_tool_use",
        "web_search_tool_result",
        "web_fetch_tool_result",
        "code_execution_tool_result",
        "image",
        "mcp_tool_use",
        "mcp_tool_result",
        "fallback",
        "tool_reference",
    }
)


def _error_text(record: dict[str, Any]) -> str:
    error = record.get("error")
    return string(mapping(error).get("message")) or string(record.get("content")) or "API error"
