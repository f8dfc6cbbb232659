"""Reading a Dockerfile: its instructions, its stages, the substitution of variables, and what .dockerignore leaves out.

What becomes of it is built by `misstep.sandbox.image`.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from misstep.sandbox.base import SandboxError

_HEREDOC = re.compile(r"(?:^|(?<=\s))\d*<<(-?)([\"']?)([A-Za-z_][\w.]*)\2(?=$|[\s>|;&)])")
_NAME = re.compile(r"[A-Za-z_]\w*")
_FORMS = re.compile(r"(:[-+?]|[-+?]|##?|%%?|//?)(.*)", re.DOTALL)
KNOWN = {
    "FROM", "RUN", "COPY", "ADD", "WORKDIR", "ENV", "ARG", "USER", "SHELL", "LABEL", "EXPOSE", "CMD", "ENTRYPOINT", "MAINTAINER",
    "STOPSIGNAL", "HEALTHCHECK", "VOLUME", "ONBUILD",
}  # fmt: skip


@dataclass(frozen=True)
class Document:
    """A here-document."""

    name: str
    body: str
    literal: bool
    """Its name is quoted: nothing in it is replaced."""


@dataclass(frozen=True)
class Instruction:
    """One instruction and where it stands."""

    name: str
    rest: str
    """Without its options."""
    file: str
    line: int
    options: tuple[tuple[str, str], ...] = ()
    """(name, value) of each --name=value."""
    documents: tuple[Document, ...] = ()

    def fault(self, why: str) -> SandboxError:
        """An error that names it."""
        return SandboxError(f"{self.file}:{self.line}: {self.name} {why}")


@dataclass
class Stage:
    """From one FROM to the next."""

    start: Instruction
    image: str
    """What stands behind FROM, its variables replaced: an image, or an earlier stage."""
    name: str = ""
    steps: list[Instruction] = field(default_factory=list)


@dataclass(frozen=True)
class Dockerfile:
    """A whole file."""

    path: Path
    stages: tuple[Stage, ...]
    arguments: Mapping[str, str]
    """ARG before the first FROM: their values."""
    escape: str


def parse(text: str, name: str = "Dockerfile") -> tuple[list[Instruction], str]:
    """The instructions of a Dockerfile, and its escape character.

    Raises:
        SandboxError: naming the line that cannot be read.
    """
    lines, found, i = text.lstrip("\ufeff").splitlines(), [], 0
    escape = "\\"
    for line in lines:  # directives stand before anything else
        directive = re.fullmatch(r"\s*#\s*(\w+)\s*=\s*(\S+)\s*", line)
        if not directive:
            break
        if directive.group(1).lower() == "escape":
            escape = directive.group(2)
    while i < len(lines):
        start, line = i + 1, lines[i].strip()
        i += 1
        if not line or line.startswith("#"):
            continue
        while line.rstrip().endswith(escape) and i < len(lines):
            following = lines[i].strip()
            i += 1
            if not following or following.startswith("#"):
                continue
            line = line.rstrip()[:-1] + lines[i - 1].rstrip()
        word, _, rest = line.strip().partition(" ")
        if "\t" in word:
            word, _, rest = line.strip().partition("\t")
        if not word.isalpha():
            raise SandboxError(f"{name}:{start}: expected an instruction, found {word[:40]!r}")
        if word.upper() not in KNOWN:
            raise SandboxError(f"{name}:{start}: {word[:40]} is no instruction of a Dockerfile")
        documents = []
        if word.upper() in ("RUN", "COPY", "ADD"):
            for mark in _HEREDOC.finditer(rest):
                body = []
                while i < len(lines):
                    one = lines[i].lstrip("\t") if mark.group(1) else lines[i]
                    if one == mark.group(3):
                        break
                    body.append(one)
                    i += 1
                if i == len(lines):
                    raise SandboxError(f"{name}:{start}: the here-document {mark.group(3)} has no end")
                i += 1
                documents.append(Document(mark.group(3), "".join(f"{one}\n" for one in body), bool(mark.group(2))))
        options = []
        rest = rest.strip()
        while word.upper() in ("FROM", "RUN", "COPY", "ADD", "HEALTHCHECK") and (
            option := re.match(r"--([\w-]+)(?:=(\"[^\"]*\"|\S*))?(?:\s+|$)", rest)
        ):
            options.append((option.group(1), (option.group(2) or "").strip('"')))
            rest = rest[option.end() :]
        found.append(Instruction(word.upper(), rest, name, start, tuple(options), tuple(documents)))
    return found, escape


def read(path: Path, given: Mapping[str, str], automatic: Mapping[str, str]) -> Dockerfile:
    """A Dockerfile and its stages.

    Args:
        given: build arguments.
        automatic: those that need no ARG before the first FROM (TARGETARCH and the like).

    Raises:
        SandboxError: naming file and line.
    """
    try:
        text = path.read_text()
    except OSError as error:
        raise SandboxError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SandboxError(f"{path}: expected text in UTF-8") from error
    steps, escape = parse(text, str(path))
    stages: list[Stage] = []
    arguments = dict(automatic)
    for step in steps:
        if step.name == "FROM":
            words = expand(step.rest, arguments, escape, step).split()
            if len(words) == 3 and words[1].upper() == "AS":
                words = [words[0], words[2].lower()]
            elif len(words) != 1:
                raise step.fault("expected IMAGE [AS NAME]")
            for option, _ in step.options:
                if option != "platform":
                    raise step.fault(f"--{option} is not known")
            stages.append(Stage(step, words[0], words[1] if len(words) > 1 else ""))
        elif stages:
            if step.name == "ONBUILD":
                raise step.fault("is not read here: write its instruction where it is to be run")
            stages[-1].steps.append(step)
        elif step.name == "ARG":
            arguments.update(arguments_of(step, arguments, given, escape))
        else:
            raise step.fault("stands before the first FROM: only ARG may")
    if not stages:
        raise SandboxError(f"{path}: there is no FROM")
    return Dockerfile(path, tuple(stages), arguments, escape)


def arguments_of(step: Instruction, values: Mapping[str, str], given: Mapping[str, str], escape: str) -> dict[str, str]:
    """What an ARG declares; a name without a value has what is given for it, or nothing."""
    found = {}
    for name, value in pairs(step, escape):
        if name in given:
            found[name] = given[name]
        elif value is not None:
            found[name] = expand(value, values, escape, step)
        elif name in values:
            found[name] = values[name]
    return found


def pairs(step: Instruction, escape: str) -> list[tuple[str, str | None]]:
    """NAME=VALUE ... as it is written, quotes and all; the old form NAME VALUE of ENV too."""
    words = split(step.rest, escape)
    if not words:
        raise step.fault("expected NAME=VALUE")
    if step.name == "ENV" and "=" not in words[0]:
        value = step.rest[len(words[0]) :].strip()
        if not value:
            raise step.fault(f"expected NAME=VALUE, found {words[0][:40]}")
        return [(words[0], value)]
    found: list[tuple[str, str | None]] = []
    for word in words:
        name, sign, value = word.partition("=")
        if not _NAME.fullmatch(name.strip("\"'")) or (not sign and step.name != "ARG"):
            raise step.fault(f"expected NAME=VALUE, found {word[:40]}")
        found.append((name.strip("\"'"), value if sign else None))
    return found


def split(text: str, escape: str = "\\") -> list[str]:
    """Words at white space outside of quotes; the quotes stay."""
    words, word, quote, i = [], "", "", 0
    while i < len(text):
        char = text[i]
        if char == escape and i + 1 < len(text) and quote != "'":
            word += text[i : i + 2]
            i += 2
            continue
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char.isspace():
            if word:
                words.append(word)
            word, i = "", i + 1
            continue
        word += char
        i += 1
    return [*words, word] if word else words


def array(step: Instruction) -> list[str] | None:
    """The words of an instruction that is written as a JSON array of texts; None for others."""
    if step.rest.startswith("["):
        try:
            words = json.loads(step.rest)
        except ValueError:
            return None
        if isinstance(words, list) and words and all(isinstance(word, str) for word in words):
            return words
    return None


def expand(text: str, values: Mapping[str, str], escape: str, step: Instruction) -> str:
    """Removes quotes and replaces variables, as Docker does it.

    $NAME, ${NAME}, and ${NAME with :-word -word :+word +word :?word ?word #pattern ##pattern %pattern %%pattern
    /pattern/word //pattern/word. Within single quotes nothing is replaced.

    Raises:
        SandboxError: a form that is not known or not closed, or a variable that has to be set (?).
    """
    found, at = _expand(text, 0, values, escape, step, stop="")
    assert at == len(text)
    return found


def _expand(
    text: str, at: int, values: Mapping[str, str], escape: str, step: Instruction, stop: str
) -> tuple[str, int]:
    made, quote = "", ""
    while at < len(text) and not (stop and text[at] == stop and not quote):
        char = text[at]
        if char == escape and quote != "'" and at + 1 < len(text):
            following = text[at + 1]
            made += following if not quote or following in '"$\\' or following == escape else char + following
            at += 2
        elif quote and char == quote:
            quote, at = "", at + 1
        elif not quote and char in "\"'":
            quote, at = char, at + 1
        elif char == "$" and quote != "'":
            value, at = _variable(text, at + 1, values, escape, step)
            made += value
        else:
            made += char
            at += 1
    if quote:
        raise step.fault(f"has a quote that is not closed: {text[:40]}")
    return made, at


def _variable(text: str, at: int, values: Mapping[str, str], escape: str, step: Instruction) -> tuple[str, int]:
    if text[at : at + 1] != "{":
        name = _NAME.match(text, at)
        return (values.get(name.group(), ""), name.end()) if name else ("$", at)
    name = _NAME.match(text, at + 1)
    if not name:
        raise step.fault(f"has a substitution without a name: {text[at - 1 : at + 39]}")
    value, at = values.get(name.group()), name.end()
    if text[at : at + 1] == "}":
        return value or "", at + 1
    form = _FORMS.match(text, at)
    if not form:
        raise step.fault(f"has a substitution that is not known: {text[name.start() - 2 : at + 20]}")
    sign = form.group(1)
    if sign in ("/", "//"):
        pattern, at = _expand(text, at + len(sign), values, escape, step, stop="/")
        at += 1
    else:
        pattern, at = "", at + len(sign)
    word, at = _expand(text, at, values, escape, step, stop="}")
    if text[at : at + 1] != "}":
        raise step.fault(f"has a substitution that is not closed: {text[name.start() - 2 : name.start() + 38]}")
    missing = value is None or (sign.startswith(":") and not value)
    whole = value or ""
    if sign.endswith("-"):
        whole = word if missing else whole
    elif sign.endswith("+"):
        whole = "" if missing else word
    elif sign.endswith("?"):
        if missing:
            raise step.fault(f"needs {name.group()}: {word or 'it is not set'}")
    elif sign in ("/", "//"):
        whole = re.sub(_regex(pattern), lambda _: word, whole, count=0 if sign == "//" else 1)
    else:
        whole = _trimmed(whole, word, sign)
    return whole, at + 1


def _regex(pattern: str) -> str:
    return "".join(".*" if char == "*" else "." if char == "?" else re.escape(char) for char in pattern)


def _trimmed(value: str, pattern: str, sign: str) -> str:
    ends = range(len(value) + 1) if len(sign) == 1 else range(len(value), -1, -1)
    for size in ends:
        part = value[:size] if sign[0] == "#" else value[len(value) - size :]
        if re.fullmatch(_regex(pattern), part, re.DOTALL):
            return value[size:] if sign[0] == "#" else value[: len(value) - size]
    return value


class Ignored:
    """What .dockerignore leaves out of the context: the last pattern that fits decides."""

    def __init__(self, patterns: str = "") -> None:
        self._rules: list[tuple[bool, re.Pattern[str]]] = []
        for line in patterns.splitlines():
            text = line.strip()
            if not text or text.startswith("#"):
                continue
            keep = text.startswith("!")
            clean = posixpath.normpath(text.lstrip("!").strip()).lstrip("/")
            if clean not in ("", "."):
                self._rules.append((keep, re.compile(_ignore_regex(clean))))

    @classmethod
    def of(cls, file: Path) -> Ignored:
        """That of a Dockerfile: NAME.dockerignore beside it, or .dockerignore of its directory."""
        for path in (file.with_name(file.name + ".dockerignore"), file.parent / ".dockerignore"):
            if path.is_file():
                return cls(path.read_text())
        return cls()

    def __contains__(self, path: str) -> bool:
        """Whether a path, relative to the context, is left out."""
        out = False
        parts = path.split("/")
        for keep, pattern in self._rules:
            if any(pattern.fullmatch("/".join(parts[: i + 1])) for i in range(len(parts))):
                out = not keep
        return out


def _ignore_regex(pattern: str) -> str:
    made, i = "", 0
    while i < len(pattern):
        if pattern.startswith("**/", i):
            made, i = made + "(?:.*/)?", i + 3
        elif pattern.startswith("**", i):
            made, i = made + ".*", i + 2
        elif pattern[i] == "*":
            made, i = made + "[^/]*", i + 1
        elif pattern[i] == "?":
            made, i = made + "[^/]", i + 1
        elif pattern[i] == "[" and (end := pattern.find("]", i + 2)) > 0:
            made, i = made + pattern[i : end + 1].replace("\\", "\\\\"), end + 1
        elif pattern[i] == "\\" and i + 1 < len(pattern):
            made, i = made + re.escape(pattern[i + 1]), i + 2
        else:
            made, i = made + re.escape(pattern[i]), i + 1
    return made
