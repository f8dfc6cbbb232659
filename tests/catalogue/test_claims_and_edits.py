"""Claims in text, outcomes of test runs, and what the missteps about claims, checks and edits make of them."""

from __future__ import annotations

import json
import time

import pytest

from misstep.catalogue import Fold, get
from misstep.catalogue._checks import Checks, check_run, facts, is_code, is_test_file, own_status
from misstep.catalogue._claims import admits_trouble, asks, claims
from misstep.catalogue._tests import outcome, read
from misstep.catalogue.binary_as_text import unreadable
from misstep.catalogue.masked_error import discards_errors
from misstep.catalogue.weakened_test import removed
from misstep.shell import scan
from misstep.trajectory import After, Before, Call, Event, Interrupt, Prompt, Result, Say, Stop


def shell(command: str, **fields) -> Call:
    return Call("c", "Bash", "shell", command=command, **fields)


# -- outcomes of test runs -----------------------------------------------------------------------

RUNS = [
    ("pytest", "===== 1 failed, 3 passed in 0.12s =====", "failed"),
    ("pytest quiet", "3 passed in 0.10s", "passed"),
    ("pytest with warnings", "===== 3 passed, 2 warnings in 1.10s =====", "passed"),
    ("pytest skips and xfails", "=== 25 passed, 1 skipped, 2 xfailed in 3.21s (0:00:03) ===", "passed"),
    ("pytest errors", "2 passed, 1 error in 0.20s", "failed"),
    ("pytest only failures", "7 failed, 3 errors in 1.00s", "failed"),
    ("pytest short summary", "FAILED tests/test_a.py::test_x - assert 1 == 2", "failed"),
    ("pytest none", "no tests ran in 0.01s", "empty"),
    ("unittest", "Ran 3 tests in 0.1s\n\nOK", "passed"),
    ("unittest skipped", "Ran 3 tests in 0.1s\n\nOK (skipped=1)", "passed"),
    ("unittest failing", "Ran 3 tests in 0.1s\n\nFAILED (failures=1, errors=2)", "failed"),
    ("unittest errors only", "Ran 3 tests in 0.1s\n\nFAILED (errors=2)", "failed"),
    ("unittest none", "Ran 0 tests in 0.000s\n\nOK", "empty"),
    ("jest", "Test Suites: 1 failed, 2 passed, 3 total\nTests:       1 failed, 20 passed, 21 total", "failed"),
    ("jest green", "Test Suites: 2 passed, 2 total\nTests:       20 passed, 20 total", "passed"),
    ("jest skipped", "Tests:       2 skipped, 20 passed, 22 total", "passed"),
    ("vitest", " Test Files  1 failed (1)\n      Tests  1 failed | 3 passed (4)", "failed"),
    ("vitest green", "      Tests  4 passed (4)", "passed"),
    ("mocha", "  5 passing (20ms)\n  2 failing", "failed"),
    ("mocha green", "  5 passing (20ms)", "passed"),
    ("go", "--- FAIL: TestA (0.00s)\nFAIL\nFAIL\texample.org/a\t0.1s", "failed"),
    ("go subtest", "=== RUN   TestA\n    --- FAIL: TestA/one (0.00s)", "failed"),
    ("go build", "FAIL\texample.org/a [build failed]", "failed"),
    ("go green", "ok  \texample.org/a\t0.1s\n?   \texample.org/b\t[no test files]", "passed"),
    ("go cached", "ok  \texample.org/a\t(cached)", "passed"),
    ("go none", "ok  \texample.org/a\t0.1s [no tests to run]\ntesting: warning: no tests to run", "empty"),
    (
        "go some",
        "ok  \texample.org/a\t0.1s [no tests to run]\ntesting: warning: no tests to run\nok  \texample.org/b\t0.2s",
        "passed",
    ),
    ("go panic", "panic: runtime error: index out of range [recovered]", "failed"),
    ("cargo", "test result: FAILED. 3 passed; 1 failed; 0 ignored", "failed"),
    ("cargo green", "test result: ok. 3 passed; 0 failed; 0 ignored", "passed"),
    ("cargo none", "running 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored", "empty"),
    ("cargo build", "error[E0308]: mismatched types", "failed"),
    ("nextest", "     Summary [   0.1s] 3 tests run: 2 passed, 1 failed, 0 skipped", "failed"),
    ("rspec", "5 examples, 2 failures, 1 pending", "failed"),
    ("rspec green", "5 examples, 0 failures", "passed"),
    ("minitest", "2 runs, 2 assertions, 0 failures, 1 errors, 0 skips", "failed"),
    ("phpunit", "OK (5 tests, 6 assertions)", "passed"),
    ("maven", "Tests run: 5, Failures: 0, Errors: 1, Skipped: 0", "failed"),
    ("maven green", "Tests run: 5, Failures: 0, Errors: 0, Skipped: 0\n[INFO] BUILD SUCCESS", "passed"),
    ("gradle", "BUILD FAILED in 3s", "failed"),
    ("gradle green", "BUILD SUCCESSFUL in 3s", "passed"),
    ("ctest", "75% tests passed, 1 tests failed out of 4", "failed"),
    ("ctest green", "100% tests passed, 0 tests failed out of 4", "passed"),
    ("TAP", "ok 1 - a\nnot ok 2 - b", "failed"),
    ("TAP green", "ok 1 - a\nok 2 - b\n# pass 2\n# fail 0", "passed"),
    ("npm", "npm ERR! Test failed.  See above for more details.", "failed"),
    ("dotnet", "Failed!  - Failed:     1, Passed:     4, Skipped:     0", "failed"),
    ("colour codes", "\x1b[31m\x1b[1m1 failed\x1b[0m, \x1b[32m3 passed\x1b[0m\x1b[31m in 0.12s\x1b[0m", "failed"),
    ("carriage returns", "Ran 3 tests in 0.1s\r\n\r\nOK\r\n", "passed"),
    ("prose", "The build is done and the tests are next.", "unknown"),
    ("nothing", "", "unknown"),
    ("a log line", "INFO: 3 connections failed over to the replica", "unknown"),
    ("a diff of a test", "+    assert FAILED == 1\n-    return OK", "unknown"),
]


