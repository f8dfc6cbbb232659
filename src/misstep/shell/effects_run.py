"""Effects of interpreters and of the user's own programs."""

from __future__ import annotations

import re

from .build_tables import TEST_FILE, TEST_SCRIPT
from .context import Context, Reader, path_words
from .effects_build import test
from .effects_serve import looks_like_server, module_serves, program_serves
from .model import Command
from .wrapper_tables import SHELLS

DATA_FILE = re.compile(
    r"\.(?:pem|crt|key|json|ya?ml|toml|txt|md|log|csv|ini|cfg|conf|html?|xml|png|jpe?g|pdf|db|sqlite3?)$", re.I
)
"""No program: a line that was broken in two, or a mistake."""


def python(x: Context) -> None:
    """python: a script, `-m module`, `-c text`, a program on standard input, or a prompt."""
    argv = x.argv
    k = 1
    interactive = False
    while k < len(argv):
        a = argv[k]
        if a == "-c" or re.fullmatch(r"-[bBdEhIOqsSuvx]*c", a):
            if k + 1 < len(argv):
                _code(x, argv[k + 1], k + 1 in x.command.dynamic)
            return
        if a == "-m" or re.fullmatch(r"-[bBdEIOqsSuvx]*m", a):
            if k + 1 < len(argv):
                module(x, argv[k + 1], k + 2)
            return
        if a in ("--version", "-V", "-VV", "--help", "-h"):
            return
        if a == "-":
            break
        if a[:1] != "-":
            break
        if a in ("-W", "-X"):
            k += 1
        elif "i" in a and a[1:2] != "-":
            interactive = True
        k += 1
    script = argv[k] if k < len(argv) else "-"
    if script in ("-", "/dev/stdin"):
        if x.command.stdin is not None:
            dynamic = not any(r.quoted for r in x.command.redirects if r.fd == 0) and "$" in x.command.stdin
            _code(x, x.command.stdin, dynamic)
        elif x.fed:
            x.add("run", (), inline=True)
        elif x.waits:
            x.add("interactive", why="python without a program is a prompt")
        return
    words = argv[k + 1 :]
    leaf = script.rsplit("/", 1)[-1]
    if leaf == "manage.py":
        _manage(x, words, script)
        return
    if leaf == "setup.py" and words:
        _setup(x, words)
        return
    if interactive and x.waits and not x.fed:
        x.add("interactive", (script,), why="python -i ends in a prompt")
    own_program(x, script, words)


def _code(x: Context, text: str, dynamic: bool) -> None:
    from .python_source import python_effects

    x.add("run", (), inline=True)
    python_effects(x, text, dynamic)


def module(x: Context, name: str, at: int) -> None:
    """`python -m NAME ...` is mostly a tool that has a reader of its own."""
    from . import effects

    rest = x.argv[at:]
    if module_serves(x, name, rest):
        return
    if name == "unittest":
        words = Context(x.command, ["unittest", *rest], [], 0).operands(
            "kspt", ("--start-directory", "--pattern", "--top-level-directory")
        )
        test(x, "unittest", [w for w in words if w != "discover"])
    elif name in ("pdb", "ipdb", "code", "IPython", "pudb", "bpython", "ptpython"):
        if x.waits and not x.fed:
            x.add("interactive", why=f"python -m {name} is a prompt")
    elif name in ("py_compile", "compileall"):
        x.add("lint", path_words([w for w in rest if w[:1] != "-"]), tool=name)
    elif name == "venv" or name == "virtualenv":
        return
    elif name == "json.tool":
        effects.reread(x, ["jq", ".", *rest])
    elif name in ("build", "PyInstaller", "nuitka", "cython"):
        x.add("compile", tool=name, output="")
    elif name == "doctest":
        test(x, "doctest", path_words(rest))
    elif name == "coverage":
        if rest[:1] == ["run"]:
            words = rest[1:]
            while words and words[0][:1] == "-" and words[0] not in ("-m",):
                words = words[1:]
            effects.reread(x, ["python", *words])
    elif not effects.reread(x, [name.replace("_", "-") if name in ("pip_audit",) else name, *rest]):
        x.add("run", (), module=name)


