"""The catalogue's verdicts by call, and what the judged steps come to."""

from __future__ import annotations

import pytest

from misstep.catalogue import Misstep
from misstep.catalogue.base import Verdict
from misstep.profile.beside import beside
from misstep.profile.labels import StepLabel
from misstep.profile.summary import Share, summary
from misstep.trajectory import Call, Result, Step, Trajectory


class Says(Misstep):
    """Says of each call what stands in its command: yes, no or perhaps, several times."""

    id = "says"

    def on_before(self, state, event):  # type: ignore[no-untyped-def]
        words = {"yes": True, "no": False, "perhaps": None}
        return [Verdict(words[word], event.index) for word in event.call.command.split() if word in words]


class Stops(Misstep):
    """Judges what the agent says at its end: no call."""

    id = "stops"

    def on_stop(self, state, event):  # type: ignore[no-untyped-def]
        return [Verdict(True, event.index)]


class Breaks(Misstep):
    id = "breaks"

    def on_before(self, state, event):  # type: ignore[no-untyped-def]
        raise RuntimeError("a fault of its own")


def trajectory(*commands: list[str]) -> Trajectory:
    steps = [Step("user", "go", prompt=True)]
    for n, turn in enumerate(commands):
        made = [Call(f"{n}.{k}", "bash", "shell", {}, command) for k, command in enumerate(turn)]
        steps.append(Step("agent", "", calls=made, results={one.id: Result("", 0) for one in made}))
    steps.append(Step("agent", "done"))
    return Trajectory("t", "f", "a", steps)


def test_each_verdict_stands_at_its_call() -> None:
    one = trajectory(["yes", "x", "no"], ["perhaps"])
    assert beside(one, [Says(), Stops()]) == {(1, 0): {"says": True}, (1, 2): {"says": False}, (2, 0): {"says": None}}


@pytest.mark.parametrize(
    ("command", "holds"),
    [("no yes", True), ("perhaps yes", True), ("no perhaps", None), ("perhaps no", None), ("no no", False)],
)
def test_several_verdicts_on_one_call(command: str, holds: bool | None) -> None:
    assert beside(trajectory([command]), [Says()]) == {(1, 0): {"says": holds}}


def test_a_detector_that_fails_silences_itself_alone() -> None:
    assert beside(trajectory(["yes"]), [Breaks(), Says()]) == {(1, 0): {"says": True}}


def label(n: int, verdict: str | None, path: str = "p", task: str = "t", **more: object) -> StepLabel:
    return StepLabel("t", path, 0, task, n, 0, verdict=verdict, **more)  # type: ignore[arg-type]


def test_what_the_steps_come_to() -> None:
    labels = [
        label(0, "bad", catalogue={"a": True, "b": False}),
        label(1, "good", catalogue={"a": True}),
        label(2, "bad", catalogue={"a": False}),
        label(3, "good", catalogue={"b": False}),
        label(4, "good", catalogue={"b": None}),
        label(5, "bad"),
        label(6, None, failure="invalid: x", catalogue={"a": True}),
        label(7, None, failure="unreachable: y"),
        label(0, "good", path="q", task="u", confidence=2 / 3, votes=("good", None, "good")),
        label(0, None, path="r", task="v", failure="invalid: z"),
    ]
    found = summary(labels)
    assert found.calls == 10
    assert (found.bad.some, found.bad.of) == (3, 7)
    assert (found.trajectories_bad.some, found.trajectories_bad.of) == (1, 2)  # r has no verdict at all
    assert (found.tasks_bad.some, found.tasks_bad.of) == (1, 2)
    assert found.failures == {"invalid": 2, "unreachable": 1}
    assert found.invalid_votes == 1
    assert found.confidence == pytest.approx(2 / 3)
    # Both know an answer at calls 0 to 3: (bad, occurred) = (1, 1), (0, 1), (1, 0), (0, 0).
    assert (found.agreement.items, found.agreement.dropped, found.agreement.kappa) == (4, 1, 0.0)
    assert (found.caught.some, found.caught.of) == (1, 2)
    assert (found.known.some, found.known.of) == (1, 3)
    assert {name: (one.some, one.of) for name, one in found.by_misstep.items()} == {"a": (1, 2)}


def test_nothing_judged_gives_no_share() -> None:
    found = summary([])
    assert (found.bad.rate, found.bad.interval, found.agreement.kappa) == (None, None, None)


def test_intervals() -> None:
    alike, apart = ((5, 10),) * 10, ((10, 10),) * 5 + ((0, 10),) * 5
    assert Share(50, 100, clusters=alike).interval == Share(50, 100).interval
    assert Share(50, 100, clusters=apart).interval == pytest.approx(
        Share(5, 10).interval, abs=0.02
    )  # ten tasks, no more
    assert Share(0, 10, exact=True).interval == pytest.approx((0.0, 1 - 0.025**0.1))
    assert Share(5, 10).interval == pytest.approx((0.2366, 0.7634), abs=1e-4)