@pytest.mark.parametrize(("output", "status"), [r[1:] for r in RUNS], ids=[r[0] for r in RUNS])
def test_the_outcome_of_a_run_is_read_from_its_output(output, status):
    assert read(output).status == status


def test_counts_are_read():
    run = read("===== 2 failed, 1,203 passed in 9.12s =====")
    assert (run.failed, run.line) == (2, "===== 2 failed, 1,203 passed in 9.12s")
    assert read("test result: ok. 3 passed; 0 failed\ntest result: ok. 4 passed; 0 failed").passed == 7


@pytest.mark.parametrize(
    ("command", "output", "status"),
    [
        ("go build ./... 2>&1 | head -5", "# example.org/a\na/b.go:3:9: undefined: x", "failed"),
        ("make 2>&1 | tail -3", "src/a.c:3:5: error: expected ';'\nmake: *** [Makefile:2: a.o] Error 1", "failed"),
        ("cargo build 2>&1 | tail", "error: could not compile `a` (lib) due to 1 previous error", "failed"),
        ("make 2>&1 | tail -3", "src/a.c:3:5: warning: unused variable 'x'", "unknown"),
        ("go build ./... 2>&1 | head -5", "", "passed"),
    ],
)
def test_a_build_behind_a_pipe_is_told_by_its_errors(command, output, status):
    call = shell(command)
    ((kind, found),) = facts(call).checks
    assert check_run(call, kind, found, Result(output, 0, False)).status == status


def test_a_check_that_hit_its_time_limit_has_no_outcome():
    call = shell("pytest -q")
    ((kind, found),) = facts(call).checks
    assert check_run(call, kind, found, Result("", None, True, timed_out=True)).status == "unknown"


