"""Everything that a sandbox must refuse. The probes are small Python programs that run inside as root and as a user."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest

from misstep.sandbox import SandboxError
from misstep.sandbox.bubblewrap import BubblewrapSandbox

PROBES = {
    "kill PID 1": """
        os.kill(1, 9); time.sleep(0.05); os.kill(1, 15); time.sleep(0.05)
        print("refused" if os.path.exists("/proc/1") else "gone")
    """,
    "trace PID 1": "call('ptrace', 16, 1, 0, 0)",
    "seize PID 1": "call('ptrace', 0x4206, 1, 0, 0)",
    "read the memory of PID 1": "open('/proc/1/mem', 'rb').read(1)",
    "read the environment of PID 1": "print(open('/proc/1/environ', 'rb').read())",
    "follow the root of PID 1": "print(os.listdir('/proc/1/root'))",
    "open the program of PID 1": "open('/proc/1/exe', 'r+b')",
    "open what PID 1 has open": "[os.open(f'/proc/1/fd/{n}', os.O_RDONLY) for n in os.listdir('/proc/1/fd')]",
    "read another process's memory": """
        other = os.fork()
        if not other:
            time.sleep(0.3)
            os._exit(0)
        call('process_vm_readv', other, 0, 0, 0, 0, 0)
    """,
    "remount the root writable": "call('mount', b'none', b'/usr', 0, 32 | 4096, 0)",
    "mount a tmpfs": "call('mount', b'tmpfs', b'/mnt', b'tmpfs', 0, 0)",
    "unmount": "call('umount2', b'/proc', 2)",
    "open a file system": "call('fsopen', b'tmpfs', 0)",
    "clone a mount": "call('open_tree', -100, b'/', 1)",
    "change the root": "call('pivot_root', b'/', b'/mnt')",
    "make a device": "os.mknod('/tmp/vda', 0o60600, os.makedev(254, 0)); open('/tmp/vda', 'rb').read(1)",
    "make a character device": "os.mknod('/tmp/kmsg', 0o20600, os.makedev(1, 11)); open('/tmp/kmsg', 'rb').read(1)",
    "open by handle": "call('open_by_handle_at', -100, b'\\0' * 32, 0)",
    "name a handle": "call('name_to_handle_at', -100, b'/', b'\\0' * 256, b'\\0' * 8, 0)",
    "a nested user namespace": "call('unshare', 0x10000000)",
    "a nested mount namespace": "call('unshare', 0x20000)",
    "clone into a user namespace": "call('clone', 0x10000000 | 17, 0, 0, 0, 0)",
    "clone3": "call('clone3', b'\\0' * 88, 88)",
    "join a namespace": "fd = os.open('/proc/self/ns/net', os.O_RDONLY); call('setns', fd, 0)",
    "the network": "socket.create_connection(('192.0.2.1', 80), 1)",
    "a name on the network": "print(socket.getaddrinfo('example.org', 80))",
    "the host's loopback": "socket.create_connection(('127.0.0.1', int(sys.argv[1])), 1)",
    "the host's abstract sockets": "socket.socket(socket.AF_UNIX).connect('\\0' + sys.argv[2])",
    "a virtual machine": "open('/dev/kvm', 'r+b')",
    "the kernel's log": "open('/dev/kmsg', 'rb').read(1)",
    "AF_VSOCK": "socket.socket(40, socket.SOCK_STREAM)",
    "AF_PACKET": "socket.socket(17, socket.SOCK_RAW)",
    "AF_ALG": "socket.socket(38, socket.SOCK_SEQPACKET)",
    "raw sockets": "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
    "the kernel's keys": "call('keyctl', 0, -3, 0)",
    "bpf": "call('bpf', 0, b'\\0' * 64, 64)",
    "performance events": "call('perf_event_open', b'\\0' * 128, 0, -1, -1, 0)",
    "userfaultfd": "call('userfaultfd', 0)",
    "io_uring": "call('io_uring_setup', 1, b'\\0' * 128)",
    "load a module": "call('finit_module', 0, b'', 0)",
    "set the clock": "time.clock_settime(time.CLOCK_REALTIME, 0)",
    "set a kernel parameter": "open('/proc/sys/kernel/hostname', 'w').write('x')",
    "write to sysrq": "open('/proc/sysrq-trigger', 'w').write('h')",
    "raise a limit": "resource.setrlimit(resource.RLIMIT_CORE, (1 << 30, 1 << 30))",
    "nice below zero": "os.nice(-5)",
    "write into /usr": "open('/usr/bin/planted', 'w')",
    "read the host's passwords": "print(open('/etc/shadow').read())",
    "a file of the host": "print(open(sys.argv[3]).read())",
    "a setuid program": "os.setresuid(1000, 1000, 1000); os.execv('/bin/su', ['su', '-c', 'true', 'root'])",
}

_FRAME = """
import ctypes, errno, os, resource, socket, sys, time
NUMBERS = {numbers}
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *values):
    given = [ctypes.c_long(v) if isinstance(v, int) else ctypes.create_string_buffer(v, max(len(v) + 1, 256)) for v in values]
    if libc.syscall(ctypes.c_long(NUMBERS[name]), *given) >= 0:
        if name == 'clone' and not os.getppid(): os._exit(0)
        print("ALLOWED")
    else:
        raise OSError(ctypes.get_errno(), name)
