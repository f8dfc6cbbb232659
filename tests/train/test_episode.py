"""Episodes, their form on disk, and the byte codec."""

from __future__ import annotations

import json

import pytest

from misstep.train.codec import END, SHOWN, TASK, TURN, ByteCodec
from misstep.train.episode import Action, Codec, Episode, Generated, Shown, submits


def test_an_episode_counts_its_own_tokens_and_comes_back_from_its_line():
    made = Episode((1, 2), (3, 4, 5), (1, 0, 1), (-0.5, 0.0, -1.5), 1.0, {"start": "s"})
    assert made.trained == 2
    assert Episode.from_plain(json.loads(json.dumps(made.plain()))) == made
    assert made.rewarded(None).reward is None and made.reward == 1.0


@pytest.mark.parametrize("mask, logprobs", [((1,), ()), ((1, 0), (-0.5,)), ((1, 0, 1), ())])
def test_an_episode_whose_lists_do_not_match_is_refused(mask, logprobs):
    with pytest.raises(ValueError, match="an episode of 2 ids"):
        Episode((1,), (2, 3), mask, logprobs, None)


def test_generated_with_other_log_probabilities_than_ids_is_refused():
    with pytest.raises(ValueError, match="1 log probabilities for 2 ids"):
        Generated((1, 2), (-0.1,))


@pytest.mark.parametrize(
    "command, holds",
    [
        ("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", True),
        ("cd /app && echo 'MINI_SWE_AGENT_FINAL_OUTPUT'", True),
        ("grep COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT README", False),
        ("echo done", False),
    ],
)
def test_the_agreed_command_submits(command, holds):
    assert submits(command) is holds


def test_a_byte_conversation_is_made_piece_by_piece():
    codec = ByteCodec()
    assert isinstance(codec, Codec)
    assert codec.opening("a") == [TASK, 97, TURN]
    assert codec.turn(Action("ls", "look")) == [*b"look\n$ ls", END]
    assert codec.observation(Shown("x", 2)) == [SHOWN, *b"[2] x", TURN]
    assert codec.observation(Shown("x", 0)) == [SHOWN, *b"x", TURN]
    assert codec.observation(Shown(note="no")) == [SHOWN, *b"no", TURN]


@pytest.mark.parametrize(
    "action",
    [Action("ls -l"), Action("echo '$ x'\nls", "two lines"), Action(None, "only words"), Action(None, "all good", True), Action(None, "", True)],
)  # fmt: skip
def test_a_turn_means_what_was_put_into_it(action):
    codec = ByteCodec()
    assert codec.action(codec.turn(action)) == action


@pytest.mark.parametrize("ids", [[], [END], [*b"$ ", END], [*b"$ a\0b", END], [255, 254, SHOWN, END]])
def test_a_turn_without_a_command_is_none(ids):
    found = ByteCodec().action(ids)
    assert found.command is None and not found.submits


def test_the_marker_ends_the_session():
    codec = ByteCodec()
    found = codec.action([*b"tests pass\n$ echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", END])
    assert found == Action(None, "tests pass", True)
