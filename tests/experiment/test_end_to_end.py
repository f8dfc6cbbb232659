"""A whole panel, real parts only: Harbor, our sandboxes, the real Codex with its hooks in the container, five arms.

The model is a script with a stated stochastic rule (see `scripted`): this is a test of the machine, and says nothing about
any model. Since the rule is known, so is the effect: the panel has to find it, and nothing where there is none.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

pytest.importorskip("harbor", reason="Harbor is not installed (misstep[harbor])")

from misstep.experiment import Attempt, fair, read_attempts
from misstep.experiment.analysis import analyse
from misstep.experiment.analysis.table import Plan
from misstep.experiment.artifact.export import export
from misstep.experiment.artifact.verify import verify
from misstep.experiment.attempts import observed
from misstep.experiment.plan import lock
from misstep.experiment.plan.design import Design
from misstep.experiment.runs.archive import read_lineage
from misstep.experiment.runs.run import Outcome, Runner
from misstep.experiment.runs.trials import Work
from misstep.report.panel import page
from misstep.sandbox import native

HERE = Path(__file__).resolve().parent
SERVICES, OTHERS = 8, 2
NAMED = frozenset(["real"])
"""Arms whose words name the remedy."""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def scripted() -> Iterator[Any]:
    sys.path.insert(0, str(HERE))
    import scripted as found

    problem = native.problem()
    if problem:
        pytest.skip(problem)
    try:
        found.codex()
    except LookupError as error:
        pytest.skip(str(error))
    yield found
    sys.path.remove(str(HERE))


@dataclass
class Whole:
    """A panel that has run."""

    folder: Path
    outcome: Outcome
    model: Any
    rule: Any
    design: Design
    asked: dict[str, list[Any]]
    broken: str

    def __post_init__(self) -> None:
        self.attempts = read_attempts(self.folder / "attempts.jsonl")
        self.panel = lock.read(self.folder)

    def passes(self, attempt: Attempt) -> bool:
        """What the rule says of a slot."""
        service = self.model.scripts[attempt.task].service
        told = service and attempt.arm in NAMED
        return bool(
            (self.rule.told if told else lambda t, r: self.rule.right(t, r, service))(attempt.task, attempt.replicate)
        )


@pytest.fixture(scope="module")
def whole(scripted: Any) -> Iterator[Whole]:
    with TemporaryDirectory(prefix="misstep-test-", dir="/var/tmp", ignore_cleanup_errors=True) as made:
        folder = Path(made)
        folder.chmod(0o755)
        scripts = scripted.make_tasks(folder / "tasks", SERVICES, OTHERS)
        broken = min(name for name in scripts if scripts[name].service)
        rule = scripted.Rule(seed=2)
        (folder / "model").mkdir(mode=0o755)
        socket = folder / "model/socket"
        scripted.OwnNetwork.asked.clear()
        with scripted.ScriptedModel(scripts, rule, ((broken, 1),), socket) as model:
            path = scripted.write_design(folder, model.port, socket=socket, tasks=folder / "tasks", silent=OTHERS)
            design = Design.load(path)
            lock.write(folder / "panel", path, lock.plan(design))
            outcome = Runner(folder / "panel").run()
            yield Whole(folder / "panel", outcome, model, rule, design, dict(scripted.OwnNetwork.asked), broken)


def test_every_attempt_ends_as_the_rule_says(whole: Whole) -> None:
    assert (whole.outcome.end, whole.outcome.why) == ("done", "")
    chosen = observed(whole.attempts)
    assert len(chosen) == (SERVICES + OTHERS) * 5 == len(whole.panel.slots)
    for slot, attempt in chosen.items():
        assert attempt is not None, slot
        assert (attempt.passed, attempt.termination) == (
            (True, "pass") if whole.passes(attempt) else (False, "fail")
        ), attempt


def test_the_known_effect_is_recovered_and_the_sham_shows_none(whole: Whole) -> None:
    tasks = whole.panel.lock["tasks"]
    plan = Plan(
        tuple(slot.key for slot in whole.panel.slots),
        {name: row["cohort"] for name, row in tasks.items()},
        {name: tuple(row["eligible"]) for name, row in tasks.items()},
    )
    found = analyse(whole.attempts, whole.design, plan)
    assert found.simulated == "a scripted model: a test of the machine" and found.finished
    primary = found.primary
    assert primary is not None and primary.effect is not None
    assert (primary.arm, primary.against, primary.cohort) == ("real", "sham", "eligible")
    assert primary.effect.tasks == SERVICES
    print(f"true effect {whole.rule.effect:.3f}; found {primary.effect}")
    assert primary.effect.low <= whole.rule.effect <= primary.effect.high and primary.effect.low > 0
    sham = found.contrast("sham", "baseline").effect
    assert sham is not None and (sham.mean, sham.low, sham.high, sham.p) == (0, 0, 0, 1)
    assert found.cell("real", "silent").rate == found.cell("baseline", "silent").rate


def test_a_planted_fault_ends_as_replaced_not_as_failed(whole: Whole) -> None:
    others = [a for a in whole.attempts if not fair(a)]
    assert [(a.task, a.replicate, a.candidate) for a in others] == [(whole.broken, 1, 1)]
    (victim,) = others
    assert victim.termination in ("never-ran", "invalid") and victim.passed is not True
    (second,) = [a for a in whole.attempts if a.slot == victim.slot and a.candidate == 2]
    assert fair(second) and whole.attempts[-1] == second  # after every original
    decisions = [d for d in read_lineage(whole.folder / "lineage.jsonl") if tuple(d["slot"]) == victim.slot]
    assert [(d["candidate"], d["decision"]) for d in decisions] == [(1, "replaced"), (2, "kept")]
    assert decisions[0]["why"] == victim.fault and (whole.folder / victim.trial / "result.json").is_file()


def test_the_funnel_is_that_of_the_rule(whole: Whole) -> None:
    for attempt in filter(None, observed(whole.attempts).values()):
        service = whole.model.scripts[attempt.task].service
        always = attempt.arm in ("always-verify", "reconsider")
        fires = (
            {attempt.arm: 1} if always else {"service-persistence": 1} if service and attempt.arm != "baseline" else {}
        )
        assert attempt.fired == fires, attempt
        assert attempt.eligible == (("service-persistence",) if service else ()), attempt
        # detached without a probe is a state to act on, too: the chain wants a probe from a later call
        assert attempt.state == (("service-persistence",) if service else ()), attempt
        obeyed = attempt.arm == "real" and whole.rule.draw(attempt.task, attempt.replicate, "obeys") < whole.rule.obeys
        assert attempt.behaviour == ({"service-persistence": obeyed} if service else {}), attempt
        assert attempt.agent == "codex" and attempt.agent_version.startswith("0.146") and attempt.steps
        assert attempt.extra["guard"]["before"] >= 1 and attempt.extra["guard"]["arms"] == [attempt.arm]


def test_nothing_but_the_words_tells_arms_apart(whole: Whole) -> None:
    """What the environment is asked to do: equal in every arm, but for the file with the settings."""
    settings = "/logs/agent/misstep/guard/settings.json"
    checked = 0
    for block in range(SERVICES + OTHERS):
        slots = [slot for slot in whole.panel.slots if slot.block == block]
        if slots[0].task == whole.broken:
            continue
        logs = {slot.arm: whole.asked[Work(slot, 1, whole.design.seed).trial] for slot in slots}
        files = {arm: [one[2] for one in log if one[:2] == ("file", settings)] for arm, log in logs.items()}
        assert {arm: json.loads(only)["arm"] for arm, (only,) in files.items()} == {arm: arm for arm in logs}
        plain = {arm: [one if one[:2] != ("file", settings) else one[:2] for one in log] for arm, log in logs.items()}
        assert all(log == plain["baseline"] for log in plain.values())
        assert not any(
            re.search(r"\b(baseline|sham|always-verify|reconsider)\b", str(one))
            for log in plain.values()
            for one in log
        )
        checked += 1
    assert checked == SERVICES + OTHERS - 1


def test_the_first_request_is_the_same_in_every_arm(whole: Whole) -> None:
    """Whatever an arm does, the model has not seen it before the first text of a policy's."""
    ids = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
    bodies: dict[str, Counter[str]] = {}
    for task, body in whole.model.first.values():
        shown = {key: value for key, value in body.items() if key != "client_metadata"}  # times of the session
        bodies.setdefault(task, Counter())[ids.sub("ID", json.dumps(shown, sort_keys=True))] += 1
    assert len(bodies) == SERVICES + OTHERS
    assert all(len(found) == 1 for found in bodies.values()), {t: len(c) for t, c in bodies.items()}