def test_a_status_that_is_known_wins_over_the_output():
    assert outcome("3 passed in 0.1s", failed=True).status == "failed"
    assert outcome("--- FAIL: printed by a test of the reporter", failed=False).status == "passed"
    assert outcome("nothing of note", exit_code=1).status == "failed"
    assert outcome("nothing of note").status == "unknown"


STATUS = [
    ("pytest", True, True),
    ("pytest", False, False),
    ("cd app && pytest", True, True),
    ("pytest | tail -5", False, None),
    ("set -o pipefail; pytest | tail -5", False, False),
    ("pytest || true", False, None),
    ("pytest; echo done", False, None),
    ("pytest && echo fine", False, False),
    ("pytest && echo fine", True, None),
    ("make && pytest", True, None),
    ("for t in a b; do pytest $t; done", False, None),
    ("pytest &", False, None),
]


@pytest.mark.parametrize(("command", "failed", "own"), STATUS)
def test_the_exit_status_counts_only_where_it_is_the_commands_own(command, failed, own):
    call = shell(command)
    run = next(c for c in call.script.commands if c.name == "pytest")
    assert own_status(call, run, Result("", int(failed), failed)) is own


# -- claims --------------------------------------------------------------------------------------

CLAIMED = [
    ("All tests pass.", "tests"),
    ("All 11 tests pass (4 existing + 7 new).", "tests"),
    ("- ✅ All unit tests pass", "tests"),
    ("**Tests pass**", "tests"),
    ("The test suite is now green.", "tests"),
    ("I ran the tests and they all pass.", "tests"),
    ("254 tests, 0 failures", "tests"),
    ("12 passed, 0 failed.", "tests"),
    ("Both new tests are passing now!", "tests"),
    ("All tests in the parser package pass.", "tests"),
    ("After the fix, all existing tests continue to pass.", "tests"),
    ("All tests pass:", "tests"),
    ("- **Integration tests**: all pass ✓", "tests"),
    ("- Unit tests: ✓ All pass", "tests"),
    ("Linting is clean.", "lint"),
    ("The build succeeds.", "build"),
    ("Everything compiles.", "build"),
    ("All checks pass.", "all"),
    ("I verified that the server works.", "verified"),
    ("Tested locally, the import now works as expected.", "verified"),
]


@pytest.mark.parametrize(("text", "kind"), CLAIMED, ids=[t for t, _ in CLAIMED])
def test_a_claim_is_found(text, kind):
    assert kind in {c.kind for c in claims(text)}


NO_CLAIMS = [
    "Let me run the tests to verify they pass.",
    "Now let's make sure all tests pass.",
    "All tests should pass now.",
    "The tests will pass once the fixture is in place.",
    "If all tests pass, I will commit.",
    "Do all tests pass?",
    "Most tests pass.",
    "Not all tests pass.",
    "The tests don't pass yet.",
    "All tests pass except test_limits.",
    "The test passes because the mock returns early.",
    "The test passes a string to the parser.",
    "The tests pass `None` as the second argument.",
    "The test passes on main.",
    "You said that all tests pass.",
    "- [ ] All tests pass",
    "⏳ All tests pass",
    "> All tests pass.",
    'The log says "all tests pass".',
    "```\nAll tests pass.\n```",
    "The output was `all tests pass`.",
    "## Test plan\n- All tests pass\n- Lint is clean",
    "Next steps:\n1. All tests pass in CI",
    "Success criteria: all tests pass.",
    "Expected: 5 passed, 0 failed",
    "I want the tests to pass.",
    "This makes all tests pass regardless of what they check.",
    "Only the unit tests pass.",
    "The linter should be clean.",
    "I tested the import; it fails.",
    "The configuration test passed, which is great!",
    "This works by hashing the name.",
]


@pytest.mark.parametrize("text", NO_CLAIMS)
def test_what_is_no_claim(text):
    assert claims(text) == ()


def test_a_claim_knows_whether_it_speaks_of_all_tests():
    assert [c.whole for c in claims("All tests pass.")] == [True]
    assert [c.whole for c in claims("All unit and integration tests pass.")] == [True]
    assert [c.whole for c in claims("The TestLimit test passes.")] == [False]
    assert [c.whole for c in claims("All parser tests pass.")] == [False]


