"""The guard for a container that has no Python: one folder that brings everything, its interpreter's libc included.

    /opt/misstep/hook            what agents run: an sh script; the only thing that it needs of the container is sh
    /opt/misstep/bin/python3     this interpreter, started by its own dynamic loader with its own libraries
    /opt/misstep/lib/            the loader, the libraries, and of the standard library what hooks and policies import
    /opt/misstep/src/misstep/    the guard's sources: those that the lock hashes, nothing else
    /opt/misstep/policies/       policies of the user's own
    /opt/misstep/portfolio.json  the locked portfolio

The folder is made once for an interpreter, a guard and a portfolio, and found again by their hash. It is never written to
inside a container: what the guard learns and logs goes to STATE, a folder that Harbor brings back with the agent's logs.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import py_compile
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import misstep

VERSION = "2"
"""Of what this module makes: older folders are made again."""
PLACE = "/opt/misstep"
"""Where the folder stands in a container."""
STATE = "/logs/agent/misstep"
"""The guard's home in a container: it comes back with the trial's agent logs."""
UNUSED = 30 * 86400
"""Seconds after which a runtime that nobody asked for is removed."""
PACKAGE = Path(misstep.__file__).resolve().parent
PARTS = (
    "*.py",
    "guard/*.py",
    "guard/hosts/*.py",
    "shell/*.py",
    "trajectory/*.py",
    "trajectory/readers/*.py",
    "catalogue/*.py",
)
"""Of the package: all that a hook may import."""

SAFETY = (  # noqa: SIM905 (words are easier to read)
    "__future__ argparse ast base64 bisect calendar collections.abc configparser contextlib copy csv dataclasses datetime "
    "decimal difflib encodings.ascii encodings.cp437 encodings.idna encodings.latin_1 encodings.utf_16 encodings.utf_8 "
    "encodings.utf_8_sig enum fcntl fnmatch fractions functools glob hashlib heapq html html.parser importlib.util "
    "inspect io ipaddress itertools json logging math numbers operator os pathlib pkgutil pprint posixpath random re "
    "secrets select shlex shutil signal sqlite3 stat statistics string struct subprocess tempfile textwrap threading "
    "time token tokenize traceback types typing unicodedata unittest urllib.parse uuid warnings weakref zipimport zlib"
).split()
"""Modules of the standard library that policies of a user's own may want, beside all that hooks import themselves."""

_PROBE = """
import importlib, importlib.machinery, json, pkgutil, sys
for name in {safety!r}:
    try:
        importlib.import_module(name)
    except ImportError:
        pass
sys.path.insert(0, {src!r})
for name in {modules!r}:
    importlib.import_module(name)
found = []
for name, module in list(sys.modules.items()):
    found.append(getattr(module, "__file__", None))
    if getattr(getattr(module, "__spec__", None), "name", name) != name:  # a module that put another one in its own place (collections.abc)
        above = sys.modules.get(name.rpartition(".")[0])
        spec = importlib.machinery.PathFinder.find_spec(name, getattr(above, "__path__", None))
        found.append(spec.origin if spec is not None and spec.has_location else None)
print(json.dumps([path for path in found if path]))
"""
LIVES = "the guard lives here"
"""What `hook check` says in a container where it can run."""
_HOOK = f"""#!/bin/sh
# The guard of misstep: one hook call. It brings its own interpreter and libraries; nothing of the environment decides.
unset LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT MISSTEP_ARM MISSTEP_GUARD MISSTEP_PORTFOLIO MISSTEP_SCORED
MISSTEP_HOME={STATE}
export MISSTEP_HOME
python="{PLACE}/lib/{{loader}} {{flags}}--library-path {PLACE}/lib {PLACE}/bin/python3 -I -S"
[ "$1" = check ] && exec $python -c 'import sys; sys.path.append("{PLACE}/src"); import misstep.guard.run; print("{LIVES}")'
exec $python {{script}} "$@"
"""


class RuntimeFault(RuntimeError):
    """A runtime that cannot be made or does not start, in one line."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """A runtime's folder on this machine."""

    path: Path
    key: str
    lock: str
    """SHA-256 of its portfolio.json: what the guard writes into the head of every session's log."""
    portfolio: str
    """The key of the portfolio in it, as the guard writes it beside."""
    machine: str
    """The processor it is for, as `uname -m` says it."""


