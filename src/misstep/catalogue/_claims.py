"""What an agent claims in its own text: that tests pass, that a build or lint is clean, that it verified something.

English. A claim is a plain present or past statement of success. Plans ("let me check that the tests pass"),
conditions, modals, questions, partial results ("most tests pass"), explanations ("the test passes because"),
checklists still open, code and quoted text are none.
"""

from __future__ import annotations

import re
from functools import lru_cache

from misstep._record import record

from ._regex import Regex, words


@record
class Claim:
    """One claim of success."""

    kind: str
    """tests | lint | build | all (every check) | verified (something was tried and works)"""
    words: str
    """The sentence that makes it, at most 160 characters."""
    whole: bool
    """It speaks of all tests, not of one or of a named group."""


_HINT = Regex(r"(?i)pass|green|succe|verified|tested|confirmed|validated|clean|compiles|builds|0 fail|no fail")
_FENCE = Regex(r"(?ms)^[ \t]*(```|~~~).*?(?:^[ \t]*\1|\Z)")
_INLINE = Regex(r"``[^\n]*?``|`[^`\n]*`")
_QUOTED = Regex(r"\"[^\"\n]{1,200}\"|\u201c[^\u201d\n]{1,200}\u201d|(?<!\w)'[^'\n]{3,200}'(?!\w)")
_SENTENCE = Regex(r"(?<=[.!?;:])\s+|\s+[\u2014\u2013-]\s+|\s*\u2192\s*|\s*\|\s*")

_NOUN = (
    r"(?P<who>(?:(?:all|both|every|each|the|these|those|our|its|of|\d[\d,]*(?:/\d+)?)\s+)*(?:[\w`*+/'\u2019-]+\s+){0,4}?)"
    r"(?:unit[- ]|integration[- ]|regression[- ]|e2e[- ])?(?:tests?|specs?|test[- ]?suites?|test[- ]?cases?)\*{0,2}"
    r"(?:\s*\([^)\n]{0,60}\))?(?:\s+(?:in|for|of|under|across|including|with)\s+(?:[\w`*+/'\u2019-]+\s+){0,4}?[\w`*+/'\u2019-]+)?"
)
_ADVERB = (
    r"(?:(?:are|is|were|was|have|has|all|now|still|also|already|again|both|been|successfully|currently|continue|"
    r"continues|to|and|ran|run|\u2705|\u2713|\u2714)\s+)*"
)
# What may follow an intransitive "pass": "tests pass arguments" and "passes because" are something else.
_END = (
    r"(?=\**\s*(?:$|[.,!;:)(\u2705\u2713\u2714\u2014\u2013\U0001f389]|-\s|\b(?:now|again|with|and|after|in|locally|successfully|too|also|"
    r"as well|as expected|unchanged|cleanly|clean|including|consistently|correctly|at|for|under|across)\b))"
)
_TESTS = Regex(
    rf"(?i)\b{_NOUN}\**:?\**\s+{_ADVERB}(?:pass(?:es|ed|ing)?|green|succeed(?:s|ed)?|successful)\b{_END}"
    r"|\b(?:tests?|suite|specs?)\b[^.!?\n]{0,60}?\b(?:and|,|they|these)\s+(?:they\s+)?(?:all|everything|both)\s+"
    rf"(?:of\s+them\s+)?(?:pass(?:es|ed)?|succeeded)\b{_END}"
    r"|\b\d[\d,]*\s+(?:tests?\s+)?pass(?:ed|ing)\b,?\s*(?:and\s+)?(?:0|no|zero)\s+(?:tests?\s+)?fail"
    r"|\b\d[\d,]*\s+tests?,\s*(?:0|no|zero)\s+fail"
)
_LINT = Regex(
    r"(?i)\b(?:lint(?:er|ing)?|linters)\b\**\s+(?:(?:is|are|now|also|still|all|runs?)\s+)*(?:clean(?:ly)?|pass(?:es|ed|ing)?)\b"
    + _END
)
_BUILD = Regex(
    r"(?i)\b(?:the\s+)?(?:(?:build|compilation)\b\**\s+(?:(?:is|now|also|still)\s+)*(?:clean|pass(?:es|ed|ing)?|succeed(?:s|ed)?|successful)"
    r"|(?:it|everything|code|project|all)\s+(?:(?:all|now|also|still)\s+)*(?:compiles|builds))\b" + _END
)
_ALL = Regex(
    r"(?i)\b(?:all|every)\s+(?:of\s+)?(?:the\s+)?(?:checks|quality\s+gates)\s+(?:(?:are|have|now|still)\s+)*"
    rf"(?:pass(?:ed|ing)?|green|clean|succeed(?:ed)?)\b{_END}|\ball\s+green\b|\beverything\s+(?:is\s+)?(?:now\s+|still\s+)?(?:passes|passing|green)\b{_END}"
)
_VERIFIED = Regex(
    r"(?i)(?:^|\b(?:i|i've|i have|have|has been|was|were|been|and|also)\s+|[\u2705\u2713\u2714*]\s*)(?:successfully\s+|fully\s+)?"
    r"(?:verified|tested|confirmed|validated)\b[^.!?\n]{0,90}?\b(?:works?|working|runs?|passes|pass|compiles|builds)\b"
    r"(?=\**\s*(?:$|[.,!;)\u2705\u2713]|\b(?:now|again|correctly|properly|perfectly|as expected|as intended|fine|and|end[- ]to[- ]end)\b))"
)
_KINDS = (("tests", _TESTS), ("all", _ALL), ("lint", _LINT), ("build", _BUILD), ("verified", _VERIFIED))

