"""Codex CLI rollouts (~/.codex/sessions/**/rollout-*.jsonl) of all ages.

Before 0.32 the lines are bare response items; later each is {timestamp, type, payload}. Messages and reasoning
occur twice, as `response_item` and as `event_msg`: the items are read, the events only say which user messages a
person wrote and how commands ended. A child's file may begin with a copy of its parent's (`copied`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ..model import Call, Result, Step, Trajectory
from ._codex_calls import Made, measure, nested_calls, parent_of, provenance_of, read_call
from ._codex_output import result_of, session_of
from ._common import said, shell_text, text_of, time_of
from ._fields import integer, listing, mapping, number, string
from .source import Source

FORMAT = "codex"

_WRAPPED = frozenset(
    {"session_meta", "response_item", "event_msg", "turn_context", "compacted", "token_usage_record", "world_state"}
)
_BARE = frozenset(
    {"message", "reasoning", "function_call", "function_call_output", "local_shell_call", "custom_tool_call"}
)
_CELL = re.compile(r"\AScript running with cell ID (\S+)")


def matches(source: Source) -> bool:
    """A JSONL file with Codex's records in its head, or a JSON list of such records, or one."""
    return any(_is_record(r) for r in source.head or _of_document(source))


def _of_document(source: Source) -> list[dict[str, Any]]:
    value = source.document
    if isinstance(value, dict):
        return [value] if "type" in value else []
    return [r for r in value if isinstance(r, dict)] if isinstance(value, list) else []


def _is_record(record: dict[str, Any]) -> bool:
    kind = string(record.get("type")) if "type" in record else None
    if isinstance(record.get("payload"), dict):
        return kind in _WRAPPED
    if kind is None:
        return (
            "record_type" in record
            or ("instructions" in record and "timestamp" in record and isinstance(record.get("id"), str))
        ) and "messages" not in record
    if kind not in _BARE or "sessionId" in record or "parentId" in record:
        return False
    return "call_id" in record or ("role" in record and isinstance(record.get("content"), list)) or "summary" in record


def read(source: Source) -> Iterator[Trajectory]:
    """One trajectory: a sub-agent has a file of its own."""
    session = _Session(source)
    for line, record in source.stream() if source.head else enumerate(_of_document(source), 1):
        payload = record.get("payload")
        if isinstance(payload, dict):
            session.add(string(record.get("type")), payload, record, line)
        elif "type" in record:
            session.add("response_item", record, record, line)
        elif "record_type" not in record:
            session.add("session_meta", record, record, line)
    found = session.finish()
    if found is not None:
        yield found


