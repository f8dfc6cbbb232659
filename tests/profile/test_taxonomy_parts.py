"""The parts of a taxonomy: batches, merging, what an answer may be, files that are frozen, figures."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from misstep.models import InvalidAnswer, Unreachable
from misstep.profile import coverage
from misstep.profile.asking import Asker, Stopped
from misstep.profile.build import Parameters, TooFew, batches, build, size_of
from misstep.profile.cards import Card, Case, cases, error_steps
from misstep.profile.labelling import Labels
from misstep.profile.labels import StepLabel
from misstep.profile.merging import Group, Proposal, merge
from misstep.profile.similarity import available, vectors
from misstep.profile.taxonomy import ErrorType, Example, Taxonomy, TaxonomyError, load, save, slug


def card(n: int, task: str, text: str = "does it wrong") -> Card:
    return Card(f"{n}.jsonl", 0, 1, 0, f"t{n}", task, text)


class TestBatches:
    def test_no_two_of_one_environment(self) -> None:
        cards = [card(n, f"task {n % 7}") for n in range(40)]
        found = batches(cards, 5, seed=0)
        assert Counter(one.key for batch in found for one in batch) == Counter(one.key for one in cards)
        for batch in found:
            assert len({one.task for one in batch}) == len(batch) <= 5

    def test_environments_with_most_cards_come_first(self) -> None:
        cards = [card(n, "large") for n in range(10)] + [card(100 + n, f"small {n}") for n in range(20)]
        found = batches(cards, 3, seed=0)
        assert [len(batch) for batch in found] == [3] * 10  # a worse order would leave cards of `large` alone

    def test_the_order_of_the_cards_makes_no_difference(self) -> None:
        cards = [card(n, f"task {n % 9}") for n in range(50)]
        shuffled = random.Random(1).sample(cards, 50)
        assert batches(cards, 6, seed=3) == batches(shuffled, 6, seed=3) != batches(cards, 6, seed=4)

    def test_few_cards_make_smaller_batches(self) -> None:
        parameters = Parameters()
        assert [size_of(n, parameters) for n in (10, 60, 200, 300, 9000)] == [5, 10, 33, 50, 50]

    def test_too_few_for_a_taxonomy(self) -> None:
        cards = [card(n, f"task {n}") for n in range(9)]
        with pytest.raises(
            TooFew,
            match="9 error cards of 9 environments make 1 batches of different environments; a type has to recur in 3",
        ):
            asyncio.run(build(cards, None, Asker(1), Parameters(), {}))  # type: ignore[arg-type]


class Says:
    """An annotator that says of pairs and names what it is given."""

    def __init__(self, same: Any = lambda a, b: False, fails: bool = False) -> None:
        self._same, self._fails, self.pairs, self.named = same, fails, [], 0

    async def same(self, first: tuple[str, str], second: tuple[str, str]) -> bool:
        if self._fails:
            raise InvalidAnswer("no")
        self.pairs.append({first[0], second[0]})
        return bool(self._same(first[0], second[0]))

    async def name(self, wordings: Any, cards: Any) -> tuple[str, str]:
        if self._fails:
            raise InvalidAnswer("no")
        self.named += 1
        return wordings[0]


def proposals(*rows: tuple[str, int]) -> list[Proposal]:
    """(name, batch) each."""
    return [Proposal(name, f"It {name}.", batch, 0, ((f"{n}.jsonl", 0, 1, 0),)) for n, (name, batch) in enumerate(rows)]


def merged(given: list[Proposal], says: Says) -> list[Group]:
    return asyncio.run(merge(given, {}, says, Asker(4), "words"))  # type: ignore[arg-type]


BINARY, DUMPS, LOGS = (
    "prints a binary file as text",
    "prints binary files as plain text",
    "prints a huge text file whole",
)


class TestMerging:
    def test_one_name_is_one_type_and_nobody_is_asked(self) -> None:
        says = Says()
        (one,) = merged(proposals((BINARY, 0), (BINARY.upper(), 1), (BINARY, 2)), says)
        assert one.batches == {0, 1, 2}
        assert one.wording[0] == BINARY
        assert says.pairs == []

    def test_near_words_are_compared_and_merged_where_they_are_the_same(self) -> None:
        says = Says(lambda a, b: {a, b} == {BINARY, DUMPS})
        found = merged(proposals((BINARY, 0), (DUMPS, 1), (LOGS, 2)), says)
        assert [sorted({p.name for p in one.proposals}) for one in found] == [sorted((BINARY, DUMPS)), [LOGS]]
        assert says.pairs == [{BINARY, DUMPS}]  # the words of the third are too far from both

    def test_what_was_proposed_side_by_side_is_not_one(self) -> None:
        says = Says(lambda a, b: True)
        found = merged(proposals(*((name, batch) for batch in range(3) for name in (BINARY, DUMPS))), says)
        assert len(found) == 2
        assert says.pairs == []

    def test_a_failure_merges_nothing(self) -> None:
        found = merged(proposals((BINARY, 0), (DUMPS, 1), (LOGS, 2)), Says(fails=True))
        assert len(found) == 3

    def test_the_order_makes_no_difference(self) -> None:
        rows = [(name, batch) for batch in range(6) for name in (BINARY, DUMPS, LOGS) if (batch + len(name)) % 3]
        given = proposals(*rows)
        found = merged(given, Says(lambda a, b: LOGS not in (a, b)))
        for seed in range(3):
            again = merged(random.Random(seed).sample(given, len(given)), Says(lambda a, b: LOGS not in (a, b)))
            assert [(one.wording, one.proposals) for one in again] == [(one.wording, one.proposals) for one in found]

    def test_nothing_proposed(self) -> None:
        assert merged([], Says()) == []


@pytest.mark.parametrize("way", ["words", "wordllama"])
def test_words_that_say_the_same_are_alike(way: str) -> None:
    if way == "wordllama":
        pytest.importorskip("wordllama")
    a, b, c, empty = vectors([BINARY, DUMPS, "kills all processes", ""], way)
    assert a @ b > 0.5 > a @ c
    assert a @ a == pytest.approx(1)
    assert empty @ a == pytest.approx(0, abs=0.2)
    assert available() in ("words", "wordllama")


def case(command: str = "cat build/app.bin", task: str = "Fix config_v2.") -> Case:
    return Case(StepLabel("t", "t.jsonl", 0, "task", 1, 0, command), task, "", f"[step 1] agent calls Bash: {command}")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("prints a compiled file as if it were text", None),
        ("prints a compiled file, e.g. a library, and/or its parts", None),
        ("prints build/app.bin as if it were text", "'build/app.bin' is of this task"),
        ("prints `app.bin` as if it were text", "'app.bin' is of this task"),
        ("reads the wrong place for config_v2 in it", "'config_v2' is of this task"),
        ("prints binary", "one sentence of 4 to 60 words"),
        ("prints a compiled file. It should have used a tool for that.", "one sentence, not several"),
        ("word " * 61, "one sentence"),
    ],
)
def test_a_card_is_one_sentence_free_of_the_task(text: str, problem: str | None) -> None:
    pytest.importorskip("pydantic")
    from misstep.profile.annotator import wrong_card

    found = wrong_card(text, case())
    assert (found is None) == (problem is None)
    assert problem is None or problem in str(found)


def test_an_error_step_that_was_recorded_twice_is_one() -> None:
    first = StepLabel("t", "a.jsonl", 0, "task", 1, 0, "cat x", "bad", "binary")
    copy = StepLabel("t", "b.jsonl", 0, "task", 1, 0, "cat x", "bad", "binary")
    other = StepLabel("t", "b.jsonl", 0, "task", 2, 0, "cat x", "bad", "binary")
    good = StepLabel("t", "b.jsonl", 0, "task", 3, 0, "ls", "good")
    assert error_steps([good, copy, other, first]) == [first, other]


def test_a_step_whose_record_is_gone_is_told_by_its_call() -> None:
    label = StepLabel("t", "/nowhere/a.jsonl", 0, "task", 1, 0, "cat x", "bad", "binary")
    (one,) = cases([label])
    assert (one.proposed, one.before, one.task) == ("cat x", "", "")
    assert one.values()["task"] == "(not recorded)"


class TestAsking:
    def test_what_another_run_may_answer_stops_this_one(self) -> None:
        async def ask(n: int) -> int:
            if n == 3:
                raise Unreachable("busy")
            if n == 4:
                raise InvalidAnswer("no")
            return n

        kept: dict[int, tuple[Any, str]] = {}
        asker: Asker[int] = Asker(2)
        with pytest.raises(Stopped, match="card: 1 of 8 questions have no answer; the first: unreachable: busy"):
            asyncio.run(asker.all("card", range(8), ask, lambda n, answer, why: kept.update({n: (answer, why)})))
        assert sorted(kept) == [0, 1, 2, 4, 5, 6, 7]  # the others are kept
        assert kept[4] == (None, "invalid: no")
        assert asker.counted() == {"card": {"asked": 8, "invalid": 1, "unreachable": 1}}

    def test_a_server_that_answers_nothing_is_not_asked_all(self) -> None:
        async def ask(n: int) -> int:
            raise Unreachable("down")

        asker: Asker[int] = Asker(2)
        with pytest.raises(Stopped, match="label: unreachable: down"):
            asyncio.run(asker.all("label", range(1000), ask, lambda *_: None))
        assert asker.asked["label"] < 30

    def test_a_fault_of_ours_is_no_failure_of_a_question(self) -> None:
        async def ask(n: int) -> int:
            raise KeyError(n)

        with pytest.raises(KeyError):
            asyncio.run(Asker(2).all("card", range(3), ask, lambda *_: None))


def taxonomy(**more: Any) -> Taxonomy:
    types = (
        ErrorType("prints-binaries", "prints binaries", "It prints them.", 0, 5, 20, (Example("a", 0, 1, 0, "c"),)),
        ErrorType("hides-errors", "hides errors", "It hides them.", 1, 2, 10),
    )
    return Taxonomy(**{"stage": "refined", "made": {"seed": 0}, "types": types, "cards": 40, "batches": 8, **more})


class TestFiles:
    def test_there_and_back(self, tmp_path: Path) -> None:
        given = taxonomy().frozen()
        save(tmp_path, given)
        again = load(tmp_path)
        assert again.sha256 == given.sha256
        assert [one.id for one in again.types] == ["hides-errors", "prints-binaries"]
        assert again.types[1].examples[0].key == ("a", 0, 1, 0)
        assert (tmp_path / "taxonomy.json").stat().st_mode & 0o777 == 0o600

    def test_what_is_frozen_is_never_another(self, tmp_path: Path) -> None:
        save(tmp_path, taxonomy().frozen())
        save(tmp_path, taxonomy().frozen())
        with pytest.raises(TaxonomyError, match="is frozen, and another taxonomy than this"):
            save(tmp_path, taxonomy(cards=41).frozen())

    def test_what_is_frozen_was_not_edited(self, tmp_path: Path) -> None:
        path = save(tmp_path, taxonomy().frozen())
        path.write_text(path.read_text().replace("hides errors", "masks errors"))
        with pytest.raises(TaxonomyError, match="was changed after it was frozen"):
            load(tmp_path)

    def test_a_draft_may_be_edited(self, tmp_path: Path) -> None:
        path = save(tmp_path, taxonomy())
        path.write_text(path.read_text().replace("hides errors", "masks errors"))
        assert load(path).types[1].name == "masks errors"

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("{", "no JSON"),
            ("[]", "a JSON object was expected"),
            ("{}", "schema misstep.taxonomy of version 1 was expected"),
            ('{"schema":"misstep.taxonomy","version":1}', "no taxonomy: 'types'"),
        ],
    )
    def test_what_is_none(self, tmp_path: Path, text: str, problem: str) -> None:
        (tmp_path / "types.json").write_text(text)
        with pytest.raises(TaxonomyError, match=f"types.json: {problem}"):
            load(tmp_path / "types.json")

    @pytest.mark.parametrize("change", [{"id": "Not A Slug"}, {"name": " "}, {"id": "hides-errors"}])
    def test_a_draft_that_cannot_label(self, tmp_path: Path, change: dict[str, str]) -> None:
        plain = taxonomy().plain()
        plain["types"][0].update(change)
        (tmp_path / "refined.json").write_text(json.dumps(plain))
        with pytest.raises(TaxonomyError, match=r"refined.json: (type .*are texts, not empty|two types have the id)"):
            load(tmp_path / "refined.json")

    def test_ids(self) -> None:
        assert slug("Prints a binary file, as text!") == "prints-a-binary-file-as-text"
        assert slug("...") == ""
        assert slug("w " * 80) == "w" + "-w" * 31
        assert len(slug("x" * 100)) == 64


def key(n: int) -> tuple[str, int, int, int]:
    return (f"{n}.jsonl", 0, 1, 0)


def readings(*rows: tuple[str, ...] | None) -> Labels:
    return Labels("m", {key(n): names for n, names in enumerate(rows)}, {}, {})


class TestFigures:
    def test_agreement_of_each_type_and_of_whole_answers(self) -> None:
        a, b = "prints-binaries", "hides-errors"
        first = readings((a,), (a,), (b,), (), (a, b), None, (b,))
        other = readings((a,), (b,), (b,), (), (a, b), (a,), (b,))
        found = coverage.agreement(taxonomy(), first, other)
        assert (found["whole"]["items"], found["whole"]["unknown"]) == (6, 1)
        assert found["whole"]["observed"] == pytest.approx(5 / 6)
        assert found["types"][a]["kappa"] == pytest.approx((5 / 6 - 0.5) / 0.5)
        low, high = found["types"][a]["interval"]
        assert low < found["types"][a]["kappa"] < high

    def test_overlap_counts_what_a_detector_cannot_tell_apart(self) -> None:
        said: list[dict[str, bool | None]] = [{"m": True}, {"m": False}, {"m": None}, {}, {"m": True}, {"m": True}]
        verdicts = ["bad"] * 5 + ["good"]
        steps = [
            StepLabel(f"{n}", f"{n}.jsonl", 0, "t", 1, 0, "c", verdicts[n], catalogue=one) for n, one in enumerate(said)
        ]
        known = {key(n): (("prints-binaries",) if n < 4 else ()) for n in range(5)}
        (row,) = coverage.overlap(taxonomy(), known, steps)
        assert (row["both"], row["only_type"], row["only_misstep"], row["unknown"], row["outside"]) == (1, 2, 1, 1, 1)
        assert row["jaccard"] == pytest.approx(1 / 4)

    def test_rarefaction_is_the_mean_over_all_orders(self) -> None:
        found = dict(map(tuple, coverage.rarefaction([1, 4], 4)))
        assert found == {1: pytest.approx(1.25), 2: pytest.approx(1.5), 3: pytest.approx(1.75), 4: pytest.approx(2.0)}
        assert coverage.rarefaction([], 0) == []

    def test_steps_without_an_answer_are_in_no_share(self) -> None:
        steps = [StepLabel(f"{n}", f"{n}.jsonl", 0, f"t{n % 2}", 1, 0, "c", "bad") for n in range(4)]
        first = readings(("prints-binaries",), (), None)
        found = coverage.numbers(taxonomy(), steps, steps, first, {})
        assert (found["labelled"], found["unread"]) == (2, 1)
        assert found["coverage"]["steps"]["rate"] == 0.5
        assert found["coverage"]["environments"]["some"] == 1
        assert found["types"][0]["id"] == "prints-binaries"
        assert found["union"][-1] == {"types": 2, "id": "hides-errors", "steps": 0.5, "environments": 0.5}

    def test_nothing_labelled(self) -> None:
        steps = [StepLabel("0", "0.jsonl", 0, "t", 1, 0, "c", "bad")]
        found = coverage.numbers(taxonomy(), steps, steps, readings(None), {"draw": readings(None)})
        assert found["coverage"]["steps"]["rate"] is None
        assert found["agreement"]["draw"]["whole"]["kappa"] is None


class TestCorrected:
    """A rollout that went on with a correction: what is an error is the step that was not taken."""

    @pytest.fixture
    def rolled(self, tmp_path: Path) -> tuple[Path, StepLabel]:
        from misstep.profile.corrected import PROPOSED
        from misstep.trajectory import Call, Result, Step, Trajectory, atif_out

        def call(n: int, command: str) -> Step:
            one = Step("agent", calls=[Call(f"c{n}", "bash", "shell", {"command": command}, command)])
            one.results[f"c{n}"] = Result("ok", 0)
            return one

        steps = [
            Step("user", "Free the port.", prompt=True),
            call(1, "ss -ltn"),
            call(2, "kill 4711"),
            call(3, "pkill -h"),
        ]
        steps[2].extra[PROPOSED] = {"message": "I end all of them.", "command": "pkill -f python", "model": "m"}
        path = tmp_path / "r1.json"
        path.write_text(json.dumps(atif_out.write(Trajectory("r1", "atif", "misstep", steps))))
        corrected = {"say": "", "command": "kill 4711", "model": "t", "tries": []}
        return path, StepLabel(
            "r1", str(path), 0, "task", 2, 0, "pkill -f python", "bad", "Too broad.", corrected=corrected
        )

    def test_the_annotator_sees_what_was_proposed(self, rolled: tuple[Path, StepLabel]) -> None:
        (one,) = cases([rolled[1]])
        assert "pkill -f python" in one.proposed
        assert "kill 4711" not in one.proposed + one.before
        assert "ss -ltn" in one.before

    def test_a_policy_is_drafted_against_it(self, rolled: tuple[Path, StepLabel]) -> None:
        from misstep.guard.propose import draft_from
        from misstep.profile import instances, labelling
        from misstep.profile.labels import SCHEMA as PROFILE
        from misstep.trajectory.readers import read

        path, label = rolled
        folder = path.parent
        kind = ErrorType("kills-too-much", "kills too much", "It kills too much.")
        frozen = taxonomy(types=(kind,)).frozen()
        save(folder, frozen)
        good = StepLabel("r1", str(path), 0, "task", 3, 0, "pkill -h", "good")
        plain = [{"schema": PROFILE, "version": 1}, label.plain(), good.plain()]
        (folder / "profile.jsonl").write_text("".join(json.dumps(one) + "\n" for one in plain))
        head = {"schema": labelling.SCHEMA, "version": 1, "taxonomy": frozen.sha256, "annotator": {"model": "m"}}
        row = {"path": str(path), "n": 0, "step": 2, "call": 0, "labels": [kind.id], "reason": "so", "failure": ""}
        (folder / "labels.jsonl").write_text(json.dumps(head) + "\n" + json.dumps(row) + "\n")
        found = list(instances.verdicts(folder, kind, read(str(path))))
        made = draft_from(
            kind.name, ((one, [(*each, ()) for each in some]) for one, some in found), "kills-too-much-reminder"
        )
        assert made is not None
        assert made.words == ["pkill"]
        (fires,), (near,) = made.fires, made.silent
        assert fires["events"][-1]["run"] == "pkill -f python"
        assert near["events"][-1]["run"] == "pkill -h"
        first = labelling.load(folder, frozen)
        assert first is not None
        (shown,) = instances.contexts(frozen, [label], first, {})[kind.id]
        assert [one["calls"][0]["text"] for one in shown["steps"].values() if "calls" in one] == [
            "ss -ltn",
            "pkill -f python",
        ]