def command(host: str) -> str:
    """The command line of a hook. The same in every arm; a folder that is missing must not stop the agent."""
    return f"{PLACE}/hook {host} || :"


def settings(arm: str) -> str:
    """What `settings.json` in the guard's home says: the only thing that differs between arms."""
    return json.dumps({"mode": "enforce", "arm": arm, "portfolio": f"{PLACE}/portfolio.json", "scored": True})


def make(plain: Mapping[str, Any], cache: Path | None = None) -> Runtime:
    """The runtime for a portfolio, made where it is not there yet.

    Args:
        plain: the portfolio's plain form, or a lock of it (`guard.freeze`); modules of a user's own are absolute paths.
        cache: the folder that runtimes are kept in; `runtimes` in misstep's data folder unless given.

    Raises:
        RuntimeFault: not on Linux, a policy's file is missing, the interpreter cannot be copied or does not start.
    """
    if sys.platform != "linux":
        raise RuntimeFault("the guard's runtime for containers is made of Linux programs: run the panel on Linux")
    base = cache or _cache()
    wanted = _contents(plain)
    key = _key(wanted, plain)
    done = base / key
    if not (done / "done.json").is_file():
        base.mkdir(parents=True, exist_ok=True)
        with (base / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (done / "done.json").is_file():
                _build(base, done, wanted, plain)
                _clear(base)
    os.utime(done / "done.json")
    told = json.loads((done / "done.json").read_text(encoding="utf-8"))
    return Runtime(done, key, told["lock"], told["portfolio"], told["machine"])


def _clear(base: Path) -> None:
    """Remove runtimes that no run has asked for in a long time, and what was left half made."""
    for path in base.iterdir():
        mark = path / "done.json"
        with contextlib.suppress(OSError):
            if time.time() - (mark if mark.exists() else path).stat().st_mtime > UNUSED and path.is_dir():
                shutil.rmtree(path, ignore_errors=True)


def _cache() -> Path:
    named = os.environ.get("MISSTEP_RUNTIME_DIR")
    if named:
        return Path(named)
    from misstep.sandbox import store
    from misstep.sandbox.base import Unavailable

    try:
        return store.directory() / "runtimes"  # where a sandbox's root, who is nobody here, may read
    except Unavailable:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "misstep" / "runtimes"


def _interpreter() -> Path:
    return Path(os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable))


def _contents(plain: Mapping[str, Any]) -> dict[str, Path]:
    """Name in the folder -> file here, for what is ours and the user's."""
    found = {
        f"src/misstep/{path.relative_to(PACKAGE).as_posix()}": path
        for pattern in PARTS
        for path in sorted(PACKAGE.glob(pattern))
    }
    for module in _own_modules(plain):
        path = Path(module)
        if not path.is_file():
            raise RuntimeFault(f"{module}: a policy's file that is not there")
        found[_own_place(module)] = path
    return found


def _own_modules(plain: Mapping[str, Any]) -> list[str]:
    """Policies' files outside misstep, each once."""
    return sorted({str(rule["module"]) for rule in plain["rules"] if str(rule["module"]).endswith(".py")})


def _own_place(module: str) -> str:
    return f"policies/{hashlib.sha256(module.encode()).hexdigest()[:8]}-{Path(module).name}"


def _key(contents: Mapping[str, Path], plain: Mapping[str, Any]) -> str:
    made = hashlib.sha256()
    python = _interpreter()
    about = python.stat()
    made.update(f"{VERSION}|{sys.version}|{python}|{about.st_size}|{about.st_mtime_ns}|{platform.machine()}".encode())
    kept = {name: value for name, value in plain.items() if name != "stamp"}
    made.update(json.dumps(kept, sort_keys=True, default=str).encode())
    for name, path in sorted(contents.items()):
        made.update(f"|{name}|".encode() + hashlib.sha256(path.read_bytes()).digest())
    return made.hexdigest()[:20]


# -- making it -----------------------------------------------------------------------------------------------------------


