"""The agent stops with a token count of a dataset whose selector and subtotals it never checked.

## What it is
The task asks how many tokens a part of a dataset has: some domain, split, category or label, under a named tokenizer. The
agent counted, and ends its turn without having looked at which values the selecting field really has, or without
subtotals (by field, by value) that add up to the number it gives.

## Why it matters
The label in the question is seldom the label in the data: "maths" may be three values, a field may hold the text twice, and
one of several text fields is easily left out. The number then looks as good as the right one.

## How it is told
Only for tasks that count tokens of a selected part of a dataset. A count is a run whose text (or whose script, where
the agent wrote it before) uses a tokenizer. Looking at the values is unique(), value_counts(), Counter, set(), GROUP BY,
sort -u or uniq -c in a program text. Subtotals reconcile when an output of a count shows at least two numbers in a row and then, or
before them, their sum, on a line that calls it a total. Without a look at the values it is an occurrence; with it, but with no
subtotals in sight, it is one only where the output of the last count was recorded whole.

## What the policy does
At the stop, once: asks for the distinct values, the tokenizer's name, every contributing field, and
subtotals that reconcile.

## Known misses
Whether the right values and fields were then chosen. Subtotals that only a file shows.
"""

from __future__ import annotations

import re

from misstep._record import record
from misstep.trajectory import After, Before, Call, Event, Stop

from ._fire import Memory, Procedure, base, code_run, commands, judged, program_of, remember, written
from ._tasks import code_work, joined, said, sentences
from .base import Policy, Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar

_COUNT = (
    r"\b(?:how many|number of|count(?:ing)?(?: up)?|total(?: number of)?|sum of|tally)\b(?: of)?(?: all)?(?: the)?(?: [\w.-]+){0,3}? tokens?\b|\btoken counts?\b|\btokens? (?:in total|altogether)\b"
    r"|\b(?:amount|size)\b.{0,30}\bin tokens\b"
)
_DATA = r"\b(?:dataset|data set|corpus|corpora|hugging ?face|parquet|jsonl)\b"
_SELECT = (
    r"\b(?:domain|categor(?:y|ies)|split|label(?:led)?|subset|language|topic|genre|source|class|section|tag(?:ged)?|configuration|where the|whose|rows (?:with|of|from)|"
    r"records (?:with|of|from)|examples (?:with|of|from|in))\b"
)
_TOKENIZER = r"\b(?:tokeni[sz]er|tokeni[sz]ed?|tokeni[sz]ation|tiktoken|sentencepiece|bpe|\w*bert|gpt-?\d?\w*|llama\w*|qwen\w*|deepseek\w*) ?"
_NOT_TEXT = r"\b(?:auth\w*|access|api|csrf|session|refresh|bearer|jwt|usage|prompt_tokens|billing|cost|rate limit\w*)\b"
_USES = r"AutoTokenizer|tiktoken|PreTrainedTokenizer|Tokenizer\.from|tokenizer\s*[(.]|sentencepiece|\.encode\(|\.encode_batch\(|encoding_for_model|tokenize\("
_VALUES = r"\.unique\(|value_counts\(|\bCounter\(|\bset\(|\.nunique\(|GROUP BY|DISTINCT|\bsort -u\b|\buniq\b|\.n_unique\(|group_by\(|groupby\("


def _task(prompt: str) -> str | None:
    everything = sentences(prompt)
    for number, sentence in enumerate(everything):
        count = said(sentence, _COUNT)
        if not count or (code_work(sentence) and not re.match(r"\W*(?:how many|what is|what's)\b", sentence, re.I)):
            continue
        around = "\n".join(everything[max(0, number - 2) : number + 4])
        data, select, tokenizer = said(around, _DATA), said(around, _SELECT), said(around, _TOKENIZER)
        if data and select and tokenizer and not re.search(_NOT_TEXT, around, re.I):
            return joined(count, select, data)
    return None


@record
class Counts(Memory):
    """Event indices, -1 where there is none."""

    counted: int = -1
    looked: int = -1
    """The last look at distinct values."""
    reconciled: int = -1
    """The last output with subtotals and their sum."""
    blind: bool = False
    """The output of the last count is not in the record."""


