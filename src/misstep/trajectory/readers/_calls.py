"""Calls from a tool's name and arguments, for formats that carry the tools of many agents (ATIF, OpenHands ...)."""

from __future__ import annotations

import re
from typing import Any

from ..model import Call
from ._common import shell_text
from ._fields import number, objects, parsed, string

KINDS = {
    "shell": "bash shell shell_command exec_command local_shell local_shell_call container.exec run_shell_command execute_bash "
    "run_terminal_cmd run_terminal_command execute_command run_command execute_shell_command terminal execute",
    "keys": "bash_command keystrokes write_stdin write_bash send_keys",
    "read": "read read_file view open_file view_image read_many_files cat_file notebookread",
    "write": "write write_file create create_file write_to_file",
    "edit": "edit multiedit multi_edit replace str_replace str_replace_editor str_replace_based_edit_tool apply_patch insert "
    "edit_file search_replace replace_in_file notebookedit file_editor undo_edit",
    "search": "grep glob ls list list_files list_directory list_dir search search_file_content grep_search file_search rg "
    "find_file search_file search_dir search_files glob_search codebase_search codesearch",
    "finish": "finish submit mark_task_complete task_complete attempt_completion complete_task",
}
_KIND_OF = {name: kind for kind, names in KINDS.items() for name in names.split()}
_COMMAND_KEYS = ("command", "cmd", "script", "keystrokes")
_PATH_KEYS = (
    "path",
    "file_path",
    "filePath",
    "absolute_path",
    "filename",
    "file",
    "target_file",
    "notebook_path",
    "paths",
)
_OLD_KEYS = ("old_string", "oldString", "old_str", "old_text", "oldText")
_NEW_KEYS = ("new_string", "newString", "new_str", "new_text", "newText", "new_source", "text")
_CONTENT_KEYS = ("content", "file_text", "contents", "fileText")
_EDITOR_VERBS = {"view": "read", "create": "write", "str_replace": "edit", "insert": "edit", "undo_edit": "edit"}
_PATCH_FILE = re.compile(r"^\*\*\* (Add|Update|Delete) File: (.+?)\s*$")


def kind_of(tool: str, arguments: dict[str, Any]) -> str:
    """What a tool is, by the names that the known agents use; `other` where it is none of them."""
    name = tool.rsplit("functions.", 1)[-1].lower()
    kind = _KIND_OF.get(name, "other")
    if kind == "edit" and string(arguments.get("command")) in _EDITOR_VERBS:
        return _EDITOR_VERBS[arguments["command"]]
    if kind == "keys" and name == "bash_command" and "keystrokes" not in arguments:
        return "shell"
    if kind == "shell" and not command_of(arguments):
        return "other"
    return kind


def command_of(arguments: dict[str, Any]) -> str:
    """The shell text in a call's arguments, '' where there is none."""
    found = (shell_text(arguments.get(key)) for key in _COMMAND_KEYS)
    return next((command for command in found if command), "")


def call_of(id: str, tool: str, arguments: Any) -> Call:
    """A call of any known agent's tool. Arguments that are no object are kept under `input`."""
    given = arguments if isinstance(arguments, dict) else {} if arguments is None else {"input": arguments}
    kind = kind_of(tool, given)
    call = Call(id, tool, kind, given)
    if kind == "shell":
        call.command = command_of(given)
        call.background = given.get("run_in_background") is True or given.get("is_background") is True
        call.background = call.background or string(given.get("mode")) == "async"
        call.cwd = next(
            (given[k] for k in ("workdir", "cwd", "dir_path", "directory") if isinstance(given.get(k), str)), None
        )
        call.timeout = _timeout(given)
    elif kind == "keys":
        call.command = next(
            (given[k] for k in ("keystrokes", "chars", "input", "keys") if isinstance(given.get(k), str)), None
        )
    elif kind in ("read", "write", "edit"):
        call.paths, call.edits = _files(tool, kind, given)
    elif kind == "search":
        call.paths = _paths(given)
    return call


def _timeout(given: dict[str, Any]) -> float | None:
    for key, unit in (("timeout_ms", 1000.0), ("timeout", 1.0), ("timeout_sec", 1.0)):
        value = number(given.get(key))
        if value is not None and value > 0:
            # a bare `timeout` of thousands is in milliseconds in the agents that use it so
            return value / (1000.0 if key == "timeout" and value >= 1000 else unit)
    return None


def _paths(given: dict[str, Any]) -> tuple[str, ...]:
    found = [given[key] for key in _PATH_KEYS if isinstance(given.get(key), str) and given[key]]
    return tuple(dict.fromkeys(found))


def _first(given: dict[str, Any], keys: tuple[str, ...]) -> str | None:
    return next((given[key] for key in keys if isinstance(given.get(key), str)), None)


def _files(tool: str, kind: str, given: dict[str, Any]) -> tuple[tuple[str, ...], tuple[tuple[str, str, str], ...]]:
    patch = _first(given, ("input", "patch", "patchText", "patch_text"))
    if patch is not None and "*** Begin Patch" in patch:
        edits = patch_edits(patch)
        return tuple(dict.fromkeys(path for path, _, _ in edits)), edits
    paths = _paths(given)
    if kind == "read" or not paths:
        return paths, ()
    if kind == "write":
        content = _first(given, _CONTENT_KEYS)
        return paths, () if content is None else ((paths[0], "", content),)
    several = objects(given.get("edits"))
    changes: list[tuple[str, str, str]] = []
    for edit in several or [given]:
        new = _first(edit, _NEW_KEYS)
        if new is not None:
            changes.append((paths[0], _first(edit, _OLD_KEYS) or "", new))
    return paths, tuple(changes)


def patch_edits(patch: str) -> tuple[tuple[str, str, str], ...]:
    """(path, old text, new text) of each file part of an `apply_patch` text; context lines are in both."""
    edits: list[tuple[str, str, str]] = []
    path, old, new = "", [], []  # type: ignore[var-annotated]

    def close() -> None:
        if path:
            edits.append((path, "\n".join(old), "\n".join(new)))

    for line in patch.splitlines():
        head = _PATCH_FILE.match(line)
        if head:
            close()
            path, old, new = head.group(2), [], []
        elif line.startswith(("*** ", "@@")):
            continue
        elif line.startswith("+"):
            new.append(line[1:])
        elif line.startswith("-"):
            old.append(line[1:])
        elif line.startswith(" "):
            old.append(line[1:])
            new.append(line[1:])
    close()
    return tuple(edits)


def arguments_of(value: Any) -> dict[str, Any]:
    """A call's arguments: an object, or the object a JSON string stands for; other text is kept under `input`."""

    found = parsed(value)
    if isinstance(found, dict):
        return found
    return {} if found is None or found == "" else {"input": found}


__all__ = ["KINDS", "arguments_of", "call_of", "command_of", "kind_of", "patch_edits"]
