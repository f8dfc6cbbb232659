"""A task's Dockerfile without Docker: its stages become layers over roots that are given.

Images cannot be pulled: FROM names a root that the caller gives. What a stage is made of (its root, its instructions,
the files copied) names a layer that is kept, so the next start of the same task builds nothing.
"""

from __future__ import annotations

import hashlib
import json
import platform
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from misstep.sandbox import dockerfile, files, store
from misstep.sandbox.base import Limits, Root, SandboxError
from misstep.sandbox.bubblewrap import BubblewrapSandbox
from misstep.sandbox.copying import Context, copy
from misstep.sandbox.dockerfile import Dockerfile, Instruction, Stage

BASE = "misstep-base"
"""The image name for which the given root stands, whatever its tag; others have to be named by the caller."""

_IGNORED = {"LABEL", "EXPOSE", "CMD", "ENTRYPOINT", "MAINTAINER", "STOPSIGNAL", "HEALTHCHECK", "VOLUME"}
_MAKE = {"RUN", "COPY", "ADD", "WORKDIR"}
_SHELL = ("/bin/sh", "-c")


def _automatic() -> dict[str, str]:
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    one = {"PLATFORM": f"linux/{machine}", "OS": "linux", "ARCH": machine, "VARIANT": ""}
    return {f"{side}{name}": value for side in ("TARGET", "BUILD") for name, value in one.items()}


@dataclass
class _Made:
    """What the instructions of a stage have come to."""

    root: Root
    arguments: dict[str, str]
    shell: tuple[str, ...] = _SHELL

    def values(self) -> dict[str, str]:
        return {**self.arguments, **self.root.env}


