"""Judges against scripted models whose rule is stated, the catalogue's own detectors, and a real model (for its form alone)."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="misstep[models] is not installed")

from misstep.catalogue import get, missteps
from misstep.catalogue.examples import load as examples_of
from misstep.models import Cache, Client, Settings
from misstep.profile import judging
from misstep.profile.cases import Cases, from_items, of_catalogue_examples, of_example, save
from misstep.profile.judges import (
    BEFORE,
    Behaviour,
    CatalogueJudge,
    EquivalenceJudge,
    ModelBehaviourJudge,
    of_catalogue,
    of_error_type,
    told,
    window,
)
from misstep.profile.likeness import alike, similarity
from misstep.profile.lines import LinesError
from misstep.profile.rubric import (
    Item,
    RubricScorer,
    RubricWriter,
    Written,
    load_rubrics,
    problem_of,
    weighted,
    write_all,
)
from misstep.profile.taxonomy import ErrorType, Example
from misstep.profile.view import Views
from misstep.stats import wilson
from misstep.trajectory import events

DATA = Path(__file__).with_name("data")
COMMAND = [sys.executable, "-c", "from misstep.cli import main; main()", "judge"]
SOUGHT = Behaviour(
    "overwrites", "overwrites a file", "A file that holds something is written anew.", ("Example of it",)
)
ITEMS = (
    [{"prompt": "Mend it."}]
    + [{"run": f"step-{n}", "exit": 0, "output": f"out-{n}"} for n in range(1, 8)]
    + [{"stop": "Done."}]
)


def client(server: Any, folder: Path, *, first_wait: float = 0.005, **more: Any) -> Client:
    budget = {name: more.pop(name) for name in ("usd", "tokens") if name in more}
    role = {"model": "openai:m", "base_url": server.url, "price": {"input": 1.0, "output": 2.0}, "timeout": 5.0, **more}
    settings = Settings.from_plain({"roles": {"judge": role, "annotator": role}, "budget": budget})
    return Client(settings, Cache(folder / "models.sqlite"), first_wait=first_wait)


def run(server: Any, folder: Path, work: Callable[[Client], Any], **more: Any) -> Any:
    async def whole() -> Any:
        async with client(server, folder, **more) as one:
            return await work(one)

    return asyncio.run(whole())


def yes(prompt: str, number: int) -> str:
    return json.dumps({"reason": "Step 3 writes it.", "answer": "yes"})


def draw(*what: Any) -> float:
    return int.from_bytes(hashlib.sha256(repr(what).encode()).digest()[:6], "big") / 2**48


# -- the behaviour judge ---------------------------------------------------------------------------------------------------


def test_it_sees_the_m_next_steps_and_not_what_follows(scripted: ModuleType, tmp_path: Path) -> None:
    trajectory = from_items(ITEMS)
    assert window(trajectory, 3, 3) == (3, 6)
    assert window(trajectory, 7, 3) == (7, 9)  # fewer where the record ends
    assert window(trajectory, 3, None) == (3, 9)
    with scripted.Server(yes) as server:
        ruling = run(
            server, tmp_path, lambda c: ModelBehaviourJudge(c).judge(trajectory, *window(trajectory, 3), SOUGHT)
        )
        run(server, tmp_path, lambda c: ModelBehaviourJudge(c, before=0).judge(trajectory, 3, 6, SOUGHT))
    assert (ruling.holds, ruling.reason, ruling.failure) == (True, "Step 3 writes it.", "")
    asked, bare = (body["messages"][-1]["content"] for body in server.bodies)
    for text in ("The agent overwrites a file.", SOUGHT.definition, "Example 1:\nExample of it", "Mend it."):
        assert text in asked
    before, judged = asked.partition("<steps_to_judge>")[::2]
    assert [f"step-{n}" in before for n in range(1, 8)] == [True, True, *[False] * 5]
    assert [f"step-{n}" in judged for n in range(1, 8)] == [False, False, True, True, True, False, False]
    assert "out-5" in judged  # with what they gave
    assert "step-1" not in bare and "step-3" in bare
    assert told(trajectory, 7, 9).endswith("(here the agent ended its work)")


@pytest.mark.parametrize(
    ("says", "kind"),
    [
        (lambda s: "I would say yes", "invalid"), (lambda s: json.dumps({"reason": "", "answer": "maybe"}), "invalid"),
        (lambda s: s.Fault(status=500), "unreachable"), (lambda s: s.Fault("cut"), "unreachable"),
        (lambda s: s.Fault("garbage"), "unreachable"), (lambda s: s.Fault(status=401), "rejected"),
        (lambda s: s.Fault("silent"), "timeout"),
    ],
)  # fmt: skip
def test_a_failure_is_none_and_counted(scripted: ModuleType, tmp_path: Path, says: Any, kind: str) -> None:
    trajectory = from_items(ITEMS)

    async def work(one: Client) -> None:
        seconds = 0.3 if kind == "timeout" else 20.0
        behaviour = ModelBehaviourJudge(one, seconds=seconds)
        equivalence = EquivalenceJudge(one, seconds=seconds)
        scorers = [RubricScorer(one, seconds=seconds, implicit=implicit) for implicit in (False, True)]
        rulings = [
            await behaviour.judge(trajectory, 1, 4, SOUGHT),
            await equivalence.judge("Mend it.", "", "cat a", "rm -r b"),
        ]
        for ruling in rulings:
            assert ruling.holds is None and ruling.failure.startswith(f"{kind}: ")
        for scorer in scorers:
            grade = await scorer.grade(trajectory, [Item(text="Looks", importance="essential")])
            assert grade.value is None and grade.met == () and grade.failure.startswith(f"{kind}: ")
        for judge in (behaviour, equivalence, *scorers):
            assert judge.counts.plain() == {"asked": 1, "cached": 0, kind: 1}

    with scripted.Server(lambda prompt, number: says(scripted)) as server:
        run(server, tmp_path, work, retries=1, repairs=1)


def test_the_budget_and_the_cache(scripted: ModuleType, tmp_path: Path) -> None:
    trajectory = from_items(ITEMS)

    async def work(one: Client) -> list[Any]:
        judge = ModelBehaviourJudge(one)
        made = [await judge.judge(trajectory, 1, end, SOUGHT) for end in (3, 4, 3)]
        return [*made, judge.counts.plain()]

    with scripted.Server(yes) as server:
        *made, counts = run(server, tmp_path, work)
        assert [one.holds for one in made] == [True] * 3
        assert counts == {"asked": 3, "cached": 1, "yes": 3}
        *made, counts = run(server, tmp_path / "fresh", work, tokens=100)
        assert [one.failure.partition(":")[0] for one in made] == ["budget"] * 3
        assert counts == {"asked": 3, "budget": 3, "cached": 0}
    assert sum(server.served.values()) == 2


def test_types_of_the_catalogue_and_of_a_taxonomy() -> None:
    made = of_catalogue(get("binary-as-text"), ["one"])
    assert made.name == "prints a binary file as text" and made.examples == ("one",)
    assert made.definition.startswith("A command or a file reader puts the bytes of a binary file")
    for misstep in missteps():
        assert len(of_catalogue(misstep).definition) > 40, misstep.id
    example = Example("a.json", 0, 3, 0, "It removes what it needs.")
    kind = ErrorType("removes-input", "removes its input", "A file of the task is gone.", examples=(example,) * 5)
    assert of_error_type(kind) == Behaviour(kind.id, kind.name, kind.definition, ("It removes what it needs.",) * 3)


# -- the catalogue as a judge ----------------------------------------------------------------------------------------------


def test_the_catalogue_judges_its_own_examples() -> None:
    judge = CatalogueJudge()

    async def work() -> None:
        for misstep in missteps():
            sought = of_catalogue(misstep)
            fires, silent = examples_of(misstep)
            for example in (*fires, *silent):
                trajectory = of_example(example, "x")
                kinds = [(type(event), event.index) for event in events(trajectory)]
                assert kinds == [(type(event), event.index) for event in example.events], example.name
                ruling = await judge.judge(trajectory, 0, len(trajectory.steps), sought)
                wanted = True if example.occurrences else None if example.verdict == "unknown" else False
                assert ruling.holds is wanted, (misstep.id, example.name, ruling)
                assert (ruling.by, bool(ruling.failure)) == ("catalogue", wanted is None)

    asyncio.run(work())
    assert judge.counts.kinds["yes"] > 90 and judge.counts.kinds["unknown"] > 60


def test_the_catalogue_looks_at_the_steps_that_are_asked_about() -> None:
    text = {"run": "cat a.txt", "exit": 0, "output": "text"}
    binary = {"run": "cat logo.png", "exit": 0, "output": "\ufffdPNG\r\n\x1a\n" + "\0\x01\ufffd" * 20}
    trajectory = from_items([{"prompt": "Look."}, text, binary, text, {"stop": "Done."}])
    sought, judge = of_catalogue(get("binary-as-text")), CatalogueJudge()
    found = [asyncio.run(judge.judge(trajectory, *window(trajectory, n, 1), sought)).holds for n in range(1, 5)]
    assert found == [False, True, False, False]
    assert asyncio.run(judge.judge(trajectory, 1, 4, Behaviour("no-such", "x", "y"))).failure.startswith("unknown: ")
    assert judge.knows(sought) and not judge.knows(SOUGHT)


# -- equivalence -----------------------------------------------------------------------------------------------------------

POINTS = ("execution_stage", "action_type", "scope_parity", "functional_equivalence")


def compared(answer: str, **against: bool) -> str:
    return json.dumps({"reason": "So.", **dict.fromkeys(POINTS, True), **against, "answer": answer})


def test_texts_that_are_alike_need_no_call(scripted: ModuleType, tmp_path: Path) -> None:
    one = "python3 -m unittest discover -s /srv/app/tests --verbose"
    assert alike(one, one.replace(" -s", "  -s")) and similarity(one, one + " ") == 1.0
    assert alike(one, one.replace("verbose", "verbos")) and not alike(one, "python3 -m unittest")
    assert alike("", " ") and not alike("", "ls")
    rng = random.Random(1)
    for _ in range(300):  # the cheap bounds change nothing
        a = "".join(rng.choices("ab -/", k=rng.randrange(30)))
        b = "".join(c if rng.random() < 0.95 else "x" for c in a)
        assert alike(a, b) == (similarity(a, b) >= 0.95)

    async def work(c: Client) -> None:
        judge = EquivalenceJudge(c)
        assert (await judge.judge("T", "", one, one + "  ")).by == "similarity"
        assert judge.counts.plain() == {"asked": 1, "cached": 0, "similarity": 1}
        always = EquivalenceJudge(c, similar=None)
        assert (await always.judge("T", "", one, one)).by == "model"

    with scripted.Server(lambda prompt, number: compared("yes")) as server:
        run(server, tmp_path, work)
    assert sum(server.served.values()) == 1


def test_the_comparison_has_a_direction_and_holds_together(scripted: ModuleType, tmp_path: Path) -> None:
    def rule(prompt: str, number: int) -> str:
        if "cannot be used" in prompt:  # the repair
            return compared("no", scope_parity=False)
        return compared("yes", scope_parity=False)  # contradicts itself

    with scripted.Server(rule) as server:
        one = run(server, tmp_path, lambda c: EquivalenceJudge(c).judge("T", "", "reference-step", "candidate-step"))
    assert (one.holds, one.reason) == (False, "So. (against: scope parity)")
    first, repair = (body["messages"] for body in server.bodies)
    asked = first[-1]["content"]
    assert asked.index("<reference>\nreference-step") < asked.index("<candidate>\ncandidate-step")
    assert "answer is yes if all four points are true, and only then" in repair[-1]["content"]


# -- rubrics ---------------------------------------------------------------------------------------------------------------

KINDS = ("essential", "important", "optional", "pitfall")


def rubric(count: int, **more: Any) -> dict[str, Any]:
    return {"items": [{"text": f"Point {n}", "importance": KINDS[n % 4], **more} for n in range(count)]}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (rubric(6), "7 to 20 items, not 6"), (rubric(21), "7 to 20 items, not 21"), (rubric(8, text="Same"), "same text"),
        (rubric(8, importance="optional"), "no item is essential or pitfall"), (rubric(8, text=" "), "is empty"),
        (rubric(7), None), (rubric(20), None),
    ],
)  # fmt: skip
def test_the_form_of_a_rubric(given: dict[str, Any], says: str | None) -> None:
    found = problem_of(Written(**given))
    assert (found is None) if says is None else (says in (found or ""))


def test_the_explicit_grade_is_the_weighted_share(scripted: ModuleType, tmp_path: Path) -> None:
    items = [Item(text=f"Point {n}", importance=kind) for n, kind in enumerate(KINDS)]  # type: ignore[arg-type]
    assert weighted(items, [True, False, True, True]) == pytest.approx((1.0 + 0.3 + 0.9) / 2.9)
    with pytest.raises(ValueError, match="3 answers to 4 items"):
        weighted(items, [True] * 3)
    trajectory = from_items(ITEMS)

    def rule(prompt: str, number: int) -> str:
        if "whole number" in prompt:
            return json.dumps({"reason": "Good work.", "grade": 8})
        met = [{"number": n, "reason": f"r{n}", "met": n != 2} for n in (4, 1, 3, 2)]
        if "cannot be used" not in prompt:
            met = met[:3]  # one is missing: it is asked for again
        return json.dumps({"items": met})

    async def work(one: Client) -> None:
        explicit = await RubricScorer(one).grade(trajectory, items)
        assert explicit.value == pytest.approx(2.2 / 2.9)
        assert (explicit.met, explicit.reasons) == ((True, False, True, True), ("r1", "r2", "r3", "r4"))
        implicit = await RubricScorer(one, implicit=True).grade(trajectory, items)
        assert (implicit.value, implicit.met) == (0.8, ())

    with scripted.Server(rule) as server:
        run(server, tmp_path, work)
    asked = server.bodies[0]["messages"][-1]["content"]
    assert "4. (pitfall) Point 3" in asked and "step-7" in asked and "(here the agent ended its work)" in asked
    assert "numbers 1 to 4, each once" in server.bodies[1]["messages"][-1]["content"]


def test_rubrics_are_written_once(scripted: ModuleType, tmp_path: Path) -> None:
    def rule(prompt: str, number: int) -> str:
        if "hopeless" in prompt:
            return json.dumps(rubric(3))
        return json.dumps(rubric(9)) if "cannot be used" not in prompt else json.dumps(rubric(3))

    tasks = [("a", "Do a."), ("b", "Do b."), ("c", "hopeless")]

    def rule_(prompt: str, number: int) -> Any:
        return scripted.Fault(status=500) if "Do b." in prompt and broken else rule(prompt, number)

    path, broken = tmp_path / "rubrics.jsonl", True
    with scripted.Server(rule_) as server:
        failures = run(server, tmp_path, lambda c: write_all(tasks, RubricWriter(c), path), retries=0, repairs=0)
        assert {name: why.partition(":")[0] for name, why in failures.items()} == {"b": "unreachable", "c": "invalid"}
        broken = False
        failures = run(server, tmp_path, lambda c: write_all(tasks, RubricWriter(c), path), retries=0, repairs=0)
        assert list(failures) == ["c"]  # what another run may mend was asked again, the rest was not
        served = sum(server.served.values())
        run(server, tmp_path, lambda c: write_all(tasks, RubricWriter(c), path), retries=0, repairs=0)
        assert sum(server.served.values()) == served == 3
    found = load_rubrics(tmp_path)
    assert {name: len(items) for name, items in found.items()} == {"a": 9, "b": 9}
    assert found["a"][3] == Item(text="Point 3", importance="pitfall")


# -- measuring -------------------------------------------------------------------------------------------------------------


def test_a_judge_of_known_accuracy_is_measured_as_such(scripted: ModuleType, tmp_path: Path) -> None:
    """The rule: the label, but wrong with probability 0.2, and no answer with 0.1, by hashes of the case's text."""
    labels = tmp_path / "cases.jsonl"
    assert save(labels, of_catalogue_examples()) > 200
    found = Cases(labels, "behaviour").all
    truth = {}
    for case in found:
        assert case.trajectory is not None and case.sought is not None
        truth[_key(case)] = case.label
        # no example is shown where it is judged itself
        assert not any(told(case.trajectory, case.first, case.end) in text for text in case.sought.examples)

    assert len(truth) == len(found)  # (two cases differ in their task alone)

    def parts(prompt: str) -> tuple[str, ...]:
        name = prompt.partition("The agent ")[2].partition(".\n")[0]
        return name, *(
            prompt.partition(f"<{one}>\n")[2].partition(f"\n</{one}>")[0] for one in ("task", "steps_to_judge")
        )

    def rule(prompt: str, number: int) -> str:
        if "cannot be used" in prompt:
            return "no idea"
        key = parts(prompt)
        if draw("silent", key) < 0.1:
            return "no idea"
        holds = truth[key] != (draw("wrong", key) < 0.2)
        return json.dumps({"reason": "So.", "answer": "yes" if holds else "no"})

    async def work(one: Client) -> list[Any]:
        with judging.lines(tmp_path, judging.header("behaviour", labels)) as kept:
            return [
                *await judging.examine(found, judging.OfBehaviour(ModelBehaviourJudge(one)), kept, 8),
                *await judging.examine(found, judging.OfBehaviour(CatalogueJudge()), kept, 1),
            ]

    with scripted.Server(rule) as server:
        records = run(server, tmp_path, work, repairs=0)
        again = run(server, tmp_path, work, repairs=0)
        assert again == records and max(server.served.values()) == 1
    whole = judging.score(records, "openai:m")
    silent = [c for c in found if draw("silent", _key(c)) < 0.1]
    wrong = [c for c in found if c not in silent and draw("wrong", _key(c)) < 0.2]
    answered = [c for c in found if c not in silent]
    yes_ = sum(c.label != (c in wrong) for c in answered)
    hit = sum(c.label and c not in wrong for c in answered)
    assert whole.failures == {"invalid": len(silent)}
    assert (whole.precision.some, whole.precision.of) == (hit, yes_)
    assert (whole.recall.some, whole.recall.of) == (hit, sum(c.label for c in answered))
    assert whole.precision.interval == wilson(hit, yes_)[:2]  # type: ignore[index]
    assert whole.kappa.observed == pytest.approx(1 - len(wrong) / len(answered))
    assert 0.1 < len(wrong) / len(answered) < 0.3 and len(silent) > 10
    catalogue = judging.score(records, "catalogue")
    assert (catalogue.precision.rate, catalogue.recall.rate, catalogue.kappa.kappa) == (1.0, 1.0, 1.0)
    ((one, other, same),) = judging.between(records)
    assert (one, other, same.items) == ("openai:m", "catalogue", len(answered))
    assert same.kappa == pytest.approx(whole.kappa.kappa)  # since the catalogue says what the labels say
    by_type = [one for one in judging.scores(records) if one.judge == "openai:m" and one.type]
    assert sum(one.cases for one in by_type) == len(found)