class TokenPolicy(Policy):
    id = "token-accounting"
    at = "stop"
    text = (
        "Before you stop: make the count accountable. Print the distinct values of the selecting field with their row counts, and "
        "decide from these real values, not from the wording of the question, which rows belong. Name the tokenizer that was "
        "loaded, and say whether special tokens are included. List every text field that contributes, and see that "
        "none is counted twice or left out. Print subtotals per field and per selected value; they must add up to the total that "
        "you deliver, and the row counts to the number of selected rows. If they do not, find out why and count again. If all "
        "of this has been shown already, change nothing."
    )

    def fires(self, state: Any, event: Event) -> bool | None:
        return _holds(state)


class TokenAccounting(Procedure):
    id = "token-accounting"
    name = "stops with a token count of a dataset whose selector and subtotals it never checked"
    State = Counts
    policies: ClassVar[tuple[Policy, ...]] = (TokenPolicy(),)

    def eligible(self, prompt: str) -> str | None:
        return _task(prompt)

    def walk(self, state: Counts, event: Before) -> Verdict | None:
        for path, text in written(event.call):
            if re.search(r"\.(?:py|sh|sql|js|ipynb)$", path):
                remember(state.scripts, base(path), " ".join(_uses(text)))
        does = _does(state, event.call)
        if "counts" in does:
            state.counted, state.blind = event.index, True
        if "looks" in does:
            state.looked = event.index
        return None

    def saw(self, state: Counts, event: After) -> None:
        if "counts" not in _does(state, event.call):
            return
        output = event.result.output
        state.blind = event.result.truncated or event.result.running or not re.search(r"\d", output)
        if reconciles(output):
            state.reconciled = event.index

    def at_stop(self, state: Counts, event: Stop) -> Verdict | None:
        if state.counted < 0:
            return None if state.unread < 0 else Verdict(None, event.index, "a call could not be read")
        missing = [
            w
            for w, at in (("look at the distinct values", state.looked), ("subtotals with their sum", state.reconciled))
            if at < 0
        ]
        return judged(
            _holds(state),
            event.index,
            f"no {' and no '.join(missing)}",
            "the output of the last count, or a call, could not be read",
            state.counted,
        )

    def behaved(self, state: Counts) -> bool | None:
        if state.counted < 0:
            return None
        return True if state.reconciled >= 0 else None


def _holds(state: Counts) -> bool | None:
    """Whether the count stands unchecked."""
    if state.counted < 0 or (state.looked >= 0 and state.reconciled >= 0):
        return False
    if state.unread >= 0 or (state.looked >= 0 and state.blind):
        return None
    return True


def _does(state: Counts, call: Call) -> str:
    """'counts', 'looks', both or ''."""
    texts = code_run(call)
    found = [state.scripts.get(program_of(c), "") for c in commands(call)]
    if texts or any(c.name in {"sqlite3", "duckdb", "sort", "uniq"} for c in commands(call)):
        text = (
            "\n".join(texts)
            + " "
            + " ".join(" ".join(c.argv) for c in commands(call) if not c.name.startswith("python"))
        )
        found += _uses(text)
    return " ".join(found)


def _uses(text: str) -> list[str]:
    """'counts' where a program text uses a tokenizer, 'looks' where it asks for distinct values."""
    return [word for word, pattern in (("counts", _USES), ("looks", _VALUES)) if re.search(pattern, text, re.I)]


def reconciles(output: str) -> bool:
    """Whether a text names a total that two or more numbers just before or just after it add up to."""
    numbers: list[int] = []
    totals: list[int] = []
    for line in output[-8000:].splitlines():
        named = re.search(r"\b(?:total|sum|overall|altogether|combined|all)\b|=", line, re.I) is not None
        for word in re.findall(r"(?<![\w.,/-])\d[\d,_]*(?![\w.,/-]*\d|[\w%])", line):
            number = int(re.sub(r"[,_]", "", word))
            if number >= 10:
                if named:
                    totals.append(len(numbers))
                numbers.append(number)
    for place in totals[-100:]:
        for step in (-1, 1):
            added, parts, at = 0, 0, place + step
            while 0 <= at < len(numbers) and added < numbers[place]:
                added, parts, at = added + numbers[at], parts + 1, at + step
            if parts > 1 and added == numbers[place]:
                return True
    return False
