"""The system call filter of a sandbox: a classic BPF program, made here so that no library is needed.

Everything is allowed but what reaches beyond the sandbox or widens the kernel's surface: mounts, new namespaces,
kernel modules and keys, tracing of processes that are running already, raw devices, and sockets of other families than
unix, inet, inet6 and netlink. What a C library tries first and can do without (`clone3`, `io_uring`) fails with ENOSYS,
so that it falls back; the rest fails with EPERM.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Mapping

_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_LOAD, _JEQ, _JSET, _JGE, _AND, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x54, 0x06
_NR, _ARCH, _ARGS = 0, 4, 16

# name: (x86_64, aarch64); None where the architecture lacks the call
_NUMBERS: dict[str, tuple[int | None, int | None]] = {
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "setns": (308, 268),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "init_module": (175, 105),
    "delete_module": (176, 106),
    "finit_module": (313, 273),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "syslog": (103, 116),
    "vhangup": (153, 58),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "lookup_dcookie": (212, 18),
    "fanotify_init": (300, 262),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
}
_ABSENT = {
    "clone3": (435, 435),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
}
_SPECIAL = {
    "clone": (56, 220),
    "unshare": (272, 97),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "sched_setaffinity": (203, 122),
    "ptrace": (101, 117),
    "ioctl": (16, 29),
    "mknod": (133, None),
    "mknodat": (259, 33),
}

_NEW_NAMESPACES = 0x7E020080
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET and NEWTIME."""
_FAMILIES = (1, 2, 10, 16)  # unix, inet, inet6, netlink
_ATTACHES = (16, 0x4206)  # PTRACE_ATTACH, PTRACE_SEIZE
_INJECTS = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX: typing into a terminal
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}


def supported() -> bool:
    """Whether the filter knows this machine's system call numbers."""
    return platform.machine() in _MACHINES


def program(machine: str | None = None, *, pinned: bool = False) -> bytes:
    """The filter as an array of `struct sock_filter`, as `bwrap --add-seccomp-fd` reads it.

    Args:
        pinned: nothing may choose other cores than it was given.

    Raises:
        ValueError: for a machine whose system call numbers are not known.
    """
    machine = machine or platform.machine()
    if machine not in _MACHINES:
        raise ValueError(f"no system call filter for {machine}: {', '.join(_MACHINES)} are known")
    column, arch = _MACHINES[machine]
    code: list[tuple[int, int, int, int]] = []

    def put(operation: int, value: int, if_true: int = 0, if_false: int = 0) -> None:
        code.append((operation, if_true, if_false, value))

    def fail(number: int) -> None:
        put(_RETURN, _ERRNO | number)

    def on(name: str, table: Mapping[str, tuple[int | None, int | None]], length: int) -> bool:
        """Skips the next `length` instructions unless the call is `name`."""
        number = table[name][column]
        if number is None:
            return False
        put(_JEQ, number, 0, length)
        return True

    put(_LOAD, _ARCH)
    put(_JEQ, arch, 1, 0)
    fail(errno.ENOSYS)  # another architecture's calls (32-bit programs) would go round the filter
    put(_LOAD, _NR)
    if machine == "x86_64":
        put(_JGE, 0x40000000, 0, 1)  # the x32 calls
        fail(errno.ENOSYS)
    for name in _ABSENT:
        if on(name, _ABSENT, 1):
            fail(errno.ENOSYS)
    for name in _NUMBERS:
        if on(name, _NUMBERS, 1):
            fail(errno.EPERM)
    if pinned and on("sched_setaffinity", _SPECIAL, 1):
        fail(errno.EPERM)
    for name, argument in (("clone", 0), ("unshare", 0)):
        on(name, _SPECIAL, 4)
        put(_LOAD, _ARGS + 8 * argument)
        put(_JSET, _NEW_NAMESPACES, 0, 1)
        fail(errno.EPERM)
        put(_RETURN, _ALLOW)
    for name in ("socket", "socketpair"):
        on(name, _SPECIAL, 3 + len(_FAMILIES))
        put(_LOAD, _ARGS)
        for i, family in enumerate(_FAMILIES):
            put(_JEQ, family, len(_FAMILIES) - i, 0)
        fail(errno.EAFNOSUPPORT)
        put(_RETURN, _ALLOW)
    for name, argument, values in (("ptrace", 0, _ATTACHES), ("ioctl", 1, _INJECTS)):
        on(name, _SPECIAL, 3 + len(values))
        put(_LOAD, _ARGS + 8 * argument)
        for i, value in enumerate(values):
            put(_JEQ, value, len(values) - i, 0)
        put(_RETURN, _ALLOW)
        fail(errno.EPERM)
    for name, argument in (("mknod", 1), ("mknodat", 2)):
        if on(name, _SPECIAL, 6):
            put(_LOAD, _ARGS + 8 * argument)
            put(_AND, 0o170000)
            put(_JEQ, 0o020000, 2, 0)  # character devices
            put(_JEQ, 0o060000, 1, 0)  # block devices
            put(_RETURN, _ALLOW)
            fail(errno.EPERM)
    put(_RETURN, _ALLOW)
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)
