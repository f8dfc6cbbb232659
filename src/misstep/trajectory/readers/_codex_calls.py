"""Codex's calls: tools of each version, patches, and the calls inside a code-mode script."""

from __future__ import annotations

import re
from typing import Any

from ..model import Call, Result, Step
from ._calls import arguments_of, call_of, patch_edits
from ._codemode import script_of
from ._codex_output import of_json
from ._common import text_of
from ._fields import listing, mapping, number, parsed, string

_HEREDOC = re.compile(r"\s*apply_patch\s*<<-?\s*(['\"]?)(\w+)\1\s*\n(.*)\n\2\s*", re.S)

Made = tuple[Call, "Result | None"]
"""A call that a script made, and its result where that is known."""


def measure(step: Step, usage: dict[str, Any]) -> None:
    for ours, theirs in (
        ("prompt_tokens", "input_tokens"),
        ("cached_tokens", "cached_input_tokens"),
        ("completion_tokens", "output_tokens"),
    ):
        value = number(usage.get(theirs))
        if value is not None:
            step.metrics[ours] = value


def parent_of(meta: dict[str, Any]) -> str:
    spawn = mapping(mapping(mapping(meta.get("source")).get("subagent")).get("thread_spawn"))
    return string(spawn.get("parent_thread_id")) or string(meta.get("parent_thread_id"))


def provenance_of(payload: dict[str, Any]) -> str:
    """Who a user message comes from, where the record says it: user, harness, hook ..."""
    passed = mapping(payload.get("internal_chat_message_metadata_passthrough"))
    for item in listing(passed.get("content_item_metadata")):
        found = string(mapping(mapping(item).get("provenance")).get("type"))
        if found:
            return found
    return ""


def read_call(payload: dict[str, Any], line: int) -> Call:
    key = string(payload.get("call_id")) or string(payload.get("id")) or f"call:{line}"
    kind = payload.get("type")
    if kind == "local_shell_call":
        action = mapping(payload.get("action"))
        given = {"command": action.get("command"), "workdir": action.get("working_directory")}
        return call_of(key, "local_shell", dict(given, timeout_ms=action.get("timeout_ms")))
    tool = string(payload.get("name")).removeprefix("functions.")
    if kind == "custom_tool_call":
        given_text = payload.get("input")
        if tool == "exec":
            return Call(key, tool, "other", {"input": given_text})
        return call_of(key, tool, {"input": given_text} if isinstance(given_text, str) else parsed(given_text))
    call = call_of(key, tool, arguments_of(payload.get("arguments")))
    if call.kind == "keys":
        # Keystrokes to a program of its own, which need not be a shell.
        call.command = None
    elif call.kind == "shell":
        _as_patch(call)
    return call


def _as_patch(call: Call) -> None:
    """Codex takes `apply_patch` in a shell call as an edit and runs no shell for it."""
    words = call.arguments.get("command")
    if isinstance(words, list) and len(words) == 2 and words[0] == "apply_patch" and isinstance(words[1], str):
        patch = words[1]
    else:
        found = _HEREDOC.fullmatch(call.command or "")
        patch = found[3] if found else ""
    if "*** Begin Patch" in patch:
        call.kind, call.command, call.edits = "edit", None, patch_edits(patch)
        call.paths = tuple(dict.fromkeys(path for path, _, _ in call.edits))


def nested_calls(call: Call, parts: list[Any], result: Result, events: list[Made]) -> list[Made]:
    """The calls of a finished script: those that events recorded, else those that its text settles.

    events: nested calls that were recorded one by one. Versions that record only patches so leave the commands
    to the text; the patches' results are taken over where both tell the same number of patches.
    """
    if any(c.kind == "shell" for c, _ in events):
        return events
    found = _of_text(call, parts, result)
    patches = [at for at, (c, _) in enumerate(found) if c.tool == "apply_patch"]
    if not found:
        return events
    if len(patches) == len(events):
        for at, (made, its) in zip(patches, events, strict=True):
            found[at][0].id = made.id
            found[at] = (found[at][0], its)
    return found


def _of_text(call: Call, parts: list[Any], result: Result) -> list[Made]:
    """The calls that a script's text settles, with the results that it printed."""
    script = script_of(string(call.arguments.get("input")))
    if script is None or not script.calls:
        return []
    texts = [text_of(part) for part in parts]
    if texts and texts[0].startswith("Script "):
        texts = texts[1:]
    refused = result.failed is True and "blocked by PreToolUse hook" in result.output and len(script.calls) == 1
    if result.failed is True and not refused:
        return []  # an exception: which of the calls were reached is not known
    found: list[Made] = []
    for made in script.calls:
        given = made.argument if isinstance(made.argument, dict) else {"input": made.argument}
        call_ = call_of("", made.tool, given)
        if call_.kind == "keys":
            call_.command = None
        its: Result | None = Result(result.output, fault="refused") if refused else None
        if not refused and len(texts) == script.texts:
            if made.printed is not None:
                value = parsed(texts[made.printed])
                if isinstance(value, dict) and isinstance(value.get("output"), str):
                    its = of_json(value)
            elif made.output is not None:
                its = Result(texts[made.output])
        found.append((call_, its))
    return found
