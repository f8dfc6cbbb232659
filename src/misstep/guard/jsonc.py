"""Editing JSON that people wrote: comments, order, blanks and unknown keys stay as they are.

A text is parsed into nodes that know where they stand; edits are insertions and cuts in the text. Comments (`//`, `/* */`)
and trailing commas are understood, as in the settings files of most agents.
"""

from __future__ import annotations

from misstep._record import field, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


class JsoncError(ValueError):
    """A text that is no JSON, with line and column."""


@record(slots=True)
class Node:
    """A value and its place `text[start:end]`."""

    start: int
    end: int
    value: Any
    """A scalar; None for an object or list."""
    kind: str
    """object | list | scalar"""
    members: dict[str, Node] = field(default_factory=dict)
    keys: dict[str, int] = field(default_factory=dict)
    """Where each member's key starts."""
    items: list[Node] = field(default_factory=list)

    def plain(self) -> Any:
        """The value as Python's own."""
        if self.kind == "object":
            return {k: n.plain() for k, n in self.members.items()}
        return [n.plain() for n in self.items] if self.kind == "list" else self.value


def parse(text: str) -> Node:
    """The value of a text. Raises JsoncError."""
    parser = _Parser(text)
    node = parser.value(parser.blank(0), 0)
    if parser.blank(node.end) != len(text):
        raise parser.error(node.end, "more text after the value")
    return node


ODD = {"comment": "a comment", "comma": "a comma before a closing bracket", "mark": "a byte order mark"}
"""What stands in a text that is no plain JSON, in words."""


def odd(text: str) -> dict[str, int]:
    """What of ODD a text has -> the line where it stands first. Raises JsoncError."""
    parser = _Parser(text)
    parser.blank(parser.value(parser.blank(0), 0).end)
    return {what: text.count("\n", 0, at) + 1 for what, at in parser.odd.items()}


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.odd: dict[str, int] = {"mark": 0} if text.startswith("\ufeff") else {}
        """What no plain JSON has, and where it stands first."""

    def error(self, at: int, what: str) -> JsoncError:
        line = self.text.count("\n", 0, at) + 1
        column = at - self.text.rfind("\n", 0, at)
        return JsoncError(f"line {line}, column {column}: {what}")

    def blank(self, at: int) -> int:
        """The position of the next thing that is neither blank nor comment."""
        text, end = self.text, len(self.text)
        while at < end:
            if text[at] in " \t\r\n\ufeff":
                at += 1
            elif text.startswith("//", at):
                self.odd.setdefault("comment", at)
                line = text.find("\n", at)
                at = end if line < 0 else line + 1
            elif text.startswith("/*", at):
                self.odd.setdefault("comment", at)
                close = text.find("*/", at + 2)
                if close < 0:
                    raise self.error(at, "a comment without an end")
                at = close + 2
            else:
                break
        return at

    def value(self, at: int, depth: int) -> Node:
        if depth > 200:
            raise self.error(at, "nested too deep")
        if at >= len(self.text):
            raise self.error(at, "the text ends where a value should be")
        if self.text[at] == "{":
            return self.object(at, depth)
        if self.text[at] == "[":
            return self.list(at, depth)
        return self.scalar(at)

    def scalar(self, at: int) -> Node:
        import json

        try:
            value, end = json.JSONDecoder(strict=False).raw_decode(self.text, at)
        except ValueError:
            raise self.error(at, "no value") from None
        return Node(at, end, value, "scalar")

    def object(self, start: int, depth: int) -> Node:
        node = Node(start, start, None, "object")
        at = self.blank(start + 1)
        while self.text[at : at + 1] != "}":
            key = self.scalar(at) if self.text[at : at + 1] == '"' else None
            if key is None:
                raise self.error(at, "a key in quotes or '}' should stand here")
            at = self.blank(key.end)
            if self.text[at : at + 1] != ":":
                raise self.error(at, "':' should stand here")
            found = self.value(self.blank(at + 1), depth + 1)
            node.members[key.value], node.keys[key.value] = found, key.start
            at = self._separator(found.end, "}")
        node.end = at + 1
        return node

    def list(self, start: int, depth: int) -> Node:
        node = Node(start, start, None, "list")
        at = self.blank(start + 1)
        while self.text[at : at + 1] != "]":
            found = self.value(at, depth + 1)
            node.items.append(found)
            at = self._separator(found.end, "]")
        node.end = at + 1
        return node

    def _separator(self, at: int, closing: str) -> int:
        at = self.blank(at)
        if self.text[at : at + 1] == ",":
            comma, at = at, self.blank(at + 1)
            if self.text[at : at + 1] == closing:
                self.odd.setdefault("comma", comma)
            return at
        if self.text[at : at + 1] != closing:
            raise self.error(at, f"',' or '{closing}' should stand here")
        return at


