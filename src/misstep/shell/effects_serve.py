"""Effects on services: what starts one, what talks to one.

A server is told by a recognised launcher, by an explicit listen, host or port flag, or by a script
whose name says that it serves. Every other Python or Node script is just a program.
"""

from __future__ import annotations

import re

from .context import DETACHING, Context, Reader, is_shell, streams
from .effects_files import is_local, url_of
from .server_tables import (
    ALWAYS,
    DAEMON_FLAGS,
    DAEMONS,
    DETACHED_VERBS,
    HOST_FLAGS,
    INFO_FLAGS,
    LISTEN_FLAGS,
    NOT_A_LISTENER,
    NOT_A_SERVER,
    SCRIPT_VERBS,
    SERVER_MODULES,
    SERVER_NAME,
    VERBS,
)


def session_of(x: Context, daemon: bool) -> str:
    """Does it outlive the shell that started it? See `Effect`."""
    c = x.command
    if any(w in ("ssh", "vagrant ssh", "gcloud ssh", "fly ssh", "kubectl exec") for w in c.wrappers):
        return "unknown"
    if daemon or any(w in DETACHING for w in c.wrappers):
        return "yes"
    if "nohup" in c.wrappers or "disown" in c.wrappers:
        return "hangup-proof only"
    return "unknown" if c.remote else "no"


def serve(x: Context, daemon: bool = False, launcher: str = "", port: str | None = None) -> None:
    """Notes a start of a service."""
    c = x.command
    own = session_of(x, daemon)
    apart = daemon or any(
        w in DETACHING and w not in ("setsid", "daemonize", "start-stop-daemon -b") for w in c.wrappers
    )
    x.add(
        "serve",
        background=c.background or daemon,
        own_session=own,
        redirected=apart or all(streams(c)),
        launcher=launcher or x.name,
        port=port if port is not None else port_of(x),
        bounded=x.wrapped("timeout", "gtimeout"),
    )


def port_of(x: Context) -> str:
    """The port as written, '' where none is."""
    for flag in ("--port", "-p", "--http-port", "-port", "--bind", "-b", "--listen", "--http", "-addr", "--addr"):
        value = x.value(flag)
        if value:
            m = re.search(r"(\$\{?\w+\}?|\d{2,5})$", value)
            if m:
                return m.group(1)
    for a in x.argv[1:]:
        m = re.fullmatch(r"(?:[\w.\[\]:*-]*:)?(\d{2,5})", a)
        if m:
            return m.group(1)
    return ""


def asks_only(x: Context) -> bool:
    """It prints its version or help, or checks its configuration."""
    return (len(x.argv) > 1 and x.argv[1] in INFO_FLAGS) or x.has("--version", "--help")


def launcher(x: Context) -> None:
    """The programs of ALWAYS."""
    name = x.name
    if asks_only(x):
        return
    if name in ("nginx", "httpd", "apache2", "sshd", "haproxy", "named") and x.has(
        "-t", "-T", "-c" if name == "haproxy" else "-t"
    ):
        return
    if name == "haproxy" and not x.has("-f"):
        return
    if name in ("nginx", "httpd", "apache2") and x.value("-s", "-k") in (
        "stop",
        "quit",
        "reload",
        "reopen",
        "graceful",
        "graceful-stop",
    ):
        return
    if name == "redis-server" and x.has("--test-memory", "--check-system"):
        return
    if name == "streamlit" and x.argv[1:2] != ["run"]:
        return
    if name in ("dovecot", "postfix") and x.argv[1:2] not in ([], ["start"]):
        return
    if name == "postgres" and x.has("--single", "--check", "-C", "--describe-config"):
        return
    if name in ("mysqld", "mariadbd") and any(a.startswith("--initialize") or a == "--validate-config" for a in x.argv):
        return
    if name == "vncserver" and x.has("-kill", "-list"):
        return
    daemon = False
    if name in DAEMONS:
        keeps = DAEMONS[name]
        text = " ".join(x.argv[1:])
        daemon = not any(k in text if " " in k else k in x.argv for k in keeps)
        if name == "uwsgi":
            daemon = any(a.startswith("--daemonize") for a in x.argv)
        if name == "nginx" and "daemon off" in text:
            daemon = False
    elif name in DAEMON_FLAGS:
        daemon = any(a in DAEMON_FLAGS[name] or a.partition("=")[0] in DAEMON_FLAGS[name] for a in x.argv[1:])
    elif name in ("redis-server", "valkey-server", "keydb-server"):
        daemon = (x.value("--daemonize") or "").lower() == "yes"
    serve(x, daemon)


