"""Recorded profiling: every call judged once, paid once, written whole; killed at any moment it goes on."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from misstep.models import Cache, Client, Settings
from misstep.profile.beside import beside, chosen
from misstep.profile.labels import Labels, StepLabel, load
from misstep.profile.recorded import IN_A_ROW, Found, Options, profile, works
from misstep.profile.summary import summary
from misstep.trajectory.readers import read

EXAMPLES = Path(__file__).parents[2] / "examples" / "sessions"


def settings(server: Any, **more: object) -> Settings:
    role = {
        "model": "openai:m",
        "base_url": server.url,
        "concurrency": 4,
        "repairs": 1,
        "price": {"input": 1.0, "output": 2.0},
        **more,
    }
    budget = {name: role.pop(name) for name in ("usd", "tokens") if name in role}
    return Settings.from_plain({"roles": {"localizer": role}, "budget": budget})


def judged(
    options: Options, given: Settings, out: Path, offline: bool = False, apart: bool = False
) -> tuple[Found, list[StepLabel]]:
    async def work() -> tuple[Found, list[StepLabel]]:
        with Labels(out, options.header(given.role("localizer"))) as labels:
            async with Client(given, Cache(out / "models.sqlite"), offline=offline, first_wait=0.005) as client:
                found = await profile(options, client, labels, apart=apart)
                return found, labels.all()

    return asyncio.run(work())


def wrong(labels: list[StepLabel]) -> list[StepLabel]:
    """Those in which the label is not what the oracle's rule says."""
    return [one for one in labels if one.verdict != ("bad" if "BAD" in one.command else "good")]


@pytest.mark.parametrize("batch", [1, 3])
def test_every_call_has_the_oracles_verdict(scripted: ModuleType, made: ModuleType, tmp_path: Path, batch: int) -> None:
    folder = made.sessions(tmp_path / "s")
    with scripted.Server(made.oracle) as server:
        found, labels = judged(Options([str(folder)], batch=batch), settings(server), tmp_path / "out")
        _, same = judged(Options([str(folder)], batch=batch), settings(server), tmp_path / "out")
    assert (found.trajectories, found.calls, len(labels)) == (6, 48, 48)
    assert not wrong(labels)
    assert sum(server.served.values()) == (48 if batch == 1 else 6 * 3)
    assert same == labels
    assert [one.key for one in labels] == [
        (str(folder / f"s{n:02}.traj.json"), 0, 2 + k, 0) for n in range(6) for k in range(8)
    ]
    assert summary(labels).bad.plain()["some"] == 12


def test_apart_it_gives_the_same(scripted: ModuleType, made: ModuleType, tmp_path: Path) -> None:
    folder = made.sessions(tmp_path / "s", count=20)
    (folder / "none.json").write_text("{}")
    with scripted.Server(made.oracle) as server:
        here, labels = judged(Options([str(folder)]), settings(server), tmp_path / "here")
        there, same = judged(Options([str(folder)]), settings(server), tmp_path / "there", apart=True)
        judged(Options([str(folder)]), settings(server), tmp_path / "there", apart=True)
    assert same == labels
    assert vars(there) == vars(here)
    assert set(server.served.values()) == {2}


def test_what_is_sent_holds_no_result_and_no_outcome(scripted: ModuleType, made: ModuleType, tmp_path: Path) -> None:
    made.session(tmp_path / "s", "one", [f"run {k}" for k in range(5)], outputs=[f"<secret-{k}>" for k in range(5)])
    with scripted.Server(made.oracle) as server:
        judged(Options([str(tmp_path / "s")]), settings(server), tmp_path / "out")
    for body in server.bodies:
        prompt = body["messages"][-1]["content"]
        number = int(made.proposed(prompt).split("run ")[-1])
        assert [k for k in range(5) if f"<secret-{k}>" in prompt] == list(range(number))
        assert "Submitted" not in prompt