def _build(base: Path, done: Path, contents: Mapping[str, Path], plain: Mapping[str, Any]) -> None:
    part = Path(tempfile.mkdtemp(prefix=".part-", dir=base))
    try:
        for name, source in contents.items():
            _copy(source, part / name)
        loader, flags = _copy_python(part)
        for folder in ("src", "policies"):
            _compile(part / folder)
        hook = part / "hook"
        script = f"{PLACE}/src/misstep/guard/hook.py"
        hook.write_text(_HOOK.format(loader=loader, flags=flags, script=script), encoding="utf-8")
        lock = _portfolio(part, plain)
        for path in [part, *part.rglob("*")]:
            program = path.is_dir() or path.parent.name == "bin" or path.name in ("hook", loader)
            path.chmod(0o755 if program else 0o644)
        _try(part, loader, flags)
        from misstep.guard.portfolio import from_plain

        inside = json.loads((part / "portfolio.json").read_text(encoding="utf-8"))
        told = {"lock": lock, "portfolio": from_plain(inside).key, "machine": platform.machine()}
        (part / "done.json").write_text(json.dumps(told), encoding="utf-8")
        (part / "done.json").chmod(0o644)
        part.rename(done)
    except OSError as error:
        raise RuntimeFault(f"the guard's runtime cannot be made: {error}") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _portfolio(part: Path, plain: Mapping[str, Any]) -> str:
    """Write the lock as it is inside, where a user's policies have other places; its SHA-256."""
    from misstep.guard import freeze

    rules = [
        {**rule, "module": f"{PLACE}/{_own_place(rule['module'])}"} if str(rule["module"]).endswith(".py") else rule
        for rule in plain["rules"]
    ]
    locked = freeze.lock({**plain, "rules": list(plain["rules"])})
    places = {module: f"{PLACE}/{_own_place(module)}" for module in _own_modules(plain)}
    locked["sources"] = {places.get(name, name): value for name, value in locked["sources"].items()}
    locked["rules"] = rules
    freeze.write_lock(part / "portfolio.json", locked)
    return hashlib.sha256((part / "portfolio.json").read_bytes()).hexdigest()


def _copy_python(part: Path) -> tuple[str, str]:
    """The interpreter, its libraries and its modules; the loader's name and what it is called with."""
    python = _interpreter()
    program = part / "bin" / "python3"
    _copy(python, program)
    interpreter = _loader_of(python)
    name = Path(interpreter).name
    _copy(Path(os.path.realpath(interpreter)), part / "lib" / name)
    musl = "musl" in name
    extensions = _copy_modules(part)
    for file in (python, *extensions):
        for library, source in _libraries(file, interpreter, musl):
            target = part / "lib" / library
            if not target.exists() and library != name:
                _copy(Path(os.path.realpath(source)), target)
    _strip([program, *(part / "lib").glob("lib*.so*")])
    return name, "" if musl else "--inhibit-cache "


