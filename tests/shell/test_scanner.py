"""The scanner: what it reads, what it calls damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from misstep.shell import Script, parse, scan

CASES = json.loads((Path(__file__).parent / "data" / "shell-parse-cases.json").read_text())


def names(script: Script) -> list[str]:
    return [c.argv[0] for c in script.commands if c.argv]


@pytest.mark.parametrize("case", CASES, ids=[c["id"] for c in CASES])
def test_labelled_commands(case):
    script = parse(case["cmd"])
    assert names(script) == case["names"]
    assert [c.argv[0] for c in script.commands if c.argv and c.background] == case["bg"]
    heredocs, redirects = {}, {}
    for c in script.commands:
        for r in c.redirects:
            if r.op in ("<<", "<<-"):
                heredocs[c.argv[0]] = r.body.split("\n")[0]
            else:
                redirects.setdefault(c.argv[0], []).append(r.target)
    assert heredocs == case["here"]
    assert redirects == case["redir"]
    assert (script.damage is None) == case["valid"]


@pytest.mark.parametrize(
    ("text", "argv"),
    [
        ("echo 'a b' \"c d\" e\\ f", ["echo", "a b", "c d", "e f"]),
        ("echo a\"b\"'c'$'d\\te'", ["echo", "abcd\te"]),
        ('echo "a \\"b\\" \\$c \\d"', ["echo", 'a "b" $c \\d']),
        ("echo $'\\x41\\u00e9\\101\\n'", ["echo", "A\u00e9A\n"]),
        ('echo "$HOME/x" ${y:-"a b"} $(date +%s)', ["echo", "$HOME/x", '${y:-"a b"}', "$(date +%s)"]),
        ("ls \\\n  -la", ["ls", "-la"]),
        ("echo a#b # c", ["echo", "a#b"]),
        ("echo if then }", ["echo", "if", "then", "}"]),
        ("echo {a,b} {1..3}", ["echo", "{a,b}", "{1..3}"]),
        ("ls !(a|b).txt", ["ls", "!(a|b).txt"]),
        ("echo $((1 + (2 * 3)))", ["echo", "$((1 + (2 * 3)))"]),
        ("[ -f x ]", ["[", "-f", "x", "]"]),
        ("echo a\r\n", ["echo", "a"]),
    ],
)
def test_words(text, argv):
    script = parse(text)
    assert script.damage is None
    assert script.commands[0].argv == argv


def test_only_ascii_digits_name_a_descriptor():
    """bash writes both to x: the digits of others are words."""
    for word in ("\u00b2", "\u0663"):
        command = parse(f"echo {word}>x").commands[0]
        assert (command.argv, [(r.op, r.fd, r.target) for r in command.redirects]) == (["echo", word], [(">", 1, "x")])


def test_dynamic_and_globbed_positions():
    c = parse("rm -f $X \"$Y/a\" '$Z' *.o a?b [ab] 'a*'").commands[0]
    assert c.dynamic == {2, 3}
    assert c.globbed == {5, 6, 7}


def test_environment_and_redirects():
    c = parse('A=1 B="x y" cmd 2>>err <in >& all 3<&- {fd}>x').commands[0]
    assert c.argv == ["cmd"]
    assert c.env == {"A": "1", "B": "x y"}
    assert [(r.op, r.fd, r.target) for r in c.redirects] == [
        (">>", 2, "err"),
        ("<", 0, "in"),
        (">&", 1, "all"),
        ("<&", 3, "-"),
        (">", None, "x"),
    ]


def test_background_reaches_into_compounds_and_lists_but_not_beyond():
    script = parse("(a; b) & c && d & e; { f & }; g")
    assert {c.argv[0]: c.background for c in script.commands} == {
        "a": True, "b": True, "c": True, "d": True, "e": False, "f": True, "g": False,
    }  # fmt: skip


def test_pipes_and_what_joins():
    a, b, c, d = parse("a 2>&1 | b || c; d").commands
    assert (a.piped_out, b.piped_in, b.piped_out, c.piped_in) == (True, True, False, False)
    assert a.pipeline == b.pipeline != c.pipeline
    assert [x.joined_by for x in (a, b, c, d)] == ["", "", "||", ";"]


def test_pipes_and_redirects_of_compounds():
    script = parse("x | while read l; do echo $l; done > out < in | sort")
    by = {c.argv[0]: c for c in script.commands}
    assert by["echo"].piped_in and not by["echo"].piped_out  # the redirection wins over the pipe
    assert [(r.op, r.target) for r in by["echo"].around] == [(">", "out"), ("<", "in")]
    assert by["echo"].redirects == []


def test_first_of_a_group_keeps_what_joined_it():
    script = parse("a || { b; c; }")
    assert [c.joined_by for c in script.commands] == ["", "||", ";"]


def test_substitutions_stand_behind_the_command_that_they_feed():
    script = parse('kill $(lsof -t) "`cat pid`" <(sort x)')
    assert [(c.argv[0], c.substitution) for c in script.commands] == [
        ("kill", False), ("lsof", True), ("cat", True), ("sort", True),
    ]  # fmt: skip
    assert parse("echo $(a; (b | c))").commands[-1].substitution


def test_nested_backticks_are_unescaped():
    assert names(parse("echo `a \\`b\\``")) == ["echo", "a", "b"]


def test_heredocs():
    script = parse("cat <<A <<'B' | wc && ls\na $(one)\nA\nb $(two)\nB\nnext")
    assert names(script) == ["cat", "wc", "ls", "one", "next"]
    cat = script.commands[0]
    assert [(r.body, r.quoted) for r in cat.redirects] == [("a $(one)\n", False), ("b $(two)\n", True)]
    assert cat.stdin == "b $(two)\n"


def test_indented_heredoc_keeps_the_body_and_strips_the_input():
    c = parse("sh <<-E\n\tls\n\t\tid\n\tE\npwd").commands[0]
    assert c.redirects[0].body == "\tls\n\t\tid\n"
    assert c.stdin == "ls\nid\n"


@pytest.mark.parametrize(
    "text", ["cat <<'EOF'\nrm -rf / &\nEOF", "echo 'rm -rf / &'", "# rm -rf / &", 'echo "a; rm -rf /"']
)
def test_text_is_not_run(text):
    script = parse(text)
    assert "rm" not in names(script)
    assert not any(c.background for c in script.commands)


def test_blocks():
    script = parse("f() { a; }; for x in *.c 'b d'; do c; done; while t; do u; done; (s); if i; then j; fi")
    found = {b.kind: (names(Script("", script.commands[b.first : b.last])), b) for b in script.blocks}
    assert found["function"][0] == ["a"] and found["function"][1].name == "f"
    assert found["for"][1].name == "x" and found["for"][1].words == ("*.c", "b d")
    loop = found["while"][1]
    assert [c.argv[0] for c in script.commands[loop.first : loop.body]] == ["t"]
    assert found["subshell"][0] == ["s"]
    assert found["if"][0] == ["i", "j"]


@pytest.mark.parametrize(
    "text",
    [
        "echo 'a", 'echo "a', "echo `a", "echo $(a", "echo ${a", "(a", "a)", "{ a", "if a; then b", "if a then b; fi", "fi", "a &&",
        "&& a", "a | | b", "; a", "a;; b", "for x in a; b; done", "case x in a", "while a; do done", "[[ a", "a >", "(a) b", "f() a b; }",
        "x=(a", "echo (a)", "if; then a; fi",
    ],
)  # fmt: skip
def test_damage(text):
    assert parse(text).damage


def test_half_a_command_is_none():
    script = parse("ls -l; rm 'oops")
    assert names(script) == ["ls"]
    assert script.damage == "unclosed single quote"


@pytest.mark.parametrize(
    ("text", "argv"),
    [
        ("F=app.db; sqlite3 $F .tables", ["sqlite3", "app.db", ".tables"]),
        ('export PORT=80\nserve --port "${PORT}"', ["serve", "--port", "80"]),
        ("F=a.db; F=b.db; cat $F", ["cat", "$F"]),  # assigned twice
        ("if x; then F=a; fi; cat $F", ["cat", "$F"]),  # perhaps assigned
        ("x && F=a; cat $F", ["cat", "$F"]),
        ("(F=a); cat $F", ["cat", "$F"]),
        ("F=$(date); cat $F", ["cat", "$F"]),
        ("F='a b'; cat $F", ["cat", "$F"]),  # would be split
        ("F='a b'; cat \"$F\"", ["cat", "a b"]),
        ("F=a; read F; cat $F", ["cat", "$F"]),
        ("F=a; . ./env.sh; cat $F", ["cat", "$F"]),
        ("F=a; for F in x; do :; done; cat $F", ["cat", "$F"]),
        ("cat $F; F=a", ["cat", "$F"]),
        ("F=a; cat '$F'", ["cat", "$F"]),
        ("F=a cat $F", ["cat", "$F"]),
    ],
)
def test_constants(text, argv):
    assert next(c.argv for c in scan(text).commands if c.argv and c.argv[0] == argv[0]) == argv


def test_parse_leaves_variables_alone():
    assert parse("F=a; cat $F").commands[-1].argv == ["cat", "$F"]
