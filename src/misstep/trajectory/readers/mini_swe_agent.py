"""mini-swe-agent trajectories (`*.traj.json`): a bare list of messages (before 1.0), `mini-swe-agent-1`, `-1.1` and 2.x.

In text mode an action is the one fenced block of an answer, in tool mode a call of `bash`; a human's own
commands are no calls of the agent. Submitting is a command whose first output line is a marker: it ends the
turn. `info.exit_status` says how the run ended and nothing about whether the task was solved.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ..model import Call, Outcome, Result, Step, Trajectory
from ._calls import arguments_of, call_of
from ._fields import integer, listing, mapping, metrics, objects, parsed, seconds, string, text
from .source import Source

FORMAT = "mini-swe-agent"

SUBMIT = ("COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "MINI_SWE_AGENT_FINAL_OUTPUT")
"""The markers that end a run when a command prints one as its first line."""
_FENCES = (
    re.compile(r"```mswea_bash_command\s*\n(.*?)\n```", re.DOTALL),
    re.compile(r"<mswea_bash_command>(.*?)</mswea_bash_command>", re.DOTALL),
    re.compile(r"```bash\s*\n(.*?)\n```", re.DOTALL),
)
_RETURNCODE = re.compile(r"<returncode>\s*(-?\d+)\s*</returncode>")
_OUTPUT = re.compile(r"<output>\n?(.*)</output>", re.DOTALL)
_HEAD = re.compile(r"<output_head>\n?(.*?)</output_head>", re.DOTALL)
_TAIL = re.compile(r"<output_tail>\n?(.*)</output_tail>", re.DOTALL)
_EXCEPTION = re.compile(r"<exception>(.*?)</exception>", re.DOTALL)
_TIMED_OUT = re.compile(r"timed out (?:after|and has been killed)")
_NEW_TASK = "The user added a new task: "
_TASK = ("Please solve this issue: ", "\n\nYou can execute bash commands and edit files")
"""What stands before and after the task in the default templates of all versions."""
_PLACEHOLDER = re.compile(r"\{\{\s*task\s*\}\}")
_PROVIDER_FAULTS = re.compile(
    r"Authentication|RateLimit|APIConnection|InternalServer|ServiceUnavailable|PermissionDenied|APIError|^Timeout$"
)


def matches(source: Source) -> bool:
    """A document with mini-swe-agent's own `trajectory_format` or version, or a bare list of its messages."""
    if not any(mark in source.edges for mark in (b"mini-swe-agent", b'"mini_version"', b'"role"')):
        return False
    document = source.document
    if isinstance(document, dict):
        if not isinstance(document.get("messages"), list):
            return False
        if string(document.get("trajectory_format")).startswith("mini-swe-agent"):
            return True
        return "mini_version" in mapping(document.get("info"))
    if not isinstance(document, list) or not document or not all(isinstance(m, dict) and "role" in m for m in document):
        return False
    opening = "\n".join(text(m.get("content")) for m in document[:2])
    if any(marker in opening for marker in SUBMIT):
        return True
    return any(text(m.get("content")).startswith("<returncode>") for m in document[2:4])


def read(source: Source) -> Iterator[Trajectory]:
    """The one trajectory of the file."""
    document = source.document
    info = mapping(mapping(document).get("info"))
    config = mapping(info.get("config"))
    messages = document if isinstance(document, list) else mapping(document).get("messages")
    template = string(mapping(config.get("agent")).get("instance_template"))
    reading = Conversation(string(info.get("exit_status")), template)
    for message in listing(messages):
        if isinstance(message, dict):
            reading.message(message)
        else:
            reading.trajectory.skipped["not an object"] += 1
    trajectory = reading.finish()
    if not trajectory.steps:
        source.skipped["no messages"] += 1
        return
    trajectory.agent_version = string(info.get("mini_version"))
    trajectory.model = string(mapping(config.get("model")).get("model_name"))
    trajectory.cwd = string(mapping(config.get("environment")).get("cwd"))
    trajectory.id = string(mapping(document).get("instance_id")) or source.path.name.split(".traj")[0]
    if info:
        trajectory.outcome = _outcome(info, string(mapping(document).get("instance_id")))
    yield trajectory


def _outcome(info: dict[str, Any], task: str) -> Outcome:
    status = string(info.get("exit_status"))
    cost = metrics(cost=mapping(info.get("model_stats")).get("instance_cost")).get("cost")
    return Outcome(
        task=task,
        fault="infrastructure" if _PROVIDER_FAULTS.search(status) else None,
        exception=status if status and status != "Submitted" else "",
        cost_usd=cost,
        extra={"exit_status": status},
    )


