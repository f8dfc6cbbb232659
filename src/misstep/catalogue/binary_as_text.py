"""The agent prints a binary file as text.

## What it is
A command or a file reader puts the bytes of a binary file (an image, an archive, an executable, a database ...) as
text into the agent's context.

## Why it matters
Thousands of tokens without meaning push out what the agent needs, control characters garble the terminal, and nothing
can be learned from it that `file`, `xxd | head` or the right tool would not tell in one line.

## How it is told
By what came back: characters that no text holds (NUL, control characters other than tab, line ends, backspace and
colour codes, and U+FFFD for bytes that are no UTF-8). At least 24 of them within 300
characters. Opportunities are calls whose output shows that, and those that look at a file whose name says
that it is binary: right, where the output is clean text; unknown, where the harness ran several calls into one output
or cut it away.

## Known misses
Harnesses that strip or replace such characters before they record them. Text in an old encoding that is not UTF-8 is
told apart by its density only. Base64 and hex dumps of whole files are text, and are not counted.
"""

from __future__ import annotations

from collections.abc import Iterable

from misstep.trajectory import After, Call

from ._regex import Regex, words
from .base import Misstep, NoState, Verdict

_BAD = Regex("[\x00-\x06\x0e-\x1a\x1c-\x1f\x7f\ufffd]")
_ANSI = Regex(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])")
_LEAST, _WINDOW = 24, 300
_BINARY = words(
    "png jpg jpeg gif webp bmp ico tif tiff psd heic pdf zip gz tgz bz2 xz zst 7z rar tar jar war class exe dll so dylib o a lib bin dat img iso "
    "pyc pyo whl npy npz pkl pickle pth pt onnx safetensors gguf h5 hdf5 parquet feather arrow db sqlite sqlite3 mdb mp3 mp4 wav flac ogg mov avi mkv "
    "webm ttf otf woff woff2 wasm docx xlsx pptx odt deb rpm apk dmg core"
)
_PRINTS = words("cat bat head tail less more strings file xxd od hexdump base64 nl tac")


class BinaryAsText(Misstep):
    id = "binary-as-text"
    name = "prints a binary file as text"

    def on_after(self, state: NoState, event: After) -> Iterable[Verdict]:
        call, result, at = event.call, event.result, event.index - 1
        if result.fault is not None or call.kind in ("write", "edit"):
            return
        count = unreadable(result.output)
        if count:
            if result.shared:
                yield Verdict(None, at, "several calls share this output")
            else:
                yield Verdict(True, at, f"{count:,} characters of the output are not text")
        elif looked_at := _binary_file(call):
            if result.shared or (result.truncated and len(result.output) < 200) or result.running:
                yield Verdict(None, at, f"the output of looking at {looked_at} is not recorded in full")
            else:
                yield Verdict(False, at)


def unreadable(output: str) -> int:
    """How many characters of an output are no text, 0 where they are too few or too thin."""
    if output.isascii() and output.isprintable():
        return 0
    bad = _BAD.findall(output)
    if len(bad) < _LEAST:
        return 0
    places = [match.start() for match in _BAD.finditer(_ANSI.sub("", output))]
    for first, last in zip(places, places[_LEAST - 1 :], strict=False):
        if last - first < _WINDOW:
            return len(places)
    return 0


def _binary_file(call: Call) -> str:
    """The file that a call looks at whose name says that it is binary, '' where there is none."""
    if call.kind == "read":
        return next((p for p in call.paths if _is_binary(p)), "")
    if call.script is None:
        return ""
    for command in call.script.commands:
        if command.name in _PRINTS:
            for word in command.argv[1:]:
                if _is_binary(word):
                    return word
    return ""


def _is_binary(path: str) -> bool:
    name = path.rsplit("/", 1)[-1]
    return "." in name and name.rpartition(".")[2].lower() in _BINARY
