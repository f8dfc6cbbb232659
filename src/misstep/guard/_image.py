"""A warm start for hooks: what they import, compiled and in one file.

A hook is a new process for every step of an agent. Finding and reading some forty modules, and compiling the regular
expressions in them, takes it three times as long as all the rest. So the modules' code and the expressions' programs are
kept in one file of the guard's home, and taken from there as long as no source has changed since. The file is made by the
hooks themselves: one that had to look further adds what it found. It is derived, may be deleted, and nothing depends on it.
"""

from __future__ import annotations

import marshal
import posix
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

LEARN = 80
"""Times that an image is extended; so what is new in every process does not make every process write."""
MOST = 4000
"""Expressions in an image."""


class Image:
    """Code of modules and programs of expressions, in this process and on disk."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.modules: dict[str, tuple[bool, str, int, int]] = {}
        """Name -> (is a package, source file, where its marshalled code begins and ends)."""
        self.stamps: dict[str, tuple[int, int]] = {}
        """Source file -> (time of change in ns, size)."""
        self.patterns: dict[tuple[Any, int], tuple[int, int]] = {}
        """(expression, flags) -> where the marshalled arguments of _sre.compile begin and end."""
        self.records = (0, 0)
        """Where the marshalled code of records' constructors begins and ends."""
        self.writes = 0
        self._fd = self._start = -1
        self.new_patterns: dict[tuple[Any, int], bytes] = {}

    # -- on disk -----------------------------------------------------------------------------------------------------

    def load(self) -> bool:
        """Read the file, if it is ours and fits this interpreter and the sources as they are."""
        try:
            fd = posix.open(self.path, posix.O_RDONLY | posix.O_CLOEXEC | posix.O_NOFOLLOW)
        except OSError:
            return False
        try:
            about = posix.fstat(fd)
            if about.st_uid != posix.geteuid() or about.st_mode & 0o022:
                raise ValueError("not ours")
            size = int.from_bytes(posix.pread(fd, 8, 0), "big")
            tag, modules, stamps, patterns, records, writes = marshal.loads(posix.pread(fd, size, 8))
            if tag != (*_tag(), about.st_size - 8 - size):
                raise ValueError("of another interpreter, or not whole")
            for path, stamp in stamps.items():
                now = posix.stat(path)
                if (now.st_mtime_ns, now.st_size) != stamp:
                    raise ValueError("older than a source")
        except (OSError, ValueError, EOFError, TypeError, MemoryError, OverflowError):
            posix.close(fd)
            return False
        self.modules, self.stamps, self.patterns = modules, stamps, patterns
        self.records, self.writes = records, writes
        self._fd, self._start = fd, 8 + size
        return True

    def part(self, start: int, end: int) -> bytes:
        """Bytes of the file. They are read when they are needed: to touch memory is what a new process pays most for."""
        return posix.pread(self._fd, end - start, self._start + start)

    def learn(self) -> None:
        """Write the file anew if this process needed more than was in it. Errors are left alone."""
        # Who lists the catalogue (pkgutil) does what hooks do once, not what they do always.
        if self.writes >= LEARN or "pkgutil" in sys.modules:
            return
        found = {
            name: module for name, module in list(sys.modules.items()) if name not in self.modules and _source(module)
        }
        if not found and not self.new_patterns:
            return
        try:
            parts: dict[Any, bytes] = {k: self.part(a, b) for k, (a, b) in self.patterns.items()}
            parts.update(self.new_patterns)
            while len(parts) > MOST:
                del parts[next(iter(parts))]
            modules = {n: (p, s, self.part(a, b)) for n, (p, s, a, b) in self.modules.items()}
            for name, module in found.items():
                self._add(modules, name, module)
            records = marshal.dumps(getattr(sys.modules.get("misstep._record"), "CODE", {}))
            self._write(modules, parts, records)
        except (OSError, ValueError, TypeError, AttributeError):
            pass

    def _add(self, modules: dict[str, tuple[bool, str, bytes]], name: str, module: ModuleType) -> None:
        source = _source(module)
        about = posix.stat(source)
        # without docstrings: they are a third of it, and nobody reads them here
        code = compile(module.__spec__.loader.get_data(source), source, "exec", dont_inherit=True, optimize=2)  # type: ignore[union-attr]
        modules[name] = (hasattr(module, "__path__"), source, marshal.dumps(code))
        self.stamps[source] = (about.st_mtime_ns, about.st_size)

    def _write(self, modules: dict[str, tuple[bool, str, bytes]], parts: dict[Any, bytes], records: bytes) -> None:
        body: list[bytes] = [records]
        end = len(records)

        def place(data: bytes) -> tuple[int, int]:
            nonlocal end
            body.append(data)
            end += len(data)
            return end - len(data), end

        places = {n: (p, s, *place(d)) for n, (p, s, d) in modules.items()}
        patterns = {k: place(d) for k, d in parts.items()}
        head = marshal.dumps(((*_tag(), end), places, self.stamps, patterns, (0, len(records)), self.writes + 1))
        data = b"".join([len(head).to_bytes(8, "big"), head, *body])
        made = f"{self.path}.{posix.getpid()}"
        fd = posix.open(made, posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_CLOEXEC | posix.O_NOFOLLOW, 0o600)
        done = False
        try:
            try:
                done = posix.write(fd, data) == len(data)
            finally:
                posix.close(fd)
            if done:
                posix.rename(made, self.path)
        except OSError:
            done = False
        if not done:
            posix.unlink(made)

    # -- in this process -----------------------------------------------------------------------------------------------

    def use(self) -> None:
        """Let imports and `re` look here first."""
        sys.meta_path.insert(0, self)
        if "re" not in sys.modules:
            sys.modules["re"] = _Expressions(self)
        if self.records[1]:
            from misstep import _record

            code = getattr(_record, "CODE", None)
            if code is not None:
                code.update(marshal.loads(self.part(*self.records)))

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Of the import system: where a module comes from."""
        kept = self.modules.get(name)
        if kept is None:
            return None
        import _frozen_importlib

        package, source, start, end = kept
        loader: Any = _Loader(self, start, end, package)
        spec: Any = _frozen_importlib.ModuleSpec(name, loader, origin=source, is_package=package)
        spec._set_fileattr = True
        if package:
            spec.submodule_search_locations.append(source.rpartition("/")[0])
        return spec


class _Loader:
    """Runs the code of a module from the image."""

    def __init__(self, image: Image, start: int, end: int, package: bool) -> None:
        self.image, self.start, self.end, self.package = image, start, end, package

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        try:
            code = marshal.loads(self.image.part(self.start, self.end))
        except (OSError, ValueError, EOFError, TypeError):
            posix.unlink(self.image.path)  # damaged: the next process makes it anew
            with open(str(module.__file__), "rb") as source:
                code = compile(source.read(), str(module.__file__), "exec", dont_inherit=True)
        exec(code, module.__dict__)

    def is_package(self, name: str) -> bool:
        return self.package


class _Expressions(type(sys)):  # type: ignore[misc]
    """`re` with the programs of known expressions at hand. What it does not have, the real `re` does."""

    TEMPLATE, IGNORECASE, LOCALE, MULTILINE, DOTALL, UNICODE, VERBOSE, ASCII = 1, 2, 4, 8, 16, 32, 64, 256
    T, I, L, M, S, U, X, A = TEMPLATE, IGNORECASE, LOCALE, MULTILINE, DOTALL, UNICODE, VERBOSE, ASCII  # noqa: E741
    NOFLAG = 0

    def __init__(self, image: Image) -> None:
        super().__init__("re")
        self._image = image
        self._known: dict[tuple[Any, int], Any] = {}
        self._whole: Any = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._real(), name)

    def _real(self) -> Any:
        if self._whole is None:
            ours = sys.modules.pop("re", None)
            try:
                import re as whole
            finally:
                if ours is not None:
                    sys.modules["re"] = ours  # who imports it later is to come here, too
            self._whole = whole
        return self._whole

    def compile(self, pattern: Any, flags: int = 0) -> Any:
        key = (pattern, int(flags))
        try:
            found = self._known.get(key)
        except TypeError:
            return self._real().compile(pattern, flags)
        if found is None:
            if not isinstance(pattern, (str, bytes)):
                return pattern if not flags else self._real().compile(pattern, flags)
            kept = self._image.patterns.get(key)
            if kept is not None:
                import _sre  # type: ignore[import-not-found]

                try:
                    found = _sre.compile(*marshal.loads(self._image.part(*kept)))
                except (ValueError, EOFError, TypeError, RuntimeError):
                    found = None
            if found is None:
                found = self._compiled(key)
            self._known[key] = found
        return found

    def _compiled(self, key: tuple[Any, int]) -> Any:
        """Compile with the real `re`, and keep the program."""
        whole = self._real()
        compiler = sys.modules.get("re._compiler") or sys.modules.get("sre_compile")
        real = getattr(compiler, "_sre", None)
        if compiler is None or real is None:
            return whole.compile(*key)
        recorder = _Recorder(real)
        compiler._sre = recorder  # type: ignore[attr-defined]
        try:
            found = compiler.compile(*key)  # not from the cache of `re`
        finally:
            compiler._sre = real  # type: ignore[attr-defined]
        if recorder.program is not None:
            self._image.new_patterns[key] = recorder.program
        return found

    def search(self, pattern: Any, string: Any, flags: int = 0) -> Any:
        return self.compile(pattern, flags).search(string)

    def match(self, pattern: Any, string: Any, flags: int = 0) -> Any:
        return self.compile(pattern, flags).match(string)

    def fullmatch(self, pattern: Any, string: Any, flags: int = 0) -> Any:
        return self.compile(pattern, flags).fullmatch(string)

    def split(self, pattern: Any, string: Any, maxsplit: int = 0, flags: int = 0) -> Any:
        return self.compile(pattern, flags).split(string, maxsplit)

    def findall(self, pattern: Any, string: Any, flags: int = 0) -> Any:
        return self.compile(pattern, flags).findall(string)

    def finditer(self, pattern: Any, string: Any, flags: int = 0) -> Any:
        return self.compile(pattern, flags).finditer(string)

    def sub(self, pattern: Any, repl: Any, string: Any, count: int = 0, flags: int = 0) -> Any:
        return self.compile(pattern, flags).sub(repl, string, count)

    def subn(self, pattern: Any, repl: Any, string: Any, count: int = 0, flags: int = 0) -> Any:
        return self.compile(pattern, flags).subn(repl, string, count)

    def escape(self, pattern: Any) -> Any:
        if isinstance(pattern, str):
            return "".join(["\\" + c if c in _SPECIAL else c for c in pattern])
        return self._real().escape(pattern)


_SPECIAL = frozenset("()[]{}?*+-|^$\\.&~# \t\n\r\v\f")


class _Recorder:
    """Stands for `_sre` while the real `re` compiles, to see the program."""

    def __init__(self, real: Any) -> None:
        self.real = real
        self.program: bytes | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def compile(self, pattern: Any, flags: Any, code: Any, groups: Any, names: Any, order: Any) -> Any:
        try:
            plain = (pattern, int(flags), [int(word) for word in code], int(groups), dict(names), tuple(order))
            self.program = marshal.dumps(plain)
        except (ValueError, TypeError):
            self.program = None
        return self.real.compile(pattern, flags, code, groups, names, order)


def _source(module: Any) -> str:
    """The file that a module was read from, '' where there is none that could change."""
    path = getattr(module, "__file__", None)
    loader = getattr(getattr(module, "__spec__", None), "loader", None)
    return path if isinstance(path, str) and path.endswith(".py") and hasattr(loader, "get_data") else ""


def _tag() -> tuple[Any, ...]:
    import _sre

    return (3, sys.hexversion, sys.implementation.cache_tag, _sre.MAGIC, _sre.CODESIZE, sys.prefix)


def start(folder: str) -> Image:
    """Put the image of a folder to use, empty where there is none that fits."""
    image = Image(f"{folder}/image-{sys.implementation.cache_tag}")
    image.load()
    image.use()
    return image