def added(text: str, path: list[str], item: Any) -> str:
    """The text with an item at the end of the list at a path of keys; what is missing of the path is made. Raises JsoncError."""
    node = parse(text)
    made: Any = [item]
    for depth, key in enumerate(path):
        if node.kind != "object":
            raise JsoncError(f"{'.'.join(path[:depth]) or 'the file'} is no object")
        child = node.members.get(key)
        if child is None:
            for missing in reversed(path[depth + 1 :]):
                made = {missing: made}
            return _insert(text, node, list(node.members.values()), made, key)
        node = child
    if node.kind != "list":
        raise JsoncError(f"{'.'.join(path)} is no list")
    return _insert(text, node, node.items, item, None)


def _insert(text: str, node: Node, children: list[Node], value: Any, key: str | None) -> str:
    """Put a member or item at the end of an object or list, in the style that is there."""
    import json

    outer = _indent(text, node.start)
    first = (node.keys[next(iter(node.keys))] if node.keys else children[0].start) if children else -1
    lines = "\n" in text[node.start : node.end] or not children
    step, line = _step(text), _break(text)
    if children and lines:
        inner = _indent(text, first)
        if len(inner) <= len(outer):
            inner = outer + step
    else:
        inner = outer + step
    shown = json.dumps(value, indent=step if lines else None, ensure_ascii=False)
    if lines:
        shown = shown.replace("\n", line + inner)
    shown = f"{json.dumps(key, ensure_ascii=False)}: {shown}" if key is not None else shown
    if not children:
        body = text[node.start + 1 : node.end - 1]
        head = text[: node.end - 1].rstrip() if body.strip() else text[: node.start + 1]  # comments stay
        return f"{head}{line}{inner}{shown}{line}{outer}{text[node.end - 1 :]}"
    last = children[-1].end
    if not lines:
        return f"{text[:last]}, {shown}{text[last:]}"
    comma = _comma(text, last)
    if comma:
        return f"{text[: comma + 1]}{line}{inner}{shown},{text[comma + 1 :]}"
    return f"{text[:last]},{line}{inner}{shown}{text[last:]}"


def _comma(text: str, at: int) -> int:
    """The position of a (trailing) comma after a value, 0 where there is none."""
    at = _Parser(text).blank(at)
    return at if text[at : at + 1] == "," else 0


def _indent(text: str, at: int) -> str:
    """The blanks at the start of the line of a position."""
    line = text[text.rfind("\n", 0, at) + 1 :]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _break(text: str) -> str:
    """How the lines of a text end: as the first one does."""
    at = text.find("\n")
    return "\r\n" if at > 0 and text[at - 1] == "\r" else "\n"


def _step(text: str) -> str:
    """One level of indentation as the text has it."""
    for line in text.split("\n")[1:]:
        blank = line[: len(line) - len(line.lstrip(" \t"))]
        if blank and line.strip():
            return blank
    return "  "


def cut(text: str, path: Sequence[str | int]) -> str:
    """The text without the member or item at a path of keys and places, and without its comma. Comments stay.

    Raises JsoncError, also where the text cannot be cut without another change (a key that stands twice).
    """
    root = parse(text)
    parent, last = _at(root, path[:-1]), path[-1]
    child = _at(parent, [last])
    start, end = parent.keys[last] if isinstance(last, str) else child.start, child.end
    siblings = list(parent.members.values()) if parent.kind == "object" else parent.items
    ends = [n.end for n in siblings if n.end <= start]
    after, rest = _comma(text, end), text[end:]
    line = text[after + 1 :].split("\n", 1)[0]
    if after and text[end:after].strip():  # a comment before the comma
        made = text[:start] + text[end:after].lstrip(" \t") + text[after + 1 :]
    elif after and not line.strip():  # the rest of its line, and the line's own break
        made = text[:start].rstrip(" \t\r\n") + text[after + 1 + len(line.rstrip("\r")) :]
    elif after:
        made = text[:start] + text[after + 1 :].lstrip(" \t")
    else:
        comma = _comma(text, max(ends)) if ends else 0
        head = text[: comma or parent.start + 1]
        between = text[(comma or parent.start) + 1 : start]
        if between.strip():  # a comment, whose line ends where it did
            ends_line = rest.lstrip(" \t")[:1] in ("\n", "\r")
            made = head + between.rstrip(" \t\r\n" if ends_line else " \t") + rest
        elif not comma and not text[end : parent.end - 1].strip():
            made = head + text[parent.end - 1 :]
        else:
            made = head + rest
    expected = root.plain()
    holder = expected
    for key in path[:-1]:
        holder = holder[key]
    del holder[last]
    if parse(made).plain() != expected:
        raise JsoncError(f"{'.'.join(map(str, path))} cannot be taken out alone")
    return made


def bare(text: str, path: Sequence[str | int]) -> bool:
    """Whether nothing, not even a comment, stands in the object or list at a path. Raises JsoncError."""
    node = _at(parse(text), path)
    return node.kind != "scalar" and not text[node.start + 1 : node.end - 1].strip()


def _at(node: Node, path: Sequence[str | int]) -> Node:
    for key in path:
        try:
            node = node.members[key] if isinstance(key, str) else node.items[key]
        except LookupError:
            raise JsoncError(f"nothing stands at {key}") from None
    return node
