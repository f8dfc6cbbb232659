"""What a terminal shows, against tmux where it is installed; and what keys send."""

from __future__ import annotations

import random
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from misstep.sandbox import keys
from misstep.sandbox.screen import Screen


def shown(text: str, rows: int = 5, columns: int = 10) -> list[str]:
    screen = Screen(rows, columns)
    screen.feed(text)
    return screen.text.split("\n")


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("one\r\ntwo", ["one", "two"]),
        ("0123456789ab", ["0123456789", "ab"]),
        ("0123456789\r\nx", ["0123456789", "x"]),
        ("a\rb\tc\bd", ["b       d"]),
        ("1\r\n2\r\n3\r\n4\r\n5\r\n6", ["2", "3", "4", "5", "6"]),
        ("\x1b[3;4Hx\x1b[1;1Hy", ["y", "", "   x"]),
        ("abcdef\x1b[3D\x1b[K", ["abc"]),
        ("abcdef\x1b[1;3H\x1b[1K", ["   def"]),
        ("abcdef\x1b[1;2H\x1b[2P", ["adef"]),
        ("abcdef\x1b[1;2H\x1b[2@", ["a  bcdef"]),
        ("a\r\nb\r\nc\x1b[2;1H\x1b[L", ["a", "", "b", "c"]),
        ("a\r\nb\r\nc\x1b[1;1H\x1b[M", ["b", "c"]),
        ("top\r\n1\r\n2\r\n3\x1b[2;4r\x1b[4;1H\n4", ["top", "2", "3", "4"]),
        ("main\x1b[?1049h\x1b[2J\x1b[Hother", ["other"]),
        ("main\x1b[?1049hother\x1b[?1049l!", ["main!"]),
        ("\x1b]0;a title\x07\x1b[1;31mred\x1b[0m\x1b(B", ["red"]),
        ("界x", ["界x"]),
        ("e\u0301x", ["e\u0301x"]),
        ("12345678界界", ["12345678界", "界"]),
        ("x\x1b[4b", ["xxxxx"]),
        ("a\x1b[2J\x1b[Hb\x1bc", [""]),
    ],
)
def test_sequences(text: str, lines: list[str]) -> None:
    assert shown(text) == lines
    screen = Screen(5, 10)
    for char in text:  # in whatever parts it comes
        screen.feed(char)
    assert screen.text.split("\n") == lines


def test_another_size() -> None:
    screen = Screen(4, 10)
    screen.feed("one\r\ntwo\r\nthree\r\nfour")
    screen.resize(2, 4)
    assert screen.lines == ["thre", "four"]
    screen.resize(3, 12)
    screen.feed("\r\nfive and on")
    assert screen.lines == ["thre", "four", "five and on"]


PIECES = [
    "word", "x", "y z", "\r\n", "\r\n", "\n", "\r", "\t", "\b", "0123456789" * 3, "界", "é", "\x1b[H", "\x1b[5;7H",
    "\x1b[2;20H", "\x1b[K", "\x1b[1K", "\x1b[2K", "\x1b[J", "\x1b[1J", "\x1b[A", "\x1b[3B", "\x1b[4C", "\x1b[2D", "\x1b[E", "\x1b[F",
    "\x1b[9G", "\x1b[3d", "\x1b[L", "\x1b[2M", "\x1b[P", "\x1b[3P", "\x1b[2@", "\x1b[4X", "\x1b[2;6r", "\x1b[r", "\x1bM", "\x1bD",
    "\x1b[2S", "\x1b[T", "\x1b7", "\x1b8", "\x1b[31m", "\x1b[?25l", "\x1b]0;t\x07", "x\x1b[3b",
]  # fmt: skip


@pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not installed")
def test_random_sequences_look_as_in_tmux() -> None:
    chosen = random.Random(5)
    texts = ["".join(chosen.choices(PIECES, k=40)) for _ in range(60)]
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        tmux = ["tmux", "-S", f"{folder}/socket", "-f", "/dev/null"]
        for i, text in enumerate(texts):
            Path(folder, str(i)).write_text(text)
        script = f'stty raw -echo; for i in $(seq 0 {len(texts) - 1}); do printf "\\033[?1049l\\033c"; cat {folder}/$i; touch {folder}/$i.done; while [ ! -e {folder}/$i.seen ]; do sleep 0.01; done; done'
        subprocess.run([*tmux, "-u", "new-session", "-d", "-x", "30", "-y", "8", script], check=True)
        subprocess.run([*tmux, "set", "-g", "status", "off"], check=True)
        wrong = []
        try:
            subprocess.run([*tmux, "resize-window", "-x", "30", "-y", "8"], check=True)
            for i, text in enumerate(texts):
                deadline = time.monotonic() + 5
                while not Path(folder, f"{i}.done").exists():
                    assert time.monotonic() < deadline
                    time.sleep(0.005)
                screen = Screen(8, 30)
                screen.feed(text)
                for _ in range(20):  # tmux reads what has been written a little later
                    seen = subprocess.run([*tmux, "capture-pane", "-p"], capture_output=True, text=True).stdout
                    lines = [line.rstrip() for line in seen.split("\n")[:8]]
                    if lines == screen.lines:
                        break
                    time.sleep(0.01)
                else:
                    wrong.append((text, lines, screen.lines))
                Path(folder, f"{i}.seen").touch()
        finally:
            subprocess.run([*tmux, "kill-server"])
    assert wrong == []


@pytest.mark.parametrize(
    ("key", "sent"),
    [
        ("Enter", "\r"), ("C-c", "\x03"), ("^D", "\x04"), ("C-[", "\x1b"), ("C-Space", "\0"), ("M-x", "\x1bx"), ("M-Enter", "\x1b\r"),
        ("Up", "\x1b[A"), ("F1", "\x1bOP"), ("PageDown", "\x1b[6~"), ("ls -la", None), ("C-", None), ("enter", None), ("^", None),
        ("M-", None), ("C-c\n", None), ("", None),
    ],
)  # fmt: skip
def test_keys(key: str, sent: str | None) -> None:
    assert keys.sent(key) == sent
    assert keys.sent("Up", application=True) == "\x1bOA"