def _manage(x: Context, words: list[str], script: str) -> None:
    """Django."""
    from .effects_serve import serve

    verb = words[0] if words else ""
    if verb in ("runserver", "runserver_plus", "run_gunicorn"):
        serve(x, launcher="manage.py runserver")
    elif verb == "test":
        test(x, "manage.py test", path_words([w for w in words[1:] if w[:1] != "-"]))
    elif verb in ("migrate", "flush", "loaddata", "sqlflush", "reset_db"):
        x.add("database", mutates=True, engine="migration")
    elif verb in ("shell", "dbshell", "shell_plus"):
        if x.waits and not x.fed and not any(w in ("-c", "--command") for w in words):
            x.add("interactive", why=f"manage.py {verb} is a prompt")
    elif verb == "createsuperuser" and not any(w.startswith("--no") for w in words):
        if x.waits and not x.fed:
            x.add("interactive", why="createsuperuser asks")
    elif verb == "check":
        x.add("lint", tool="manage.py check")
    else:
        x.add("run", (script,))


def _setup(x: Context, words: list[str]) -> None:
    verb = next((w for w in words if w[:1] != "-"), "")
    if verb in ("install", "develop"):
        x.add("install", manager="setup.py", packages=(), verb=verb)
    elif verb == "test":
        test(x, "setup.py test", [])
    else:
        x.add("compile", tool="setup.py", output="")


def own_program(x: Context, script: str, words: list[str]) -> None:
    """A script or program of the user's own: a server, a run of tests, or just a run."""
    if DATA_FILE.search(script):
        return
    at = len(x.out)
    _own_program(x, script, words)
    text = x.written.get(script.removeprefix("./"))
    if text:
        named = len(x.out)
        _read_program(x, script, text)
        if any(e.kind == "serve" for e in x.out[named:]):
            # What the program does is surer than what its name says.
            x.out[at:named] = [e for e in x.out[at:named] if e.kind != "serve"]


def _read_program(x: Context, script: str, text: str) -> None:
    """A program whose text is known."""
    if script.endswith(".py") or x.name == "python":
        from .python_source import python_effects

        python_effects(x, text)
    elif script.endswith((".js", ".mjs", ".cjs")) or x.name == "node":
        from .node_source import node_effects

        node_effects(x, text)
    elif x.name in SHELLS or script.endswith((".sh", ".bash")) or re.match(r"#!.*\b(?:ba|z|da)?sh\b", text):
        from . import effects

        effects.nested_text(x, text, "script")


def _own_program(x: Context, script: str, words: list[str]) -> None:
    if TEST_FILE.search(script) or TEST_SCRIPT.search(script):
        test(x, x.name if x.name in ("python", "node", "bash", "sh") else script.rsplit("/", 1)[-1], [script])
    elif not program_serves(x, script, words):
        x.add("run", (script,))


def node(x: Context) -> None:
    argv = x.argv
    k = 1
    while k < len(argv):
        a = argv[k]
        if a in ("-e", "--eval", "-p", "--print", "-pe"):
            if k + 1 < len(argv):
                from .node_source import node_effects

                x.add("run", (), inline=True)
                node_effects(x, argv[k + 1])
            return
        if a in ("--version", "-v", "--help", "-h"):
            return
        if a in ("--check", "-c"):
            x.add("lint", path_words(argv[k + 1 :]), tool="node --check")
            return
        if a == "--test":
            test(x, "node --test", path_words([w for w in argv[k + 1 :] if w[:1] != "-"]))
            return
        if a in ("-r", "--require", "--import", "--loader", "--env-file"):
            k += 2
            continue
        if a == "-" or a[:1] != "-":
            break
        k += 1
    if k >= len(argv) or argv[k] == "-":
        if x.command.stdin is not None:
            from .node_source import node_effects

            x.add("run", (), inline=True)
            node_effects(x, x.command.stdin)
        elif x.fed:
            x.add("run", (), inline=True)
        elif x.waits:
            x.add("interactive", why=f"{x.name} without a program is a prompt")
        return
    if x.name in ("tsx", "ts-node", "node") and argv[k] == "watch":
        k += 1
    if k < len(argv):
        own_program(x, argv[k], argv[k + 1 :])