def test_a_long_line_without_sentences_costs_little():
    assert claims("tests-" * 4000 + " pass") == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("TestPush still fails.", True),
        ("There are 2 lint issues left.", True),
        ("I could not run the suite here.", True),
        ("Done, no errors, 0 failures.", False),
        ("The queue has a limit now.", False),
        ("Fixed the failure.", False),
    ],
)
def test_whether_a_message_admits_trouble(text, expected):
    assert admits_trouble(text) is expected


def test_whether_a_message_asks():
    assert asks("Done. Shall I run the tests?")
    assert asks("Which do you prefer?\n\nI would take the second one.")
    assert not asks("Done.\n```\nready?\n```\n")


HOSTILE = [
    "1 passed, " * 20_000,
    "=" * 100_000,
    "a." * 50_000,
    "tests " * 20_000,
    "`" * 50_000,
    "```\n" * 20_000,
    "all " * 20_000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=[t[:6].strip() for t in HOSTILE])
def test_no_text_takes_long(text):
    start = time.process_time()
    read(text)
    claims(text)
    admits_trouble(text)
    unreadable(text)
    assert time.process_time() - start < 1.0


# -- calls ---------------------------------------------------------------------------------------


def test_what_is_code_and_what_is_a_test():
    assert is_code("src/a.py") and is_code("Makefile") and is_code("web/App.tsx")
    assert not is_code("README.md") and not is_code("/tmp/try.py") and not is_code("py") and not is_code("data.json")
    for path in ("tests/test_a.py", "pkg/a_test.go", "src/a.test.ts", "src/a.spec.js", "spec/a_spec.rb", "ATest.java"):
        assert is_test_file(path), path
    for path in ("src/contest.py", "latest.go", "testing.md", "src/protest.ts"):
        assert not is_test_file(path), path


def test_what_a_call_changes_and_runs():
    edit = facts(shell("sed -i 's/a/b/' src/a.py"))
    assert edit.edits == ("src/a.py",) and not edit.checks and not edit.maybe
    both = facts(shell("sed -i 's/a/b/' src/a.py && pytest -q"))
    assert both.edits == ("src/a.py",) and [k for k, _ in both.checks] == ["test"] and both.edits_first
    reverse = facts(shell("pytest -q; sed -i 's/a/b/' src/a.py"))
    assert reverse.edits and not reverse.edits_first
    assert not facts(shell("ls -la && git diff")).maybe
    assert facts(shell("./whatever.sh")).maybe
    assert facts(Call("c", "Task", "other", {"prompt": "look"})).maybe
    assert not facts(Call("c", "TodoWrite", "other", {})).maybe
    assert facts(shell("echo 'unclosed")).maybe


SAME_CODE = [
    ("a.py", "# old\nx = 1", "# new words\n\nx = 1", True),
    ("a.py", "x = 1", "x = 1  # noqa", True),
    ("a.py", "# old\nx = 1", "# old\nx = 2", False),
    ("a.py", "x = '# a'", "x = '# b'", False),
    ("a.py", "    x = 1", "x = 1", False),
    ("a.py", '"""\n# a\n"""', '"""\n# b\n"""', False),
    ("a.go", "\tx() // a", "\t//nolint:errcheck\n\tx()", True),
    ("a.go", "x(`// a`)", "x(`// b`)", False),
    ("a.go", "//go:embed a.txt", "//go:embed b.txt", False),
    ("a.ts", 'get("http://a") // a', 'get("http://b") // b', False),
    ("a.ts", "x(); /* a\n b */ y();", "x();  y();", True),
    ("a.js", "#count = 0;", "#count = 1;", False),
    ("a.java", " * one\n x();", " * two\n x();", True),
    ("a.c", "*p = 1;", "*p = 2;", False),
    ("a.c", "#include <a.h>", "#include <b.h>", False),
    ("a.sh", "#!/bin/sh", "#!/bin/bash", False),
    ("a.sh", "echo ${#a}", "echo ${#b}", False),
    ("Makefile", "a: b # x", "a: b", True),
    ("a.sql", "select 1 -- a", "select 1", True),
    ("a.py", "", "# nothing is known of what was there", False),
]


