"""Steps of a Terminal-Bench v1 trial, from what its terminal showed and what was typed into it."""

from __future__ import annotations

import re
from pathlib import Path

from ..model import Call, Result, Step, Trajectory
from ._terminus import terminus_answer
from ._tty import screen, unwrapped
from .mini_swe_agent import Conversation

_COLOUR = r"(?:\x1b\[[0-9;]*m)*"
_HEADER = re.compile(
    rf"^{_COLOUR}mini-swe-agent{_COLOUR} \(step {_COLOUR}(\d+){_COLOUR}, {_COLOUR}\$([0-9.]+){_COLOUR}\):{_COLOUR}\r*$"
    rf"|^(?:\x1b\[[0-9;?]*[A-Za-z]|\r)*{_COLOUR}(User|System){_COLOUR}:{_COLOUR}\r*$",
    re.MULTILINE,
)
_STEP = re.compile(rf"mini-swe-agent{_COLOUR} \(step {_COLOUR}\d")
_RULE = re.compile(r"─{20,}")
_NOISE = re.compile(
    r"^(?:\d\d:\d\d:\d\d - LiteLLM:|Traceback \(most recent call last\):|Saved trajectory to )", re.MULTILINE
)
_BEGIN = re.compile(r"^(?:THOUGHT:|```)", re.MULTILINE)
_SPINNER = re.compile(r"^\S? ?Waiting for the LM to respond\.\.\.\s*")
_SPECIAL = {"Enter": "\n", "C-m": "\n", "Space": " ", "Tab": "\t", "Escape": "\x1b", "BSpace": "\x7f"}
_CONTROL_KEY = re.compile(r"^C-([a-z])$")
_PROMPT_SHOWN, _LINE_TAKEN = "\x1b[?2004h", "\x1b[?2004l"


def has_mini_steps(raw: str) -> bool:
    """Whether mini-swe-agent printed a step into the terminal."""
    return _STEP.search(raw) is not None


def mini_steps(trajectory: Trajectory, raw: str, prompt: str, start: float | None) -> None:
    """The steps that mini-swe-agent printed: its answer under a header with step and cost, then the observation."""
    heads = list(_HEADER.finditer(raw))
    first = next((at for at, head in enumerate(heads) if head.group(1)), len(heads))
    coloured = first < len(heads) and heads[first].group(0).startswith("\x1b")
    heads = [head for head in heads[first:] if head.group(0).lstrip("\r").startswith("\x1b") or not coloured]
    rule = _RULE.search(raw)
    width = len(rule.group(0)) if rule else 160
    talk = Conversation("", "")
    talk.trajectory = trajectory
    talk.message({"role": "user", "content": prompt, "extra": {"timestamp": start}})
    spent = likely = 0.0
    for head, following in zip(heads, [*heads[1:], None], strict=False):
        lines = screen(raw[head.end() : following.start() if following else len(raw)].lstrip("\n"))
        if head.group(1):
            cost = float(head.group(2)) if head.group(2).count(".") <= 1 else 0.0
            said, joins = _answer(lines, width)
            talk.message({"role": "assistant", "content": said, "extra": {"cost": round(max(cost - spent, 0.0), 4)}})
            spent = max(cost, spent)
        elif head.group(3) == "System":
            continue
        else:
            seen, joins = _observation(lines, width)
            talk.message({"role": "user", "content": seen})
        likely += joins
    for step in trajectory.steps:
        for call in step.calls:
            if call.command is not None and _NOISE.search(call.command):
                # another thread's log came between: what was run is not known
                call.command, call.kind = None, "other"
    trajectory.extra["likely joins"] = int(likely)


def _answer(lines: list[str], width: int) -> tuple[str, int]:
    cleaned = [_SPINNER.sub("", line) for line in lines]
    whole = _without_log("\n".join(cleaned))
    fence = whole.find("```\n", whole.find("```") + 3) if "```" in whole else -1
    noise = _NOISE.search(whole, fence if fence > 0 else 0)
    if noise:
        whole = whole[: noise.start()]
    found, joins = unwrapped(whole.rstrip().split("\n"), width)
    return "\n".join(line.rstrip() for line in found).strip(), joins


def _without_log(answer: str) -> str:
    """The answer without another thread's log above it: from its `THOUGHT:` or its command on."""
    if not _NOISE.match(answer):
        return answer
    begin = _BEGIN.search(answer)
    return answer[begin.start() :] if begin else answer


