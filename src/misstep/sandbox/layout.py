"""How a sandbox is laid out: the words for the launcher's mounts and for bubblewrap."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from misstep.sandbox.base import Bind, SandboxError
from misstep.sandbox.files import own_directory

_CAPABILITIES = (
    "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP", "SETFCAP", "NET_BIND_SERVICE",
    "SYS_CHROOT", "SYS_PTRACE",
)  # fmt: skip
"""Docker's, less MKNOD, NET_RAW and AUDIT_WRITE; SYS_PTRACE is init's alone, which takes it from what it starts."""


def mounts(base: Path, folder: Path, layers: Sequence[Path], disk_mb: int | None) -> list[str]:
    """The launcher's words that lay a writable layer over others, at folder/root.

    Args:
        base: where the launcher runs: names of layers below it are shortened, since all of them share one page.
        layers: lowest first.
        disk_mb: how much may be written, held in memory; None: on disk, as much as there is.
    """
    gone = next((path for path in layers if not path.is_dir()), None)
    if gone is not None:
        raise SandboxError(f"the sandbox did not start: there is no layer {gone}")
    words = ["--mounts"]
    (folder / "root").mkdir()
    writable = folder
    if disk_mb is not None:
        writable = folder / "t"
        own_directory(writable)
        words += ["--tmpfs", str(writable), f"size={disk_mb}m,mode=0755"]
    else:
        own_directory(folder / "upper")
        own_directory(folder / "work")

    def short(path: Path) -> str:
        text = str(path.relative_to(base)) if path.is_relative_to(base) else str(path)
        return text.replace("\\", "\\\\").replace(":", "\\:").replace(",", "\\,")

    lower = ":".join(short(path) for path in reversed(layers))
    options = f"lowerdir={lower},upperdir={short(writable / 'upper')},workdir={short(writable / 'work')}"
    if len(options) > 4000:
        raise SandboxError(f"the sandbox did not start: too many layers ({len(layers)})")
    return [*words, "--overlay", str(folder / "root"), options]


def isolation(merged: Path, binds: Sequence[Bind], workdir: str, rules: int, *, network: bool) -> list[str]:
    """bubblewrap's words: namespaces, capabilities, what is shown, and the filter (an open descriptor).

    There is no --die-with-parent: that "parent" is the thread that starts it, and may end long before this process. Init
    watches the process itself.
    """
    words = [
        "--unshare-pid",
        "--as-pid-1",
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-cgroup",
        "--hostname",
        "sandbox",
    ]
    if not network:
        words.append("--unshare-net")
    words += ["--cap-drop", "ALL"]
    for name in _CAPABILITIES:
        words += ["--cap-add", f"CAP_{name}"]
    words += ["--clearenv", "--bind", str(merged), "/", "--proc", "/proc", "--dev", "/dev"]
    if network:
        words += ["--ro-bind-try", "/etc/resolv.conf", "/etc/resolv.conf"]
    for bind in binds:
        words += ["--ro-bind" if bind.read_only else "--bind", str(bind.source), bind.target]
    if workdir != "/":
        words += ["--dir", workdir]
    return [*words, "--add-seccomp-fd", str(rules)]