def by_verb(x: Context) -> None:
    """Programs that serve with certain verbs only."""
    words = x.operands(
        "DlocfCenmpA" if x.name in ("pg_ctl", "celery", "flask", "apachectl", "supervisorctl") else "",
        ("--app", "--config", "--cwd", "--prefix"),
    )
    verbs = VERBS[x.name]
    verb = words[0] if words else ""
    if asks_only(x):
        return
    if verb in verbs and (verb or "" in verbs):
        daemon = (x.name, verb) in DETACHED_VERBS or (x.name in DAEMON_FLAGS and x.has(*DAEMON_FLAGS[x.name]))
        serve(x, daemon, launcher=f"{x.name} {verb}".strip())
    elif x.name == "webpack" and verb == "" and x.has("--watch", "-w") and x.waits:
        x.add("endless", why="webpack watches")


def vite(x: Context) -> None:
    words = x.operands("cmldf", ("--port", "--host", "--config", "--mode", "--base"))
    if (not words or words[0] in ("dev", "serve", "preview") or "/" in words[0]) and not asks_only(x):
        serve(x)


def static(x: Context) -> None:
    """`npx serve DIR`, `parcel`, `nc -l`, `socat TCP-LISTEN`, `iperf3 -s`, `openssl s_server`, `php -S`, qemu ..."""
    name = x.name
    if name == "serve" and (
        x.wrapped("npx", "bunx", "pnpm dlx", "yarn dlx", "npm exec") or x.value("-l", "-p", "--listen") is not None
    ):
        serve(x)
    elif name in ("nc", "ncat", "netcat"):
        if x.has("-l", "--listen"):
            serve(x)
        else:
            words = x.operands("wpsXxioIqcegG")
            if words:
                x.add("probe", target=":".join(words[-2:]), local=is_local("//" + words[0]))
    elif name == "socat":
        text = " ".join(x.argv[1:])
        if re.search(r"LISTEN|RECV", text, re.I):
            serve(x, port=(re.search(r"LISTEN:(\d+)", text, re.I) or [None, ""])[1])
        elif x.argv[1:]:
            x.add("probe", target=x.argv[-1], local=True)
    elif name == "iperf3" or name == "iperf":
        if x.has("-s", "--server"):
            serve(x, x.has("-D", "--daemon"))
        else:
            x.add("probe", target=x.value("-c") or "", local=is_local("//" + (x.value("-c") or "")))
    elif name == "parcel":
        if x.argv[1:2] != ["build"] and not asks_only(x):
            serve(x)
    elif name == "openssl":
        if x.argv[1:2] == ["s_server"]:
            serve(x)
        elif x.argv[1:2] == ["s_client"]:
            target = x.value("-connect") or ""
            x.add("probe", target=target, local=is_local("//" + target))
        elif (
            x.argv[1:2] == ["req"]
            and x.has("-new", "-x509", "-newkey")
            and not x.has("-subj", "-batch", "-config")
            and not x.fed
            and x.waits
        ):
            x.add("interactive", why="openssl req asks for the subject")
    elif name.startswith("qemu-system"):
        if not asks_only(x) and "-machine" not in x.argv[1:2] and len(x.argv) > 1:
            serve(
                x,
                "-daemonize" in x.argv,
                launcher=name,
                port=(re.search(r"hostfwd=\w+:[^:]*:(\d+)", " ".join(x.argv)) or [None, ""])[1],
            )
    elif name == "tensorboard":
        serve(x)


def package_script(x: Context) -> None:
    """npm, yarn, pnpm and bun: `start`, `run dev`, `serve` ..."""
    words = x.operands("CF", ("--prefix", "--cwd", "--filter", "--workspace", "--dir"))
    if not words:
        return
    verb = words[0]
    if verb in ("run", "run-script") and len(words) > 1:
        verb = words[1]
    elif x.name == "npm" and verb != "start":
        return
    if verb in SCRIPT_VERBS:
        serve(x, launcher=f"{x.name} {verb}")


