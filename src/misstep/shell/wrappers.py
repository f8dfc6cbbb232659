"""What each wrapper runs: for a command like `sudo -u www timeout 5 flask run`, where the inner command starts.

`unwrap(command)` answers with `Inner` values: either the words of another command or the text that
another shell reads. No answer means that the command stands for itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from misstep._record import field, record

from .model import Command
from .wrapper_tables import DOCKER_EXEC, DOCKER_RUN, KEYS, KUBECTL, PLAIN, SHELLS, SUBCOMMAND, TMUX_STARTS


@record
class Inner:
    """What a wrapper runs: `command.argv[at:]` (up to `end`), other words (`argv`), or shell text."""

    label: str
    """Goes into Command.wrappers."""
    at: int = 0
    end: int | None = None
    argv: list[str] | None = None
    text: str | None = None
    literal: bool = True
    """False: the outer shell has expanded the text, so its substitutions were found already."""
    env: dict[str, str] = field(default_factory=dict)
    remote: bool = False
    background: bool = False
    keep: bool = False
    """The wrapper is a command worth seeing as well (find -exec)."""
    typed: bool = False
    """Keys sent to a terminal: perhaps no shell text at all."""
    eats_stdin: bool = False
    """The text came from standard input."""


Unwrap = Callable[[Command], list[Inner]]
ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


def skip(argv: list[str], k: int, short: str = "", long: tuple[str, ...] = (), positional: int = 0) -> int:
    """Index behind the options that start at `k` and `positional` words. `short` and `long` options take a value."""
    n = len(argv)
    while k < n:
        a = argv[k]
        if a == "--":
            k += 1
            break
        if len(a) < 2 or a[0] != "-":
            break
        if a[1] == "-":
            k += 2 if a in long else 1
            continue
        k += 1
        for at, c in enumerate(a[1:], 1):
            if c in short:
                if at == len(a) - 1:
                    k += 1
                break
    return k + positional


def plain(c: Command) -> list[Inner]:
    short, long, positional = PLAIN[c.name]
    k = skip(c.argv, 1, short, long, positional)
    env: dict[str, str] = {}
    if c.name == "sudo":
        if any(a in ("-l", "-v", "-k", "-K", "--list", "--validate", "-n") for a in c.argv[1:k]) and k >= len(c.argv):
            return []
        if any(a in ("-i", "-s", "--login", "--shell") for a in c.argv[1:k]) and k >= len(c.argv):
            return []
        while k < len(c.argv) and ASSIGNMENT.match(c.argv[k]):
            name, _, value = c.argv[k].partition("=")
            env[name] = value
            k += 1
    if c.name == "nice" and len(c.argv) > 1 and re.fullmatch(r"-\d+", c.argv[1]):
        k = skip(c.argv, 2)
    label = c.name
    if (label == "setsid" and "--fork" in c.argv[1:k]) or (
        label == "systemd-run" and not _has(c.argv[1:k], "--scope", "--pty")
    ):
        return [Inner(label, at=k, background=label == "systemd-run")] if k < len(c.argv) else []
    if label == "systemd-run":
        label = "systemd-run --scope"
    if label == "uvx" and k < len(c.argv) and "@" in c.argv[k]:
        return [Inner(label, argv=[c.argv[k].partition("@")[0], *c.argv[k + 1 :]])]
    return [Inner(label, at=k, env=env, background=label == "daemonize")] if k < len(c.argv) else []


def _has(argv: list[str], *names: str) -> bool:
    return any(a in names for a in argv)


def subcommand(c: Command) -> list[Inner]:
    verbs = SUBCOMMAND[c.name]
    k = 1
    while k < len(c.argv) and c.argv[k].startswith("-"):  # uv --quiet run; poetry -C dir run
        k += 2 if c.argv[k] in ("-C", "--directory", "--project", "--cwd", "--prefix", "--filter", "-F") else 1
    if k >= len(c.argv) or c.argv[k] not in verbs:
        return []
    verb = c.argv[k]
    short, long, positional = verbs[verb]
    begin = k + 1
    k = skip(c.argv, begin, short, long, positional)
    label = f"{c.name} {verb}"
    if c.name == "uv":
        head = c.argv[begin:k]
        if "-m" in head or "--module" in head:
            at = begin + (head.index("-m") if "-m" in head else head.index("--module"))
            return [Inner(label, argv=["python", "-m", *c.argv[at + 1 :]])]
        if "-" in c.argv[k : k + 1]:
            return [Inner(label, argv=["python", *c.argv[k:]])]
    if k >= len(c.argv):
        return []
    if c.argv[k].endswith(".py") and c.name in ("uv", "pdm", "rye", "pipx"):
        return [Inner(label, argv=["python", *c.argv[k:]])]
    if c.name == "pipx" or verb in ("dlx", "x"):
        return [Inner(label, argv=[re.sub(r"(?<=.)@[^/]*$", "", c.argv[k]), *c.argv[k + 1 :]])]
    return [Inner(label, at=k)]


def env_(c: Command) -> list[Inner]:
    k, n = 1, len(c.argv)
    env: dict[str, str] = {}
    while k < n:
        a = c.argv[k]
        if a in ("-u", "-C", "--unset", "--chdir"):
            k += 2
        elif a in ("-S", "--split-string") and k + 1 < n:
            return [Inner("env", text=" ".join(c.argv[k + 1 :]), literal=not c.dynamic)]
        elif a == "--":
            k += 1
            break
        elif a.startswith("-"):
            k += 1
        elif ASSIGNMENT.match(a):
            name, _, value = a.partition("=")
            env[name] = value
            k += 1
        else:
            break
    return [Inner("env", at=k, env=env)] if k < n else []


def cross_env(c: Command) -> list[Inner]:
    found = env_(c)
    for x in found:
        x.label = c.name
    return found


def shell(c: Command) -> list[Inner]:
    """bash, sh, ...: `-c TEXT`, or a script on standard input."""
    k, n = 1, len(c.argv)
    text_follows = False
    stdin = True
    while k < n:
        a = c.argv[k]
        if a in ("--", "-"):
            k += 1
            break
        if a in ("--rcfile", "--init-file", "-o", "+o", "-O", "+O"):
            k += 2
            continue
        if a.startswith("--"):
            k += 1
        elif len(a) > 1 and a[0] in "-+":
            if "c" in a and a[0] == "-":
                text_follows = True
            k += 2 if a.endswith("o") else 1
        else:
            break
    if text_follows:
        if k >= n:
            return []
        text = c.argv[k]
        if k in c.dynamic and re.fullmatch(r"\s*\$\{?\w+\}?\s*", text):
            return []
        return [Inner(f"{c.name} -c", text=text, literal=k not in c.dynamic)]
    if k < n and "-s" not in c.argv[1:k]:
        stdin = False
    if stdin and c.stdin is not None:
        return [Inner(f"{c.name} <<", text=c.stdin, literal=literal_stdin(c), eats_stdin=True)]
    return []


def literal_stdin(c: Command) -> bool:
    """The text on standard input reached it as it is written: a quoted heredoc."""
    for r in reversed(c.redirects):
        if r.fd == 0:
            return r.quoted
    return True


def eval_(c: Command) -> list[Inner]:
    text = " ".join(c.argv[1:])
    if not text or (c.dynamic and re.fullmatch(r"[\s\"']*(\$\{?\w+\}?|\$\(.*\)|`.*`)[\s\"']*", text, re.S)):
        return []
    return [Inner("eval", text=text, literal=not c.dynamic)]


def ssh(c: Command) -> list[Inner]:
    argv = c.argv
    k = skip(argv, 1, "bBcDEeFIiJLlmOopQRSWw")
    background = any(re.fullmatch(r"-[A-Za-z]*f[A-Za-z]*", a) for a in argv[1:k])
    k += 1  # the host; ssh takes options behind it as well
    k = skip(argv, k, "bBcDEeFIiJLlmOopQRSWw")
    if k < len(argv):
        first = argv[k].rsplit("/", 1)[-1]
        rest = Command(argv[k:], stdin=c.stdin, redirects=c.redirects)
        if c.stdin is not None and first in SHELLS and not shell_has_script(rest):
            return [
                Inner(
                    "ssh", text=c.stdin, literal=literal_stdin(c), remote=True, background=background, eats_stdin=True
                )
            ]
        literal = not any(p >= k for p in c.dynamic)
        return [Inner("ssh", text=" ".join(argv[k:]), literal=literal, remote=True, background=background)]
    if c.stdin is not None and k == len(argv):
        return [Inner("ssh", text=c.stdin, literal=literal_stdin(c), remote=True, eats_stdin=True)]
    return []


def shell_has_script(c: Command) -> bool:
    found = shell(c)
    return not (found and found[0].eats_stdin)


def docker(c: Command) -> list[Inner]:
    argv = c.argv
    k = 1
    name = c.name
    if name in ("docker-compose", "podman-compose"):
        name, compose = "docker compose", True
    else:
        k = skip(argv, 1, "cHl", ("--context", "--host", "--config"))
        compose = k < len(argv) and argv[k] == "compose"
        if compose or (k < len(argv) and argv[k] == "container"):
            k += 1
    if compose:
        k = skip(argv, k, "fp", ("--file", "--project-name", "--profile", "--env-file", "--project-directory"))
    verb = argv[k] if k < len(argv) else ""
    if verb == "exec":
        at = skip(argv, k + 1, DOCKER_EXEC[0] + "", (*DOCKER_EXEC[1], "--index"))
        inner = at + 1
    elif verb == "run":
        at = skip(argv, k + 1, DOCKER_RUN[0], DOCKER_RUN[1])
        inner = at + 1
    else:
        return []
    detached = any(a == "--detach" or re.fullmatch(r"-[a-zA-Z]*d[a-zA-Z]*", a) for a in argv[k + 1 : at] if a != "--")
    if inner >= len(argv):
        return []
    label = f"docker {verb}" + (" -d" if detached else "")
    return [Inner(label, at=inner, remote=True, background=detached, keep=verb == "run")]


def kubectl(c: Command) -> list[Inner]:
    argv = c.argv
    k = skip(argv, 1, *KUBECTL)
    if k >= len(argv) or argv[k] != "exec" or "--" not in argv:
        return []
    k = argv.index("--") + 1
    return [Inner("kubectl exec", at=k, remote=True)] if k < len(argv) else []


def lxc(c: Command) -> list[Inner]:
    if len(c.argv) > 3 and c.argv[1] == "exec" and "--" in c.argv:
        k = c.argv.index("--") + 1
        return [Inner(f"{c.name} exec", at=k, remote=True)] if k < len(c.argv) else []
    return []


def su(c: Command) -> list[Inner]:
    """su and runuser: `-c TEXT`; runuser -u USER -- COMMAND."""
    argv = c.argv
    for k, a in enumerate(argv[1:], 1):
        if a in ("-c", "--command", "-lc") and k + 1 < len(argv):
            return [Inner(f"{c.name} -c", text=argv[k + 1], literal=k + 1 not in c.dynamic)]
        if a.startswith("--command="):
            return [Inner(f"{c.name} -c", text=a[10:], literal=k not in c.dynamic)]
    if c.name == "runuser" and "-u" in argv:
        k = skip(argv, 1, "u")
        return [Inner("runuser", at=k)] if k < len(argv) else []
    if c.name == "su" and c.stdin is not None:
        return [Inner("su <<", text=c.stdin, literal=literal_stdin(c), eats_stdin=True)]
    return []


TMUX_VALUES = "stncexyFflpLSTbBwhd"


def tmux(c: Command) -> list[Inner]:
    found: list[Inner] = []
    argv = c.argv
    k = skip(argv, 1, "LSfcT")
    while k < len(argv):
        end = k
        while end < len(argv) and argv[end] != ";":
            end += 1
        verb = argv[k]
        literal = not any(k < p < end for p in c.dynamic)
        if verb in TMUX_STARTS:
            at = skip(argv[:end], k + 1, "stncexyFflp")
            options = argv[k + 1 : at]
            detached = any(re.fullmatch(r"-[A-Za-z]*d[A-Za-z]*", a) for a in options)
            label = "tmux" if detached or verb not in ("new-session", "new") else "tmux new-session"
            if end - at == 1:
                found.append(Inner(label, text=argv[at], literal=literal, background=label == "tmux"))
            elif end > at:
                found.append(Inner(label, at=at, end=end, background=label == "tmux"))
        elif verb in ("send-keys", "send"):
            at = skip(argv[:end], k + 1, "tcN")
            text, line = "", ""
            for a in argv[at:end]:
                if a in ("Enter", "C-m", "KPEnter"):
                    text, line = text + line + "\n", ""
                elif a == "Space":
                    line += " "
                elif not KEYS.match(a):
                    line += a
            text += line if line.endswith("\n") else ""
            if text.strip():
                found.append(Inner("tmux send-keys", text=text, literal=literal, background=True, typed=True))
        k = end + 1
    return found


def screen(c: Command) -> list[Inner]:
    argv = c.argv
    k = skip(argv, 1, "SceEhpPtTs")
    options = argv[1:k]
    if "-X" in options and "stuff" in argv[k : k + 1] and k + 1 < len(argv):
        text = argv[k + 1].replace("^M", "\n").replace("\\n", "\n").replace("\r", "\n")
        if text.endswith("\n"):
            return [Inner("screen -X stuff", text=text, literal=not c.dynamic, background=True, typed=True)]
        return []
    letters = "".join(a[1:] for a in options if a.startswith("-") and not a.startswith("--"))
    if k < len(argv) and "-X" not in options and not set("rx") & set(letters[:1]):
        detached = "d" in letters.lower() and "m" in letters
        return [Inner("screen" if detached else "screen attached", at=k, background=detached)]
    return []


def script_(c: Command) -> list[Inner]:
    for k, a in enumerate(c.argv[1:], 1):
        if (a == "--command" or re.fullmatch(r"-[a-z]*c", a)) and k + 1 < len(c.argv):
            return [Inner("script -c", text=c.argv[k + 1], literal=k + 1 not in c.dynamic)]
        if a.startswith("--command="):
            return [Inner("script -c", text=a[10:], literal=k not in c.dynamic)]
    return []


def exec_(c: Command) -> list[Inner]:
    k = skip(c.argv, 1, "a")
    return [Inner("exec", at=k)] if k < len(c.argv) else []


def command_(c: Command) -> list[Inner]:
    k = skip(c.argv, 1)
    if any(re.fullmatch(r"-p?[vV]", a) for a in c.argv[1:k]):
        return []
    return [Inner("command", at=k)] if k < len(c.argv) else []


def find(c: Command) -> list[Inner]:
    found = []
    argv = c.argv
    k = 1
    while k < len(argv):
        if argv[k] in ("-exec", "-execdir", "-ok", "-okdir"):
            end = k + 1
            while end < len(argv) and argv[end] != ";" and not (argv[end] == "+" and argv[end - 1] == "{}"):
                end += 1
            if end > k + 1:
                found.append(Inner("find -exec", at=k + 1, end=end, keep=True))
            k = end
        k += 1
    return found


def fd(c: Command) -> list[Inner]:
    for k, a in enumerate(c.argv[1:], 1):
        if a in ("-x", "-X", "--exec", "--exec-batch") and k + 1 < len(c.argv):
            return [Inner("find -exec", at=k + 1, keep=True)]
    return []


def xargs(c: Command) -> list[Inner]:
    k = skip(
        c.argv,
        1,
        "IdEnLPsa",
        ("--replace-str", "--max-args", "--max-procs", "--delimiter", "--arg-file", "--max-lines"),
    )
    return [Inner("xargs", at=k)] if k < len(c.argv) else []


def parallel(c: Command) -> list[Inner]:
    k = skip(
        c.argv, 1, "jaISdNnLP", ("--jobs", "--arg-file", "--joblog", "--results", "--delay", "--timeout", "--colsep")
    )
    end = next((p for p in range(k, len(c.argv)) if c.argv[p] in (":::", "::::", ":::+")), len(c.argv))
    if end == k + 1 and " " in c.argv[k]:
        return [Inner("parallel", text=c.argv[k], literal=k not in c.dynamic)]
    return [Inner("parallel", at=k, end=end)] if k < end else []


def watch(c: Command) -> list[Inner]:
    k = skip(c.argv, 1, "nq", ("--interval", "--equexit"))
    if k >= len(c.argv):
        return []
    return [Inner("watch", text=" ".join(c.argv[k:]), literal=not any(p >= k for p in c.dynamic))]


def npx(c: Command) -> list[Inner]:
    k = skip(c.argv, 1, "pc", ("--package", "--call"))
    for at, a in enumerate(c.argv[1:k], 1):
        if a in ("-c", "--call"):
            return [Inner("npx", text=c.argv[at + 1], literal=at + 1 not in c.dynamic)] if at + 1 < len(c.argv) else []
    if k >= len(c.argv):
        return []
    return [Inner("npx", argv=[re.sub(r"(?<=.)@[^/]*$", "", c.argv[k]), *c.argv[k + 1 :]])]


def flock(c: Command) -> list[Inner]:
    k = skip(c.argv, 1, "wE", ("--timeout", "--wait", "--conflict-exit-code"), 1)
    if k < len(c.argv) and c.argv[k] in ("-c", "--command"):
        return [Inner("flock", text=c.argv[k + 1], literal=k + 1 not in c.dynamic)] if k + 1 < len(c.argv) else []
    return [Inner("flock", at=k)] if k < len(c.argv) else []


def start_stop_daemon(c: Command) -> list[Inner]:
    argv = c.argv
    program = ""
    for k, a in enumerate(argv[:-1]):
        if a in ("--exec", "-x", "--startas", "-a"):
            program = argv[k + 1]
    if not program or not any(a in ("--start", "-S") for a in argv):
        return []
    rest = argv[argv.index("--") + 1 :] if "--" in argv else []
    background = any(a in ("--background", "-b") for a in argv)
    label = "start-stop-daemon -b" if background else "start-stop-daemon"
    return [Inner(label, argv=[program, *rest], background=background)]


def after_dashes(c: Command) -> list[Inner]:
    """mise exec TOOL -- COMMAND; nix develop -c COMMAND; dotenv -- COMMAND ..."""
    argv = c.argv
    verbs = DASHES[c.name]
    if verbs and (len(argv) < 2 or argv[1] not in verbs):
        return []
    for mark in ("--", "-c", "--command"):
        if mark in argv and not (mark == "-c" and c.name not in ("nix", "guix")):
            k = argv.index(mark) + 1
            return [Inner(c.name, at=k)] if k < len(argv) else []
    return []


DASHES: dict[str, tuple[str, ...]] = {
    "mise": ("exec", "x"),
    "rtx": ("exec", "x"),
    "nix": ("develop", "shell"),
    "guix": ("shell",),
    "doppler": ("run",),
    "infisical": ("run",),
    "op": ("run",),
    "aws-vault": ("exec",),
    "teleport": ("exec",),
}


def text_option(c: Command) -> list[Inner]:
    """Programs that hand the text of one option to a shell, mostly elsewhere."""
    options, label, remote = TEXT_OPTION[c.name]
    for k, a in enumerate(c.argv[1:], 1):
        if a in options and k + 1 < len(c.argv):
            return [Inner(label, text=c.argv[k + 1], literal=k + 1 not in c.dynamic, remote=remote)]
        name, sign, value = a.partition("=")
        if sign and name in options:
            return [Inner(label, text=value, literal=k not in c.dynamic, remote=remote)]
    return []


TEXT_OPTION: dict[str, tuple[tuple[str, ...], str, bool]] = {
    "vagrant": (("-c", "--command"), "vagrant ssh", True),
    "gcloud": (("--command",), "gcloud ssh", True),
    "fly": (("-C", "--command"), "fly ssh", True),
    "flyctl": (("-C", "--command"), "fly ssh", True),
    "nix-shell": (("--run", "--command"), "nix-shell", False),
}

UNWRAP: dict[str, Unwrap] = {
    **dict.fromkeys(PLAIN, plain),
    **dict.fromkeys(SUBCOMMAND, subcommand),
    **dict.fromkeys(SHELLS, shell),
    **dict.fromkeys(DASHES, after_dashes),
    **dict.fromkeys(TEXT_OPTION, text_option),
    **dict.fromkeys(("docker", "podman", "nerdctl", "docker-compose", "podman-compose"), docker),
    "env": env_,
    "cross-env": cross_env,
    "eval": eval_,
    "ssh": ssh,
    "kubectl": kubectl,
    "oc": kubectl,
    "lxc": lxc,
    "incus": lxc,
    "su": su,
    "runuser": su,
    "tmux": tmux,
    "screen": screen,
    "script": script_,
    "exec": exec_,
    "command": command_,
    "find": find,
    "gfind": find,
    "fd": fd,
    "xargs": xargs,
    "gxargs": xargs,
    "parallel": parallel,
    "watch": watch,
    "npx": npx,
    "flock": flock,
    "start-stop-daemon": start_stop_daemon,
}