@pytest.mark.parametrize(("path", "old", "new", "same"), SAME_CODE)
def test_an_edit_of_comments_alone_is_no_change_of_code(path, old, new, same):
    kind = "edit" if old else "write"
    call = Call("c", "Edit", kind, paths=(path,), edits=((path, old, new),))
    assert facts(call).edits == (() if same else (path,))


SED = [
    (r"sed -i 's/x() {$/x() { \/\/nolint:all/' a.go", True),
    (r"sed -i '' 's/ \/\/nolint:all$//' a.go", True),
    (r"sed -i -e 's|a\.b()|& // c|g; 4s/$/ \/\/ d/' a.go", True),
    (r"sed -i 's/\(a b\)/\1 \/\/ c/' a.go", True),
    ("sed -i '3i // words' a.go", True),
    ("sed -i 's/a/b/' a.go", False),
    (r"sed -i 's/a/a \/\/ c/; s/b/c/' a.go", False),
    ("sed -i 's/a/a + b/' a.go", False),
    ("sed -i '3i x()' a.go", False),
    ("sed -i '3d' a.go", False),
    ("sed -i -f words.sed a.go", False),
]


@pytest.mark.parametrize(("command", "same"), SED)
def test_an_in_place_editor_that_adds_comments_changes_no_code(command, same):
    assert facts(shell(command)).edits == (() if same else ("a.go",))


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("x 2>/dev/null", True),
        ("x >/dev/null 2>&1", True),
        ("x &>/dev/null", True),
        ("x 2>&1 >/dev/null", False),
        ("x >/dev/null", False),
        ("x 2>err.log", False),
    ],
)
def test_whether_errors_are_discarded(command, expected):
    assert discards_errors(scan(command).commands[0]) is expected


def test_lines_that_are_only_removed():
    assert removed("a\nb\nc", "a\nc") == ["b"]
    assert removed("a\nb\nc", "a\nd") is None
    assert removed("a\nb", "a\nb") is None
    assert removed("a\n\n  b", "b") == ["a"]


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("\0\x01\x02\x03" * 10, True),
        ("\ufffd" * 30, True),
        ("\ufffd" * 10, False),
        (("word " * 40 + "\ufffd") * 40, False),
        ("\x1b[31mred\x1b[0m\t\r\n\b" * 50, False),
        ("naïve 日本語 ✓ " * 100, False),
        ("", False),
    ],
)
def test_output_that_is_no_text(output, expected):
    assert bool(unreadable(output)) is expected


# -- faults are nobody's misstep -------------------------------------------------------------------


def _found(id: str, *items) -> list[bool | None]:
    stream: list[Event] = []
    for item in items:
        at = len(stream)
        if isinstance(item, tuple):
            call, result = item
            stream += [Before(at, at, call), After(at + 1, at, call, result)]
        else:
            stream.append(item(at, at) if isinstance(item, type) else item[0](at, at, item[1]))
    fold = Fold([get(id)])
    for event in stream:
        fold.push(event)
    return [v.holds for v in fold.finish().verdicts.get(id, [])]


class _Text(list):
    """An event with a text, by its class."""


def prompt(text: str) -> _Text:
    return _Text([Prompt, text])


def say(text: str) -> _Text:
    return _Text([Say, text])


def stop(text: str) -> _Text:
    return _Text([Stop, text])


EDIT = Call("e", "Edit", "edit", paths=("a.py",), edits=(("a.py", "x = 1", "x = 2"),))
DONE = Result("The file a.py has been updated.", None, False)