try:
{body}
except (OSError, ValueError) as error:
    print("refused:", error)
"""


def program(body: str) -> str:
    from misstep.sandbox import seccomp

    column = seccomp._MACHINES[os.uname().machine][0]
    numbers = {name: row[column] for name, row in {**seccomp._NUMBERS, **seccomp._ABSENT, **seccomp._SPECIAL}.items()}
    return _FRAME.format(numbers=numbers, body=textwrap.indent(textwrap.dedent(body).strip(), "    "))


@pytest.fixture(scope="module")
def listeners() -> object:
    """What a sandbox could reach if it shared the host's network."""
    import socket

    with socket.socket() as tcp, socket.socket(socket.AF_UNIX) as unix:
        tcp.bind(("127.0.0.1", 0))
        tcp.listen()
        name = f"misstep-probe-{os.getpid()}"
        unix.bind("\0" + name)
        unix.listen()
        yield [str(tcp.getsockname()[1]), name]


def probe(box: BubblewrapSandbox, user: str, arguments: list[str]) -> dict[str, str]:
    """What the probes that were not refused said."""
    allowed = {}
    for name, body in PROBES.items():
        done = box.exec(["/usr/bin/python3", "-I", "-c", program(body), *arguments], user=user, timeout=20)
        shown = (done.text + done.error_text).strip()
        if not any(
            word in shown for word in ("refused", "Authentication failure", "Permission denied", "immediate abort")
        ):
            allowed[name] = shown
    return allowed


@pytest.mark.parametrize("user", ["root", "agent"])
def test_probes_are_refused(make, listeners, tmp_path_factory, user) -> None:  # type: ignore[no-untyped-def]
    """One sandbox for all probes of a user: a probe that breaks it fails the rest, loudly."""
    from misstep.sandbox import native

    if user != "root" and native.user_namespace().kind == "single":
        pytest.skip("only root can run commands in a single-user namespace (no /etc/subuid entry)")
    secret = tmp_path_factory.mktemp("secret") / "token"
    secret.write_text("do not read")
    box = make()
    assert probe(box, user, [*listeners, str(secret)]) == {}
    assert box.exec("echo alive").text == "alive\n"
    assert not Path("/usr/bin/planted").exists()


def test_the_probes_can_succeed(listeners, tmp_path) -> None:  # type: ignore[no-untyped-def]
    """Outside, what needs no privilege succeeds: a probe that always fails would prove nothing."""
    secret = tmp_path / "token"
    secret.write_text("do not read")
    open_outside = (
        "the host's loopback",
        "the host's abstract sockets",
        "a file of the host",
        "read another process's memory",
    )
    for name in open_outside:
        run = subprocess.run(
            [sys.executable, "-I", "-c", program(PROBES[name]), *listeners, str(secret)], capture_output=True, text=True
        )
        assert "refused" not in run.stdout or "Bad address" in run.stdout, (name, run.stdout, run.stderr)


def test_init_survives_killing_everything(box: BubblewrapSandbox) -> None:
    done = box.exec("kill -9 -1; echo still here")
    assert done.exit_code in (0, 137)
    assert box.exec("echo alive").text == "alive\n"


def test_capabilities_are_dockers_or_fewer(box: BubblewrapSandbox) -> None:
    dockers = {0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31}
    shown = dict(
        line.split(":\t") for line in box.exec("grep -E '^(Cap|NoNew|Seccomp:)' /proc/self/status").text.splitlines()
    )
    for name in ("CapPrm", "CapEff", "CapBnd"):
        held = {bit for bit in range(64) if int(shown[name], 16) >> bit & 1}
        assert held and held <= dockers - {13, 27, 29}, name
    assert shown["NoNewPrivs"] == "1"
    assert shown["Seccomp"] == "2"


def test_no_descriptor_of_ours_reaches_a_command(box: BubblewrapSandbox) -> None:
    assert box.exec("ls /proc/self/fd").text.split() == ["0", "1", "2", "3"]  # 3: ls reads the directory
    with box.shell() as shell:
        assert shell.run("ls /proc/self/fd").output.split() == ["0", "1", "2", "3"]


def test_root_inside_is_nobody_outside(box: BubblewrapSandbox) -> None:
    """As root here, the sandbox's root is a user that owns nothing on this machine."""
    box.exec("touch /tmp/mine")
    folder = box._folder
    assert folder is not None
    owner = (folder / "upper" / "tmp" / "mine").stat().st_uid
    assert owner != 0
    assert owner == (os.geteuid() or owner)


