"""The small policy: its tasks commit what they are said to, its tokenizer loses nothing, batching and caching change nothing."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

from misstep.catalogue import get, judge  # noqa: E402
from misstep.train.episode import Action, Shown  # noqa: E402
from misstep.train.prefixes import step_of, trajectory_of  # noqa: E402
from misstep.train.tiny import dialogs, fit, tasks  # noqa: E402
from misstep.train.tiny.bpe import Bpe  # noqa: E402
from misstep.train.tiny.codec import TinyCodec  # noqa: E402
from misstep.train.tiny.model import Shape, TinyModel  # noqa: E402
from misstep.train.tiny.policy import TinyPolicy  # noqa: E402

SMALL = Shape(300, width=32, layers=2, heads=2, hidden=64, context=96)
FAILS = {"look": False, "change": True, "repair": False, "tidy": True}
"""Whether the verifier refuses what was done with the misstep."""


def test_the_same_seed_is_the_same_task_and_seeds_differ():
    one, again = tasks.generate(7), tasks.generate(7)
    assert one == again
    made = [tasks.generate(n) for n in range(400)]
    assert len({task.folder.digest for task in made}) > 380
    assert {task.family for task in made} == set(tasks.FAMILIES)
    assert 5 <= sum(task.slow for task in made) <= 40


@pytest.mark.parametrize("family", tasks.FAMILIES)
def test_scripts_are_right_and_wrong_as_verifier_and_detector_say(family: str, root, tmp_path: Path):
    for seed in (1, 2):
        task = tasks.generate(seed, family)
        loaded = tasks.load(task.folder.write(tmp_path))
        for name, holds in (("right", False), ("wrong", True)):
            with loaded.sandbox(root) as box, box.shell() as shell:
                trajectory = trajectory_of(task.instruction)
                for n, action in enumerate(getattr(task, name)):
                    seen = shell.run(action.command) if action.command else None
                    shown = Shown(seen.output, seen.exit_code) if seen else None
                    trajectory.steps.append(step_of(action, shown, f"c{n}"))
                quick = loaded.verify(box)
                slow = super(tasks.QuickTask, loaded).verify(box)
            assert quick.passed == slow.passed == (not (holds and FAILS[family]))
            verdicts = judge(trajectory, [get(task.misstep)]).verdicts.get(task.misstep, [])
            assert any(one.holds for one in verdicts) == holds
            assert all(one.holds is not None for one in verdicts)
            others = [get(one) for other, one in tasks.MISSTEPS.items() if other != family]
            assert not [one for found in judge(trajectory, others).verdicts.values() for one in found if one.holds]


def test_pieces_lose_nothing_and_are_the_same_every_time():
    texts = ["cat river.csv", "sed -i s/,.*/,red/ river.csv", "ls river"] * 3
    made = Bpe.train(texts, 300)
    assert made.merges == Bpe.train(reversed(texts), 300).merges
    for text in [*texts, "", "  two  spaces\n\ttab", "zwölf €", "\udcff"]:
        assert made.decode(made.encode(text)) == text
    assert len(made.encode("cat river.csv")) < 8
    assert made.decode(made.encode("a\udc00")) == "a?"


def test_pieces_come_back_from_a_file(tmp_path: Path):
    made = Bpe.train(["echo echo echo"], 270)
    made.save(tmp_path / "t.json")
    assert Bpe.load(tmp_path / "t.json").merges == made.merges


def test_the_codec_grows_ids_piece_by_piece():
    codec = TinyCodec(Bpe.train(["cat a.csv", "done All tests pass."] * 2, 300))
    assert codec.action(codec.turn(Action("cat a.csv"))) == Action("cat a.csv")
    assert codec.action(codec.turn(Action(None, "All tests pass.", True))) == Action(None, "All tests pass.", True)
    assert codec.action([codec.end]) == Action(None, "")
    assert codec.action(codec.pieces.encode("donee")).command == "donee"
    shown = codec.observation(Shown("\x00\ufffd\x01binary\n" + 60 * "x", 1))
    assert codec.pieces.decode(shown) == "[1] ?binary\n" + 32 * "x"
    assert shown[0] == codec.shown and shown[-1] == codec.begin


def _prompts(count: int, seed: int = 0) -> list[list[int]]:
    dice = random.Random(seed)
    return [[dice.randrange(299) for _ in range(dice.randrange(3, 30))] for _ in range(count)]


def test_log_probabilities_of_generation_are_those_of_training():
    model = TinyModel(SMALL, 3).eval()
    policy = TinyPolicy(model, seed=5)
    prompts = _prompts(9)
    prompts += [prompts[0], prompts[0]]  # alike: computed once
    first = policy.generate_batch(prompts, max_tokens=[12] * 11, stop=(299,))
    longer = [p + list(g.ids) + [7, 8, n] for n, (p, g) in enumerate(zip(prompts, first, strict=True))]
    second = policy.generate_batch(longer, max_tokens=[10] * 11, stop=(299,))  # on what was kept
    for prompt, made in [*zip(prompts, first, strict=True), *zip(longer, second, strict=True)]:
        ids = torch.tensor([prompt + list(made.ids)])
        with torch.no_grad():
            expected = model.logprobs(ids)[0, len(prompt) - 1 :]
        assert torch.allclose(expected, torch.tensor(made.logprobs), atol=2e-5)


def test_batching_decides_nothing():
    prompts = _prompts(8, 1)
    prompts.append(prompts[2])
    together = TinyPolicy(TinyModel(SMALL, 3).eval(), seed=5)
    together.begin(4)
    all_ = together.generate_batch(prompts, max_tokens=[9] * 9, stop=(299,))
    apart = TinyPolicy(TinyModel(SMALL, 3).eval(), seed=5)
    apart.begin(4)
    alone = [apart.generate_batch([one], max_tokens=[9], stop=(299,))[0] for one in prompts]
    assert [one.ids for one in alone] == [one.ids for one in all_]
    assert all_[2].ids != all_[8].ids  # the same prompt twice is two samples
    apart.begin(5)
    assert apart.generate_batch([prompts[0]], max_tokens=[9], stop=(299,))[0].ids != all_[0].ids


def test_limits_and_stops_are_kept():
    policy = TinyPolicy(TinyModel(SMALL, 0).eval(), seed=1)
    every = tuple(range(300))
    assert [len(one.ids) for one in policy.generate_batch(_prompts(3), max_tokens=[5, 5, 5], stop=every)] == [1, 1, 1]
    made = policy.generate_batch(_prompts(3), max_tokens=[1, 2, 4], stop=())
    assert [(len(one.ids), one.finish) for one in made] == [(1, "length"), (2, "length"), (4, "length")]


def test_fitting_learns_and_is_the_same_every_time(root, tmp_path: Path):
    some = [tasks.generate(n, "tidy") for n in range(12)]
    spoken = dialogs.make(some, "common", root, tmp_path)
    assert 3 <= sum(one.misstep for one in spoken) <= 11
    codec = fit.tokenizer(spoken, 320)
    shape = Shape(len(codec), width=32, layers=2, heads=2, hidden=64, context=128)
    losses: list[float] = []
    one = fit.fit(spoken, codec, steps=51, shape=shape, rate=5e-3, told=lambda n, loss: losses.append(loss))
    again = fit.fit(spoken, codec, steps=51, shape=shape, rate=5e-3)
    assert losses[1] < losses[0] / 2
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), again.parameters(), strict=True))
    fit.save(tmp_path / "policy", one, codec)
    model, read = fit.load(tmp_path / "policy")
    assert read.pieces.merges == codec.pieces.merges
    assert torch.equal(model.embed.weight, one.embed.weight)


def test_rare_missteps_are_in_slow_repairs_alone():
    some = [tasks.generate(n) for n in range(300)] + [tasks.generate(n, slow=True) for n in range(40)]
    wrong = [task for task in some if dialogs.script(task, "rare")[1]]
    assert wrong and all(task.slow and task.family == "repair" for task in wrong)
    assert 0.45 < sum(dialogs.script(task, "common")[1] for task in some) / len(some) < 0.75
