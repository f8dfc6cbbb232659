"""A call as the hosts' hooks describe it (tool, input) made into the model's Call, for every host.

It gives what the readers of recorded sessions give for the same call (a test compares them), without their imports.
"""

from __future__ import annotations

from misstep.trajectory import Call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_KINDS = {
    name: kind
    for kind, names in {
        "shell": "Bash bash shell local_shell shell_command exec_command run_shell_command",
        "read": "Read NotebookRead read read_file read_many_files view_image",
        "write": "Write write write_file",
        "edit": "Edit MultiEdit NotebookEdit edit replace apply_patch",
        "search": "Grep Glob LS grep glob list grep_search search_file_content list_directory",
    }.items()
    for name in names.split()
}
_FOLDERS = ("workdir", "cwd", "dir_path", "directory")
_PATHS = ("file_path", "filePath", "notebook_path", "absolute_path", "path", "dir_path")


def call_of(id: str, tool: str, given: Any, cwd: str | None = None) -> Call:
    """The call of a tool with that input."""
    arguments = given if isinstance(given, dict) else {}
    kind = _KINDS.get(tool, "other")
    call = Call(id, tool, kind, arguments)
    call.cwd = cwd
    if kind == "shell":
        command = arguments.get("command", arguments.get("cmd"))
        if isinstance(command, list) and all(isinstance(word, str) for word in command):
            command = command[2] if len(command) == 3 and command[1] in ("-lc", "-c") else _joined(command)
        if not isinstance(command, str):
            call.kind = "other"
            return call
        call.command = command
        call.background = arguments.get("run_in_background") is True or arguments.get("is_background") is True
        call.background = call.background or arguments.get("mode") == "async"
        call.timeout = _timeout(tool, arguments)
        folder = next((arguments[k] for k in _FOLDERS if isinstance(arguments.get(k), str)), "")
        if folder:
            call.cwd = folder if folder.startswith("/") or not cwd else f"{cwd}/{folder}"
    elif tool == "apply_patch":
        patch = arguments.get("command", arguments.get("input", arguments.get("patch")))
        if isinstance(patch, str):
            call.edits = _patched(patch)
            call.paths = tuple(dict.fromkeys(path for path, _, _ in call.edits))
    elif kind != "other":
        path = next((arguments[k] for k in _PATHS if isinstance(arguments.get(k), str) and arguments[k]), None)
        if path is not None:
            call.paths = (path,)
            if kind in ("write", "edit"):
                call.edits = _edits(path, arguments)
    return call


def _timeout(tool: str, given: dict[str, Any]) -> float | None:
    """Seconds, whatever the agent counts in: a bare `timeout` of thousands, and any of Claude Code's, is in milliseconds."""
    for key in ("timeout_ms", "timeout", "timeout_sec"):
        value = given.get(key)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1e300:
            fine = key == "timeout_ms" or (key == "timeout" and (value >= 1000 or tool == "Bash"))
            return value / 1000 if fine else float(value)
    return None


def _joined(words: list[str]) -> str:
    import shlex

    return shlex.join(words)


def _edits(path: str, given: dict[str, Any]) -> tuple[tuple[str, str, str], ...]:
    for key in ("content", "new_source"):
        if isinstance(given.get(key), str):
            return ((path, "", given[key]),)
    if isinstance(given.get("newString"), str):
        return ((path, given["oldString"] if isinstance(given.get("oldString"), str) else "", given["newString"]),)
    several = given.get("edits")
    return tuple(
        (path, edit["old_string"], edit["new_string"])
        for edit in (several if isinstance(several, list) else [given])
        if isinstance(edit, dict)
        and isinstance(edit.get("old_string"), str)
        and isinstance(edit.get("new_string"), str)
    )


def _patched(patch: str) -> tuple[tuple[str, str, str], ...]:
    """(path, old text, new text) of each file part of a patch in Codex's form; context lines are in both."""
    edits: list[tuple[str, str, str]] = []
    path = ""
    old: list[str] = []
    new: list[str] = []
    for line in [*patch.splitlines(), "*** End Patch"]:
        if line.startswith("*** "):
            if path and (line.startswith("*** End Patch") or " File: " in line):
                edits.append((path, "\n".join(old), "\n".join(new)))
                path, old, new = "", [], []
            verb, mark, name = line[4:].partition(" File: ")
            if mark and verb in ("Add", "Update", "Delete"):
                path = name.strip()
        elif line.startswith("+"):
            new.append(line[1:])
        elif line.startswith("-"):
            old.append(line[1:])
        elif line.startswith(" "):
            old.append(line[1:])
            new.append(line[1:])
    return tuple(edits)
