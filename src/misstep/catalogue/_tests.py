"""How a test run went, told from its output and, where a pipe does not hide it, its exit status."""

from __future__ import annotations

import re
from functools import lru_cache

from misstep._record import record

from ._regex import Regex

PASSED, FAILED, EMPTY, UNKNOWN = "passed", "failed", "empty", "unknown"


@record
class Run:
    """The outcome of one test run (or of several in one output: one that failed makes it failed)."""

    status: str
    """passed | failed | empty (ran, and no test was selected) | unknown"""
    line: str = ""
    """The line of output that tells it, at most 160 characters, '' where only the exit status does."""
    passed: int | None = None
    """Tests that passed, where the output counts them."""
    failed: int | None = None
    """Tests that failed, where the output counts them."""


_ANSI = Regex(r"\x1b\[[0-9;?]*[A-Za-z]")
_N = r"(\d[\d,]*)"

# A summary that counts: (pattern, group of failures, group of passes; 0 where the pattern has none).
_COUNTS: tuple[tuple[Regex, tuple[int, ...], tuple[int, ...]], ...] = tuple(
    (Regex(pattern, re.M), bad, good)
    for pattern, bad, good in (
        # pytest: "== 1 failed, 3 passed in 0.12s ==", quiet runs have no rule around it
        (rf"^(?:=+ )?(?:.*?\b)?{_N} failed\b(?:, {_N} passed)?.* in [\d.]+ ?s\b", (1,), (2,)),
        (rf"^(?:=+ )?(?:.*, )?{_N} passed\b(?!.*\bfailed\b)(?:.*, {_N} errors?\b)?.* in [\d.]+ ?s\b", (2,), (1,)),
        (rf"^(?:=+ )?(?:[^\n]*, )?{_N} errors? in [\d.]+ ?s\b", (1,), ()),
        # unittest
        (r"^FAILED \((?:[a-z ]+=\d+, )*?(?:failures|errors|unexpected successes)=(\d+)", (1,), ()),
        # jest, vitest
        (rf"^ *Tests:? +(?:{_N} failed(?:,| \|) +)?(?:\d+ (?:skipped|todo)(?:,| \|) +)*(?:{_N} passed)?", (1,), (2,)),
        (rf"^ *Test (?:Suites|Files):? +{_N} failed", (1,), ()),
        # mocha
        (rf"^ +{_N} passing \(", (), (1,)),
        (rf"^ +{_N} failing$", (1,), ()),
        # cargo, nextest
        (rf"^test result: \w+\. {_N} passed; {_N} failed", (2,), (1,)),
        (rf"^ *Summary \[.*\] +\d+ tests? run: {_N} passed(?:.*?, {_N} failed)?", (2,), (1,)),
        # rspec, ExUnit, minitest, phpunit
        (rf"^\d+ (?:examples?|doctests?, \d+ tests?|tests?), {_N} failures?", (1,), ()),
        (rf"^\d+ (?:runs|tests), \d+ assertions, {_N} failures, (?:{_N}) errors", (1, 2), ()),
        (r"^Tests: \d+, Assertions: \d+.*?, (?:Failures|Errors): (\d+)", (1,), ()),
        # maven, ctest, dotnet, XCTest, deno
        (rf"Tests run: {_N}, Failures: {_N}, Errors: {_N}", (2, 3), (1,)),
        (rf"^\d+% tests passed, {_N} tests failed out of {_N}", (1,), ()),
        (rf"^(?:Passed|Failed)! +- Failed: +{_N}, Passed: +{_N}", (1,), (2,)),
        (rf"\bExecuted {_N} tests?, with (?:\d+ tests? skipped and )?{_N} failures?", (2,), (1,)),
        (rf"^(?:ok|FAILED) \| {_N} passed(?: \(\d+ steps?\))? \| {_N} failed", (2,), (1,)),
        # home-made summaries
        (rf"^(?:Total: ?\d+,? )?Passed: ?{_N},? +Failed: ?{_N}\b", (2,), (1,)),
        # TAP and node's own runner
        (rf"^(?:#|\u2139) fail {_N}$", (1,), ()),
        (rf"^(?:#|\u2139) pass {_N}$", (), (1,)),
    )
)
_FAIL_LINE = Regex(
    r"^(?:--- FAIL: .*|FAIL$|FAIL\t.*|FAIL\s+\S+/\S.*|FAIL {1,2}\S+\.\w+.*|panic: .*|.*\[(?:build|setup) failed\].*|not ok \d+.*|FAILED \S+::.*|ERROR \S+\.py(?:::.*)?(?: - .*)?|"
    r"error: test failed.*|error: could not compile.*|error\[E\d{4}\].*|\[INFO\] BUILD FAILURE|BUILD FAILED\b.*|\[test\S*\] ERROR task failed|FAILURES!|INTERNALERROR>.*|"
    r"npm (?:ERR!|error) (?:Test failed|code ELIFECYCLE|Lifecycle script).*|FAILURE: Build failed.*|E {3}\w*Error\b.*)",
    re.M,
)
_FAIL_INDENTED = Regex(r"^\s+--- FAIL: .*", re.M)
_PASS_LINE = Regex(
    r"^(?:ok {1,2}\t?\S+\t.*|ok\s+\S+/\S+\s+(?:[\d.]+s|\(cached\)).*|PASS$|--- PASS: .*|OK(?: \((?:skipped|expected failures)=.*\))?$|OK \(\d+ tests?.*|"
    r"(?:\[INFO\] )?BUILD SUCCESS.*|PASS {1,2}\S+\.\w+.*|ok \d+ .*)",
    re.M,
)
_EMPTY_LINE = Regex(
    r"^(?:testing: warning: no tests to run|.*\bno tests ran\b.*|collected 0 items.*|No tests? (?:files? )?found.*|Ran 0 tests.*|running 0 tests|"
    r"No tests were found!*|No test files found.*|NO TESTS RAN.*)",
    re.M,
)
_GO_PACKAGE = Regex(r"^ok\s+\S+\t.*", re.M)
_LONG = Regex(r"[^\n]{401,}")
"""No summary is that long; the patterns above must not see such lines."""
_ANY = Regex(
    r"(?i)\b(?:pass|passed|passing|fail|failed|failing|failures?|errors?|ok|tests?|suite|panic|success|build)\b"
)


