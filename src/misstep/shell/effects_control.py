"""Effects on processes and on time: kill, sleep, programs that wait for a person, programs that never end."""

from __future__ import annotations

import re

from .context import Context, Reader, path_words, seconds, stdout_goes


def kill(x: Context) -> None:
    argv = x.argv
    words: list[str] = []
    k = 1
    while k < len(argv):
        a = argv[k]
        k += 1
        if a == "--":
            words.extend(argv[k:])
            break
        if a in ("-l", "-L", "--list"):
            return
        if a in ("-0", "-s0"):
            return  # asks whether it lives
        if a in ("-s", "-n", "--signal"):
            if argv[k : k + 1] == ["0"]:
                return
            k += 1
        elif a[:1] == "-" and not words and (k == 2 or not a[1:].isdigit()):
            continue  # the signal
        else:
            words.append(a)
    if x.wrapped("xargs"):
        names = " ".join(" ".join(c.argv) for c in x.upstream)
        _found(x, names)
        return
    for w in words:
        if w == "-1":
            x.add("kill", how="all", pattern="")
        elif w[:1] == "%" or w == "$(jobs -p)":
            x.add("kill", how="job", pattern=w)
        elif w[:2] == "$(" or w[:1] == "`":
            _found(x, w)
        else:
            x.add("kill", how="pid", pattern=w)


def _found(x: Context, text: str) -> None:
    """kill with process ids that another command finds."""
    m = re.search(r"-t?i\s*(?:tcp|udp|TCP)?:?(\d+|\$\{?\w+\}?)", text)
    if ("lsof" in text and ":" in text) or "fuser" in text:
        x.add("kill", how="port", pattern=m.group(1) if m else "")
    elif "pgrep" in text or ("grep" in text and "ps" in text):
        p = re.search(r"p?grep\s+(?:-\w+\s+)*[\"']?([^\"'|)`\s]+)", text)
        full = "pgrep" not in text or bool(re.search(r"pgrep\s+-\w*f", text))
        x.add("kill", how="pattern" if full else "name", pattern=p.group(1) if p else "")
    elif "pidof" in text:
        x.add("kill", how="name", pattern=text.split()[-1].rstrip(")`"))
    elif "jobs" in text:
        x.add("kill", how="job", pattern="")
    else:
        x.add("kill", how="pid", pattern=text[:80])


def by_name(x: Context) -> None:
    name = x.name
    if name == "fuser":
        if x.has("-k", "--kill"):
            words = [w for w in x.operands("n") if w not in ("tcp", "udp")]
            x.add("kill", how="port", pattern=words[0] if words else "")
        elif x.operands("n"):
            x.add("probe", target=x.operands("n")[-1], local=True)
        return
    if name == "kill-port":
        x.add("kill", how="port", pattern=" ".join(x.operands()))
        return
    if name == "taskkill":
        words = [a for a in x.argv[1:] if not a.startswith(("/", "-"))]
        x.add(
            "kill",
            how="pid" if any(a.lstrip("/").lower() == "pid" for a in x.argv) else "name",
            pattern=" ".join(words),
        )
        return
    words = list(x.operands("guPstGFUo", ("--signal", "--uid", "--parent", "--user")))
    if x.has("-l", "-0", "--list") or "-0" in x.argv:
        return
    if not words:
        if x.has("-u", "--user", "-U", "--uid"):
            x.add("kill", how="all", pattern=x.value("-u", "--user", "-U", "--uid") or "")
        return
    if name == "pkill":
        full = x.has("-f", "--full")
        x.add("kill", how="pattern" if full else "name", pattern=words[-1])
    else:
        x.add("kill", how="pattern" if x.has("-r", "--regexp") else "name", pattern=" ".join(words))


def sleep(x: Context) -> None:
    total = seconds(x.argv[1:])
    if total == float("inf"):
        if x.waits:
            x.add("endless", why="sleep infinity")
        return
    x.add("sleep", seconds=total, in_loop=x.in_loop)


def editor(x: Context) -> None:
    name = x.name
    if not x.waits or x.has("--version", "--help", "-h"):
        return
    if name == "vim" and (
        x.has("-es", "-Es", "-s")
        or any(re.match(r"[+]?(?:wq|q|qa|x)!?$|.*\|\s*(?:wq|q|qa)!?$", a) for a in x.argv)
        or x.has("--headless")
    ):
        words = path_words(x.operands("cuST", ("--cmd",)))
        x.add("write", [w for w in words if w[:1] != "+"][:1], append=False, in_place=True)
        return
    if name in ("emacs",) and x.has("--batch", "-batch", "--script"):
        return
    if name == "code" or name == "subl":
        return
    x.add("interactive", path_words(x.operands("cuisST")), why=f"{name} is an editor")


