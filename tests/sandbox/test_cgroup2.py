"""Cgroups of version 2: in a Linux of their own, and how each kind of machine is told from its files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from misstep.sandbox import Root, cgroups

HERE = Path(__file__).resolve().parent / "cgroup2"


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict:
    """What a Linux that has nothing but version 2 showed: the kernel as a program, on this machine's files."""
    program = shutil.which("linux.uml")
    modules = sorted(Path("/usr/lib/uml/modules").glob("*/kernel/fs/overlayfs/overlay.ko"))
    if not program or not modules:
        pytest.skip("no Linux as a program here: apt-get install user-mode-linux")
    folder = tmp_path_factory.mktemp("uml")
    command = [
        program, "mem=1000M", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", f"init={HERE / 'init.sh'}",
        f"MISSTEP_PYTHON={sys.executable}", f"MISSTEP_PROGRAM={HERE / 'inside.py'}", f"MISSTEP_MODULE={modules[-1]}",
        "con=null", "con0=null,fd:1", "quiet", f"umid=misstep{os.getpid()}", f"uml_dir={folder}/",
    ]  # fmt: skip
    env = {**os.environ, "TMPDIR": str(folder)}
    run = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=240, env=env, cwd=folder)
    lines = [line for line in run.stdout.splitlines() if line.startswith("RESULT ")]
    assert lines, run.stdout[-3000:] + run.stderr[-1000:]
    said = json.loads(lines[-1][7:])
    assert "error" not in said, said["error"]
    return said


@pytest.mark.slow
@pytest.mark.parametrize("who", ["root", "user"])
def test_a_kernel_with_version_2_alone(root: Root, seen: dict, who: str) -> None:
    """Memory, processes and CPU are held; a killed host's group is removed; the user's is the one given to them."""
    said = seen[who]
    assert "error" not in said, said["error"]
    where = {"root": "/sys/fs/cgroup/misstep", "user": "/sys/fs/cgroup/user/misstep"}[who]
    assert said["places"] == [[where, 2, ["cpu", "memory", "pids"]]]
    assert said["enforced"] == {"memory": "cgroup", "processes": "cgroup", "cpu": "cgroup"}
    assert said["eater"] == [137, 1]
    assert "annot fork" in said["forks"] or "Resource temporarily" in said["forks"]
    assert said["lives"] <= 20
    assert said["cpu"] < 0.4
    assert said["left"] == []


def unified(tmp_path: Path, own: str = "/user.slice/session.scope", offered: str = "cpuset cpu io memory pids") -> Path:
    """A directory that imitates the files of version 2 (the kernel's own makes them by itself: see above)."""
    mount = tmp_path / "cgroup"
    path = mount
    for part in ("", *own.strip("/").split("/")):
        path = path / part
        path.mkdir(exist_ok=True)
        (path / "cgroup.controllers").write_text(offered + "\n")
        (path / "cgroup.subtree_control").write_text("\n")
        (path / "cgroup.procs").write_text("")
    return mount


def test_the_files_of_version_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An imitation: which files are written, with what, before any process joins."""
    mount = unified(tmp_path)
    above = mount / "user.slice"
    original = Path.mkdir

    def kernel(path: Path, *args: object, **options: object) -> None:
        original(path, *args, **options)  # type: ignore[arg-type]
        if mount in path.parents:
            (path / "cgroup.procs").write_text("")

    monkeypatch.setattr(Path, "mkdir", kernel)
    monkeypatch.setattr(Path, "rmdir", shutil.rmtree)
    (place,) = cgroups.find_places(f"cgroup2 {mount} cgroup2 rw 0 0\n", "0::/user.slice/session.scope\n")
    assert (place.path, place.version) == (above / "misstep", 2)
    assert place.controllers == {"cpu", "memory", "pids"}
    assert (above / "cgroup.subtree_control").read_text() == "+cpu +memory +pids"
    monkeypatch.setattr(cgroups, "places", lambda: (place,))
    group = cgroups.open_group("1-a.s", cgroups.Wanted(64 << 20, 22, 0.5))
    assert group is not None and group.held == {"cpu", "memory", "pids"}
    path = place.path / "1-a.s"
    wrote = {file.name: file.read_text() for file in path.iterdir()}
    assert wrote == {
        "cgroup.procs": "", "memory.max": str(64 << 20), "memory.swap.max": "0", "pids.max": "22", "cpu.max": "50000 100000",
    }  # fmt: skip
    (path / "memory.events").write_text("low 0\noom 3\noom_kill 2\n")
    assert group.out_of_memory() == 2
    for fd in group.join_fds():
        os.write(fd, b"0")
        os.close(fd)
    assert (path / "cgroup.procs").read_text() == "0"
    group.remove()
    assert not path.exists()
    assert cgroups.open_group("1-a.s", cgroups.Wanted()) is None


def test_a_group_that_is_not_ours(tmp_path: Path) -> None:
    mount = unified(tmp_path)
    if os.geteuid() == 0:
        (mount / "user.slice" / "cgroup.subtree_control").unlink()
        (mount / "user.slice" / "cgroup.subtree_control").mkdir()  # even root cannot write there
        (mount / "cgroup.subtree_control").unlink()
        (mount / "cgroup.subtree_control").mkdir()
    else:
        mount.chmod(0o555), (mount / "user.slice").chmod(0o555)
    assert cgroups.find_places(f"cgroup2 {mount} cgroup2 rw 0 0\n", "0::/user.slice/session.scope\n") == ()


def test_both_versions_at_once(tmp_path: Path) -> None:
    """Hybrid, as here: what version 1 has is taken there, the rest from version 2, if it offers it."""
    memory, both = tmp_path / "memory", tmp_path / "cpu,cpuacct"
    memory.mkdir(), both.mkdir()
    empty = unified(tmp_path, offered="hugetlb")
    mounts = f"x {memory} cgroup rw,memory 0 0\nx {both} cgroup rw,cpu,cpuacct 0 0\ncgroup2 {empty} cgroup2 rw 0 0\n"
    own = "3:cpu,cpuacct:/\n2:memory:/\n0::/user.slice/session.scope\n"
    found = cgroups.find_places(mounts, own)
    assert [(p.path.parent.name, p.version, sorted(p.controllers)) for p in found] == [
        ("memory", 1, ["memory"]), ("cpu,cpuacct", 1, ["cpu"]),
    ]  # fmt: skip
