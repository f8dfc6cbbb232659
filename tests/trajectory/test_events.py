"""The stream of events."""

from typing import Any

from misstep.trajectory import (
    After,
    Before,
    Call,
    Compact,
    Interrupt,
    Prompt,
    Result,
    Say,
    Step,
    Stop,
    Trajectory,
    events,
)


def stream(*steps: Step) -> list:
    return list(events(Trajectory("t", "made", "made", list(steps))))


def names(*steps: Step) -> list[str]:
    return [type(e).__name__ for e in stream(*steps)]


def user(text: str = "Go", **more: Any) -> Step:
    return Step("user", text, prompt=more.pop("prompt", True), **more)


def agent(text: str = "", *commands: str, results: bool = True, **more: Any) -> Step:
    calls = [Call(f"c{n}", "Bash", "shell", {}, c) for n, c in enumerate(commands)]
    return Step("agent", text, calls=calls, results={c.id: Result("") for c in calls} if results else {}, **more)


def test_order_and_places():
    found = stream(user("Go"), agent("I look.", "ls", "pwd"), agent("Done."), user("More"))
    assert [e.index for e in found] == list(range(len(found)))
    assert [(type(e), e.step) for e in found] == [
        (Prompt, 0),
        (Say, 1),
        (Before, 1),
        (After, 1),
        (Before, 1),
        (After, 1),
        (Stop, 2),
        (Prompt, 3),
    ]
    assert found[2].call is found[3].call and found[2].call.command == "ls"
    assert found[0].text == "Go" and found[1].text == "I look." and found[6].message == "Done."


def test_call_without_a_result_has_no_after():
    assert names(user(), agent("", "ls", results=False)) == ["Prompt", "Before"]


def test_last_message_is_a_stop_and_not_a_saying():
    assert names(user(), agent("Done.")) == ["Prompt", "Stop"]
    assert names(user(), agent("Done."), Step("system", "x")) == ["Prompt", "Stop"]


def test_message_that_goes_on_is_a_saying():
    assert names(user(), agent("Wait."), agent("Done.")) == ["Prompt", "Say", "Stop"]
    assert names(user(), agent("Wait."), Step("system"), agent("", "ls")) == ["Prompt", "Say", "Before", "After"]


def test_message_before_a_reminder_is_a_saying_unless_the_reader_knows():
    reminder = user("Stop hook feedback", prompt=False)
    assert names(user(), agent("Done."), reminder, agent("Really.")) == ["Prompt", "Say", "Stop"]
    assert names(user(), agent("Done.", stop=True), reminder, agent("Really.")) == ["Prompt", "Stop", "Stop"]


def test_reader_knows_that_it_is_no_stop():
    assert names(user(), agent("And so", stop=False)) == ["Prompt", "Say"]


def test_stop_with_a_call_says_its_message_first():
    assert names(user(), agent("Submitting.", "submit", stop=True)) == ["Prompt", "Say", "Before", "After", "Stop"]


def test_empty_answer_is_no_stop():
    assert names(user(), agent("")) == ["Prompt"]


def test_interruption_is_no_stop():
    assert names(user(), agent("I am", interrupted=True)) == ["Prompt", "Interrupt", "Say"]
    broken = user("[Request interrupted]", prompt=False, interrupted=True)
    assert names(user(), agent("I am"), broken, user("No")) == ["Prompt", "Say", "Interrupt", "Prompt"]


def test_breakdown_of_the_harness_is_no_stop():
    error = Step("system", "API Error: 500", extra={"harness": "api_error"})
    assert names(user(), agent("Let me see"), error) == ["Prompt", "Say"]


def test_copied_steps_are_not_there():
    copies = [user("Old", copied=True), agent("Older.", "ls", copied=True)]
    found = stream(*copies, user("New"), agent("Done."))
    assert [(type(e), e.index, e.step) for e in found] == [(Prompt, 0, 2), (Stop, 1, 3)]
    assert names(user(), agent("Done."), user("Copy", copied=True), user("New")) == ["Prompt", "Stop", "Prompt"]


def test_compaction():
    assert names(user(), Step("system", compacted=True), agent("Done.")) == ["Prompt", "Compact", "Stop"]
    assert names(user(), user("Summary", prompt=False, compacted=True), agent("Done.")) == ["Prompt", "Compact", "Stop"]
    assert [type(e) for e in stream(Step("system", compacted=True, interrupted=True))] == [Compact, Interrupt]


def test_texts_that_are_no_prompts():
    assert names(user("<system-reminder>", prompt=False), Step("system", "Rules")) == []


def test_nothing():
    assert stream() == []