def test_others_can_check_it_without_a_model(whole: Whole, tmp_path: Path) -> None:
    """What has run is exported and computed again from its records; a changed outcome is found."""
    made = export(whole.folder, tmp_path / "artifact", render=page.text)
    found = verify(made.folder, page.text)
    assert (found.problem, found.locked, found.attempts) == ("", True, len(whole.attempts))
    assert found.numbers > 1000 and found.sha256 == made.sha256
    file = made.folder / "attempts.jsonl"
    file.write_text(file.read_text().replace('"passed":true', '"passed":false', 1))
    assert verify(made.folder, page.text).problem.startswith("attempts.jsonl: SHA-256")


def test_what_it_costs(whole: Whole) -> None:
    each = whole.outcome.seconds / whole.outcome.recorded
    print(
        f"{whole.outcome.recorded} attempts in {whole.outcome.seconds:.0f} s, {each:.2f} s for each; of it ours {whole.outcome.overhead:.3f} s"
    )
    assert whole.outcome.overhead < 0.5


def test_the_same_under_docker() -> None:
    """The small form of it in real containers, with the runtime mounted: where a Docker engine can be started."""
    if not sorted(
        (HERE.parents[1] / ".clis").glob("codex-0.146*/node_modules/@openai/codex-linux-*/vendor/*/bin/codex")
    ):
        pytest.skip("Codex is not installed: scripts/install-clis has not run")
    scripts = HERE.parents[1] / "scripts"
    words = [
        scripts / "with-dockerd",
        sys.executable,
        scripts / "proof-panel",
        "--docker",
        "--services",
        "1",
        "--others",
        "1",
    ]
    with TemporaryDirectory(prefix="misstep-test-", dir="/var/tmp", ignore_cleanup_errors=True) as folder:
        words += ["--attempts", "1", "--arms", "real,sham,baseline", "--out", f"{folder}/proof"]
        env = {**os.environ, "MISSTEP_PYTHON": sys.executable}
        run = subprocess.run(words, capture_output=True, text=True, env=env, timeout=600, check=False)
    if run.returncode == 77:
        pytest.skip(run.stderr.strip())
    assert run.returncode == 0, run.stdout + run.stderr
    found = json.loads(run.stdout)
    assert (found["attempts"], found["slots"], len(found["replaced"])) == (7, 6, 1)
    assert found["fired"] == {"real": 1, "sham": 1, "baseline": 0} and found["otherwise_than_the_rule"] == []