def screenful(x: Context) -> None:
    """Programs that take over the terminal until a person quits them."""
    name = x.name
    if not x.waits or x.has("--version", "--help", "-V"):
        return
    if name in ("top", "atop"):
        if x.has("-n", "-l") or any(re.match(r"-[a-zA-Z]*[nl]\d*$", a) for a in x.argv[1:]):
            return
        if x.has("-b"):
            if not x.command.piped_out:
                x.add("endless", why="top -b without a count")
        elif not x.command.piped_out:
            x.add("interactive", why="top waits for a key")
        return
    if name in ("man", "info") and (
        stdout_goes(x.command) != "tty"
        or x.has("-k", "-f", "-w", "-P")
        or x.command.env.get("MANPAGER")
        or x.command.env.get("PAGER")
    ):
        return
    if name == "fzf" and (x.command.piped_in and x.has("--filter", "-f")):
        return
    if name == "crontab" and not x.has("-e"):
        return
    if name == "gh" and not (x.argv[1:3] == ["auth", "login"] and not x.has("--with-token")):
        return
    if name in ("gcloud", "aws", "heroku", "firebase", "vercel", "az") and x.argv[1:2] not in (
        ["configure"],
        ["init"],
        ["login"],
    ):
        return
    if name in ("gcloud", "aws", "heroku", "firebase", "vercel", "az") and (len(x.argv) > 2 or x.fed):
        return
    x.add("interactive", why=f"{name} waits for a person")


def asks(x: Context) -> None:
    """Programs that ask questions unless they are fed."""
    name = x.name
    if x.fed or not x.waits or x.has("--help", "--version"):
        return
    why = f"{name} asks"
    if name == "passwd" and x.has("-l", "-u", "-d", "-S", "--stdin", "-e"):
        return
    if name == "ssh-keygen":
        if x.has("-l", "-R", "-F", "-y", "-H") or (x.has("-N") and x.has("-f")) or x.has("-A"):
            return
    elif name == "adduser":
        if (
            x.has("--disabled-password", "--gecos", "--system", "--disabled-login", "-D", "-S", "-H")
            or len(x.operands()) > 1
        ):
            return
    elif name in ("terraform", "tofu"):
        if (
            x.argv[1:2] not in (["apply"], ["destroy"])
            or x.has("-auto-approve", "--auto-approve")
            or len(x.operands()) > 1
        ):
            return
    elif name == "gpg":
        if x.has("--batch", "--yes") or not x.has(
            "--gen-key", "--full-generate-key", "--full-gen-key", "--edit-key", "--generate-key"
        ):
            return
    elif name == "dpkg-reconfigure":
        if "DEBIAN_FRONTEND" in x.command.env or x.has("-f", "--frontend"):
            return
    elif name == "kubectl":
        if x.argv[1:2] != ["edit"]:
            if x.argv[1:2] == ["logs"] and x.has("-f", "--follow"):
                x.add("endless", why="follows a log")
            elif (x.argv[1:2] == ["get"] and x.has("-w", "--watch")) or x.argv[1:2] == ["port-forward"]:
                x.add("endless", why="kubectl watches")
            return
    elif name == "sftp" or name == "ftp" or name == "lftp":
        if x.has("-b", "-c", "-e", "-f"):
            return
    elif name == "gdb" or name == "lldb":
        if x.has("-batch", "--batch", "-b") or any(a in ("quit", "q") for a in x.argv):
            return
    elif name == "read":
        if any(r.fd == 0 for r in x.command.around) or x.has("-t", "-u"):
            return
        why = "read waits for a line"
    elif name == "bc":
        if path_words(x.operands()):
            return
        why = "bc without input is a prompt"
    elif name == "su":
        pass
    elif name == "sudo":
        if not x.has("-i", "-s", "--login", "--shell") or x.has("-n", "--non-interactive"):
            return
    elif name == "whiptail" or name == "dialog":
        pass
    x.add("interactive", why=why)