class Conversation:
    """Messages in, steps out: a call waits for the message that carries its result."""

    def __init__(self, exit_status: str, template: str) -> None:
        self.trajectory = Trajectory("", FORMAT, FORMAT)
        self.exit_status = exit_status
        self.template = template
        self.asked = False
        self.waiting: list[Call] = []
        self.agent_step: Step | None = None

    def message(self, message: dict[str, Any]) -> None:
        extra = mapping(message.get("extra"))
        role = string(message.get("role"))
        content = text(message.get("content")) or string(message.get("output"))
        time = seconds(extra.get("timestamp") or message.get("timestamp"))
        number = len(self.trajectory.steps)
        if message.get("object") == "response" or role == "assistant":
            self._agent(message, extra, time, f"{number}")
        elif role == "system":
            self.trajectory.steps.append(Step("system", content, time=time))
        elif role == "user" and not self.asked:
            self.asked = True
            step = Step("user", task_of(content, self.template), time=time, prompt=True)
            self.trajectory.steps.append(step)
        elif role == "user" and extra.get("actions"):
            # a person's own command in human mode: neither a call of the agent nor a prompt
            self.waiting = []
            self.trajectory.steps.append(Step("user", content, time=time))
        elif role == "exit":
            self._exit(string(extra.get("exit_status")) or self.exit_status, content)
        else:
            self._answer(message, extra, content, time)

    def _agent(self, message: dict[str, Any], extra: dict[str, Any], time: float | None, prefix: str) -> None:
        said, thought, calls = _said(message), string(message.get("reasoning_content")), []
        for at, action in enumerate(_actions(message, extra, said)):
            calls.append(call_of(string(action.get("id")) or f"{prefix}.{at}", "bash", action["arguments"]))
        response = mapping(extra.get("response")) or (message if message.get("object") == "response" else {})
        usage = mapping(response.get("usage"))
        step = Step("agent", said, thought, calls, time=time, stop=False, model=string(response.get("model")))
        details = mapping(usage.get("prompt_tokens_details")) or mapping(usage.get("input_tokens_details"))
        step.metrics = metrics(
            prompt_tokens=usage.get("prompt_tokens", usage.get("input_tokens")),
            completion_tokens=usage.get("completion_tokens", usage.get("output_tokens")),
            cached_tokens=details.get("cached_tokens"),
            cost_usd=extra.get("cost"),
        )
        self.trajectory.steps.append(step)
        self.agent_step, self.waiting = step, list(calls)

    def _answer(self, message: dict[str, Any], extra: dict[str, Any], content: str, time: float | None) -> None:
        """A user, tool or function_call_output message after the task."""
        kind = string(extra.get("interrupt_type"))
        if self.waiting and self.agent_step is not None:
            wanted = string(message.get("tool_call_id")) or string(message.get("call_id"))
            call = next((c for c in self.waiting if c.id == wanted), self.waiting[0])
            result = observation(content, extra)
            if result is not None:
                self.waiting.remove(call)
                self.agent_step.results[call.id] = result
                return
            fault = _fault(content)
            if fault or _submits(call):
                for call in self.waiting:
                    self.agent_step.results[call.id] = (
                        Result(content, fault=fault) if fault else Result(content, failed=False)
                    )
                self.waiting = []
                if fault is None and not content.startswith(_NEW_TASK):
                    self.agent_step.stop = True
                    return
        self._settle(content)
        if content.startswith(_NEW_TASK):
            content = content[len(_NEW_TASK) :]
            self.trajectory.steps.append(Step("user", content, time=time, prompt=True))
            return
        if not content:
            return
        if "model_response" in extra:
            self.trajectory.steps.append(Step("agent", string(extra["model_response"]), time=time, stop=False))
        step = Step("user", content, time=time, interrupted=content.startswith("Interrupted by user"))
        step.extra = {"interrupt_type": kind} if kind else {}
        self.trajectory.steps.append(step)

    def _settle(self, content: str) -> None:
        """Say of the last answer's calls, filed as not executed, what a person's message says of them."""
        if self.agent_step is None:
            return
        fault = _fault(content)
        for call in self.agent_step.calls:
            result = self.agent_step.results.get(call.id)
            if result is None or result.fault != "never-ran":
                continue
            if fault:
                result.fault = fault
            elif content.startswith(_NEW_TASK) and _submits(call):
                self.agent_step.results[call.id] = Result("", failed=False)
        if content.startswith(_NEW_TASK):
            self.agent_step.stop = True

    def _exit(self, status: str, content: str) -> None:
        if status == "Submitted" and self.agent_step is not None:
            # the submitting command ran with exit 0, or the run would have gone on
            submit = next((c for c in self.agent_step.calls if _submits(c)), None)
            if submit is not None:
                self.agent_step.results[submit.id] = Result(content, exit_code=0, failed=False)
            self.agent_step.stop = True

    def finish(self) -> Trajectory:
        if self.exit_status == "Submitted" and self.agent_step is not None:
            self.agent_step.stop = True
        return self.trajectory