def service(x: Context) -> None:
    """service, systemctl, rc-service, brew services, /etc/init.d scripts, docker."""
    name = x.name
    words = x.operands("nHMt")
    if name in ("service", "rc-service", "invoke-rc.d"):
        if len(words) > 1 and words[1] in ("start", "restart", "reload", "force-reload"):
            serve(x, True, launcher=f"{name} {words[0]}", port="")
        elif len(words) > 1 and words[1] == "status":
            x.add("probe", target=words[0], local=True)
    elif name == "systemctl":
        if (len(words) > 1 and words[0] in ("start", "restart", "reload-or-restart")) or (
            words[:1] == ["enable"] and x.has("--now")
        ):
            serve(x, True, launcher=f"systemctl {words[1] if len(words) > 1 else ''}", port="")
        elif len(words) > 1 and words[0] in ("status", "is-active"):
            x.add("probe", target=words[1], local=True)
    elif name == "brew":
        if words[:1] == ["services"] and len(words) > 2 and words[1] in ("start", "restart", "run"):
            serve(x, True, launcher=f"brew services {words[2]}", port="")
    elif name == "pg_ctlcluster" and ("start" in words or "restart" in words):
        serve(x, True, port="")


def docker(x: Context) -> None:
    """docker run -d, docker start, compose up; foreground `docker run` with a published port as well."""
    argv = x.argv
    words = x.operands("fpHc", ("--file", "--project-name", "--profile", "--env-file", "--context", "--host"))
    compose = (x.name != "docker" and x.name.endswith("-compose")) or words[:1] == ["compose"]
    if words[:1] == ["compose"]:
        words = words[1:]
    verb = words[0] if words else ""
    detached = any(
        a == "--detach" or re.fullmatch(r"-[a-zA-Z]*d[a-zA-Z]*", a) for a in argv if a[:2] != "--" or a == "--detach"
    )
    if compose:
        if verb in ("up", "start", "restart"):
            serve(x, detached or verb != "up", launcher="docker compose " + verb, port="")
        elif verb == "logs" and x.has("-f", "--follow") and x.waits:
            x.add("endless", why="follows a log")
    elif verb == "run":
        head = argv[
            : next(
                (k for k, a in enumerate(argv) if k > argv.index("run") and a[:1] != "-" and argv[k - 1][:1] != "-"),
                len(argv),
            )
        ]
        published = any(
            a in ("-p", "--publish", "-P", "--network=host") or re.match(r"-p\d|--publish=", a) for a in head
        )
        daemon = any(a == "--detach" or re.fullmatch(r"-[a-zA-Z]*d[a-zA-Z]*", a) for a in head)
        if published or daemon:
            serve(
                x,
                daemon,
                launcher="docker run",
                port=(re.search(r"(?:^| )(?:-p|--publish)[ =]?(?:[\d.]+:)?(\d+):", " ".join(argv)) or [None, ""])[1],
            )
    elif verb in ("start", "restart"):
        serve(x, True, launcher="docker " + verb, port="")
    elif verb == "logs" and x.has("-f", "--follow") and x.waits:
        x.add("endless", why="follows a log")


def looks_like_server(path: str) -> bool:
    """The name of a script says that it serves."""
    stem = path.rsplit("/", 1)[-1]
    return bool(SERVER_NAME.search(stem)) and not NOT_A_SERVER.search(stem)


def listens(x: Context, words: list[str], script: str) -> bool:
    """Explicit flags: --listen or --bind; a port, where the script's name does not speak against it."""
    leaf = script.rsplit("/", 1)[-1]
    if NOT_A_SERVER.search(leaf) or NOT_A_LISTENER.search(leaf):
        return False
    names = {w.partition("=")[0] for w in words}
    if not names.isdisjoint(LISTEN_FLAGS):
        return True
    return "--port" in names and (
        not names.isdisjoint(HOST_FLAGS) or not names & {"--url", "--server", "--target", "--data", "--epochs"}
    )


