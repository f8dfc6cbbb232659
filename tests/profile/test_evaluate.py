"""The localizer against marks of people: what data sets count from, protocols, and scores of oracles of known accuracy."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from misstep.models import Cache, Client, Settings
from misstep.profile import evaluate
from misstep.profile.attribution import DatasetError, Run, Turn, as_trajectory, read
from misstep.profile.evaluate import (
    ALL_AT_ONCE,
    CATALOGUE,
    PROTOCOLS,
    STEP_BY_STEP,
    Answer,
    Score,
    by_catalogue,
    scores,
)

MARK = "MISTAKE"
"""Stands in the marked step alone."""


def who_and_when(folder: Path, name: str, length: int, at: int) -> None:
    history = [
        {"name": f"Agent{n % 3}", "role": "assistant", "content": MARK if n == at else f"turn {n} of {name}"}
        for n in range(length)
    ]
    given = {
        "question": f"What is {name}?", "ground_truth": "the-reference-answer", "history": history,
        "mistake_step": str(at), "mistake_agent": f"Agent{at % 3}", "mistake_reason": "the-reference-reason",
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(given))


def agentrx_tau(folder: Path, ids: dict[int, tuple[int, int]]) -> None:
    """ids: trajectory -> (length, the marked step, from 1)."""
    runs, labels = [], []
    for number, (length, at) in ids.items():
        traj = [
            {"role": ("system", "user", "assistant", "tool")[n % 4 if n > 4 else min(n - 1, 3)],
             "content": MARK if n == at else f"turn {n} of {number}", "index": n}
            for n in range(1, length + 1)
        ]  # fmt: skip
        runs.append({"task_id": number, "reward": 0.0, "info": {"actions": ["the-reference-answer"]}, "traj": traj})
        failures = [
            {"failure_id": 1, "step_number": at, "failed_agent": traj[at - 1]["role"].capitalize()},
            {"failure_id": 2, "step_number": length, "failed_agent": "Assistant"},
        ]
        labels.append({"trajectory_id": number, "failures": failures, "root_cause": {"failure_id": 1}})
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "runs.json").write_text(json.dumps(runs))
    (folder / "labels.json").write_text(json.dumps(labels))


class TestReading:
    def test_who_and_when_counts_from_0(self, tmp_path: Path) -> None:
        who_and_when(tmp_path / "Hand", "7", 9, 4)
        (run,), skipped = read([tmp_path])
        assert (run.dataset, run.id, run.step, run.agent) == ("who-and-when/Hand", "7", 4, "Agent1")
        assert run.turns[run.step].text == MARK
        assert not skipped

    def test_agentrx_counts_from_1(self, tmp_path: Path) -> None:
        agentrx_tau(tmp_path, {3: (10, 7)})
        (run,), _ = read([tmp_path])
        assert (run.dataset, run.id, run.step) == ("agentrx/tau", "3", 6)
        assert run.turns[run.step].text == MARK
        assert run.steps == {6, 9}
        assert run.agent == run.turns[6].agent

    def test_agentrx_magentic(self, tmp_path: Path) -> None:
        turns = [{"role": "human", "content": "Do it."}, {"role": "Orchestrator (thought)", "content": "x"},
                 {"role": "Orchestrator (-> WebSurfer)", "content": MARK}, {"role": "WebSurfer", "content": "y"}]  # fmt: skip
        (tmp_path / "ab-12.json").write_text(json.dumps(turns))
        label = {
            "trajectory_id": "ab-12",
            "failures": [{"failure_id": "f", "step_number": "3", "failed_agent": "Orchestrator"}],
        }
        (tmp_path / "labels.json").write_text(json.dumps([{**label, "root_cause": {"failure_id": "f"}}]))
        (run,), _ = read([tmp_path])
        assert (run.dataset, run.step, run.agent, run.task) == ("agentrx/magentic", 2, "Orchestrator", "Do it.")
        assert run.turns[2] == Turn("Orchestrator", MARK)

    def test_labels_and_runs_may_be_in_different_places(self, tmp_path: Path) -> None:
        agentrx_tau(tmp_path / "runs", {3: (10, 7)})
        (tmp_path / "labels").mkdir()
        (tmp_path / "runs" / "labels.json").rename(tmp_path / "labels" / "labels.json")
        (run,), _ = read([tmp_path / "labels", tmp_path / "runs", tmp_path / "runs" / "runs.json"])
        assert run.step == 6
        with pytest.raises(DatasetError, match="no labelled run"):
            read([tmp_path / "runs"])

    def test_labels_that_do_not_fit_are_counted(self, tmp_path: Path) -> None:
        who_and_when(tmp_path / "a", "ok", 5, 1)
        who_and_when(tmp_path / "a", "beyond", 5, 5)
        agentrx_tau(tmp_path / "b", {1: (6, 3)})
        labels = json.loads((tmp_path / "b" / "labels.json").read_text())
        beyond = {**labels[0], "failures": [{"failure_id": 1, "step_number": 7}]}
        (tmp_path / "b" / "labels.json").write_text(json.dumps([{**labels[0], "trajectory_id": 99}, beyond]))
        (tmp_path / "a" / "broken.json").write_text("{")
        runs, skipped = read([tmp_path])
        assert [run.id for run in runs] == ["ok"]
        assert dict(skipped) == {
            "who-and-when: the marked step is not in the record": 1,
            "agentrx: the labelled run is not there": 1,
            "agentrx: the marked step is not in the record": 1,
            "not JSON": 1,
        }

    def test_what_is_no_data_set(self, tmp_path: Path) -> None:
        with pytest.raises(DatasetError, match="nothere: no such file or folder"):
            read([tmp_path / "nothere"])
        with pytest.raises(DatasetError, match="no labelled run of Who&When or AgentRx in it"):
            read([tmp_path])

    @pytest.mark.corpus
    def test_the_real_ones(self, shared: Path) -> None:
        """The agent of the marked step is the one that people named: any other counting would match far fewer."""
        runs, skipped = read([shared / "corpus" / "who-and-when", shared / "corpus" / "agentrx-tau"])
        found: dict[str, list[int]] = {}
        for run in runs:
            at = found.setdefault(run.dataset, [0, 0, 0, 0])
            at[3] += 1
            for place, away in enumerate((-1, 0, 1)):
                step = run.step + away
                at[place] += 0 <= step < len(run.turns) and run.turns[step].agent == run.agent
        assert found == {
            "who-and-when/Algorithm-Generated": [12, 67, 8, 68],
            "who-and-when/Hand-Crafted": [4, 23, 5, 24],
            "agentrx/tau": [1, 26, 0, 27],
        }
        assert dict(skipped) == {"agentrx: the labelled run is not there": 2}


def draw(text: str) -> float:
    """Uniform in [0, 1), by the text."""
    return int.from_bytes(sha256(text.encode()).digest()[:8], "big") / 2**64


def asked(
    runs: list[Run], server: Any, out: Path, protocols: tuple[str, ...] = PROTOCOLS, **more: object
) -> list[Answer]:
    role = {"model": "openai:m", "base_url": server.url, "concurrency": 8, "repairs": 1, **more}
    given = Settings.from_plain({"roles": {"localizer": role}})

    async def work() -> list[Answer]:
        with evaluate.lines(out, evaluate.header(protocols, given.role("localizer"), 1)) as kept:
            async with Client(given, Cache(out / "models.sqlite"), first_wait=0.005) as client:
                await evaluate.evaluate(runs, protocols, client, kept)
            return [Answer(**one) for one in kept.records.values()]

    return asyncio.run(work())


def steps_of(prompt: str) -> dict[int, tuple[str, str]]:
    """number -> (agent, text) of the steps in a record."""
    found = re.search(r"<record>\n(.*?)\n</record>", prompt, re.DOTALL)
    assert found is not None
    return {
        int(n): (agent, text) for n, agent, text in re.findall(r"^\[step (\d+)\] (\w+): (.*)$", found[1], re.MULTILINE)
    }


def oracle(made: ModuleType, accuracy: float = 1.0, away: int = 1) -> Any:
    """Finds the mark; at once, with the stated accuracy: else it names the step `away` further on (or back, at the end)."""

    def rule(prompt: str, number: int) -> str:
        if "<record>" not in prompt:
            return str(made.verdict(MARK in made.proposed(prompt)))
        steps = steps_of(prompt)
        right = next(n for n, (_, text) in steps.items() if text == MARK)
        step = right if draw(prompt) < accuracy else right + away if right + away in steps else right - away
        return json.dumps({"reason": "r", "step": step, "agent": steps[step][0]})

    return rule


@pytest.fixture
def data(tmp_path: Path) -> list[Run]:
    """120 runs of each data set, the marks anywhere, first and last steps among them."""
    ids = {}
    for n in range(120):
        length = 8 + n % 9
        who_and_when(tmp_path / "data" / "Made", str(n), length, n % length)
        ids[n] = (length, 1 + n % length)
    agentrx_tau(tmp_path / "data" / "tau", ids)
    runs, skipped = read([tmp_path / "data"])
    assert len(runs) == 240
    assert not skipped
    return runs


def by_name(found: list[Score]) -> dict[tuple[str, str], Score]:
    return {(one.dataset, one.protocol): one for one in found}


def test_one_that_is_always_right_scores_all_by_both_protocols(
    scripted: ModuleType, made: ModuleType, tmp_path: Path, data: list[Run]
) -> None:
    """Whatever the data set counts from: an oracle that names the marked step has it to the step."""
    with scripted.Server(oracle(made)) as server:
        answers = asked(data, server, tmp_path / "out")
    found = by_name(scores(data, answers))
    assert set(found) == {(name, protocol) for name in ("who-and-when/Made", "agentrx/tau") for protocol in PROTOCOLS}
    for one in found.values():
        assert (one.runs, one.failures, one.silent) == (120, {}, 0)
        assert one.within[0].some == one.agent.some == one.any.some == 120
        low, high = one.within[0].interval or (0, 0)
        assert low == pytest.approx(0.025 ** (1 / 120))  # the exact interval of 120 of 120
        assert high == 1.0
    # Step by step asks of each step up to the marked one, and no further.
    by_step = sum("<record>" not in body["messages"][-1]["content"] for body in server.bodies)
    assert by_step == sum(run.step + 1 for run in data)


@pytest.mark.parametrize(("accuracy", "away"), [(0.3, 1), (0.75, 3), (0.0, 2)])
def test_one_of_known_accuracy_scores_it(
    scripted: ModuleType, made: ModuleType, tmp_path: Path, data: list[Run], accuracy: float, away: int
) -> None:
    with scripted.Server(oracle(made, accuracy, away)) as server:
        answers = asked(data, server, tmp_path / "out", (ALL_AT_ONCE,))
    for one in scores(data, answers):
        low, high = one.within[0].interval or (0, 0)
        assert low <= accuracy <= high
        assert [one.within[k].some == one.within[0].some for k in range(away)] == [True] * away
        assert one.within[away].some == 120


def test_the_reference_answer_is_never_sent(
    scripted: ModuleType, made: ModuleType, tmp_path: Path, data: list[Run]
) -> None:
    with scripted.Server(oracle(made)) as server:
        asked(data[:20] + data[-20:], server, tmp_path / "out")
    assert server.bodies
    assert "the-reference" not in json.dumps(server.bodies)


def test_a_step_is_judged_from_what_came_before_alone(
    scripted: ModuleType, made: ModuleType, tmp_path: Path, data: list[Run]
) -> None:
    with scripted.Server(lambda prompt, number: made.verdict(False)) as server:
        (answer,) = asked(data[5:6], server, tmp_path / "out", (STEP_BY_STEP,))
    assert (answer.step, answer.failure) == (None, "")
    prompts = [body["messages"][-1]["content"] for body in server.bodies]
    assert len(prompts) == len(data[5].turns)
    for n, prompt in enumerate(prompts):
        assert f"[step {n}]" in made.proposed(prompt)
        assert f"[step {n + 1}]" not in prompt
    (score,) = scores(data, [answer])
    assert (score.silent, score.within[5].some, score.agent.some) == (1, 0, 0)


def test_answers_that_cannot_be_are_asked_again_then_counted(
    scripted: ModuleType, made: ModuleType, tmp_path: Path, data: list[Run]
) -> None:
    runs = data[:6]
    last = {run.task: len(run.turns) - 1 for run in runs}

    def rule(prompt: str, number: int) -> str:
        return json.dumps({"reason": "r", "step": 99, "agent": "x"})

    with scripted.Server(rule) as server:
        answers = asked(runs, server, tmp_path / "out", (ALL_AT_ONCE,))
        assert len(server.bodies) == 12
        repair = server.bodies[-1]["messages"][-1]["content"]
        assert any(f"step must be a number from 0 to {n}, not 99" in repair for n in last.values())
        asked(runs, server, tmp_path / "out", (ALL_AT_ONCE,))
        assert len(server.bodies) == 12
    (score,) = scores(data, answers)
    assert score.failures == {"invalid": 6}
    assert score.within[0].of == 0
    assert score.within[0].rate is None


def test_it_goes_on_and_pays_for_nothing_twice(
    scripted: ModuleType, made: ModuleType, tmp_path: Path, data: list[Run]
) -> None:
    with scripted.Server(oracle(made)) as server:
        asked(data[:10], server, tmp_path / "out")
        answers = asked(data[:30], server, tmp_path / "out")
        (tmp_path / "out" / evaluate.FILE).rename(tmp_path / "before")
        again = asked(data[:30], server, tmp_path / "out")
    assert set(server.served.values()) == {1}
    assert sorted(answers, key=lambda a: a.key) == sorted(again, key=lambda a: a.key)
    assert (tmp_path / "before").read_bytes() == (tmp_path / "out" / evaluate.FILE).read_bytes()


class TestCatalogue:
    def run(self, *turns: tuple[str, str], step: int = 0) -> Run:
        return Run("d", "1", "t", tuple(Turn(*one) for one in turns), step, turns[step][0], frozenset({step}))

    def test_shell_blocks_are_calls(self) -> None:
        one = self.run(
            ("human", "Look at it."),
            ("Expert", "First:\n```sh\nls -la\n```\nthen\n```python\nprint(1)\n```"),
            ("Computer_terminal", "exitcode: 1 (execution failed)\nCode output: ls: no"),
            ("Expert", "```bash\na\n```\n```bash\nb\n```"),
            ("ComputerTerminal", "both"),
        )
        steps = as_trajectory(one).steps
        assert [step.source for step in steps] == ["user", "agent", "system", "agent", "system"]
        assert [[call.command for call in step.calls] for step in steps] == [[], ["ls -la"], [], ["a", "b"], []]
        (result,) = steps[1].results.values()
        assert (result.exit_code, result.failed, result.shared) == (1, True, False)
        assert all(r.shared and r.exit_code is None for r in steps[3].results.values())

    def test_its_first_occurrence_is_its_answer(self) -> None:
        failing = "```sh\npython3 count.py --all\n```"
        answered = "exitcode: 1 (execution failed)\nCode output: KeyError: 'x'"
        one = self.run(
            ("human", "Count."), ("Expert", "x"),
            *[("Expert", failing), ("Computer_terminal", answered)] * 4,
            step=4,
        )  # fmt: skip
        (answer,) = by_catalogue([one])
        assert answer.protocol == CATALOGUE
        assert answer.reason.startswith("repeated-failure: ")
        assert answer.step in (4, 6)
        assert answer.agent == "Expert"

    def test_nothing_to_judge_is_no_answer(self) -> None:
        assert list(by_catalogue([self.run(("human", "Hi."), ("Expert", "Hello."))])) == []


def test_the_command(scripted: ModuleType, made: ModuleType, tmp_path: Path) -> None:
    for n in range(10):
        who_and_when(tmp_path / "data", str(n), 8, n % 8)
    models = tmp_path / "m.toml"
    program = str(Path(sys.executable).with_name("misstep"))
    with scripted.Server(oracle(made)) as server:
        models.write_text(f'[roles.localizer]\nmodel = "openai:m"\nbase_url = "{server.url}"\n')
        command = [
            program,
            "profile",
            "eval",
            str(tmp_path / "data"),
            "--models",
            str(models),
            "--out",
            str(tmp_path / "out"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        again = subprocess.run(
            [*command, "--json", "--protocol", "all-at-once"], capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("10 labelled runs\nwho-and-when/data, all-at-once: 10 runs\n")
    assert "step accuracy            10 of 10 (100.0 %, 95 % interval 69.2 to 100.0 %); by chance 12.5 %" in done.stdout
    told = json.loads(again.stdout)
    assert [one["protocol"] for one in told["scores"]] == ["all-at-once"]
    assert told["scores"][0]["within"]["0"]["some"] == 10
    assert told["cost"]["calls"] == 0
    refused = subprocess.run(
        [program, "profile", "eval", str(tmp_path)], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert refused.returncode == 0  # the catalogue alone
    nothing = subprocess.run(
        [program, "profile", "eval", str(tmp_path / "out")], capture_output=True, text=True, check=False
    )
    assert (nothing.returncode, nothing.stderr.count("\n")) == (2, 1)
