"""Root file systems: this machine's /usr for smoke use, an unpacked tar, and a Debian base that is built once."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from misstep.sandbox import native, store
from misstep.sandbox.base import Bind, Root, SandboxError, Unavailable
from misstep.sandbox.files import as_root_inside, remove

_FROM_ETC = [
    "alternatives",
    "bash.bashrc",
    "ca-certificates.conf",
    "debian_version",
    "default/locale",
    "fonts",
    "gai.conf",
    "host.conf",
    "inputrc",
    "java-17-openjdk",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "localtime",
    "magic",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "perl",
    "profile",
    "profile.d",
    "protocols",
    "python3",
    "python3.11",
    "python3.12",
    "python3.13",
    "rpc",
    "services",
    "shells",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "texmf",
    "timezone",
]
"""What programs read of /etc; none of it is secret."""
_VERSION = "2"  # of what this module makes: older ones are made again

PACKAGES = ("python3", "procps", "sqlite3", "xxd", "binutils")
"""What the Debian base has beside Debian's minimal system."""


def _once(name: str, make: Callable[[Path], None]) -> Path:
    """A directory that is made by one process and found by all others."""
    base = store.directory() / "roots"
    space = native.user_namespace()
    done = base / f"{name}-{space.kind}"
    if done.exists():
        return done
    with (base / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if done.exists():
            return done
        part = base / f"{name}.part"
        remove(part)
        part.mkdir()
        if os.geteuid() == 0:
            os.chown(part, space.outer_uid, space.outer_gid)
        part.chmod(0o755)
        make(part)
        store.sync(part)
        part.rename(done)
    return done


@functools.cache
def host() -> Root:
    """This machine's /usr, read-only, over a small tree of our own: /etc has what programs need and no secret.

    Nothing has to be built; but what a task sees depends on the machine, so it is for smoke runs and tests.
    """
    shown = [Bind(Path("/usr"), "/usr")]
    made = [_once(f"host-{_host_key()}", _lay_host)]
    return Root("host", tuple(made), tuple(shown))


def _host_key() -> str:
    parts = [_VERSION]
    for name in _FROM_ETC:
        with contextlib.suppress(OSError):
            seen = Path("/etc", name).stat()
            parts.append(f"{name}:{seen.st_mtime_ns}")
    return hashlib.sha256("|".join(parts).encode()).hexdigest()[:12]


def _lay_host(into: Path) -> None:
    folder = into / "stage"
    folder.mkdir()
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        at = Path("/", name)
        if at.is_symlink():
            (folder / name).symlink_to(at.readlink())
        elif at.is_dir():
            raise Unavailable(
                f"{at} is a directory of its own: the host's root needs a merged /usr; build a base instead"
            )
    for name in [
        "app",
        "dev",
        "etc",
        "home",
        "mnt",
        "opt",
        "proc",
        "root",
        "run",
        "srv",
        "sys",
        "tmp",
        "usr",
        "var/cache",
        "var/lib",
        "var/log",
        "var/tmp",
    ]:
        (folder / name).mkdir(parents=True)
    (folder / "root").chmod(0o700)
    for name in ("tmp", "var/tmp"):
        (folder / name).chmod(0o1777)
    (folder / "var/run").symlink_to("/run")
    (folder / "var/lock").symlink_to("/run/lock")
    (folder / "run/lock").mkdir()
    for name in _FROM_ETC:
        source, target = Path("/etc", name), folder / "etc" / name
        if not source.exists() and not source.is_symlink():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(OSError, shutil.Error):
            if source.is_dir():
                shutil.copytree(source, target, symlinks=True)
            else:
                shutil.copy2(source, target, follow_symlinks=name == "localtime")
    (folder / "etc/passwd").write_text(
        "root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
        "agent:x:1000:1000:agent:/home/agent:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
    )
    (folder / "etc/group").write_text("root:x:0:\ndaemon:x:1:\nagent:x:1000:\nnogroup:x:65534:\n")
    (folder / "etc/hosts").write_text("127.0.0.1 localhost sandbox\n::1 localhost\n")
    (folder / "etc/hostname").write_text("sandbox\n")
    (folder / "home/agent").mkdir()
    space = native.user_namespace()
    if os.geteuid() == 0:
        for path in [folder, *folder.rglob("*")]:
            os.chown(path, space.outer_uid, space.outer_gid, follow_symlinks=False)
        os.chown(folder / "home/agent", space.outer_uid + 1000, space.outer_gid + 1000)
    for path in list(folder.iterdir()):
        path.rename(into / path.name)
    folder.rmdir()


def from_tar(path: Path) -> Root:
    """The root in a tar; unpacked once, with the owners and modes that it names.

    Raises:
        SandboxError: it cannot be read.
    """
    if not path.is_file():
        raise SandboxError(f"{path} is no file")
    seen = path.stat()
    key = hashlib.sha256(f"{path.resolve()}|{seen.st_size}|{seen.st_mtime_ns}|{_VERSION}".encode()).hexdigest()[:12]

    def unpack(into: Path) -> None:
        with path.open("rb") as tar:
            words = ["tar", "-x", "-p", "--numeric-owner", "--exclude=./dev/*", "--exclude=dev/*"]
            words += ["-z"] if path.suffix in (".gz", ".tgz") else []
            # Owners that are not mapped (a single-user namespace) cannot be kept.
            words += ["--no-same-owner"] if native.user_namespace().kind == "single" else []
            run = as_root_inside([*words, "-C", str(into)], stdin=tar)
        if run.returncode:
            said = run.stderr.decode("utf-8", "replace").strip().splitlines()
            raise SandboxError(
                f"{path} could not be unpacked: {said[0] if said else f'tar ended with {run.returncode}'}"
            )

    layer = _once(f"tar-{key}", unpack)
    return Root(path.name, (layer,))


def base_tar(suite: str = "bookworm") -> Path:
    """Where the Debian base of that suite is kept once it is built."""
    return store.directory() / f"base-{suite}.tar"


def build_base(
    suite: str = "bookworm", *, packages: tuple[str, ...] = PACKAGES, say: Callable[[str], None] = print
) -> Path:
    """Builds the Debian base with mmdebstrap, or debootstrap where that is missing. About 80 s and 240 MB.

    Raises:
        Unavailable: neither is installed.
        SandboxError: the build failed.
    """
    if not re.fullmatch(r"[a-z][a-z0-9-]*", suite):
        raise SandboxError(f"{suite!r} is no name of a Debian release: expected one as bookworm or trixie")
    done = base_tar(suite)
    part = done.with_suffix(".part")
    if shutil.which("mmdebstrap"):
        mode = [] if os.geteuid() == 0 else ["--mode=unshare"]
        command = ["mmdebstrap", *mode, "--variant=minbase", f"--include={','.join(packages)}", suite, str(part)]
        say("misstep: building a Debian base with mmdebstrap (about 80 s) ...")
        run = subprocess.run([*command, "--format=tar"], capture_output=True, text=True)
    elif shutil.which("debootstrap") and os.geteuid() == 0:
        tree = done.with_suffix(".tree")
        say("misstep: building a Debian base with debootstrap (about 2 minutes) ...")
        words = ["debootstrap", "--variant=minbase", f"--include={','.join(packages)}", suite, str(tree)]
        run = subprocess.run(words, capture_output=True, text=True)
        if run.returncode == 0:
            run = subprocess.run(
                ["tar", "-c", "--numeric-owner", "-C", str(tree), "-f", str(part), "."], capture_output=True, text=True
            )
        remove(tree)
    else:
        raise Unavailable("a Debian base is built with mmdebstrap: apt-get install mmdebstrap")
    if run.returncode:
        part.unlink(missing_ok=True)
        told = [line.strip() for line in run.stderr.splitlines() if line.strip()]
        errors = [line for line in told if line.startswith("E:") and "failed to run" not in line] or told[-1:]
        raise SandboxError(f"the base could not be built: {errors[0] if errors else f'exit code {run.returncode}'}")
    part.replace(done)
    return done


def find(name: str) -> Root:
    """The root that a user names: `host`, `base` (the built Debian base), or the path of a tar or a directory.

    Raises:
        SandboxError: there is no such root.
    """
    if name == "host":
        return host()
    if name == "base":
        built = base_tar()
        if not built.exists():
            raise SandboxError("the Debian base is not built yet: misstep sandbox build")
        return from_tar(built)
    path = Path(name)
    if name and path.is_dir():
        return Root(path.name, (path.resolve(),))
    if path.is_file():
        return from_tar(path)
    raise SandboxError(f"{name or repr(name)} is no root: host, base, a tar, or a directory")