def ssh(x: Context) -> None:
    """What is left of ssh when no command was found: a session, or a tunnel."""
    words = x.operands("bBcDEeFIiJLlmOopQRSWw")
    if x.has("-V", "-Q", "-G", "-O") or not words:
        return
    x.add("probe", target=words[0], local="localhost" in words[0] or "127.0.0.1" in words[0])
    if x.fed or not x.waits or x.has("-f"):
        return
    if x.has("-N"):
        x.add("endless", why="an ssh tunnel in the foreground")
    else:
        x.add("interactive", why="ssh without a command is a session")


def follow(x: Context) -> None:
    """Programs that go on for ever with certain options."""
    name = x.name
    if not x.waits or x.has("--version", "--help"):
        return
    ends = any(
        d.name in ("head", "timeout")
        or (d.name == "grep" and any(re.match(r"-\w*[qm]", a) for a in d.argv))
        or (d.name == "sed" and any(re.search(r"q$", a) for a in d.argv))
        for d in x.downstream
    )
    if ends:
        return
    why = ""
    if name == "tail":
        if (x.has("-F", "--follow") or any(re.match(r"-\d*[a-zA-Z]*[fF]", a) for a in x.argv[1:])) and not x.has(
            "--pid"
        ):
            why = "tail -f"
    elif name == "journalctl" or name == "dmesg":
        if x.has("-f", "--follow", "-w", "--follow-new"):
            why = f"{name} follows"
    elif name == "yes":
        if not x.command.piped_out:
            why = "yes into nothing"
    elif name in ("vmstat", "iostat", "mpstat", "sar", "dstat", "pidstat"):
        numbers = [w for w in x.operands("p") if w.isdigit()]
        if len(numbers) == 1 or (name == "dstat" and not numbers):
            why = f"{name} without a count"
    elif name == "tcpdump":
        if not x.has("-c", "-r", "-D", "-G"):
            why = "tcpdump without a count"
    elif name == "inotifywait":
        if x.has("-m", "--monitor"):
            why = "inotifywait -m"
    elif name in ("fswatch", "entr", "watchexec", "nodemon", "ptw", "guard"):
        if not (name == "fswatch" and x.has("-1", "--one-event")):
            why = f"{name} watches"
    elif name == "celery":
        if "worker" in x.argv or "beat" in x.argv:
            why = "a worker in the foreground"
            if x.has("--detach", "-D"):
                return
    elif name == "cargo":
        if x.argv[1:2] == ["watch"]:
            why = "cargo watch"
    elif name == "cat":
        if x.argv[1:2] and x.argv[1] in ("/dev/zero", "/dev/urandom", "/dev/random") and not x.command.piped_out:
            why = "an endless device"
    elif name == "supabase" or name == "dbt":
        return
    if why:
        x.add("endless", path_words(x.operands("nc")) if name == "tail" else (), why=why)


READERS: dict[str, Reader] = {
    "kill": kill,
    **dict.fromkeys(("pkill", "killall", "fuser", "kill-port", "taskkill", "killall5"), by_name),
    "sleep": sleep,
    **dict.fromkeys(("vim", "nano", "pico", "emacs", "joe", "mcedit", "micro", "helix", "hx", "kak", "ne"), editor),
    **dict.fromkeys(("top", "htop", "btop", "atop", "man", "info", "mc", "tig", "lazygit", "k9s", "ncdu", "fzf", "iotop", "nvtop", "glances", "ranger",
                     "nnn", "mutt", "irssi", "visudo", "vipw", "crontab", "mysql_secure_installation", "gh", "gcloud", "aws", "heroku", "raspi-config",
                     "certbot_", "nmtui", "alsamixer", "gitui"), screenful),
    **dict.fromkeys(("passwd", "ssh-keygen", "adduser", "terraform", "tofu", "gpg", "dpkg-reconfigure", "kubectl", "sftp", "ftp", "lftp", "gdb", "lldb",
                     "read", "bc", "su", "sudo", "whiptail", "dialog"), asks),
    "ssh": ssh,
    **dict.fromkeys(("journalctl", "dmesg", "yes", "vmstat", "iostat", "mpstat", "sar", "dstat", "pidstat", "tcpdump", "inotifywait", "fswatch",
                     "entr", "watchexec", "ptw", "celery"), follow),
}  # fmt: skip
ALSO: dict[str, Reader] = {"tail": follow, "cat": follow, "cargo": follow}
"""Read besides what the program does otherwise."""
