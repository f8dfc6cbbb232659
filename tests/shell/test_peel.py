"""Wrappers and texts for other shells."""

from __future__ import annotations

import pytest

from misstep.shell import scan


@pytest.mark.parametrize(
    ("text", "argv", "wrappers"),
    [
        ("sudo -u www -E make x", ["make", "x"], ("sudo",)),
        ("timeout -k 5 30s make", ["make"], ("timeout",)),
        ("nohup setsid make", ["make"], ("nohup", "setsid")),
        ("env -u A -i B=1 make", ["make"], ("env",)),
        ("nice -n 10 ionice -c2 -n7 make", ["make"], ("nice", "ionice")),
        ("stdbuf -oL make", ["make"], ("stdbuf",)),
        ("/usr/bin/time -v make", ["make"], ("time",)),
        ("exec make", ["make"], ("exec",)),
        ("command make", ["make"], ("command",)),
        ("xvfb-run -a -s '-screen 0 1x1x8' make", ["make"], ("xvfb-run",)),
        ("strace -f -o t make", ["make"], ("strace",)),
        ("flock -n /tmp/l make", ["make"], ("flock",)),
        ("uv run --with httpx -p 3.12 pytest -q", ["pytest", "-q"], ("uv run",)),
        ("uv run -m pytest -q", ["python", "-m", "pytest", "-q"], ("uv run",)),
        ("uv run app.py", ["python", "app.py"], ("uv run",)),
        ("uvx ruff@latest check", ["ruff", "check"], ("uvx",)),
        ("poetry run pytest", ["pytest"], ("poetry run",)),
        ("conda run -n env --no-capture-output pytest", ["pytest"], ("conda run",)),
        ("npx -y jest@29 a", ["jest", "a"], ("npx",)),
        ("npx @scope/tool@1 a", ["@scope/tool", "a"], ("npx",)),
        ("pnpm dlx vitest", ["vitest"], ("pnpm dlx",)),
        ("bundle exec rspec", ["rspec"], ("bundle exec",)),
        ("mise exec node@20 -- node a.js", ["node", "a.js"], ("mise",)),
        ("ls | xargs -0 -n1 -I{} rm {}", ["rm", "{}"], ("xargs",)),
        ("bash -lc 'make x'", ["make", "x"], ("bash -c",)),
        ("sh -c make", ["make"], ("sh -c",)),
        ("bash -euo pipefail -c 'make'", ["make"], ("bash -c",)),
        ("su - app -c 'make'", ["make"], ("su -c",)),
        ("script -qec 'make' /dev/null", ["make"], ("script -c",)),
        ("eval 'make x'", ["make", "x"], ("eval",)),
        ("watch -n 1 'make x'", ["make", "x"], ("watch",)),
        ("sudo bash -c 'timeout 5 make'", ["make"], ("sudo", "bash -c", "timeout")),
        ("systemd-run --user --unit=x make", ["make"], ("systemd-run",)),
        ("start-stop-daemon --start -b --exec /bin/make -- x", ["/bin/make", "x"], ("start-stop-daemon -b",)),
    ],
)
def test_wrappers(text, argv, wrappers):
    c = scan(text).commands[-1]
    assert c.argv == argv
    assert c.wrappers == wrappers
    assert not c.remote


@pytest.mark.parametrize(
    ("text", "argv", "wrapper"),
    [
        ("ssh -p 22 -o A=b root@h make x", ["make", "x"], "ssh"),
        ("ssh h 'cd a; make'", ["make"], "ssh"),
        ("ssh h <<'E'\nmake\nE", ["make"], "ssh"),
        ("ssh h bash -s <<'E'\nmake\nE", ["make"], "ssh"),
        ("docker exec -it -u root c make", ["make"], "docker exec"),
        ("docker exec c sh -c 'make x'", ["make", "x"], "docker exec"),
        ("docker compose -f x.yml exec -T web make", ["make"], "docker exec"),
        ("docker run --rm -v $PWD:/a image make", ["make"], "docker run"),
        ("kubectl -n ns exec p -c c -- make", ["make"], "kubectl exec"),
    ],
)
def test_elsewhere(text, argv, wrapper):
    c = scan(text).commands[-1]
    assert c.argv == argv
    assert c.remote
    assert c.wrappers[0] == wrapper


