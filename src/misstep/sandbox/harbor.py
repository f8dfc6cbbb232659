"""Harbor and our sandboxes: an environment for Harbor's jobs, and Harbor's environments as our sandboxes.

    harbor run --path tasks --agent oracle --environment-import-path misstep.sandbox.harbor:BubblewrapEnvironment

Options (`--ek NAME=VALUE`): `root` (host, base, a tar or a directory; it then stands for every image), `build_network`
(whether RUN of a Dockerfile may reach the network; true), `end_session` (whether what is attached to the agent's
session goes before the verifier comes, as when a person closes the terminal; false, as in Docker).
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import threading
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

try:
    from harbor.environments.base import BaseEnvironment, ExecResult
    from harbor.environments.capabilities import EnvironmentCapabilities, EnvironmentResourceCapabilities
    from harbor.models.trial.config import ResourceMode
except ImportError as error:  # pragma: no cover
    raise ImportError("Harbor is not installed: pip install 'misstep[harbor]'") from error

from misstep.sandbox import image, native, roots
from misstep.sandbox.base import Bind, Done, Limits, Observation, Process, Root, SandboxError, Unavailable
from misstep.sandbox.bubblewrap import BubblewrapSandbox

T = TypeVar("T")


class BubblewrapEnvironment(BaseEnvironment):
    """Harbor's trials in our sandboxes: no daemon, no image, a real `no-network`."""

    def __init__(
        self,
        *args: Any,
        root: str | None = None,
        build_network: bool = True,
        end_session: bool = False,
        **kwargs: Any,
    ) -> None:
        self._root_name = root
        self._build_network = build_network
        self._ends_session = end_session
        self._sandbox: BubblewrapSandbox | None = None
        super().__init__(*args, **kwargs)

    @staticmethod
    def type() -> str:
        return "bubblewrap"

    @classmethod
    def preflight(cls, kwargs: dict[str, Any] | None = None) -> None:
        """Says in one line why no sandbox can run here, before any trial is queued."""
        super().preflight(kwargs)
        problem = native.problem()
        if problem:
            raise SystemExit(f"misstep: {problem}")
        roots.find(str((kwargs or {}).get("root") or _default_root()))

    @property
    def capabilities(self) -> EnvironmentCapabilities:
        return EnvironmentCapabilities(disable_internet=True, mounted=True)

    @classmethod
    def resource_capabilities(cls) -> EnvironmentResourceCapabilities:
        return EnvironmentResourceCapabilities(
            memory_limit=True, memory_request=True, cpu_limit=True, cpu_request=True, fractional_cpus=True
        )

    def _validate_definition(self) -> None:
        file = self.environment_dir / "Dockerfile"
        for name in ("docker-compose.yaml", "docker-compose.yml"):
            if (self.environment_dir / name).exists():
                raise ValueError(f"{self.environment_dir / name}: a task of several containers needs Docker")
        if file.exists():
            return
        if self.task_env_config.docker_image is None:
            raise FileNotFoundError(f"{file}: a task needs a Dockerfile or an image")
        if self._root_name is None:
            raise ValueError(
                f"the task's image {self.task_env_config.docker_image} cannot be pulled: "
                "say which root stands for it (--ek root=base)"
            )

    def _build(self, force: bool) -> Root:
        root = roots.find(self._root_name or _default_root())
        file = self.environment_dir / "Dockerfile"
        if not file.exists():
            return root
        # Without a root by name, only our own base image is known: another image must not silently become another one.
        return image.build(
            file,
            root,
            images=None if self._root_name else {},
            network="host" if self._build_network and not self._network_disabled else "none",
            force=force,
        )

    def _start(self, force_build: bool) -> None:
        root = self._build(force_build)
        binds = []
        for mount in self._host_mounts:
            if mount["type"] != "bind":
                raise ValueError(f"a mount of type {mount['type']} is not supported: {mount['target']}")
            source = Path(mount["source"])
            read_only = bool(mount.get("read_only"))
            if not read_only:
                source.mkdir(parents=True, exist_ok=True)
                self._own(source)
            binds.append(Bind(source, mount["target"], read_only))
        self._sandbox = BubblewrapSandbox(
            root,
            limits=Limits(
                memory_mb=self._resource_limit_value("memory", auto_mode=ResourceMode.LIMIT),
                processes=4096,
                cpus=self._resource_limit_value("cpu", auto_mode=ResourceMode.LIMIT),
                disk_mb=None,
                file_mb=self._effective_storage_mb or 16384,
                output_mb=256,
                seconds=None,
            ),
            env=self._startup_env(),
            workdir=self.task_env_config.workdir or root.workdir,
            binds=binds,
            network="none" if self._network_disabled else "host",
        )
        self._sandbox.start()
        targets = self._mount_targets(writable_only=True)
        if targets:
            words = " ".join(map(shlex.quote, targets))
            self._sandbox.exec(f"mkdir -p {words} && chmod 777 {words}", user="root", cwd="/", agent=False)

    @staticmethod
    def _own(path: Path, back: bool = False) -> None:
        """Gives a directory of the trial to the sandbox's root, or back: as root they are two users."""
        if os.geteuid() != 0:
            return
        space = native.user_namespace()
        uid, gid = (0, 0) if back else (space.outer_uid, space.outer_gid)
        for folder, _, files in os.walk(path):
            for name in (".", *files):
                shutil.chown(Path(folder, name), uid, gid)

    async def start(self, force_build: bool) -> None:
        await asyncio.to_thread(self._start, force_build)
        await self._upload_environment_dir_after_start()

    async def stop(self, delete: bool) -> None:
        if self._sandbox is not None:
            await asyncio.to_thread(self._sandbox.stop)
            self._sandbox = None
        await self.prepare_logs_for_host()

    async def prepare_logs_for_host(self) -> None:
        for mount in self._host_mounts:
            if not mount.get("read_only"):
                await asyncio.to_thread(self._own, Path(mount["source"]), True)

    @property
    def sandbox(self) -> BubblewrapSandbox:
        """The sandbox of the trial.

        Raises:
            SandboxError: it is not started.
        """
        if self._sandbox is None:
            raise SandboxError("the environment is not started")
        return self._sandbox

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        box = self.sandbox
        done = await box.exec_async(
            command, cwd=cwd, env=self._merge_env(env), user=self._resolve_user(user), timeout=timeout_sec
        )
        if done.timed_out:
            raise RuntimeError(f"Command timed out after {timeout_sec} seconds")
        if done.flooded:
            raise RuntimeError(f"Command wrote more than {box.limits.output_mb:.0f} MB")
        callback = self._output_callback()
        if callback is not None:
            for text, stream in ((done.text, "stdout"), (done.error_text, "stderr")):
                if text:
                    await callback(text, stream)
        return ExecResult(stdout=done.text, stderr=done.error_text, return_code=done.exit_code)

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        await asyncio.to_thread(self.sandbox.upload, Path(source_path), target_path, user="root")

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        if self._ends_session and target_dir.rstrip("/") == "/tests":
            await asyncio.to_thread(self.sandbox.end_session)
        await asyncio.to_thread(self.sandbox.upload, Path(source_dir), target_dir, user="root")

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        await asyncio.to_thread(self.sandbox.download, source_path, Path(target_path))

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        await asyncio.to_thread(self.sandbox.download, source_dir, Path(target_dir))