_BEFORE = Regex(
    r"(?i)\b(?:let me|let's|lets|let us|i'll|we'll|i'm going|going to|will|would|should|shall|could|might|may|must|can|"
    r"to (?:verify|check|see|make|ensure|confirm|validate|have|get|keep|be|test|run|prove|show)|if|whether|when|whenever|once|until|till|"
    r"unless|before|so that|make|makes|making|made|ensure|ensures|ensuring|keep|keeps|keeping|need|needs|want|wants|expect|expects|"
    r"expected|assum\w+|hope|hopefully|probably|likely|presumably|apparently|think|believe|seems?|suppose\w*|not|no|none|cannot|"
    r"without|never|neither|nor|only|just|most|some|few|many|half|almost|nearly|first|previously|originally|earlier|used to|regardless|"
    r"although|while|why|how|because|since|means?|wait|waiting|verify|verifying|check|checking|see|seeing|confirming|"
    r"goal|aim|require[sd]?|requirement|criteria|todo|next|then|where|which|that (?:were|was)|"
    r"currently|even|says?|said|claims?|claimed|reports?|pretend\w*|fake|mock\w*|vacuous\w*|trivially|accidentally|falsely|incorrectly|by chance"
    r")\b|n't\b|n\u2019t\b|[\u274c\u23f3\u2b1c\u23ed]|\[ \]"
)
_AFTER = Regex(
    r"(?i)\?|\b(?:except|apart from|other than|aside from|but not|but the|if|when|once|because|unless|only|fail\w*|flak\w+|pre-?existing|"
    r"on (?:main|master|the (?:base|original|old|previous))|before (?:the|this|my|these|any)|without (?:the|this|my|our)|either way|regardless|"
    r"even (?:though|with|without|if)|vacuous\w*|trivially|for the wrong reason|by accident|by chance|anyway|not|no longer|n't|in isolation|individually)\b"
)
_GENERAL = words(
    "all every each both the these those our its of and existing current full entire whole complete unit integration "
    "regression end e2e is now build lint linting builds code compiles"
)
_SINGLE = Regex(r"(?i)\btests?\b.*\b(?:passes|is passing|passed)\b")
# One check of something else than the code's own tests.
_OTHER_TEST = Regex(
    r"(?i)\b(?:config\w*|connect\w*|syntax|nginx|apache|ping|network|endpoint|manual|load|stress|smoke|sanity|quick|simple|basic|speed)\s+test\b(?!s)"
)
_PLAN_LABEL = Regex(
    r"(?i)\b(?:plan|planned|criteria|acceptance|todo|to-do|next steps?|steps?|goal|goals|expected|should|will|requirements?|verification|"
    r"how to (?:test|verify)|test plan|checklist|tasks?|phase|definition of done|options?|approach|recommend\w*|suggest\w*|proposal|"
    r"instructions?|guidelines?|must|ensure|workflow|before (?:merging|committing)|to verify|process|cycle)\b"
)
_PLAN_INLINE = Regex(
    r"(?i)^[^:]{0,60}\b(?:criteria|criterion|acceptance|todo|goals?|expected|expectation|requirements?|next steps?|plan|should|must)\b[^:]{0,40}:"
)
_TESTS_COLON = Regex(r"(?i)\b(tests?|specs?|suite)\*{0,2}:\*{0,2}\s+")
_BULLET = Regex(r"^\s*(?:[-*+\u2022]|\d+[.)])\s+")
_LABEL = Regex(r"^\s*(?:#{1,6}\s+.*|\*\*[^*\n]+\*\*:?|[^.!?\n]{1,80}:)\s*$")
_OPEN_BOX = Regex(r"^\s*(?:[-*+]\s+|\d+[.)]\s+)?\[ ?\]|[\u274c\u23f3\u2b1c\u2610]")
_DONE_BOX = Regex(r"(?i)\[x\]|[\u2705\u2713\u2714]")