def interpreter(x: Context) -> None:
    """ruby, php, lua, Rscript, java, julia ...: a script or a prompt."""
    name = x.name
    if x.argv[1:2] and x.argv[1] in ("--version", "-v", "-version", "--help", "-V", "-h"):
        return
    if name == "php":
        if "-S" in x.argv:
            from .effects_serve import serve

            serve(x, launcher="php -S")
            return
        if x.has("-l"):
            x.add("lint", path_words(x.operands()), tool="php -l")
            return
        words = x.operands("dcrf")
        if words[:1] == ["artisan"]:
            from . import effects

            effects.reread(x, words)
            return
        if not words and x.has("-r", "-i", "-m", "-a"):
            x.add("run", (), inline=True)
            return
    if name == "java":
        words = x.operands("", ("-cp", "-classpath", "--class-path", "-jar"))
        jar = x.value("-jar")
        if jar:
            if any(a.startswith(("--server.port", "-Dserver.port")) for a in x.argv) or looks_like_server(jar):
                program_serves(x, jar if looks_like_server(jar) else "server.jar", [])
            else:
                x.add("run", (jar,))
            return
        cp = x.value("-cp", "-classpath", "--class-path")
        words = [w for w in x.operands() if w != cp]
        if words:
            own_program(x, words[0], words[1:])
        return
    if name == "ruby" and x.has("-c"):
        x.add("lint", path_words(x.operands()), tool="ruby -c")
        return
    if (x.has("-e", "-E", "--eval", "-r") and name != "ruby") or (name == "ruby" and x.has("-e")):
        x.add("run", (), inline=True)
        return
    words = x.operands("IrlEe")
    if words:
        own_program(x, words[0], words[1:])
    elif x.fed:
        x.add("run", (), inline=True)
    elif (
        x.waits
        and name
        in (
            "irb",
            "R",
            "julia",
            "lua",
            "ghci",
            "iex",
            "erl",
            "ocaml",
            "scala",
            "sbcl",
            "guile",
            "racket",
            "clojure",
            "utop",
            "octave",
            "gp",
            "maxima",
        )
        and not (name == "R" and x.argv[1:])
    ):
        x.add("interactive", why=f"{name} without a program is a prompt")


def shell(x: Context) -> None:
    """What is left of bash and sh when no text was found: a script, or a prompt."""
    words = x.operands("oO", ("--rcfile", "--init-file"))
    if x.has("-n") and words:
        x.add("lint", words[:1], tool=f"{x.name} -n")
    elif words and "-c" not in x.argv:
        own_program(x, words[0], words[1:])
    elif x.command.piped_in and any(c.name in ("curl", "wget") for c in x.upstream):
        x.add("install", manager="script", packages=(), verb="pipe")
    elif x.has("--version", "--help"):
        return
    elif (
        not words
        and not x.fed
        and x.waits
        and "-c" not in x.argv
        and not any(a[:1] == "-" and "c" in a for a in x.argv[1:])
    ):
        x.add("interactive", why=f"{x.name} without a script is a prompt")


def path_program(x: Context) -> bool:
    """A program named by a path that no other reader knows: `./a.out`, `bin/tool`."""
    word = x.argv[0]
    if "/" not in word or (
        word.startswith(("/bin/", "/usr/", "/sbin/", "/opt/homebrew", "/snap/"))
        and not word.startswith(("/usr/src", "/usr/local/src"))
    ):
        return False
    if any(a in ("--help", "-h", "--version") for a in x.argv[1:2]):
        x.add("run", (word,))
        return True
    own_program(x, word, x.argv[1:])
    return True


def bare_script(x: Context) -> bool:
    """`run_tests.sh`, `server.py` as a command of its own (found on the path)."""
    word = x.argv[0]
    if re.search(r"\.(?:sh|py|js|rb|pl|bash)$", word):
        own_program(x, word, x.argv[1:])
        return True
    return False


def source(x: Context) -> None:
    words = x.argv[1:2]
    if words and not re.search(
        r"activate|\.bashrc|\.profile|\.zshrc|nvm\.sh|\.env|env\.sh|cargo/env|setvars|bash_profile|conda\.sh|setup\.bash",
        words[0],
    ):
        x.add("run", words)


def detached_command(c: Command) -> bool:
    return "setsid" in c.wrappers


READERS: dict[str, Reader] = {
    "python": python,
    **dict.fromkeys(("node", "ts-node", "tsx", "bun_"), node),
    **dict.fromkeys(("ruby", "php", "lua", "luajit", "Rscript", "R", "java", "julia", "irb", "ghci", "runghc", "iex", "elixir", "erl", "escript", "ocaml", "scala",
                     "sbcl", "guile", "racket", "clojure", "tclsh", "expect", "groovy", "kotlin", "swipl", "octave", "gp", "maxima", "utop", "coqtop", "awk_", "gnuplot",
                     "perl_"), interpreter),
    **dict.fromkeys(SHELLS, shell),
    "source": source,
    ".": source,
}  # fmt: skip
for _prompt in ("ipython", "ptpython", "bpython"):
    READERS[_prompt] = python
