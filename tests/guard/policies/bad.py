"""Policies that misbehave, each in one way, at every call."""

from __future__ import annotations

import os
import sys
import time

from misstep.catalogue.base import Misstep, Policy


class _Bad(Policy):
    at = "before"
    text = "Bad."

    def fires(self, state, event):
        self.misbehave()
        return False


def _misstep(name, work):
    policy = type(name.title(), (_Bad,), {"id": name, "misbehave": lambda self: work()})
    return type(name.title() + "Misstep", (Misstep,), {"id": name, "name": name, "policies": (policy(),)})


def _loop():
    while True:
        pass


def _swallow():
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass


def _print():
    print('{"decision": "block", "reason": "printed"}')
    sys.stdout.flush()
    os.write(1, b"written to the descriptor\n")
    os.system("echo from a child")


def _interrupt():
    raise KeyboardInterrupt


def _crash():
    os.kill(os.getpid(), 11)


def _fork():
    if os.fork() == 0:
        return  # the child goes on as if it were the hook
    os.wait()


def _fork_and_exit():
    if os.fork() == 0:
        os._exit(3)
    os.wait()


def _deep(n=0):
    return _deep(n + 1) + _deep(n + 1)


Raises = _misstep("raises", lambda: 1 / 0)
Exits = _misstep("exits", lambda: sys.exit(2))
Loops = _misstep("loops", _loop)
Swallows = _misstep("swallows", _swallow)
Sleeps = _misstep("sleeps", lambda: time.sleep(60))
Prints = _misstep("prints", _print)
Recurses = _misstep("recurses", lambda: (lambda f: f(f))(lambda f: f(f)))
Recurses2 = _misstep("recurses-twice", _deep)
Leaves = _misstep("leaves", lambda: os._exit(3))
Interrupts = _misstep("interrupts", _interrupt)
Crashes = _misstep("crashes", _crash)
Aborts = _misstep("aborts", os.abort)
Becomes = _misstep("becomes", lambda: os.execv("/bin/true", ["true"]))
Forks = _misstep("forks", _fork)
Forks2 = _misstep("forks-and-exits", _fork_and_exit)