def _observation(lines: list[str], width: int) -> tuple[str, int]:
    whole = "\n".join(lines)
    end = max(whole.rfind(tag) + len(tag) if tag in whole else -1 for tag in ("</output>", "</output_tail>"))
    if end > 0:
        whole = whole[:end]
    else:
        for pattern in (_RULE, _NOISE):
            found = pattern.search(whole)
            whole = whole[: found.start()] if found else whole
    joined, joins = unwrapped(whole.split("\n"), width)
    return "\n".join(line.rstrip() for line in joined).strip("\n"), joins


def _keystrokes(keys: list[str]) -> str:
    """Keys as the text they send: `Enter` a newline, `C-c` its control character."""
    pieces = []
    for key in keys:
        control = _CONTROL_KEY.match(key)
        pieces.append(chr(ord(control.group(1)) - 96) if control else _SPECIAL.get(key, key))
    return "".join(pieces)


def _key_step(id: str, keystrokes: str, tool: str = "send_keys") -> Step:
    call = Call(id, tool, "keys", {"keystrokes": keystrokes}, command=keystrokes)
    return Step("agent", calls=[call], stop=False)


def typed_steps(trajectory: Trajectory, typed: list[list[str]], raw: str, prompt: str, start: float | None) -> None:
    """A step for every line of keys that an agent typed; its result where the shell's prompts fence it off for certain."""
    sent = [_keystrokes(keys) for keys in typed]
    if not sent:
        return
    trajectory.steps.append(Step("user", prompt, time=start, prompt=True))
    outputs = _outputs(raw)
    for at, keystrokes in enumerate(sent):
        step = _key_step(f"{at}", keystrokes)
        trajectory.steps.append(step)
        line = keystrokes[:-1] if keystrokes.endswith("\n") else ""
        # certain only where the shell took this line as often as it was typed
        if line and "\n" not in line and len(outputs.get(line, ())) == sent.count(keystrokes):
            output = outputs[line][sent[:at].count(keystrokes)]
            if output is not None:
                step.results[f"{at}"] = Result(output)


def _outputs(raw: str) -> dict[str, list[str | None]]:
    """Output of every line that a shell took, by the line; None where no later prompt closes it."""
    found: dict[str, list[str | None]] = {}
    pieces = raw.split(_PROMPT_SHOWN)[1:]
    for at, piece in enumerate(pieces):
        typed, taken, rest = piece.partition(_LINE_TAKEN)
        if not taken:
            continue
        shown = [line for line in screen(typed) if line.strip()]
        if len(shown) != 1:
            continue
        line = re.sub(r"^.*?[#$%>] ", "", shown[0], count=1).rstrip()
        for suffix in ("; tmux wait -S done",):
            line = line[: -len(suffix)] if line.endswith(suffix) else line
        output = "\n".join(row.rstrip() for row in screen(rest.lstrip("\r"))).rstrip("\n")
        found.setdefault(line, []).append(output if at + 1 < len(pieces) else None)
    return found


def episode_steps(trajectory: Trajectory, folder: Path, prompt: str, start: float | None) -> None:
    """The episodes that terminus logged: `episode-N/response.*` with its batch of keys, seen in the prompt of episode N+1."""
    episodes = []
    if folder.is_dir():
        for path in folder.iterdir():
            number_ = re.match(r"episode-(\d+)$", path.name)
            if number_:
                episodes.append((int(number_.group(1)), path))
    episodes.sort()
    if not episodes:
        return
    trajectory.steps.append(Step("user", prompt, time=start, prompt=True))
    for at, (n, path) in enumerate(episodes):
        said = _first_text(path, ("response.json", "response.txt"))
        step = Step("agent", stop=False)
        terminus_answer(step, said, f"{n}")
        trajectory.steps.append(step)
        if at + 1 < len(episodes) and episodes[at + 1][0] == n + 1 and step.calls:
            seen = _first_text(episodes[at + 1][1], ("prompt.txt",))
            last = step.calls[-1]
            if seen:
                step.results[last.id] = Result(seen, shared=len(step.calls) > 1)


def _first_text(folder: Path, names: tuple[str, ...]) -> str:
    for name in names:
        try:
            return (folder / name).read_bytes().decode("utf-8", "replace")
        except OSError:
            continue
    return ""