class _Session:
    """Builds the trajectory, record by record."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.steps: list[Step] = []
        self.current: Step | None = None
        """The agent's step that still takes items."""
        self.meta: dict[str, Any] = {}
        self.model = ""
        self.cwd = ""
        self.calls: dict[str, tuple[Step, Call]] = {}
        self.ended: dict[str, dict[str, Any]] = {}
        """How commands ended, by call id, from events that came before their output."""
        self.nested: dict[str, list[Made]] = {}
        """Commands that a code-mode script ran, recorded one by one since the script started."""
        self.script = ""
        """Call id of the code-mode script that runs."""
        self.cells: dict[str, str] = {}
        """Cell id -> call id of a script that goes on."""
        self.terminals: dict[str, str] = {}
        """Terminal session id -> call id of a command that goes on."""
        self.written: set[str] = set()
        """Texts that an event says a person wrote."""
        self.usage: dict[str, Any] | None = None
        self.total: Any = None
        self.records = False
        """Usage comes in records of its own."""
        self.copied_below = -1
        self.born = 0.0
        """When a fork or a sub-agent began: what is older was copied."""

    def add(self, kind: str, payload: dict[str, Any], record: dict[str, Any], line: int) -> None:
        time = time_of(record.get("timestamp"))
        before = len(self.steps)
        if kind == "response_item":
            self.item(payload, time, line)
        elif kind == "event_msg":
            self.event(payload, time, line)
        elif kind == "session_meta":
            if not self.meta:
                self.meta = payload
                self.cwd = string(payload.get("cwd"))
                base = mapping(payload.get("history_base"))
                start = payload.get("subagent_history_start_ordinal", base.get("end_ordinal_exclusive"))
                self.copied_below = integer(start) or -1
                if payload.get("forked_from_id") or parent_of(payload):
                    self.born = time_of(payload.get("timestamp")) or 0.0
        elif kind == "turn_context":
            self.model = string(payload.get("model")) or self.model
            self.cwd = string(payload.get("cwd")) or self.cwd
        elif kind == "compacted":
            self.compacted(time, line, string(payload.get("message")))
        elif kind == "token_usage_record":
            self.records = True
            self.measure(mapping(payload.get("usage")))
            if self.current is not None and not self.current.results:
                self.current.extra["closed"] = True
        elif kind not in ("world_state", "session_state", "ghost_snapshot"):
            self.source.skipped[f"unknown record: {kind[:40]}"] += 1
        ordinal = integer(record.get("ordinal"))
        if (ordinal is not None and ordinal < self.copied_below) or (time is not None and time < self.born):
            for step in self.steps[before:]:
                step.copied = True

    # -- steps -----------------------------------------------------------------------------------------------

    def step(self, source: str, time: float | None, line: int, message: str = "", key: str = "") -> Step:
        step = Step(source, message, time=time, id=key or f"{self.meta.get('id', '')}:{line}", extra={"line": line})
        self.steps.append(step)
        self.current = None
        return step

    def agent(self, payload: dict[str, Any], time: float | None, line: int) -> Step:
        """The step that a model's item belongs to: a new one after results, or after the response's usage."""
        current = self.current
        if current is not None and not current.results and not current.extra.get("closed"):
            return current
        step = self.step("agent", time, line, key=string(payload.get("id")) or string(payload.get("call_id")))
        step.model = self.model
        self.current = step
        if self.usage is not None:
            measure(step, self.usage)
            self.usage = None
        return step

    def measure(self, usage: dict[str, Any]) -> None:
        if not usage:
            return
        if self.current is not None and not self.current.metrics:
            measure(self.current, usage)
        else:
            self.usage = usage

    def compacted(self, time: float | None, line: int, text: str = "") -> None:
        if not self.steps or not self.steps[-1].compacted:
            self.step("system", time, line, text).compacted = True

    def ends_turn(self) -> None:
        for step in reversed(self.steps):
            if step.source == "agent":
                if step.message and not step.calls:
                    step.stop = True
                return
            if step.interrupted or step.prompt:
                return

    # -- response items --------------------------------------------------------------------------------------

    def item(self, payload: dict[str, Any], time: float | None, line: int) -> None:
        kind = string(payload.get("type"))
        if kind == "message":
            self.message(payload, time, line)
        elif kind == "reasoning":
            texts = [text_of(payload.get("summary")), text_of(payload.get("content"))]
            step = self.agent(payload, time, line)
            step.reasoning = "\n".join(t for t in [step.reasoning, *texts] if t)
        elif kind in ("function_call", "custom_tool_call", "local_shell_call"):
            self.call(payload, time, line)
        elif kind in ("function_call_output", "custom_tool_call_output"):
            self.output(payload, line)
        elif kind == "web_search_call":
            step = self.agent(payload, time, line)
            call = Call(
                string(payload.get("id")) or f"web:{line}", "web_search", "other", mapping(payload.get("action"))
            )
            step.calls.append(call)
        elif kind in ("compaction", "compaction_summary", "context_compaction"):
            self.compacted(time, line)
        elif kind not in _QUIET_ITEMS:
            self.source.skipped[f"unknown item: {str(kind)[:40]}"] += 1

    def message(self, payload: dict[str, Any], time: float | None, line: int) -> None:
        text, role = text_of(payload.get("content")), payload.get("role")
        if role == "assistant":
            step = self.agent(payload, time, line)
            step.message = f"{step.message}\n{text}" if step.message else text
        elif role == "user":
            spoken = said(text)
            if not spoken and text.lstrip().startswith(
                ("<hook_prompt", "<task-notification>", "<subagent_notification>")
            ):
                self.ends_turn()
            if spoken and self.steps and self.steps[-1].extra.get("event") and self.steps[-1].message == spoken:
                return  # the event came first
            step = self.step("user", time, line, spoken or text, string(payload.get("id")))
            step.prompt = bool(spoken) and provenance_of(payload) in ("", "user")

    def call(self, payload: dict[str, Any], time: float | None, line: int) -> None:
        step = self.agent(payload, time, line)
        call = read_call(payload, line)
        if call.kind == "shell" or call.tool == "exec":
            call.cwd = call.cwd or self.cwd or None
        step.calls.append(call)
        step.stop = False
        self.calls[call.id] = (step, call)
        if call.tool == "exec" and payload.get("type") == "custom_tool_call":
            self.script = call.id
        if call.tool == "write_stdin":
            started = self.terminals.get(str(call.arguments.get("session_id")))
            if started:
                step.extra.setdefault("continues", {})[call.id] = started
        elif call.tool == "wait":
            started = self.cells.get(str(call.arguments.get("cell_id")))
            if started:
                step.extra.setdefault("continues", {})[call.id] = self.script = started

    def output(self, payload: dict[str, Any], line: int) -> None:
        key = string(payload.get("call_id"))
        if key not in self.calls:
            self.source.skipped["result without a call"] += 1
            return
        step, call = self.calls[key]
        output = payload.get("output")
        if isinstance(output, dict):
            output = output.get("content", output.get("content_items"))
        result = result_of(output, "script" if call.tool == "exec" else call.kind, self.ended.pop(key, None))
        step.results[key] = result
        text = text_of(output)
        terminal, cell = session_of(text), _CELL.match(text)
        if terminal:
            self.terminals[terminal] = key
        if cell:
            self.cells[cell[1]] = step.extra.get("continues", {}).get(key, key)
        elif call.tool in ("exec", "wait"):
            self.unfold(step, call, listing(output), result)

    def unfold(self, step: Step, call: Call, parts: list[Any], result: Result) -> None:
        """Adds the calls that a finished code-mode script made, after the script's own."""
        origin = step.extra.get("continues", {}).get(call.id, call.id)
        if origin not in self.calls or self.calls[origin][1].tool != "exec":
            return
        self.script = ""
        found = nested_calls(self.calls[origin][1], parts, result, self.nested.pop(origin, []))
        for number_, (made, its) in enumerate(found):
            made.id = made.id or f"{origin}/{number_}"
            made.cwd = made.cwd or (self.cwd if made.kind == "shell" else None) or None
            step.calls.append(made)
            if its is not None and result.fault == "interrupted" and its.exit_code == -1:
                its.fault, its.failed, its.exit_code = "interrupted", None, None
            if its is not None:
                step.results[made.id] = its

    # -- events ----------------------------------------------------------------------------------------------

    def event(self, payload: dict[str, Any], time: float | None, line: int) -> None:
        kind = string(payload.get("type"))
        if kind == "token_count":
            info = mapping(payload.get("info"))
            total = info.get("total_token_usage")
            if not self.records and total is not None and total != self.total:
                self.measure(mapping(info.get("last_token_usage")))
            self.total = total if total is not None else self.total
        elif kind == "user_message":
            self.wrote(string(payload.get("message")), time, line)
        elif kind == "item_completed":
            self.completed(mapping(payload.get("item")), time, line)
        elif kind == "exec_command_end":
            self.command_ended(payload, string(payload.get("call_id")))
        elif kind == "patch_apply_end":
            self.patched(payload)
        elif kind in ("task_complete", "turn_complete"):
            self.ends_turn()
        elif kind == "turn_aborted":
            self.step("user", time, line, string(payload.get("reason"))).interrupted = True
        elif kind == "context_compacted":
            self.compacted(time, line)
        elif kind in ("error", "stream_error"):
            self.step("system", time, line, string(payload.get("message"))).extra["harness"] = kind

    def wrote(self, text: str, time: float | None, line: int) -> None:
        spoken = said(text)
        if not spoken:
            return
        self.written.add(spoken)
        recent = next((s for s in reversed(self.steps[-4:]) if s.source == "user" and not s.interrupted), None)
        if recent is not None and (recent.message == spoken or spoken in recent.message):
            recent.prompt = True
            return
        step = self.step("user", time, line, spoken)
        step.prompt = step.extra["event"] = True

    def completed(self, item: dict[str, Any], time: float | None, line: int) -> None:
        kind = item.get("type")
        if kind == "CommandExecution":
            self.command_ended(item, string(item.get("id")))
        elif kind == "UserMessage":
            self.wrote(text_of(item.get("content")), time, line)
        elif kind in ("FileChange", "PatchApply"):
            self.patched(dict(item, call_id=item.get("id")))
        elif kind == "ContextCompaction":
            self.compacted(time, line)

    def command_ended(self, item: dict[str, Any], key: str) -> None:
        duration = mapping(item.get("duration"))
        seconds = (number(duration.get("secs")) or 0) + (number(duration.get("nanos")) or 0) / 1e9 if duration else None
        code = integer(item.get("exit_code"))
        end = {"exit_code": code, "seconds": seconds}
        if key in self.calls:
            step = self.calls[key][0]
            if key in step.results:
                # It outlived its call: what is known now was not known then.
                step.extra.setdefault("ended", {})[key] = end
            else:
                self.ended[key] = end
        elif self.script:
            call = Call(key, "exec_command", "shell", {"command": item.get("command")}, shell_text(item.get("command")))
            call.cwd = string(item.get("cwd")).removeprefix("file://") or None
            output = string(item.get("aggregated_output")) or string(item.get("stdout")) + string(item.get("stderr"))
            refused = item.get("status") == "declined"
            failed = None if code is None or refused else code != 0
            result = Result(output, None if refused else code, failed, "refused" if refused else None)
            result.seconds = seconds
            self.nested.setdefault(self.script, []).append((call, result))

    def patched(self, item: dict[str, Any]) -> None:
        key = string(item.get("call_id"))
        status, success = item.get("status"), item.get("success")
        failed = not success if isinstance(success, bool) else {"completed": False, "failed": True}.get(string(status))
        if key in self.calls:
            self.ended[key] = {"failed": failed}
        elif self.script:
            paths = tuple(p for p in mapping(item.get("changes")) if isinstance(p, str))
            edits = tuple(
                (p, "", c["content"])
                for p, c in mapping(item.get("changes")).items()
                if isinstance(c, dict) and c.get("type") == "add" and isinstance(c.get("content"), str)
            )
            call = Call(key, "apply_patch", "edit", {"changes": item.get("changes")}, None, paths, edits)
            output = "\n".join(t for t in (string(item.get("stdout")), string(item.get("stderr"))) if t)
            self.nested.setdefault(self.script, []).append((call, Result(output, failed=failed)))

    def finish(self) -> Trajectory | None:
        if not any(s.source != "system" for s in self.steps):
            return None
        if self.written:
            # The events name what a person wrote: a tagged text that they do not name is a wrapper that is new to us.
            for step in self.steps:
                if step.prompt and step.message.startswith("<") and step.message not in self.written:
                    step.prompt = False
        last = self.steps[-1]
        if self.source.cut and last.source == "agent" and last.stop is None:
            last.stop = False
        for step in self.steps:
            step.extra.pop("closed", None)
            step.extra.pop("event", None)
        meta = self.meta
        return Trajectory(
            string(meta.get("id")) or self.source.path.stem,
            FORMAT,
            "codex",
            self.steps,
            str(self.source.path),
            string(meta.get("cli_version")),
            self.model,
            string(meta.get("cwd")) or self.cwd,
            parent_of(meta),
            skipped=self.source.skipped.copy(),
        )


_QUIET_ITEMS = frozenset(
    {
        "ghost_snapshot",
        "tool_search_call",
        "tool_search_output",
        "image_generation_call",
        "additional_tools",
        "other",
        "agent_message",
    }
)
