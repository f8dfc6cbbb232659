"""Wrappers that run a command elsewhere: on another machine, in a container, for another user, in another terminal."""

from __future__ import annotations

import re

from .model import Command
from .unwrap import Inner, literal_stdin, shell, skip
from .wrapper_tables import DOCKER_EXEC, DOCKER_RUN, KEYS, KUBECTL, SHELLS, TMUX_STARTS


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