def task_of(content: str, template: str) -> str:
    """The task in a first user message: what the template has in the place of `{{task}}`; the whole text where that is not certain."""
    found = _PLACEHOLDER.search(template)
    if found:
        before = re.split(r"\{\{|\{%", template[: found.start()])[-1].split("}}")[-1].split("%}")[-1]
        after = re.split(r"\{\{|\{%", template[found.end() :])[0]
    else:
        before, after = _TASK
    start = content.find(before) if before.strip() else 0
    if start < 0 or not after.strip():
        return content
    start += len(before) if before.strip() else 0
    end = content.find(after.rstrip(), start)
    return content[start:end].strip() if end > start else content


def _said(message: dict[str, Any]) -> str:
    if message.get("object") != "response":
        return text(message.get("content"))
    parts = [text(item.get("content")) for item in objects(message.get("output")) if item.get("type") == "message"]
    return "\n".join(part for part in parts if part)


def _actions(message: dict[str, Any], extra: dict[str, Any], said: str) -> list[dict[str, Any]]:
    """{id, arguments} of each command that the agent was to run: none where the answer broke the format."""
    actions = objects(extra.get("actions"))
    if actions:
        return [
            {"id": a.get("tool_call_id"), "arguments": {"command": string(a.get("command"))}}
            for a in actions
            if isinstance(a.get("command"), str)
        ]
    calls = objects(message.get("tool_calls"))
    if calls:
        return [
            {"id": c.get("id"), "arguments": arguments_of(mapping(c.get("function")).get("arguments"))} for c in calls
        ]
    for fence in _FENCES:
        blocks = fence.findall(said)
        if blocks:
            return [{"id": "", "arguments": {"command": blocks[0].strip()}}] if len(blocks) == 1 else []
    return []


def _submits(call: Call) -> bool:
    return any(marker in (call.command or "") for marker in SUBMIT)


def _fault(content: str) -> str | None:
    if content.startswith("Interrupted by user"):
        return "interrupted"
    if content.startswith(("Command not executed.", "Commands not executed.")):
        return "refused"
    return None


def observation(content: str, extra: dict[str, Any] | None = None) -> Result | None:
    """The result in an observation message, None where the message is no observation.

    The exit code is that of the record or of the text; -1 is no exit code but says that the command was
    killed at its time limit or not run.
    """
    extra = extra or {}
    code, exception = integer(extra.get("returncode")), string(extra.get("exception_info"))
    output, truncated = content, False
    given = mapping(parsed(content)) if content.lstrip().startswith("{") else {}
    tag = _RETURNCODE.search(content)
    if "returncode" in given:
        code = integer(given["returncode"]) if code is None else code
        exception = exception or string(given.get("exception_info"))
        truncated = "output_head" in given
        parts = (given.get("output"), given.get("output_head"), given.get("output_tail"))
        output = "\n".join(string(part) for part in parts if part is not None)
    elif tag:
        code = int(tag.group(1)) if code is None else code
        failure = _EXCEPTION.search(content[: tag.start()])
        exception = exception or (failure.group(1) if failure else "")
        head, tail, whole = _HEAD.search(content), _TAIL.search(content), _OUTPUT.search(content)
        if head and tail:
            output, truncated = head.group(1) + tail.group(1), True
        else:
            output = whole.group(1) if whole else content[tag.end() :].lstrip("\n")
    elif content.startswith("The last command <command>"):
        whole = _OUTPUT.search(content)
        return Result(whole.group(1) if whole else content, failed=True, timed_out=True)
    elif code is None:
        return None
    if code == -1:
        if "action was not executed" in exception:
            return Result(output, fault="never-ran", truncated=truncated)
        if exception and not _TIMED_OUT.search(exception):
            return Result(output or exception, fault="harness", truncated=truncated)
        return Result(output, failed=True, truncated=truncated, timed_out=True)
    return Result(output, code, None if code is None else code != 0, truncated=truncated)