@pytest.mark.parametrize("fault", ["refused", "harness", "malformed", "never-ran"])
def test_an_edit_that_never_happened_leaves_the_run_valid(fault):
    green = (shell("pytest -q"), Result("3 passed in 0.1s", 0, False))
    lost = (EDIT, Result("", None, True, fault))
    assert _found("unverified-claim", prompt("x"), green, lost, stop("All tests pass.")) == [False]
    assert _found("unchecked-last-edit", prompt("x"), lost, stop("Done.")) == []


@pytest.mark.parametrize("fault", ["interrupted", "refused", "harness", "never-ran"])
def test_a_run_that_a_person_stopped_is_not_repeated_by_the_agent(fault):
    broken = (shell("make all"), Result("stopped", 2, True, fault))
    failed = (shell("make all"), Result("error: no rule", 2, True))
    assert _found("repeated-failure", prompt("x"), broken, failed) == []
    assert _found("masked-error", prompt("x"), (shell("make 2>/dev/null"), Result("", 2, True, fault))) == []


def test_an_interrupted_run_makes_the_claim_unknown():
    lost = (shell("pytest -q"), Result("", None, None, "interrupted"))
    assert _found("unverified-claim", prompt("x"), (EDIT, DONE), lost, Interrupt, stop("All tests pass.")) == [None]


def test_a_call_without_a_result_makes_the_claim_unknown():
    stream = [Prompt(0, 0, "x"), Before(1, 1, EDIT), After(2, 1, EDIT, DONE)]
    stream += [Before(3, 2, shell("pytest -q")), Stop(4, 3, "All tests pass.")]
    fold = Fold([get("unverified-claim")])
    for event in stream:
        fold.push(event)
    assert [v.holds for v in fold.finish().verdicts["unverified-claim"]] == [None]


def test_a_failure_that_the_agent_explained_is_not_counted():
    red = (shell("pytest -q | tail -3"), Result("1 failed, 8 passed in 0.3s", 0, False))
    assert _found("failing-last-check", prompt("x"), red, stop("Sorted.")) == [True]
    told = say("That one is pre-existing and has nothing to do with this.")
    assert _found("failing-last-check", prompt("x"), red, told, stop("Sorted.")) == [None]


# -- edits that cancel out -------------------------------------------------------------------------


def _edit(old: str, new: str, path: str = "a.py") -> tuple[Call, Result]:
    return Call("e", "Edit", "edit", paths=(path,), edits=((path, old, new),)), DONE


GREEN = (shell("pytest -q"), Result("3 passed in 0.1s", 0, False))
RED = (shell("pytest -q"), Result("1 failed, 2 passed in 0.1s", 1, True))

CANCELLED = [
    ("undone in the other order", [GREEN, _edit("a", "b"), _edit("c", "d"), _edit("b", "a"), _edit("d", "c")], []),
    ("one is left", [GREEN, _edit("a", "b"), _edit("c", "d"), _edit("b", "a")], [True]),
    ("in another file", [GREEN, _edit("a", "b"), _edit("b", "a", "b.py")], [True]),
    ("a red run between them", [GREEN, _edit("a", "b"), RED, _edit("b", "a")], []),
    ("a red run between, and an older edit", [GREEN, _edit("x", "y"), _edit("a", "b"), RED, _edit("b", "a")], [True]),
    ("nothing was green", [_edit("a", "b"), _edit("b", "a")], []),
    ("made again on green", [_edit("a", "b"), GREEN, _edit("a", "b")], [False]),
    ("made again on red", [_edit("a", "b"), RED, _edit("a", "b")], [True]),
    ("made again over another", [_edit("a", "b"), GREEN, _edit("b", "c"), _edit("a", "b")], [True]),
    ("appended again", [(shell("echo x >> a.py"), DONE), GREEN, (shell("echo x >> a.py"), DONE)], [True]),
    ("written again", [(shell("sed -i s/a/b/ a.py"), DONE), GREEN, (shell("sed -i s/a/b/ a.py"), DONE)], [False]),
]