def program_serves(x: Context, script: str, words: list[str]) -> bool:
    """A script or program of the user's own; notes the start where it serves."""
    if any(w in ("--help", "-h", "--version", "stop", "status", "--check", "--test") for w in words):
        return False
    if looks_like_server(script) or listens(x, words, script):
        daemon = any(w in ("--daemon", "--daemonize", "--detach", "-daemonize") for w in words)
        serve(x, daemon, launcher=script)
        return True
    return False


def module_serves(x: Context, module: str, words: list[str]) -> bool:
    """`python -m MODULE`."""
    if any(w in ("--help", "-h", "--version") for w in words):
        return False
    if module in ("streamlit", "flask", "fastapi", "jupyter", "mlflow"):
        if not (words and words[0] in ("run", "dev", "notebook", "lab", "server", "ui")):
            return False
    elif not (
        SERVER_MODULES.search(module) or looks_like_server(module.replace(".", "_")) or listens(x, words, module)
    ):
        return False
    daemon = module == "gunicorn" and any(w in ("-D", "--daemon") for w in words)
    serve(x, daemon, launcher=f"python -m {module}")
    return True


# ------------------------------------------------------------------------------------------------- probes


def probe(x: Context) -> None:
    name = x.name
    words = x.operands({"ping": "cwWiIst", "telnet": "", "dig": "pbtk", "nmap": "pTo", "ss": "", "lsof": "pucdgs", "hey": "nczmqHd",
                        "wrk": "tcds", "ab": "nctpTHCv"}.get(name, ""))  # fmt: skip
    if name == "ss" or name == "netstat":
        if x.has("-l", "-t", "-a", "-u", "-n", "-p", "--listening") or not x.argv[1:]:
            x.add("probe", target=words[-1] if words else "", local=True)
    elif name == "lsof":
        target = next((a for a in x.argv[1:] if a.startswith("-i") or re.match(r"-[a-z]*i", a)), None)
        if target is not None:
            text = target.partition("i")[2] or x.value("-i") or ""
            x.add("probe", target=text, local=True)
    elif name == "ping":
        if words:
            x.add("probe", target=words[-1], local=is_local("//" + words[-1]))
            if not x.has("-c", "-w", "--count") and x.waits and not x.command.piped_out:
                x.add("endless", why="ping without a count")
    elif name == "telnet":
        if words:
            x.add("probe", target=":".join(words), local=is_local("//" + words[0]))
            if not x.fed and x.waits:
                x.add("interactive", why="telnet waits for input")
    elif name in ("pg_isready", "mysqladmin", "rabbitmqctl", "redis-benchmark"):
        if name != "mysqladmin" or "ping" in words or "status" in words:
            x.add("probe", target=name, local=(x.value("-h") or "localhost") in ("localhost", "127.0.0.1"))
    elif name in ("dig", "nslookup", "host"):
        server = next((w for w in words if w.startswith("@")), "")
        if server:
            x.add("probe", target=server[1:], local=is_local("//" + server[1:]))
    elif words or name in ("vncdotool", "xdotool"):
        target = url_of(words)
        x.add("probe", target=target, local=is_local(target) or is_local("//" + target))


READERS: dict[str, Reader] = {
    **dict.fromkeys(ALWAYS, launcher),
    **dict.fromkeys(VERBS, by_verb),
    **dict.fromkeys(("serve", "nc", "ncat", "netcat", "socat", "iperf3", "iperf", "parcel", "openssl", "tensorboard"), static),
    **dict.fromkeys(("service", "systemctl", "rc-service", "invoke-rc.d", "pg_ctlcluster", "brew"), service),
    **dict.fromkeys(("docker", "podman", "nerdctl", "docker-compose", "podman-compose"), docker),
    **dict.fromkeys(("ss", "netstat", "lsof", "ping", "telnet", "grpcurl", "websocat", "wscat", "nmap", "pg_isready", "mysqladmin", "swaks",
                     "dig", "nslookup", "host", "ab", "wrk", "hey", "k6", "siege", "oha", "evans", "vncdotool", "redis-benchmark", "mosquitto_pub",
                     "snmpget", "ldapsearch", "smbclient", "rpcinfo"), probe),
    "vite": vite,
}  # fmt: skip

__all__ = [
    "READERS",
    "is_shell",
    "looks_like_server",
    "module_serves",
    "package_script",
    "probe",
    "program_serves",
    "serve",
    "static",
]
