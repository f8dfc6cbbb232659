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


Raises = _misstep("raises", lambda: 1 / 0)
Exits = _misstep("exits", lambda: sys.exit(2))
Loops = _misstep("loops", _loop)
Swallows = _misstep("swallows", _swallow)
Sleeps = _misstep("sleeps", lambda: time.sleep(60))
Prints = _misstep("prints", _print)
Recurses = _misstep("recurses", lambda: (lambda f: f(f))(lambda f: f(f)))