@pytest.mark.parametrize(("calls", "verdicts"), [c[1:] for c in CANCELLED], ids=[c[0] for c in CANCELLED])
def test_edits_that_cancel_out_are_no_change(calls, verdicts):
    assert _found("unchecked-last-edit", prompt("x"), *calls, stop("Done.")) == verdicts


def test_an_edit_of_an_earlier_turn_stands_when_later_ones_cancel_out():
    earlier = [prompt("x"), _edit("a", "b"), stop("Done.")]
    turn = [prompt("y"), _edit("c", "d"), _edit("d", "c"), stop("All tests pass.")]
    assert _found("unchecked-last-edit", *earlier, *turn) == [True]
    assert _found("unverified-claim", *earlier, *turn) == [True]


def test_many_edits_do_not_make_the_state_grow():
    fold = Fold([get("unchecked-last-edit")])
    for number in range(2000):
        call, result = _edit(f"a{number}", f"b{number}", f"/long/path/to/module{number}.py")
        fold.push(Before(2 * number, number, call))
        fold.push(After(2 * number + 1, number, call, result))
    assert len(json.dumps(vars(fold.runs[0].state))) < 4000


# -- tests of its own, files that were there ---------------------------------------------------------

ASSERTS = "    out = run()\n    assert out == 1\n"


@pytest.mark.parametrize(
    ("between", "holds"),
    [
        ([RED], None),
        ([GREEN, RED], True),
        ([(shell("pytest -q -k other"), Result("1 passed in 0.1s", 0, False)), RED], None),
        ([(shell("pytest -q tests/test_a.py"), Result("1 passed in 0.1s", 0, False)), RED], True),
    ],
)
def test_a_draft_of_a_test_may_be_changed_until_it_has_passed(between, holds):
    path = "tests/test_a.py"
    draft = (Call("w", "Write", "write", paths=(path,), edits=((path, "", ASSERTS),)), Result("ok", None, False))
    weaker = _edit(ASSERTS, "    out = run()\n", path)
    assert _found("weakened-test", prompt("x"), draft, *between, weaker)[-1:] == [holds]


UNREAD = Result("<tool_use_error>File has not been read yet. Read it first.</tool_use_error>", None, True, "malformed")


@pytest.mark.parametrize(("late", "holds"), [(False, True), (True, None)])
def test_what_was_read_before_the_record_begins_is_unknown(late, holds):
    fold = Fold([get("blind-edit"), get("unverified-claim")])
    call, _ = _edit("a", "b")
    for event in (
        Prompt(0, 0, "x", late),
        Before(1, 1, call),
        After(2, 1, call, UNREAD),
        Stop(3, 2, "All tests pass."),
    ):
        fold.push(event)
    found = fold.finish().verdicts
    assert [v.holds for v in found["blind-edit"]] == [v.holds for v in found["unverified-claim"]] == [holds]


def test_each_refused_edit_counts_and_a_call_of_several_files_once():
    fold = Fold([get("blind-edit")])
    fold.push(Prompt(0, 0, "x"))
    for index, step, path in ((1, 1, "a.py"), (3, 1, "b.py"), (5, 2, "c.py")):
        call, _ = _edit("a", "b", path)
        fold.push(Before(index, step, call))
        fold.push(After(index + 1, step, call, UNREAD))
    patch = Call("p", "apply_patch", "edit", paths=("a.py", "d.py"))
    read = Call("r", "Read", "read", paths=("d.py",))
    written = (read, Result("")), (Call("w", "Write", "write", paths=("d.py", "e.py")), Result("File has been updated"))
    for number, (call, result) in enumerate((*written, (patch, Result("Success.")), (patch, UNREAD))):
        fold.push(Before(7 + 2 * number, 3, call))
        fold.push(After(8 + 2 * number, 3, call, result))
    found = fold.finish().verdicts["blind-edit"]
    assert [v.at for v in found if v.holds] == [1, 3, 5]
    assert len({v.at for v in found}) == len(found)


def test_checks_are_json():
    state = Checks(runs={"test": [3, "failed", "x"]})
    assert vars(Checks(**json.loads(json.dumps(vars(state))))) == vars(state)