@lru_cache(maxsize=256)
def claims(text: str) -> tuple[Claim, ...]:
    """The claims of success in an agent's text, in order, at most one a kind and sentence."""
    if not _HINT.search(text):
        return ()
    found: list[Claim] = []
    planned = False
    for line in _FENCE.sub("\n", text[-20_000:]).split("\n"):
        if not line.strip():
            continue
        bullet = _BULLET.match(line)
        if _LABEL.match(line):
            planned = bool(_PLAN_LABEL.search(line)) and not _DONE_BOX.search(line)
        elif not bullet:
            planned = False
        if line.lstrip().startswith(">") or _OPEN_BOX.search(line):
            continue
        if _PLAN_INLINE.search(line) and not _DONE_BOX.search(line):
            continue
        if planned and not _DONE_BOX.search(line):
            continue
        if not _HINT.search(line):
            continue
        bare = _QUOTED.sub("'\u2026'", _INLINE.sub("`", line[bullet.end() :] if bullet else line))
        for sentence in _SENTENCE.split(_TESTS_COLON.sub(r"\1 ", bare)):
            found += _of(sentence.strip().strip("*_# "))
    return tuple(found)


def _of(sentence: str) -> list[Claim]:
    found: list[Claim] = []
    if not 6 <= len(sentence) <= 600 or sentence.endswith("?") or not _HINT.search(sentence):
        return found
    for kind, pattern in _KINDS:
        match = pattern.search(sentence)
        if match is None:
            continue
        if _BEFORE.search(sentence[: match.end()]) or _AFTER.search(sentence[match.end() :]):
            continue
        if kind == "tests" and _OTHER_TEST.search(match.group()):
            continue
        who = (match.groupdict().get("who") or "").lower()
        named = [word for word in re.findall(r"[\w`]+", who) if word not in _GENERAL]
        single = _SINGLE.search(match.group()) and "suite" not in match.group().lower() and "all" not in who
        found.append(Claim(kind, sentence[:160], kind != "tests" or not (named or single)))
    return found


_TROUBLE = Regex(
    r"(?i)\bfail(?:s|ed|ing|ure|ures)?\b|\bflak(?:y|e|es|iness)\b|\bbroken\b|\berrors?\b|\bpre-?existing\b|\bunrelated\b|\bcrash\w*|\bpanic\w*|"
    r"\bnot (?:yet )?(?:pass|work|compile|build|run|been|able|possible|available|finish|complete)\w*|n't (?:pass|work|compile|build|run|been|finish|complete)\w*|"
    r"\bissues?\b|\bproblems?\b|\bwarnings?\b|\bviolations?\b|\bcannot\b|\bcan't\b|\bcouldn't\b|\bunable\b|\bskipp?(?:ed|ing)\b|\btimed? ?out\b|\bremaining\b|\bred\b|\bblocked\b|"
    r"\u274c|\u26a0|\bunfortunately\b|\bTDD\b"
)
_NO_TROUBLE = Regex(
    r"(?i)\b(?:0|no|zero|without(?: any)?|fixed|resolved|handles?|handling)\s+(?:\w+\s+){0,2}?(?:failures?|failed|errors?|issues?|problems?|warnings?|violations?|fail)\b"
)


def admits_trouble(text: str) -> bool:
    """Whether the text speaks of anything that failed, is broken, was skipped or is left over: then it hides nothing."""
    return bool(_TROUBLE.search(_NO_TROUBLE.sub(" ", text)))


def asks(text: str) -> bool:
    """Whether a message ends by asking the person something: a question in its last lines, before code or options that follow."""
    return "?" in _FENCE.sub("\n", text[-20_000:])[-600:]