def test_real_sessions_of_every_reader(scripted: ModuleType, made: ModuleType, tmp_path: Path) -> None:
    with scripted.Server(made.oracle) as server:
        found, labels = judged(Options([str(EXAMPLES)], steps=6), settings(server, concurrency=16), tmp_path / "out")
    assert found.calls == len(labels) > 40
    assert len({one.path for one in labels}) >= 10
    assert all(one.verdict for one in labels)
    for one in labels:  # each label leads back to its call
        trajectory = list(read(one.path))[one.n]
        assert trajectory.id == one.trajectory
        assert trajectory.steps[one.step].calls[one.call]


def test_the_catalogue_stands_beside_and_is_never_overwritten(
    scripted: ModuleType, made: ModuleType, tmp_path: Path
) -> None:
    """The oracle calls everything good; the catalogue's verdicts are those of a fold by itself."""
    with scripted.Server(lambda prompt, number: made.verdict(False)) as server:
        _, labels = judged(Options([str(EXAMPLES)]), settings(server, concurrency=16), tmp_path / "out")
    expected: dict[tuple[str, int], dict[tuple[int, int], dict[str, bool | None]]] = {}
    for one in labels:
        if (one.path, one.n) not in expected:
            expected[one.path, one.n] = beside(list(read(one.path))[one.n], chosen())
        assert one.catalogue == expected[one.path, one.n].get((one.step, one.call), {})
    assert {True, False, None} <= {holds for one in labels for holds in one.catalogue.values()}
    whole = summary(labels)
    assert whole.caught.some == 0
    assert whole.caught.of == sum(bool(one.missteps) for one in labels) > 0


def test_a_copy_is_judged_once(scripted: ModuleType, made: ModuleType, tmp_path: Path) -> None:
    source = next(p for p in sorted((EXAMPLES / "claude-code").rglob("*.jsonl")))
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / "s").mkdir(exist_ok=True)
        (tmp_path / "s" / name).write_bytes(source.read_bytes())
    with scripted.Server(made.oracle) as server:
        found, labels = judged(Options([str(tmp_path / "s")]), settings(server), tmp_path / "out")
    assert found.copies == len(labels) > 0
    assert {Path(one.path).name for one in labels} == {"a.jsonl"}


def test_a_sample_is_the_same_for_a_seed_and_whatever_the_order(made: ModuleType, tmp_path: Path) -> None:
    folder = made.sessions(tmp_path / "s")
    files = sorted(map(str, folder.iterdir()))

    def drawn(paths: list[str], seed: int) -> set[Any]:
        options = Options(paths, sample=10, seed=seed)
        return {label.key for work in works(options, lambda key: False, Found()) for label in work.labels}

    assert drawn(files, 1) == drawn(files[::-1], 1)
    assert len(drawn(files, 1)) == 10
    assert drawn(files, 1) != drawn(files, 2)
    seen = Counter(key for seed in range(40) for key in drawn(files, seed))
    assert len(seen) == 48  # none is out of reach
    assert max(seen.values()) < 20  # each is drawn about 8 times


def test_shards_are_disjoint_and_whole(made: ModuleType, tmp_path: Path) -> None:
    folder = made.sessions(tmp_path / "s", count=20, calls=2)
    parts = [
        [
            label.key
            for work in works(Options([str(folder)]), lambda key: False, Found(), (i, 3))
            for label in work.labels
        ]
        for i in (1, 2, 3)
    ]
    every = list(chain(*parts))
    assert len(every) == len(set(every)) == 40
    assert all(parts)