class TestTransfers:
    def test_a_link_inside_does_not_lead_an_upload_outside(self, box: BubblewrapSandbox, tmp_path: Path) -> None:
        victim = tmp_path / "victim"
        victim.mkdir()
        victim.chmod(0o777)
        box.exec(["ln", "-s", str(victim), "/app/out"])
        source = tmp_path / "source"
        source.mkdir()
        (source / "planted").write_text("x")
        with contextlib.suppress(SandboxError):
            box.upload(source, "/app/out")
        assert list(victim.iterdir()) == []

    def test_a_link_in_a_download_is_not_followed_out(self, box: BubblewrapSandbox, tmp_path: Path) -> None:
        victim = tmp_path / "victim"
        victim.write_text("precious")
        box.exec(
            f"mkdir -p /app/d && ln -s {victim} /app/d/link && ln -s / /app/d/up && echo ok > /app/d/file && mkfifo /app/d/pipe"
        )
        box.download("/app/d", tmp_path / "got")
        got = tmp_path / "got"
        assert (got / "file").read_text() == "ok\n"
        assert not (got / "link").exists() or not (got / "link").samefile(victim)
        assert not (got / "up").is_symlink()
        assert victim.read_text() == "precious"

    def test_a_download_does_not_write_through_a_link(self, box: BubblewrapSandbox, tmp_path: Path) -> None:
        """The classic: a member that is a link, then a member below it."""
        victim = tmp_path / "victim"
        victim.mkdir()
        script = (
            "import tarfile, io, sys\nt = tarfile.open('/tmp/evil.tar', 'w')\n"
            f"i = tarfile.TarInfo('x'); i.type = tarfile.SYMTYPE; i.linkname = {str(victim)!r}; t.addfile(i)\n"
            "i = tarfile.TarInfo('x/planted'); i.size = 1; t.addfile(i, io.BytesIO(b'x'))\n"
            "i = tarfile.TarInfo('../planted'); i.size = 1; t.addfile(i, io.BytesIO(b'x'))\nt.close()"
        )
        box.exec(["/usr/bin/python3", "-c", script])
        box.exec(
            "mkdir -p /tmp/bin && printf '#!/bin/sh\\nexec cat /tmp/evil.tar\\n' > /tmp/bin/tar && chmod +x /tmp/bin/tar"
        )
        box.env["PATH"] = "/tmp/bin:/usr/bin:/bin"  # the sandbox answers with a tar of its own making
        box.exec("mkdir /app/e")
        with contextlib.suppress(SandboxError):
            box.download("/app/e", tmp_path / "got")
        assert list(victim.iterdir()) == []
        assert not (tmp_path / "planted").exists()


def _as_user(uid: int, arguments: list[str], folder: str) -> dict[str, object]:
    """In a process of its own that has become an ordinary user: the probes, and what such a user can have."""
    from misstep.sandbox import Limits, native, roots

    os.environ["MISSTEP_SANDBOX_DIR"], os.environ["HOME"] = folder, folder
    native.tools.cache_clear(), native.user_namespace.cache_clear(), roots.host.cache_clear()
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    problem = native.problem()
    if problem:
        return {"skip": problem}
    with BubblewrapSandbox(roots.host(), limits=Limits(processes=64, disk_mb=16, file_mb=64)) as box:
        allowed = probe(box, "root", arguments)
        seen = box.exec("id -u; echo x > /app/x; rm -rf /srv; setsid sleep 4747 & sleep 0.05").text
        stays = [process.command for process in box.end_session()]
        bomb = box.exec(["/bin/sh", "-c", "for i in $(seq 200); do sleep 5 & done"], timeout=20).error_text
        kind, enforced = native.user_namespace().kind, dict(box.enforced)
        state = box.snapshot()
    (again,) = state.branch()
    kept = again.exec("cat /app/x; ls -d /srv").text
    again.stop()
    state.discard()
    return {
        "allowed": allowed,
        "seen": seen,
        "stays": stays,
        "bomb": bomb,
        "kind": kind,
        "enforced": enforced,
        "kept": kept,
    }


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_as_an_ordinary_user(root, listeners) -> None:  # type: ignore[no-untyped-def]
    if os.geteuid() != 0:
        pytest.skip("these tests run as an ordinary user already")
    with tempfile.TemporaryDirectory(dir="/tmp") as folder, tempfile.TemporaryFile() as answer:
        secret = Path(folder, "token")
        secret.write_text("do not read")
        os.chown(folder, 4711, 4711)
        child = os.fork()
        if not child:
            try:
                said: dict[str, object] = _as_user(4711, [*listeners, str(secret)], folder)
            except BaseException as error:
                said = {"error": repr(error)}
            os.write(answer.fileno(), json.dumps(said).encode())
            os._exit(0)
        os.waitpid(child, 0)
        answer.seek(0)
        seen = json.loads(answer.read())
    if "skip" in seen:
        pytest.skip(f"as an ordinary user: {seen['skip']}")
    assert seen.pop("kind") in ("single", "subordinate")
    assert "annot fork" in seen["bomb"] or "Resource temporarily" in seen["bomb"], seen
    assert seen["enforced"]["processes"] in ("rlimit", "cgroup")
    assert (seen["allowed"], seen["seen"], seen["stays"], seen["kept"]) == ({}, "0\n", ["sleep 4747"], "x\n"), seen