class _Builder:
    def __init__(
        self,
        read: Dockerfile,
        root: Root,
        images: Mapping[str, Root] | None,
        given: Mapping[str, str],
        network: Literal["none", "host"],
        limits: Limits,
        force: bool,
    ) -> None:
        self.read, self.root, self.images, self.given = read, root, images, dict(given)
        self.network, self.limits, self.force = network, limits, force
        self.context = Context(read.path.parent, dockerfile.Ignored.of(read.path))
        self._stages: dict[int, _Made] = {}

    def stage(self, number: int) -> _Made:
        """A stage, built once; those that nothing needs are never built."""
        if number not in self._stages:
            self._stages[number] = self._build(number)
        made = self._stages[number]
        return _Made(made.root, dict(made.arguments), made.shell)

    def _earlier(self, name: str, before: int) -> int | None:
        found = [i for i, stage in enumerate(self.read.stages[:before]) if name and stage.name == name.lower()]
        return found[-1] if found else None

    def _base(self, stage: Stage, number: int) -> _Made:
        earlier = self._earlier(stage.image, number)
        if earlier is not None:
            return self.stage(earlier)
        return _Made(self._image(stage.image, stage.start), {})

    def _image(self, image: str, step: Instruction) -> Root:
        if self.images and image in self.images:
            return self.images[image]
        if image == "scratch":
            raise step.fault("scratch: an empty root has nothing to build with")
        if image.partition(":")[0] == BASE or self.images is None:
            return self.root
        raise SandboxError(f"{step.file}:{step.line}: no root stands for the image {image}")

    def source(self, step: Instruction, number: int, name: str) -> Root:
        """What COPY --from names: an earlier stage by name or number, or an image."""
        earlier = int(name) if name.isdecimal() else self._earlier(name, number)
        if earlier is None:
            return self._image(name, step)
        if earlier >= number:
            raise step.fault(f"--from={name}: there is no such stage before this one")
        return self.stage(earlier).root

    def _build(self, number: int) -> _Made:
        stage = self.read.stages[number]
        made = self._base(stage, number)
        if not any(step.name in _MAKE for step in stage.steps):
            for step in stage.steps:
                self._set(made, step)
            return made
        sources = {
            name: self.source(step, number, name)
            for step in stage.steps
            for option, value in step.options
            if option == "from" and step.name == "COPY" and (name := self._name(value, step))
        }
        kept = store.directory() / "roots" / f"env-{self._key(stage, made, sources)}"
        parent = made.root
        if self.force or not kept.exists():
            self._make(stage, made, sources, kept)
        else:
            for step in stage.steps:
                self._set(made, step)
        made.root = replace(made.root, layers=(*parent.layers, kept), binds=parent.binds)
        return made

    def _name(self, value: str, step: Instruction) -> str:
        return dockerfile.expand(value, self.read.arguments, self.read.escape, step)

    def _key(self, stage: Stage, made: _Made, sources: Mapping[str, Root]) -> str:
        steps = [[s.name, s.rest, s.options, [[d.body, d.literal] for d in s.documents]] for s in stage.steps]
        parts = [
            "2", [str(path) for path in made.root.layers], made.root.name, steps, made.values(), dict(self.read.arguments),
            self.given, self.network, {name: [str(path) for path in root.layers] for name, root in sources.items()},
        ]  # fmt: skip
        if any(s.name in ("COPY", "ADD") and "from" not in dict(s.options) for s in stage.steps):
            parts.append(self.context.digest())
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]

    def _make(self, stage: Stage, made: _Made, sources: Mapping[str, Root], kept: Path) -> None:
        with BubblewrapSandbox(replace(made.root, user=None), limits=self.limits, network=self.network) as sandbox:
            for step in stage.steps:
                if step.name == "RUN":
                    self._run(sandbox, made, step)
                elif step.name in ("COPY", "ADD"):
                    name = self._name(dict(step.options).get("from", ""), step)
                    copy(
                        sandbox,
                        step,
                        self.context,
                        sources.get(name),
                        made.root.workdir,
                        made.values(),
                        self.read.escape,
                    )
                else:
                    self._set(made, step)
                    if step.name == "WORKDIR":
                        sandbox.exec(["mkdir", "-p", made.root.workdir], cwd="/", user="root")
            state = sandbox.snapshot()
        layer = state.layers.own[-1]
        store.sync(layer)
        if self.force and kept.exists():
            files.remove(kept)
        try:
            layer.rename(kept)
        except OSError:
            if not kept.exists():  # else another process was faster
                raise
        state.discard()

    def _set(self, made: _Made, step: Instruction) -> None:
        """What an instruction sets for those after it."""
        root, escape = made.root, self.read.escape

        def text(value: str) -> str:
            return dockerfile.expand(value, made.values(), escape, step)

        if step.name == "ENV":
            new = {name: text(value or "") for name, value in dockerfile.pairs(step, escape)}
            made.root = replace(root, env={**root.env, **new})
        elif step.name == "ARG":
            known = {**self.read.arguments, **made.values()}
            declared = dockerfile.arguments_of(step, known, self.given, escape)
            made.arguments.update(declared)
        elif step.name == "USER":
            made.root = replace(root, user=text(step.rest) or None)
        elif step.name == "WORKDIR":
            made.root = replace(root, workdir=posixpath.normpath(posixpath.join(root.workdir, text(step.rest))))
        elif step.name == "SHELL":
            words = dockerfile.array(step)
            if words is None:
                raise step.fault('expected an array: ["program", "option"]')
            made.shell = tuple(words)
        elif step.name not in _IGNORED and step.name not in _MAKE:
            raise step.fault("is not read here")

    def _run(self, sandbox: BubblewrapSandbox, made: _Made, step: Instruction) -> None:
        for option, value in step.options:
            kind = dict(part.partition("=")[::2] for part in value.split(",")).get("type", "bind")
            if option == "mount" and kind in ("cache", "tmpfs"):
                continue  # what a builder keeps between builds: an empty directory does as well
            if (option, value) not in (("network", "default"), ("security", "sandbox")):
                raise step.fault(f"--{option}={value} is not read here")
        stdin = None
        if step.documents and step.rest.lstrip("0123456789").startswith("<<") and len(step.rest.split()) == 1:
            first, _, _ = step.documents[0].body.partition("\n")
            if first.startswith("#!"):
                command, stdin = [*first[2:].split(), "/dev/stdin"], step.documents[0].body.encode()
            else:
                command = [*made.shell, step.documents[0].body]
        elif step.documents:
            bodies = "".join(f"{document.body}{document.name}\n" for document in step.documents)
            command = [*made.shell, f"{step.rest}\n{bodies}"]
        else:
            command = dockerfile.array(step) or [*made.shell, step.rest]
        try:
            done = sandbox.exec(
                command,
                cwd=made.root.workdir,
                env=made.values(),
                user=made.root.user,
                timeout=1800,
                stdin=stdin,
                merge=True,
            )
        except SandboxError as error:
            raise step.fault(f"did not start: {error}") from error
        if done.exit_code:
            said = [line for line in done.text.strip().splitlines() if line.strip()]
            raise step.fault(f"ended with {done.exit_code}: {said[-1][:300] if said else 'it said nothing'}")


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
        arguments: build arguments, for those that an ARG declares.
        network: whether RUN may reach the network.
        force: build it even if it is kept.

    Raises:
        SandboxError: naming file and line.
    """
    given = dict(arguments or {})
    read = dockerfile.read(file, given, _automatic())
    builder = _Builder(read, root, images, given, network, limits or Limits(memory_mb=None), force)
    made = builder.stage(len(read.stages) - 1)
    return replace(made.root, name=f"{made.root.name}+{file.parent.parent.name or file.name}")