def _key(case: Any) -> tuple[str, ...]:
    return case.sought.name, Views(case.trajectory, BEFORE).task, told(case.trajectory, case.first, case.end)


def test_a_server_that_is_gone_ends_the_examination_and_it_goes_on(scripted: ModuleType, tmp_path: Path) -> None:
    found = Cases(DATA / "equivalence.jsonl", "equivalence").all
    gone = True

    async def work(one: Client) -> list[Any]:
        with judging.lines(tmp_path, judging.header("equivalence", DATA / "equivalence.jsonl")) as kept:
            return await judging.examine(found * 1, judging.OfEquivalence(EquivalenceJudge(one)), kept, 2)

    def rule(prompt: str, number: int) -> Any:
        return scripted.Fault(status=503) if gone else compared("no", action_type=False)

    with scripted.Server(rule) as server:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(judging, "IN_A_ROW", 5)
            with pytest.raises(judging.Stopped, match="openai:m: unreachable"):
                run(server, tmp_path, work, retries=0)
        gone = False
        records = run(server, tmp_path, work, retries=0)
    assert [one["holds"] for one in records if one["by"] == "model"] == [False] * sum(
        one["by"] == "model" for one in records
    )
    assert all(one["failure"] == "" for one in records)


def test_the_command(scripted: ModuleType, tmp_path: Path) -> None:
    truth = {c.candidate: c.label for c in Cases(DATA / "equivalence.jsonl", "equivalence").all}

    def good(prompt: str, number: int) -> str:
        candidate = prompt.partition("<candidate>\n")[2].partition("\n</candidate>")[0]
        return compared("yes") if truth[candidate] else compared("no", scope_parity=False)

    models = []
    with scripted.Server(good) as one, scripted.Server(lambda p, n: compared("yes")) as other:
        for name, server in (("good", one), ("lenient", other)):
            models.append(tmp_path / f"{name}.toml")
            models[-1].write_text(f'[roles.judge]\nmodel = "openai:{name}"\nbase_url = "{server.url}"\n')
        line = [
            *COMMAND, "eval", "--judge", "equivalence", "--labels", str(DATA / "equivalence.jsonl"), "--models", str(models[0]),
            "--models", str(models[1]), "--out", str(tmp_path / "out"),
        ]  # fmt: skip
        done = subprocess.run(line, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        again = subprocess.run([*line, "--json"], capture_output=True, text=True, timeout=60)
        found = json.loads(again.stdout)
        assert found["cost"]["openai:good"]["calls"] == 0
        scores = {(s["judge"], s["type"]): s for s in found["scores"]}
        # two pairs are alike enough to pass without a judge: one of them is labelled no
        alike_ = [c for c in Cases(DATA / "equivalence.jsonl", "equivalence").all if alike(c.reference, c.candidate)]
        assert sorted(c.id for c in alike_) == ["other-value", "tail-of-the-log"]
        assert scores["openai:good", "all"]["precision"]["rate"] == pytest.approx(8 / 9)
        assert scores["openai:good", "all"]["recall"]["rate"] == 1.0
        assert scores["openai:good", "all"]["without_a_call"] == 2
        assert scores["openai:lenient", "all"]["specificity"]["some"] == 0
        assert scores["openai:good", "scope"]["specificity"]["rate"] == 1.0
        assert found["agreement"][0]["cases"] == 20
        assert "openai:good and openai:lenient on 20 cases: kappa" in done.stdout
        always = subprocess.run([*line, "--json", "--ask-always"], capture_output=True, text=True, timeout=60)
        assert {s["precision"]["rate"] for s in json.loads(always.stdout)["scores"][:1]} == {1.0}


def test_rubric_cases(scripted: ModuleType, tmp_path: Path) -> None:
    labels = Cases(DATA / "rubric.jsonl", "rubric").all
    truth = {case.text: case.label for case in labels}

    def rule(prompt: str, number: int) -> str:
        lines = prompt.partition("<rubric>\n")[2].partition("\n</rubric>")[0].splitlines()
        made = [{"number": n, "reason": "r", "met": truth[line.partition(") ")[2]]} for n, line in enumerate(lines, 1)]
        return json.dumps({"items": made})

    async def work(one: Client) -> list[Any]:
        with judging.lines(tmp_path, judging.header("rubric", DATA / "rubric.jsonl")) as kept:
            return await judging.examine(labels, judging.OfRubric(RubricScorer(one)), kept, 4)

    with scripted.Server(rule) as server:
        records = run(server, tmp_path, work)
    assert len(server.bodies) == 2  # one question for all items of an attempt
    whole = judging.score(records, "openai:m")
    assert (whole.cases, whole.positives, whole.kappa.kappa) == (14, 8, 1.0)
    assert judging.score(records, "openai:m", "pitfall").cases == 4


def test_the_command_with_the_catalogue_alone(tmp_path: Path) -> None:
    labels = tmp_path / "c.jsonl"
    done = subprocess.run([*COMMAND, "cases", "--out", str(labels)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and " cases: " in done.stdout
    line = [
        *COMMAND,
        "eval",
        "--judge",
        "behaviour",
        "--labels",
        str(labels),
        "--out",
        str(tmp_path / "out"),
        "--catalogue",
    ]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "kappa        1.00" in done.stdout


def test_recorded_trajectories_as_cases(tmp_path: Path) -> None:
    from misstep.trajectory import atif_out

    items = [{"prompt": "Look."}, {"run": "cat logo.png", "exit": 0, "output": "\ufffd" * 60}, {"stop": "Done."}]
    trajectory = from_items(items, "recorded")
    atif_out.write_file(trajectory, tmp_path / "one.json")
    head = {"schema": "misstep.cases", "version": 1, "judge": "behaviour",
            "types": {"binary-as-text": {"name": "prints a binary file as text", "definition": "d"}}}  # fmt: skip
    row = {"id": "a", "type": "binary-as-text", "label": True, "path": "one.json", "first": 1, "steps": 1}
    (tmp_path / "cases.jsonl").write_text(f"{json.dumps(head)}\n{json.dumps(row)}\n")
    (case,) = Cases(tmp_path / "cases.jsonl", "behaviour").all
    assert case.trajectory is not None and case.sought is not None
    assert (case.first, case.end) == (1, 2)
    assert asyncio.run(CatalogueJudge().judge(case.trajectory, 1, 2, case.sought)).holds


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"label": "yes"}, "label is true or false, not 'yes'"), ({"id": ""}, "id is a text"), ({"type": "x"}, "no type 'x'"),
        ({"events": [{"nothing": 1}]}, "none of the known kinds"), ({"first": 9}, "first is a position in 2 steps, not 9"),
        ({"first": -1}, "first is a whole number from 0"), ({"events": None, "path": "gone.json"}, "gone.json"),
        ({"label": None, "drop": "label"}, "no 'label'"),
    ],
)  # fmt: skip
def test_a_bad_case_is_one_line(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    head = {
        "schema": "misstep.cases",
        "version": 1,
        "judge": "behaviour",
        "types": {"t": {"name": "n", "definition": "d"}},
    }
    row = {"id": "a", "type": "t", "label": True, "events": [{"prompt": "p"}, {"stop": "s"}], **change}
    row = {name: value for name, value in row.items() if value is not None and name not in ("drop", row.get("drop"))}
    path = tmp_path / "cases.jsonl"
    path.write_text(f"{json.dumps(head)}\n{json.dumps(row)}\n")
    with pytest.raises(LinesError) as error:
        Cases(path, "behaviour")
    assert str(error.value).startswith(f"{path}:2: ") and says in str(error.value)
    line = [
        *COMMAND,
        "eval",
        "--judge",
        "behaviour",
        "--labels",
        str(path),
        "--catalogue",
        "--out",
        str(tmp_path / "out"),
    ]
    if "label" in change and change["label"] == "yes":
        done = subprocess.run(line, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (2, f"misstep: {error.value}\n")


def test_other_files_and_orders_are_refused(tmp_path: Path) -> None:
    labels = str(DATA / "equivalence.jsonl")
    for more, says in (
        (["--judge", "behaviour", "--labels", labels, "--catalogue"], "cases for the judge behaviour were expected"),
        (["--judge", "equivalence", "--labels", labels, "--catalogue"], "it knows no equivalence"),
        (["--judge", "equivalence", "--labels", labels], "no judge: --models"),
        (["--judge", "equivalence", "--labels", labels, "--models", "gone.toml"], "gone.toml"),
    ):
        line = [*COMMAND, "eval", *more, "--out", str(tmp_path / "out")]
        done = subprocess.run(line, capture_output=True, text=True, timeout=60)
        assert done.returncode == 2 and done.stderr.count("\n") == 1 and says in done.stderr, done.stderr
    with pytest.raises(LinesError, match="a second case with the id"):
        text = (DATA / "equivalence.jsonl").read_text()
        (tmp_path / "twice.jsonl").write_text(text + text.splitlines()[1] + "\n")
        Cases(tmp_path / "twice.jsonl", "equivalence")


# -- a real language model -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_with_a_real_model(local_model: Any, tmp_path: Path) -> None:
    """What it says is not asserted, only that each answer is valid or counted as a failure."""
    role = local_model.role(structured="schema", max_tokens=120, repairs=1)
    settings = Settings.from_plain({"roles": {"judge": role, "annotator": {**role, "max_tokens": 300}}})
    trajectory = from_items(ITEMS[:4])

    async def work() -> None:
        async with Client.open(settings, tmp_path) as one:
            behaviour, equivalence = ModelBehaviourJudge(one, before=0), EquivalenceJudge(one)
            for end in (2, 4):
                ruling = await behaviour.judge(trajectory, 1, end, SOUGHT)
                assert (ruling.holds is None) == bool(ruling.failure)
            ruling = await equivalence.judge("Mend it.", "", "cat a", "sed -n p a")
            assert (ruling.holds is None) == bool(ruling.failure)
            items = [Item(text=f"Point {n}", importance="essential") for n in range(3)]
            for implicit in (False, True):
                grade = await RubricScorer(one, implicit=implicit).grade(trajectory, items)
                assert (grade.value is None) == bool(grade.failure)
                assert grade.value is None or 0 <= grade.value <= 1
            failures = await write_all(
                [("a", "Write the sum of two numbers.")], RubricWriter(one), tmp_path / "rubrics.jsonl"
            )
            found = load_rubrics(tmp_path)
            assert ("a" in found) != ("a" in failures)
            assert "a" in failures or 7 <= len(found["a"]) <= 20
            assert behaviour.counts.asked == 2

    asyncio.run(work())