def _copy_modules(part: Path) -> list[Path]:
    """Copy the standard library's modules that are wanted; those that are programs for the loader."""
    src = str(PACKAGE.parent)
    names = sorted(
        ".".join(("misstep", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
        for pattern in ("guard/hosts/*.py", "shell/*.py", "trajectory/*.py", "catalogue/*.py")
        for path in PACKAGE.glob(pattern)
        if path.name != "examples.py"
    )
    names += [f"misstep.guard.{n}" for n in ("run", "engine", "arms", "always", "freeze", "trust", "_client", "_image")]
    code = _PROBE.format(safety=SAFETY, src=src, modules=names)
    # -I: nothing of this environment's packages comes into it
    run = subprocess.run([str(_interpreter()), "-I", "-S", "-c", code], capture_output=True, text=True, check=False)
    if run.returncode:
        raise RuntimeFault(f"the guard cannot be imported by {_interpreter()}: {run.stderr.strip().splitlines()[-1:]}")
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    library = part / sys.platlibdir / version
    (library / "lib-dynload").mkdir(parents=True, exist_ok=True)
    extensions = []
    for text in json.loads(run.stdout):
        path = Path(text)
        if path.is_relative_to(PACKAGE):
            continue
        if path.suffix == ".so":
            if path.stem.startswith("_hashlib"):
                continue  # OpenSSL's: hashlib has its own of all that is wanted
            _copy(path, library / "lib-dynload" / path.name)
            extensions.append(path)
        else:
            _copy(path, library / _below_stdlib(path))
    # hashlib asks for all of them and complains of one that is missing
    for name in ("_md5", "_sha1", "_sha2", "_sha256", "_sha512", "_sha3", "_blake2", "binascii", "zlib"):
        for folder in {path.parent for path in extensions}:
            for path in folder.glob(f"{name}.*.so"):
                _copy(path, library / "lib-dynload" / path.name)
                extensions.append(path)
    # the landmark by which the interpreter finds its home
    _copy(Path(os.__file__), library / "os.py")
    _compile(library)
    return extensions


def _below_stdlib(path: Path) -> Path:
    import sysconfig

    for name in ("stdlib", "platstdlib"):
        folder = Path(os.path.realpath(sysconfig.get_path(name, vars=_BASE)))
        real = Path(os.path.realpath(path))
        if real.is_relative_to(folder):
            return real.relative_to(folder)
    raise RuntimeFault(f"{path} is no module of the standard library")


_BASE = {"base": sys.base_prefix, "platbase": sys.base_exec_prefix}


def _loader_of(program: Path) -> str:
    """The dynamic loader that a program names (ELF, PT_INTERP)."""
    data = program.read_bytes()[: 1 << 16]
    if data[:4] != b"\x7fELF" or data[4] != 2 or data[5] != 1:
        raise RuntimeFault(f"{program} is no 64-bit Linux program")
    table, size, count = (int.from_bytes(data[a:b], "little") for a, b in ((32, 40), (54, 56), (56, 58)))
    for number in range(count):
        entry = data[table + number * size :][:size]
        if int.from_bytes(entry[:4], "little") == 3:
            start, length = int.from_bytes(entry[8:16], "little"), int.from_bytes(entry[32:40], "little")
            return data[start : start + length].rstrip(b"\0").decode()
    raise RuntimeFault(f"{program} names no dynamic loader")


def _libraries(file: Path, loader: str, musl: bool) -> Iterable[tuple[str, str]]:
    """(name, path) of every shared library that a file needs, asked of the loader itself."""
    words = ["ldd", str(file)] if musl else [loader, "--list", str(file)]
    run = subprocess.run(words, executable=loader, capture_output=True, text=True, check=False)
    for line in run.stdout.splitlines():
        name, arrow, rest = line.strip().partition(" => ")
        path = rest.rpartition(" (0x")[0]
        if arrow and path.startswith("/"):
            yield Path(name).name, path
        elif arrow:
            raise RuntimeFault(f"{file}: its library {name} is not found")


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def _strip(files: Iterable[Path]) -> None:
    """Debugging symbols are most of an interpreter; without `strip` they stay."""
    strip = shutil.which("strip")
    for file in files if strip else ():
        subprocess.run([str(strip), "--strip-debug", str(file)], capture_output=True, check=False)


def _compile(folder: Path) -> None:
    """Compiled forms that hold whatever the files' times become on their way into a container."""
    for path in folder.rglob("*.py"):
        shown = f"{PLACE}/{path.name}"
        py_compile.compile(
            str(path), dfile=shown, doraise=True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
        )


def _try(part: Path, loader: str, flags: str) -> None:
    """Run it from where it was made: hashes, expressions, JSON and the guard itself have to be there."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import hashlib, json, re, misstep.guard.run, misstep.guard.freeze;"
        "from misstep.guard.portfolio import from_plain; from misstep.guard.engine import Engine;"
        "e = Engine(from_plain(json.load(open(sys.argv[2])))); assert not e.faults, e.faults; hashlib.sha256(b'').hexdigest();"
        "bad = [m.__file__ for m in list(sys.modules.values()) if getattr(m, '__file__', None) and not m.__file__.startswith(sys.argv[3])];"
        "assert not bad, bad"
    )
    own = json.loads((part / "portfolio.json").read_text(encoding="utf-8"))
    for rule in own["rules"]:
        rule["module"] = rule["module"].replace(f"{PLACE}/", f"{part}/")
    trial = part / "trial.json"
    trial.write_text(json.dumps(own), encoding="utf-8")
    words = [str(part / "lib" / loader), *flags.split(), "--library-path", str(part / "lib"), str(part / "bin/python3")]
    words += ["-I", "-S", "-c", code, str(part / "src"), str(trial), str(part)]
    run = subprocess.run(words, capture_output=True, text=True, env={"PATH": "/nowhere"}, check=False)
    trial.unlink()
    if run.returncode or run.stderr:
        last = (run.stderr.strip().splitlines() or [f"exit status {run.returncode}"])[-1]
        raise RuntimeFault(f"the guard's runtime does not start: {last}")
