"""Which options of a wrapper take a value, and how many words stand before the command."""

from __future__ import annotations

import re

SHELLS = frozenset(["bash", "sh", "zsh", "dash", "ksh", "ash", "mksh", "rbash"])


# name: (options with a value, long options with a value, words before the command)
PLAIN: dict[str, tuple[str, tuple[str, ...], int]] = {
    "sudo": ("ugphrtTCDRU", ("--user", "--group", "--prompt", "--host", "--chdir", "--role", "--type"), 0),
    "doas": ("uC", (), 0),
    "nohup": ("", (), 0),
    "setsid": ("", (), 0),
    "timeout": ("ks", ("--kill-after", "--signal"), 1),
    "gtimeout": ("ks", ("--kill-after", "--signal"), 1),
    "nice": ("n", ("--adjustment",), 0),
    "ionice": ("cnpPu", ("--class", "--classdata"), 0),
    "chrt": ("TPD", (), 1),
    "taskset": ("", (), 1),
    "numactl": ("NmC", ("--cpunodebind", "--membind", "--physcpubind"), 0),
    "stdbuf": ("ioe", ("--input", "--output", "--error"), 0),
    "unbuffer": ("", (), 0),
    "time": ("fo", ("--format", "--output"), 0),
    "chronic": ("", (), 0),
    "xvfb-run": ("efnpsw", ("--server-num", "--server-args", "--error-file", "--auth-file", "--wait"), 0),
    "dbus-run-session": ("", ("--config-file", "--dbus-daemon"), 0),
    "strace": ("aebIopPsSuUxX", (), 0),
    "ltrace": ("aelnopsuwx", (), 0),
    "valgrind": ("", (), 0),
    "catchsegv": ("", (), 0),
    "fakeroot": ("lsb", (), 0),
    "eatmydata": ("", (), 0),
    "faketime": ("f", (), 1),
    "chroot": ("", (), 1),
    "unshare": ("SGR", (), 0),
    "nsenter": ("tSGrw", ("--target",), 0),
    "prlimit": ("", (), 0),
    "setpriv": ("", ("--reuid", "--regid", "--groups"), 0),
    "gosu": ("", (), 1),
    "su-exec": ("", (), 1),
    "tini": ("pe", (), 0),
    "dumb-init": ("r", (), 0),
    "caffeinate": ("tw", (), 0),
    "sshpass": ("pfdP", (), 0),
    "rlwrap": ("", (), 0),
    "systemd-run": (
        "pEMutG",
        ("--unit", "--property", "--setenv", "--slice", "--uid", "--gid", "--working-directory"),
        0,
    ),
    "daemonize": ("aceuopl", (), 0),
    "busybox": ("", (), 0),
    "builtin": ("", (), 0),
    "winpty": ("", (), 0),
    "xcrun": ("", ("--sdk", "--toolchain"), 0),
    "uvx": ("pcw", ("--from", "--with", "--python", "--index-url", "--env-file", "--directory"), 0),
    "bunx": ("p", ("--package",), 0),
    "noglob": ("", (), 0),
    "nocorrect": ("", (), 0),
    "with-contenv": ("", (), 0),
}

UV_VALUES = ("--with", "--with-editable", "--with-requirements", "--python", "--extra", "--group", "--project",
             "--directory", "--env-file", "--package", "--no-group", "--only-group", "--index-url", "--color", "--index",
             "--config-file", "--cache-dir", "--isolated-from")  # fmt: skip
CONDA_VALUES = ("--name", "--prefix", "--cwd")
# program: {subcommand: (options with a value, long ones, words before the command)}
SUBCOMMAND: dict[str, dict[str, tuple[str, tuple[str, ...], int]]] = {
    "uv": {"run": ("pP", UV_VALUES, 0)},
    "rye": {"run": ("", (), 0)},
    "pipx": {"run": ("", ("--spec", "--python", "--pip-args", "--index-url"), 0)},
    "poetry": {"run": ("", (), 0)},
    "pipenv": {"run": ("", (), 0)},
    "pdm": {"run": ("p", ("--project", "--venv"), 0)},
    "hatch": {"run": ("", (), 0)},
    "pixi": {"run": ("e", ("--environment", "--manifest-path", "--feature"), 0)},
    "conda": {"run": ("np", CONDA_VALUES, 0)},
    "mamba": {"run": ("np", CONDA_VALUES, 0)},
    "micromamba": {"run": ("np", CONDA_VALUES, 0)},
    "bundle": {"exec": ("", (), 0)},
    "npm": {"exec": ("p", ("--package",), 0), "x": ("p", ("--package",), 0)},
    "pnpm": {"exec": ("", (), 0), "dlx": ("p", ("--package",), 0)},
    "yarn": {"exec": ("", (), 0), "dlx": ("p", ("--package",), 0)},
    "bun": {"x": ("p", (), 0)},
    "direnv": {"exec": ("", (), 1)},
    "asdf": {"exec": ("", (), 0)},
    "rbenv": {"exec": ("", (), 0)},
    "pyenv": {"exec": ("", (), 0)},
    "perf": {"stat": ("eorpI", (), 0), "record": ("eoFcp", (), 0)},
    "dotenv": {"run": ("f", (), 0)},
    "rustup": {"run": ("", (), 1)},
}

DOCKER_EXEC = ("uwe", ("--user", "--workdir", "--env", "--env-file", "--detach-keys"))
DOCKER_RUN = ("ueevwpmhalc", ("--user", "--env", "--env-file", "--volume", "--workdir", "--publish", "--name", "--network",
              "--net", "--entrypoint", "--mount", "--memory", "--cpus", "--hostname", "--label", "--gpus", "--platform",
              "--add-host", "--cap-add", "--cap-drop", "--security-opt", "--device", "--restart", "--shm-size", "--ulimit",
              "--tmpfs", "--ip", "--dns", "--log-driver", "--pull", "--cidfile", "--ipc", "--pid", "--userns", "--expose",
              "--volumes-from", "--network-alias", "--health-cmd", "--stop-signal", "--link", "--group-add"))  # fmt: skip
KUBECTL = ("ncfl", ("--namespace", "--container", "--context", "--kubeconfig", "--filename", "--cluster"))
TMUX_STARTS = frozenset(["new-session", "new", "new-window", "neww", "split-window", "splitw", "respawn-pane",
                         "respawnp", "respawn-window", "respawnw"])  # fmt: skip
KEYS = re.compile(
    r"(?:[CMS]-.|C-m|Enter|KPEnter|Escape|Up|Down|Left|Right|Tab|BTab|Space|BSpace|Home|End|PageUp|PageDown|F\d+)$"
)