class TestFailures:
    def test_an_answer_that_stays_invalid_is_counted(
        self, scripted: ModuleType, made: ModuleType, tmp_path: Path
    ) -> None:
        def rule(prompt: str, number: int) -> str:
            return (
                "no idea" if prompt.startswith("That answer") or "BAD" in made.proposed(prompt) else made.verdict(False)
            )

        folder = made.sessions(tmp_path / "s", count=2)
        with scripted.Server(rule) as server:
            _, labels = judged(Options([str(folder)]), settings(server), tmp_path / "out")
            asked = len(server.bodies)
            judged(Options([str(folder)]), settings(server), tmp_path / "out")
        failed = [one for one in labels if one.verdict is None]
        assert len(failed) == 4
        assert {one.failure_kind for one in failed} == {"invalid"}
        assert all("BAD" in one.command for one in failed)
        assert summary(labels).failures == {"invalid": 4}
        assert summary(labels).bad.of == len(labels) - 4
        assert len(server.bodies) == asked  # it would not be valid the next time

    def test_faults_of_the_server_lose_nothing(self, scripted: ModuleType, made: ModuleType, tmp_path: Path) -> None:
        draw = random.Random(2)
        kinds = [
            scripted.Fault(status=429, after="0"),
            scripted.Fault(status=500),
            scripted.Fault("garbage"),
            scripted.Fault("cut"),
        ]

        def rule(prompt: str, number: int) -> Any:
            return draw.choice(kinds) if draw.random() < 0.3 else made.oracle(prompt, number)

        folder = made.sessions(tmp_path / "s")
        with scripted.Server(rule) as server:
            _, labels = judged(Options([str(folder)]), settings(server), tmp_path / "out")
        assert len(labels) == 48
        assert not wrong(labels)
        assert set(server.served.values()) == {1}

    def test_the_budget_ends_it_and_more_of_it_goes_on(
        self, scripted: ModuleType, made: ModuleType, tmp_path: Path
    ) -> None:
        folder = made.sessions(tmp_path / "s")
        with scripted.Server(made.oracle) as server:
            given = settings(server, usd=0.02, max_tokens=200)
            found, labels = judged(Options([str(folder)]), given, tmp_path / "out")
            paid = sum(server.served.values())
            assert found.stopped.startswith("the budget is used up ($")
            assert 0 < paid < 48
            done = [one for one in labels if one.verdict]
            assert len(done) == paid
            with closing(Cache(tmp_path / "out" / "models.sqlite")) as cache:
                assert cache.spent().usd <= 0.02
            found, labels = judged(Options([str(folder)]), settings(server, usd=1.0, max_tokens=200), tmp_path / "out")
        assert not found.stopped
        assert not wrong(labels)
        assert len(labels) == 48
        assert set(server.served.values()) == {1}

    def test_a_server_that_refuses_everything_ends_it(
        self, scripted: ModuleType, made: ModuleType, tmp_path: Path
    ) -> None:
        folder = made.sessions(tmp_path / "s", count=20)
        with scripted.Server(lambda prompt, number: scripted.Fault(status=401)) as server:
            found, labels = judged(Options([str(folder)]), settings(server), tmp_path / "out")
        assert f"{IN_A_ROW} steps in a row had no answer; the last: " in found.stopped
        assert "planted" in found.stopped
        assert IN_A_ROW <= len(server.bodies) < IN_A_ROW + 16
        assert {one.failure_kind for one in labels} == {"rejected"}

    def test_offline_takes_what_is_there(self, scripted: ModuleType, made: ModuleType, tmp_path: Path) -> None:
        folder = made.sessions(tmp_path / "s", count=2)
        with scripted.Server(made.oracle) as server:
            judged(Options([str(folder)], steps=3), settings(server), tmp_path / "out")
            (tmp_path / "out" / "profile.jsonl").unlink()
            _, labels = judged(Options([str(folder)]), settings(server), tmp_path / "out", offline=True)
        assert [one.verdict is not None for one in labels] == ([True] * 3 + [False] * 5) * 2
        assert summary(labels).failures == {"offline": 10}


def command(folder: Path, models: Path, out: Path, *more: str) -> list[str]:
    return [
        str(Path(sys.executable).with_name("misstep")),
        "profile",
        str(folder),
        "--models",
        str(models),
        "--out",
        str(out),
        *more,
    ]


