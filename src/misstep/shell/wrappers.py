"""What each wrapper runs: for a command like `sudo -u www timeout 5 flask run`, where the inner command starts.

`unwrap(command)` answers with `Inner` values: either the words of another command or the text that
another shell reads. No answer means that the command stands for itself.
"""

from __future__ import annotations

import re

from .model import Command
from .unwrap import ASSIGNMENT, Inner, Unwrap, shell, skip
from .wrapper_tables import PLAIN, SHELLS, SUBCOMMAND
from .wrappers_far import TEXT_OPTION, docker, kubectl, lxc, screen, ssh, su, text_option, tmux


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


def eval_(c: Command) -> list[Inner]:
    text = " ".join(c.argv[1:])
    if not text or (c.dynamic and re.fullmatch(r"[\s\"']*(\$\{?\w+\}?|\$\(.*\)|`.*`)[\s\"']*", text, re.S)):
        return []
    return [Inner("eval", text=text, literal=not c.dynamic)]


TMUX_VALUES = "stncexyFflpLSTbBwhd"


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