def _default_root() -> str:
    return "base" if roots.base_tar().exists() else "host"


class HarborSandbox:
    """Any of Harbor's environments as one of our sandboxes (Docker, Daytona, Modal ...).

    What Harbor's interface lacks is said, never pretended: no snapshots (a prefix is branched by replay), and no end of
    a session.
    """

    def __init__(self, environment: BaseEnvironment, *, workdir: str = "/", force_build: bool = False) -> None:
        self.environment = environment
        self.workdir = workdir
        self._force_build = force_build
        self._loop = asyncio.new_event_loop()
        self._thread: threading.Thread | None = None
        self._merges = False
        """The environment gives both streams as one (Docker's does)."""

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        if self._thread is None:
            work.close()
            raise SandboxError("the sandbox is not running")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def start(self) -> None:
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        try:
            self._wait(self.environment.start(self._force_build))
        except Exception as error:
            self._end_loop()
            raise SandboxError(f"the {self.environment.type()} environment did not start: {error}") from error
        self._merges = False
        self._merges = "apart" not in self.exec("echo apart >&2").error_text

    def exec(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | int | None = None,
        timeout: float | None = None,
        stdin: bytes | None = None,
        merge: bool = False,
    ) -> Done:
        if stdin is not None:
            raise SandboxError("Harbor's environments give a command no input: upload a file")
        text = command if isinstance(command, str) else shlex.join(command)
        mark = ""
        if merge:
            text = f"{{ {text}\n}} 2>&1"
        elif self._merges:  # kept apart in a file, and told after a mark
            mark, file = f"misstep-{os.urandom(8).hex()}", f"/tmp/.misstep-errors-{os.urandom(4).hex()}"
            text = f"( {text}\n) 2> {file}\nmisstep=$?; printf %s {mark}; cat {file}; rm -f {file}; exit $misstep"
        began = self._loop.time()
        seconds = None if timeout is None else max(1, round(timeout))
        try:
            seen = self._wait(
                self.environment.exec(
                    text, cwd=cwd or self.workdir, env=dict(env or {}), timeout_sec=seconds, user=user
                )
            )
        except (RuntimeError, TimeoutError) as error:
            if "timed out" not in str(error) and not isinstance(error, TimeoutError):
                raise SandboxError(str(error)) from error
            return Done(b"", b"", 124, self._loop.time() - began, timed_out=True)
        if mark:
            output, _, errors = (seen.stdout or "").rpartition(mark)
            seen = ExecResult(stdout=output, stderr=errors, return_code=seen.return_code)
        out, err = ((part or "").encode("utf-8", "surrogateescape") for part in (seen.stdout, seen.stderr))
        return Done(out, err, seen.return_code, self._loop.time() - began)

    def shell(self, *, cwd: str | None = None, env: Mapping[str, str] | None = None) -> CarriedShell:
        return CarriedShell(self, cwd or self.workdir, dict(env or {}))

    def terminal(self, *, cwd: str | None = None, env: Mapping[str, str] | None = None) -> Any:
        raise Unavailable(
            f"the {self.environment.type()} environment runs whole commands, and has no terminal: run tmux in it"
        )

    def upload(self, source: Path, target: str) -> None:
        if source.is_dir():
            self._wait(self.environment.upload_dir(source, target))
        else:
            self._wait(self.environment.upload_file(source, target))

    def download(self, source: str, target: Path) -> None:
        if self._wait(self.environment.is_dir(source)):
            self._wait(self.environment.download_dir(source, target))
        else:
            self._wait(self.environment.download_file(source, target))

    def end_session(self) -> Sequence[Process]:
        raise Unavailable(f"the {self.environment.type()} environment cannot tell what belongs to the agent's session")

    def snapshot(self) -> Any:
        raise Unavailable(f"the {self.environment.type()} environment keeps no states: branch by replay")

    def stop(self) -> None:
        if self._thread is not None:
            try:
                self._wait(self.environment.stop(delete=True))
            finally:
                self._end_loop()

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        if self._thread is not None:
            self._thread.join()
        self._thread = None
        self._loop.close()


class CarriedShell:
    """A shell whose directory and exported variables are carried from one exec to the next by a file."""

    def __init__(self, sandbox: HarborSandbox, cwd: str, env: dict[str, str]) -> None:
        self._sandbox, self._cwd, self._env = sandbox, cwd, env
        self._file = f"/tmp/.misstep-shell-{os.urandom(4).hex()}"

    def run(self, command: str, *, timeout: float | None = None) -> Observation:
        text = (
            f"[ -e {self._file} ] && . {self._file}\n"
            f'trap \'code=$?; {{ printf "cd %q\\n" "$PWD"; export -p; }} > {self._file}; exit $code\' EXIT\n'
            f"eval {shlex.quote(command)}"
        )
        done = self._sandbox.exec(["bash", "-c", text], cwd=self._cwd, env=self._env, timeout=timeout, merge=True)
        return Observation(done.text, done.exit_code, done.seconds, done.timed_out)

    def close(self) -> None:
        self._sandbox.exec(["rm", "-f", self._file])
