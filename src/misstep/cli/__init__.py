"""The `misstep` command. One file a command; a file is loaded when its command is used."""

from __future__ import annotations

import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ._group import Failure, debug_option, group

COMMANDS = {
    "scan": "Count the missteps in the sessions you have.",
    "show": "Show a session, or a step of it, in the terminal.",
    "branch": "From the event at which a policy fires, on: with its text, a sham, nothing.",
    "catalogue": "List the missteps, or explain one.",
    "derive": "From failed attempts to candidates for policies.",
    "guard": "Policies inside a live agent's hooks.",
    "judge": "Judges by model: measure them against labels and each other.",
    "panel": "Randomised experiments: was it the policy that did it?",
    "policies": "Portfolios: freeze, audit, test, replay, write.",
    "prefixes": "Recorded states before a misstep, from which training starts.",
    "profile": "Find missteps that nobody wrote a detector for, with models.",
    "replay": "Run a session's commands again in fresh sandboxes, and compare.",
    "sandbox": "Check, build and use isolated roots.",
    "tasks": "Make tasks by seed, and check that their verifiers can be trusted.",
    "taxonomy": "Types of error: find them among bad steps, label, count.",
    "train": "RL from the states where it goes wrong: recipes side by side.",
}
"""Commands and their one-line help: so that `misstep --help` loads none of them."""

GONE = 141
"""The exit code where the reader of a pipe went away: a shell's for SIGPIPE, as other programs end then."""

__all__ = [
    "COMMANDS",
    "GONE",
    "Failure",
    "debug_option",
    "debugging",
    "group",
    "main",
    "one_line",
    "set_debug",
    "silence",
]

_debug = False


def debugging() -> bool:
    """Whether errors are shown with their traceback."""
    return _debug


def set_debug(value: bool) -> None:
    """Show errors with their traceback."""
    global _debug
    _debug = value


def __getattr__(name: str) -> Any:
    if name in ("Failure", "debug_option", "group"):
        from . import _group

        return getattr(_group, name)
    raise AttributeError(name)


class Ended(BaseException):
    """The process was told to end, by the signal of this number: what it has begun is cleaned up."""

    def __init__(self, number: int) -> None:
        self.number = number


def main() -> None:
    """Entry point. Exit codes: 0; 1 (`--fail-on`); 2 bad input, or an output that cannot be written; 3 a fault of
    misstep's own; 130 interrupted, 129 and 143 ended by a signal, 141 the reader of a pipe went away."""
    _open_streams()
    # A path or a transcript may hold what the terminal's encoding does not: show it escaped, do not fail.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    # Records are many small objects without cycles: looking for some every 700 of them is a tenth of a scan.
    gc.set_threshold(100_000, 20, 20)
    sys.exit(_answer(_chosen()))


def _open_streams() -> None:
    """Where a stream is closed (`>&-`), stand in for it: writing fails as it would, and no file gets its number."""
    if sys.stdout is not None and sys.stderr is not None:
        return
    while (number := os.open(os.devnull, os.O_RDONLY)) < 3:
        os.set_inheritable(number, True)
    os.close(number)
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 (as long as the process)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115


def silence(stream: Any) -> None:
    """Let what is still written to a stream of the process go nowhere: nobody reads it, or it cannot be written."""
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123
        try:
            os.dup2(nowhere.fileno(), stream.fileno())
        except (OSError, ValueError):
            return


def _chosen() -> Callable[[], int]:
    """What to run: a scan with plain arguments by itself, all else through click."""
    if sys.argv[1:2] == ["scan"] and "_MISSTEP_COMPLETE" not in os.environ:
        from ._quick import parse

        request = parse(sys.argv[2:])
        if request is not None:
            from ._scanning import run

            return lambda: run(**request)
    from . import _group

    return _group.run


def _answer(work: Callable[[], int]) -> int:
    try:
        code = work()
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("\nmisstep: interrupted", file=sys.stderr)
        return 130
    except Ended as error:
        return 128 + error.number
    except BrokenPipeError:  # `misstep guard log | head`: nobody reads on
        silence(sys.stdout)
        return GONE
    except OSError as error:  # the disk is full, standard output is closed: no fault of ours
        silence(sys.stdout)
        if _debug:
            raise
        what = f"{error.filename}: " if error.filename else "output: "
        print(f"misstep: {one_line(what + (error.strerror or str(error)))}", file=sys.stderr)
        return 2
    except Exception as error:
        if _debug:
            raise
        text = one_line(f"{type(error).__name__}: {error}")
        print(f"misstep: a fault of its own: {text} (--debug shows where)", file=sys.stderr)
        return 3


def one_line(text: str) -> str:
    """The text on one line, with nothing in it that a terminal would act on."""
    return "".join(c if c.isprintable() else " " if c in "\n\t" else f"\\x{ord(c):02x}" for c in text)