def test_detached_docker_exec_is_in_the_background():
    c = scan("docker exec -d c make").commands[0]
    assert c.background and c.wrappers == ("docker exec -d",)


@pytest.mark.parametrize(
    "text",
    [
        "bash <<'E'\nmake\nE",
        "cat <<'E' | bash\nmake\nE",
        "echo make | sh",
        "bash -s <<< make",
        "printf 'make\\n' | bash",
    ],
)
def test_a_script_on_standard_input(text):
    assert scan(text).commands[-1].argv == ["make"]


@pytest.mark.parametrize(
    "text",
    [
        "bash x.sh",
        'bash -c "$CMD"',
        'eval "$(ssh-agent)"',
        "curl x | bash",
        "command -v make",
        "ssh h",
        "tmux ls",
        "sudo -i",
        "env",
        "xargs",
    ],
)
def test_what_stays(text):
    c = next(c for c in scan(text).commands if not c.substitution and c.name != "curl")
    assert c.wrappers == ()


def test_texts_inherit_what_surrounds_them():
    script = scan("PORT=80 bash -c 'a; b | c' > log 2>&1 &")
    a, b, c = script.commands
    assert all(x.background and x.env == {"PORT": "80"} for x in (a, b, c))
    assert [r.target for r in a.around] == ["log", "1"]
    assert [r.target for r in b.around] == ["1"]  # its output goes down the pipe
    assert b.pipeline == c.pipeline != a.pipeline


def test_substitutions_of_the_outer_shell_run_once():
    assert [c.argv[0] for c in scan('bash -c "echo $(date)"').commands] == ["echo", "date"]
    assert [c.argv[0] for c in scan("bash -c 'echo $(date)'").commands] == ["echo", "date"]


def test_terminals_of_their_own():
    a, b = scan("tmux new-session -d -s x 'make x' \\; split-window 'top'").commands
    assert (a.argv, b.argv) == (["make", "x"], ["top"])
    assert a.background and a.wrappers == ("tmux",)
    c = scan("tmux send-keys -t x 'cd /a && make' Enter").commands
    assert [x.argv for x in c] == [["cd", "/a"], ["make"]]
    assert all(x.background and x.wrappers == ("tmux send-keys",) for x in c)
    assert scan("tmux send-keys -t x 'make'").commands[0].name == "tmux"  # typed, not entered
    assert scan("screen -dmS x make").commands[0].wrappers == ("screen",)
    assert scan("screen -S x -X stuff $'make\\n'").commands[0].argv == ["make"]


def test_find_stands_for_itself_too():
    script = scan("find . -name x -exec rm {} \\; -exec ls {} +")
    assert [c.name for c in script.commands] == ["find", "rm", "ls"]


def test_damage_inside_a_text():
    assert scan("bash -c 'echo \"a'").damage == "in bash -c: unclosed double quote"


def test_positions_move_with_the_words():
    c = scan("sudo timeout 5 rm -f $X *.o").commands[0]
    assert (c.argv, c.dynamic, c.globbed) == (["rm", "-f", "$X", "*.o"], {2}, {3})


def test_blocks_follow_the_commands():
    script = scan("bash -c 'a; b'; for x in 1; do sudo c; done")
    loop = next(b for b in script.blocks if b.kind == "for")
    assert [c.name for c in script.commands[loop.first : loop.last]] == ["c"]
    text = next(b for b in script.blocks if b.kind == "shell")
    assert [c.name for c in script.commands[text.first : text.last]] == ["a", "b"]