@pytest.mark.slow
@pytest.mark.parametrize("batch", ["1", "3"])
def test_killed_at_any_moment_it_ends_as_if_it_was_not(
    scripted: ModuleType, made: ModuleType, tmp_path: Path, batch: str
) -> None:
    """kill -9 at random moments: the same bytes as an uninterrupted run, and only what was in flight is asked again."""
    folder = made.sessions(tmp_path / "s", count=12)
    more = ["--votes", "2", "--batch", batch]
    draw, kills = random.Random(11), 0

    def rule(prompt: str, number: int) -> str:
        return str(made.oracle(prompt, 0))  # whichever vote asks

    with scripted.Server(rule, delay=0.03) as server:
        models = tmp_path / "models.toml"
        models.write_text(f'[roles.localizer]\nmodel = "openai:m"\nbase_url = "{server.url}"\nconcurrency = 4\n')
        plain = subprocess.run(
            command(folder, models, tmp_path / "plain", *more), capture_output=True, text=True, check=False
        )
        assert plain.returncode == 0, plain.stderr
        # Each question is asked twice (two votes of the same text).
        once = dict(server.served)
        assert set(once.values()) == {2}
        server.served.clear()
        for _ in range(40):
            run = subprocess.Popen(
                command(folder, models, tmp_path / "out", *more),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            before, deadline = sum(server.served.values()), time.monotonic() + 20
            wanted = before + draw.randrange(1, 40 // int(batch))
            while run.poll() is None and sum(server.served.values()) < wanted and time.monotonic() < deadline:
                time.sleep(0.002)
            if run.poll() is None:
                os.kill(run.pid, signal.SIGKILL)
                kills += 1
            assert run.stderr is not None
            told = run.stderr.read()
            run.wait()
            if run.returncode == 0:
                break
            assert run.returncode == -signal.SIGKILL, told
        asked = dict(server.served)
    assert run.returncode == 0
    assert kills >= 3
    assert (tmp_path / "out" / "profile.jsonl").read_bytes() == (tmp_path / "plain" / "profile.jsonl").read_bytes()
    assert set(asked) == set(once)
    assert sum(asked.values()) - sum(once.values()) <= 4 * kills
    assert not wrong(load(tmp_path / "out")[1])


class TestCommand:
    def run(self, *args: str) -> subprocess.CompletedProcess[str]:
        program = str(Path(sys.executable).with_name("misstep"))
        return subprocess.run([program, "profile", *args], capture_output=True, text=True, check=False)

    def test_what_it_tells(self, scripted: ModuleType, made: ModuleType, tmp_path: Path) -> None:
        folder = made.sessions(tmp_path / "s")
        models, out = tmp_path / "m.toml", tmp_path / "out"
        with scripted.Server(made.oracle) as server:
            models.write_text(
                f'[roles.localizer]\nmodel = "openai:m"\nbase_url = "{server.url}"\nprice = {{ input = 1, output = 1 }}\n'
            )
            first = self.run(str(folder), "--models", str(models), "--out", str(out), "--votes", "3")
            again = self.run(
                "recorded", str(folder), "--models", str(models), "--out", str(out), "--votes", "3", "--json"
            )
        assert first.returncode == 0, first.stderr
        assert "48 calls judged in 6 sessions of 6 tasks" in first.stdout
        assert "bad                      12 of 48 (25.0 %, 95 % interval 14.9 to 38.8 %)" in first.stdout
        assert "sessions with a bad one  6 of 6 (100.0 %, 95 % interval 54.1 to 100.0 %)" in first.stdout
        assert "agreement of the votes   100.0% on average" in first.stdout
        assert "without a verdict        0\n" in first.stdout
        assert "Cost of this run: 144 calls, " in first.stdout
        told = json.loads(again.stdout)
        assert told["cost"]["calls"] == 0
        assert told["cost"]["whole"]["calls"] == 144
        assert told["bad"] == {"some": 12, "of": 48, "rate": 0.25, "interval": pytest.approx([0.149, 0.388], abs=1e-3)}

    @pytest.mark.parametrize(
        ("models", "args", "problem"),
        [
            (None, ["nowhere"], "nowhere: no such file or folder"),
            (None, ["."], "m.toml: No such file or directory"),
            ("[roles.judge]\nmodel = 'openai:m'\n", ["."], "no model for the role localizer"),
            ("[default]\nmodel = 'nobody:m'\n", ["."], "model is provider:name with one of openai, anthropic, google"),
            ("[default]\nmodel = 'openai:m'\nbase_url = 'http://127.0.0.1:1/v1'\n[budget]\nusd = 1\n", ["."], "no price is known for openai:m"),
        ],
    )  # fmt: skip
    def test_bad_input_is_one_line(self, tmp_path: Path, models: str | None, args: list[str], problem: str) -> None:
        if models is not None:
            (tmp_path / "m.toml").write_text(models)
        done = self.run(*args, "--models", str(tmp_path / "m.toml"), "--out", str(tmp_path / "out"))
        assert done.returncode == 2
        assert problem in done.stderr
        assert done.stderr.startswith("misstep: ")
        assert done.stderr.count("\n") == 1

    def test_interrupted_it_ends_at_once_and_goes_on(
        self, scripted: ModuleType, made: ModuleType, tmp_path: Path
    ) -> None:
        folder, models, out = made.sessions(tmp_path / "s"), tmp_path / "m.toml", tmp_path / "out"
        with scripted.Server(made.oracle, delay=0.1) as server:
            models.write_text(f'[roles.localizer]\nmodel = "openai:m"\nbase_url = "{server.url}"\nconcurrency = 2\n')
            program = str(Path(sys.executable).with_name("misstep"))
            args = [program, "profile", str(folder), "--models", str(models), "--out", str(out)]
            run = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            deadline = time.monotonic() + 30
            while sum(server.served.values()) < 6 and time.monotonic() < deadline:
                time.sleep(0.01)
            run.send_signal(signal.SIGINT)
            _, told = run.communicate(timeout=20)
            assert (run.returncode, told.strip()) == (130, "misstep: interrupted")
            done = self.run(*args[2:])
        assert done.returncode == 0, done.stderr
        assert "48 calls judged" in done.stdout
        assert sum(server.served.values()) <= 48 + 2

    def test_another_way_of_judging_needs_another_folder(
        self, scripted: ModuleType, made: ModuleType, tmp_path: Path
    ) -> None:
        folder = made.sessions(tmp_path / "s", count=1, calls=2)
        with scripted.Server(made.oracle) as server:
            judged(Options([str(folder)]), settings(server), tmp_path / "out")
            models = tmp_path / "m.toml"
            models.write_text(f'[roles.localizer]\nmodel = "openai:m"\nbase_url = "{server.url}"\n')
            done = self.run(str(folder), "--models", str(models), "--out", str(tmp_path / "out"), "--votes", "3")
        assert done.returncode == 2
        assert done.stderr == (
            f"misstep: {tmp_path}/out/profile.jsonl: was made with votes 1, not 3: name another folder\n"
        )


@pytest.mark.slow
def test_a_real_model_is_handled(local_model: Any, tmp_path: Path) -> None:
    """SmolLM2 on the CPU as the localizer of a real session. What it says is not asserted, only that it is handled."""
    from misstep.profile.view import Room

    session = next((EXAMPLES / "mini-swe-agent").rglob("*.traj.json"))
    given = Settings.from_plain({"roles": {"localizer": local_model.role(repairs=1)}})
    options = Options(
        [str(session)], votes=2, steps=4, room=Room(task=600, prefix=1200, text=200, output=200, proposed=600)
    )
    found, labels = judged(options, given, tmp_path / "out")
    assert found.calls == len(labels) == 4
    assert not found.stopped
    for one in labels:
        assert len(one.votes) == 2
        assert (one.verdict is None) == bool(one.failure)
        assert one.verdict is None or one.reason
        assert one.failure_kind in ("", "invalid", "split")
    with closing(Cache(tmp_path / "out" / "models.sqlite")) as cache:
        spent = cache.spent()
    assert spent.tokens > 1000
    assert 8 <= spent.calls <= 16
    _, same = judged(options, given, tmp_path / "out", offline=True)
    assert same == labels
