"""What runs in the Linux of its own: sandboxes held by cgroups of version 2, as root and by a user's delegated group."""

from __future__ import annotations

import ctypes
import json
import os
import sys
import traceback
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")


def probe() -> dict[str, object]:
    """What a sandbox is held by, and whether it is."""
    from misstep.sandbox import Limits, cgroups, native, owner, roots
    from misstep.sandbox.bubblewrap import BubblewrapSandbox

    (
        native.tools.cache_clear(),
        native.user_namespace.cache_clear(),
        cgroups.places.cache_clear(),
        roots.host.cache_clear(),
    )
    with BubblewrapSandbox(roots.host(), limits=Limits(memory_mb=64, processes=20, cpus=0.25)) as box:
        eater = box.exec(["/usr/bin/python3", "-c", "x = bytearray(300 << 20); print(len(x))"], timeout=60)
        forks = box.exec(["/bin/sh", "-c", "for i in $(seq 60); do sleep 5 & done"], timeout=60)
        lives = len(box.processes())
        busy = box.exec("(while :; do :; done) & sleep 3; kill %1; wait", timeout=60)
        seen: dict[str, object] = {
            "places": [(str(place.path), place.version, sorted(place.controllers)) for place in cgroups.places()],
            "enforced": box.enforced,
            "eater": [eater.exit_code, box.memory_kills],
            "forks": forks.error_text[-200:],
            "lives": lives,
            "cpu": busy.cpu_seconds / busy.seconds,
        }
    place = cgroups.places()[0].path
    left = place / f"{2**22 + 1}-dead.s1"  # of a process that cannot be
    left.mkdir()
    owner.collect(Path(os.environ["MISSTEP_SANDBOX_DIR"]))
    seen["left"] = [path.name for path in place.iterdir() if path.is_dir()]
    return seen


def as_user(uid: int) -> dict[str, object]:
    """In a group that was given to a user, as systemd gives one to each who logs in."""
    group = CGROUPS / "user"
    (group / "app").mkdir(parents=True)
    (CGROUPS / "cgroup.subtree_control").write_text("+memory +pids +cpu")
    for path in (group, group / "app"):
        os.chown(path, uid, uid)
        for name in ("cgroup.procs", "cgroup.subtree_control", "cgroup.threads"):
            os.chown(path / name, uid, uid)
    folder = Path("/mnt/user")
    folder.mkdir()
    os.chown(folder, uid, uid)
    answer, write = os.pipe()
    child = os.fork()
    if not child:
        (group / "app" / "cgroup.procs").write_text(str(os.getpid()))
        os.environ["MISSTEP_SANDBOX_DIR"] = os.environ["HOME"] = str(folder)
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        try:
            said = probe()
        except BaseException:
            said = {"error": traceback.format_exc()}
        os.write(write, json.dumps(said).encode())
        os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    return json.loads(os.read(answer, 1 << 16))


def main() -> None:
    said: dict[str, object] = {"kernel": os.uname().release}
    try:
        module = os.open(sys.argv[1], os.O_RDONLY)
        number = {"x86_64": 313, "aarch64": 273}[os.uname().machine]
        ctypes.CDLL(None).syscall(number, module, b"", 0)  # finit_module
        os.environ["MISSTEP_SANDBOX_DIR"] = "/mnt/root"
        said["root"] = probe()
        said["user"] = as_user(4711)
    except BaseException:
        said["error"] = traceback.format_exc()
    print("\nRESULT " + json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