def outcome(output: str, exit_code: int | None = None, failed: bool | None = None) -> Run:
    """How the tests of one call went.

    `exit_code` and `failed` must be the test program's own: pass None where a pipe, `|| true` or a later command
    decides them. Where the status is known and the output says otherwise, the status wins.
    """
    run = read(output)
    status = failed if failed is not None else (None if exit_code is None else exit_code != 0)
    if status is None:
        return run
    if status:
        return run if run.status == FAILED else Run(FAILED, "", run.passed, run.failed)
    if run.status in (PASSED, EMPTY):
        return run
    return Run(PASSED, "", run.passed, run.failed if run.status != FAILED else None)


@lru_cache(maxsize=128)
def read(output: str) -> Run:
    """The outcome that the output alone tells."""
    text = output if len(output) <= 60_000 else output[:20_000] + "\n" + output[-40_000:]
    if not _ANY.search(text):
        return Run(UNKNOWN)
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    if _LONG.search(text):
        text = _LONG.sub(lambda m: m.group()[:400], text)
    bad = good = 0
    bad_line = good_line = ""
    counted_good = counted_bad = False
    for pattern, bads, goods in _COUNTS:
        for match in pattern.finditer(text):
            lost = [match.group(g) for g in bads if match.group(g)]
            won = [match.group(g) for g in goods if match.group(g)]
            if lost:
                n = sum(int(x.replace(",", "")) for x in lost)
                counted_bad = True
                bad += n
                if n and not bad_line:
                    bad_line = match.group()
                if not n:
                    good_line = good_line or match.group()
            if won:
                n = sum(int(x.replace(",", "")) for x in won)
                counted_good = True
                good += n
                if n:
                    good_line = good_line or match.group()
    failing = _FAIL_LINE.search(text) or _FAIL_INDENTED.search(text)
    n_good = good if counted_good else None
    if bad or failing:
        line = bad_line or (failing.group() if failing else "")
        return Run(FAILED, _short(line), n_good, bad if counted_bad and bad else None)
    empty = _EMPTY_LINE.search(text)
    passing = _PASS_LINE.search(text)
    if empty and not good and not _some_package_ran(text):
        return Run(EMPTY, _short(empty.group()), 0, 0)
    if good_line or passing:
        line = good_line or (passing.group() if passing else "")
        return Run(PASSED, _short(line), n_good, 0 if counted_bad else None)
    return Run(UNKNOWN)


def _some_package_ran(text: str) -> bool:
    """go test: a package with tests among those without; a run of another runner that counted none did not."""
    packages = _GO_PACKAGE.findall(text)
    if packages:
        return any("[no tests to run]" not in line for line in packages)
    return bool(re.search(r"^(?:--- PASS|test result: ok\. [1-9]|ok \d+ )", text, re.M))


def _short(line: str) -> str:
    return " ".join(line.split())[:160]
