"""A task's Dockerfile without Docker: FROM, RUN, COPY, ADD of local files, WORKDIR, ENV, ARG and USER.

The base image cannot be pulled: FROM names a root that the caller gives. What the result is made of (the root, the
instructions, the files copied) names a layer that is kept, so the next start of the same task builds nothing.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
import shlex
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from misstep.sandbox import files, store
from misstep.sandbox.base import Limits, Root, SandboxError
from misstep.sandbox.bubblewrap import BubblewrapSandbox

BASE = "misstep-base"
"""The image name for which the given root stands, whatever its tag; others have to be named by the caller."""

_IGNORED = {"LABEL", "EXPOSE", "CMD", "ENTRYPOINT", "MAINTAINER", "STOPSIGNAL", "HEALTHCHECK", "VOLUME", "SHELL"}
_VARIABLE = re.compile(r"\\(.)|\$(?:\{(\w+)(?:(:[-+])([^}]*))?\}|(\w+))")
_HEREDOC = re.compile(r"<<-?\s*([\"']?)(\w+)\1")


@dataclass(frozen=True)
class Instruction:
    """One instruction and where it stands."""

    name: str
    rest: str
    line: int
    documents: tuple[str, ...] = ()
    """The bodies of its here-documents."""


def parse(text: str, name: str = "Dockerfile") -> list[Instruction]:
    """The instructions of a Dockerfile.

    Raises:
        SandboxError: naming the line that cannot be read.
    """
    lines, found, i = text.splitlines(), [], 0
    escape = "`" if re.match(r"\s*#\s*escape\s*=\s*`", text) else "\\"
    while i < len(lines):
        start, line = i + 1, lines[i].strip()
        i += 1
        if not line or line.startswith("#"):
            continue
        while line.endswith(escape) and i < len(lines):
            if lines[i].lstrip().startswith("#"):
                i += 1
                continue
            line = line[:-1] + " " + lines[i].strip()
            i += 1
        word, _, rest = line.partition(" ")
        if not word.isalpha():
            raise SandboxError(f"{name}:{start}: expected an instruction, found {line[:40]!r}")
        documents = []
        if word.upper() in ("RUN", "COPY", "ADD"):
            for mark in _HEREDOC.finditer(rest):
                body = []
                while i < len(lines) and lines[i].strip() != mark.group(2):
                    body.append(lines[i].lstrip("\t") if mark.group().startswith("<<-") else lines[i])
                    i += 1
                if i == len(lines):
                    raise SandboxError(f"{name}:{start}: the here-document {mark.group(2)} has no end")
                i += 1
                documents.append("".join(f"{one}\n" for one in body))
        found.append(Instruction(word.upper(), rest.strip(), start, tuple(documents)))
    return found


def expand(text: str, values: Mapping[str, str]) -> str:
    """Replaces $NAME, ${NAME}, ${NAME:-default} and ${NAME:+other}."""

    def put(match: re.Match[str]) -> str:
        if match.group(1) is not None:
            return match.group(1) if match.group(1) == "$" else match.group()
        name = match.group(2) or match.group(5)
        value = values.get(name, "")
        if match.group(3) == ":-":
            return value or match.group(4)
        if match.group(3) == ":+":
            return match.group(4) if value else ""
        return value

    return _VARIABLE.sub(put, text)


def _words(rest: str) -> list[str]:
    if rest.startswith("["):
        try:
            words = json.loads(rest)
            if isinstance(words, list) and all(isinstance(word, str) for word in words):
                return words
        except ValueError:
            pass
    return shlex.split(rest)


def _assignments(rest: str) -> dict[str, str]:
    first = rest.split(None, 1)
    if first and "=" not in first[0]:  # the old form: ENV NAME all the rest
        return {first[0]: first[1] if len(first) > 1 else ""}
    pairs = (word.partition("=") for word in shlex.split(rest))
    return {name: value for name, _, value in pairs}


@dataclass
class _Build:
    """What the instructions have come to."""

    root: Root
    context: Path
    file: str
    sandbox: BubblewrapSandbox | None
    env: dict[str, str]
    arguments: dict[str, str]
    workdir: str
    user: str | None

    def fail(self, instruction: Instruction, why: str) -> SandboxError:
        return SandboxError(f"{self.file}:{instruction.line}: {instruction.name} {why}")

    def values(self) -> dict[str, str]:
        return {**self.arguments, **self.env}


def _run(build: _Build, step: Instruction) -> None:
    assert build.sandbox is not None
    rest = step.rest
    while rest.startswith("--"):  # --mount and the like: caches of a builder
        rest = rest.partition(" ")[2].lstrip()
    if step.documents and re.fullmatch(_HEREDOC.pattern, rest):
        command: str | list[str] = step.documents[0]
    elif step.documents:
        body = "".join(
            f"{body}{mark.group(2)}\n" for mark, body in zip(_HEREDOC.finditer(rest), step.documents, strict=True)
        )
        command = f"{rest}\n{body}"
    else:
        command = _words(rest) if rest.startswith("[") else rest
    done = build.sandbox.exec(command, cwd=build.workdir, env=build.values(), user=build.user, timeout=1800, merge=True)
    if done.exit_code:
        said = [line for line in done.text.strip().splitlines() if line.strip()]
        raise build.fail(step, f"ended with {done.exit_code}: {said[-1][:300] if said else 'it said nothing'}")


def _sources(build: _Build, step: Instruction, names: list[str]) -> list[Path]:
    found: list[Path] = []
    for name in names:
        clean = posixpath.normpath(expand(name, build.values()).lstrip("/")) or "."
        if clean.startswith(".."):
            raise build.fail(step, f"{name} is outside of the build's directory")
        matches = sorted(build.context.glob(clean)) if any(c in clean for c in "*?[") else [build.context / clean]
        for path in matches:
            if not path.resolve().is_relative_to(build.context.resolve()):
                raise build.fail(step, f"{name} leads outside of the build's directory")
        if not matches or not all(path.exists() for path in matches):
            raise build.fail(step, f"{name} does not exist")
        found += matches
    return found


def _copy(build: _Build, step: Instruction) -> None:
    assert build.sandbox is not None
    options, rest = {}, step.rest
    while rest.startswith("--"):
        option, _, rest = rest.partition(" ")
        name, _, value = option[2:].partition("=")
        options[name], rest = value, rest.lstrip()
    if "from" in options:
        raise build.fail(step, "--from: only one stage is read")
    words = _words(rest)
    if len(words) < 2:
        raise build.fail(step, "needs a source and a target")
    *names, target = words
    if any(name.startswith(("http://", "https://", "git@")) for name in names):
        raise build.fail(step, "of an address: only files of the task can be added")
    target = expand(target, build.values())
    whole = posixpath.join(build.workdir, target)
    documents = [name for name in names if name.startswith("<<")]
    sources = _sources(build, step, [name for name in names if not name.startswith("<<")])
    into = target.endswith("/") or target in (".", "..") or len(sources) + len(documents) > 1
    with tempfile.TemporaryDirectory() as folder:
        stage = Path(folder, "stage")
        stage.mkdir()
        single = ""
        for source in sources:
            if source.is_dir():
                shutil.copytree(source, stage, symlinks=True, dirs_exist_ok=True)
            else:
                single = source.name
                shutil.copy2(source, stage / source.name)
        for name, body in zip(documents, step.documents, strict=True):
            single = name.lstrip("<-").strip("\"' ")
            (stage / single).write_text(body)
        alone = bool(single) and not into and len(list(stage.iterdir())) == 1
        if alone and build.sandbox.exec(["test", "-d", whole], cwd="/").exit_code == 0:
            alone = False
        if "chmod" in options:
            for path in stage.rglob("*"):
                path.chmod(int(options["chmod"], 8))
        copied = [posixpath.join(whole, path.name) for path in stage.iterdir()]
        if alone:
            build.sandbox.upload(stage / single, whole)
            copied = [whole]
        else:
            build.sandbox.upload(stage, whole)
    if options.get("chown"):
        done = build.sandbox.exec(["chown", "-R", options["chown"], *copied], cwd="/")
        if done.exit_code:
            raise build.fail(step, f"--chown={options['chown']}: {done.error_text.strip()[:200]}")


def _settings(build: _Build, step: Instruction) -> bool:
    """An instruction that only sets something; False for others."""
    if step.name == "ENV":
        build.env.update({name: expand(value, build.values()) for name, value in _assignments(step.rest).items()})
    elif step.name == "ARG":
        name, given, value = step.rest.partition("=")
        if name not in build.arguments:
            build.arguments[name] = (
                expand(shlex.split(value)[0] if value.strip("\"'") else "", build.values()) if given else ""
            )
    elif step.name == "USER":
        build.user = expand(step.rest, build.values()) or None
    elif step.name == "WORKDIR":
        build.workdir = posixpath.normpath(posixpath.join(build.workdir, expand(step.rest, build.values())))
        if build.sandbox is not None:
            build.sandbox.exec(["mkdir", "-p", build.workdir], cwd="/", user="root")
    else:
        return step.name in _IGNORED
    return True


def _key(root: Root, text: str, context: Path, arguments: Mapping[str, str], network: str) -> str:
    made = hashlib.sha256(json.dumps([list(map(str, root.layers)), root.name, text, dict(arguments), network]).encode())
    for path in sorted(context.rglob("*")):
        made.update(str(path.relative_to(context)).encode())
        if path.is_symlink():
            made.update(str(path.readlink()).encode())
        elif path.is_file():
            made.update(bytes([path.stat().st_mode >> 6 & 1]) + hashlib.sha256(path.read_bytes()).digest())
    return made.hexdigest()[:12]


def _chosen(build_steps: list[Instruction], file: str, root: Root, images: Mapping[str, Root] | None) -> Root:
    stages = [step for step in build_steps if step.name == "FROM"]
    if len(stages) != 1:
        where = f":{stages[1].line}" if stages else ""
        raise SandboxError(f"{file}{where}: expected one FROM, found {len(stages)}: only one stage is read")
    image = next(word for word in stages[0].rest.split() if not word.startswith("--"))
    if images and image in images:
        return images[image]
    if image.partition(":")[0] == BASE or image == "scratch" or images is None:
        return root
    raise SandboxError(f"{file}:{stages[0].line}: no root stands for the image {image}")


def build(
    file: Path,
    root: Root,
    *,
    images: Mapping[str, Root] | None = None,
    arguments: Mapping[str, str] | None = None,
    network: Literal["none", "host"] = "none",
    limits: Limits | None = None,
    force: bool = False,
) -> Root:
    """The root that a Dockerfile describes; kept, and found again while nothing that it is made of changes.

    Args:
        file: the Dockerfile; its directory is the context.
        root: stands for every image that `images` does not name; with `images` given, only for `misstep-base`.
        network: whether RUN may reach the network.
        force: build it even if it is kept.

    Raises:
        SandboxError: naming file and line.
    """
    try:
        text = file.read_text()
    except OSError as error:
        raise SandboxError(f"{file}: {error.strerror}") from error
    steps = parse(text, str(file))
    root = _chosen(steps, str(file), root, images)
    kept = store.directory() / "roots" / f"env-{_key(root, text, file.parent, arguments or {}, network)}"
    made = _Build(root, file.parent, str(file), None, dict(root.env), dict(arguments or {}), root.workdir, root.user)
    if force or not kept.exists():
        with BubblewrapSandbox(root, limits=limits or Limits(memory_mb=None), network=network) as sandbox:
            made.sandbox = sandbox
            for step in steps:
                if step.name == "RUN":
                    _run(made, step)
                elif step.name in ("COPY", "ADD"):
                    _copy(made, step)
                elif not _settings(made, step) and step.name != "FROM":
                    raise made.fail(step, "is not read here")
            state = sandbox.snapshot()
        store.sync(state.layers.own[-1])
        if force and kept.exists():
            files.remove(kept)
        try:
            state.layers.own[-1].rename(kept)
        except OSError:
            if not kept.exists():  # else another process was faster
                raise
        state.discard()
    else:
        for step in steps:
            _settings(made, step)
    return replace(
        root,
        name=f"{root.name}+{file.parent.parent.name or file.name}",
        layers=(*root.layers, kept),
        env=made.env,
        workdir=made.workdir,
        user=made.user,
    )
