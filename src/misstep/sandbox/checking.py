"""Whether a task's verifier can be trusted: it accepts the oracle, each time, and refuses nothing done and wrong deliveries.

Any of Harbor's task folders will do; those without `wrong/` are checked with the oracle and with nothing done.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Any, Literal

from misstep.sandbox import image
from misstep.sandbox.base import Root, SandboxError, SandboxGone
from misstep.sandbox.bubblewrap import BubblewrapSandbox
from misstep.sandbox.tasks import Attempt, NoReward, Task, Verdict

ORACLE, NOTHING, EMPTY = "oracle", "nothing", "empty-files"
_PATH = re.compile(r"(?<![\w/.~-])/(?:[\w.-]+/)+[\w-][\w.-]*\.\w+\b")
"""A path of a file, as instructions name those that are to be written."""


@dataclass(frozen=True)
class _Built(Task):
    """A task of which the root that it is given is the environment already."""

    over: Event
    """Set when nobody waits for the report: no sandbox is started any more."""

    def environment(self, root: Root, images: Mapping[str, Root] | None = None) -> Root:
        return root

    def sandbox(self, root: Root) -> BubblewrapSandbox:
        if self.over.is_set():
            raise SandboxGone("the check was interrupted")
        return super().sandbox(root)


@dataclass(frozen=True)
class Delivery:
    """One delivery in a fresh sandbox."""

    name: str
    """oracle, nothing, empty-files, or the name of a script in wrong/."""
    rewards: Mapping[str, float] | None
    """None: the verifier left none, or the sandbox failed."""
    passed: bool | None
    exit_code: int | None
    said: str
    """The verifier's last line, or why there is no reward."""
    seconds: float
    output: str = ""
    """All that the verifier printed."""
    fault: bool = False
    """There is no reward, and that is the verifier's fault, not the sandbox's."""

    @property
    def shown(self) -> str:
        """The reward in a word."""
        if self.rewards is None:
            return "none" if self.fault else "?"
        values = [f"{value:g}" for value in self.rewards.values()]
        return values[0] if len(values) == 1 else f"({' '.join(values)})"


@dataclass(frozen=True)
class Report:
    """What the check of a task found."""

    task: Task
    verdict: Literal["ok", "fault", "flaky", "unknown"]
    why: Sequence[str]
    """What is wrong or not known, a line each; empty where it is ok."""
    deliveries: Sequence[Delivery]
    seconds: float

    def record(self) -> dict[str, object]:
        """The report as JSON has it."""
        return {
            "task": self.task.name,
            "path": str(self.task.path),
            "verdict": self.verdict,
            "why": list(self.why),
            "seconds": round(self.seconds, 3),
            "deliveries": [
                {"name": one.name, "rewards": one.rewards, "passed": one.passed, "exit_code": one.exit_code, "said": one.said}
                for one in self.deliveries
            ],
        }  # fmt: skip


def check(
    task: Task,
    root: Root,
    *,
    repeat: int = 2,
    network: Literal["none", "host"] = "none",
    end_session: bool = True,
    over: Event | None = None,
) -> Report:
    """Runs the oracle `repeat` times, nothing, and each wrong delivery, all in fresh sandboxes, and verifies each.

    Where the instruction names files that are not there yet, one more delivery has them all, and they are empty.

    Args:
        root: stands for the image that the task's Dockerfile starts from.
        network: whether the Dockerfile's RUN may reach the network; deliveries and the verifier never do.
        end_session: whether what is attached to a delivery's session goes before the verifier runs.
        over: set from another thread, it stops the check before its next delivery.
    """
    start, done = time.perf_counter(), list[Delivery]()

    def report(verdict: Literal["ok", "fault", "flaky", "unknown"], *why: str) -> Report:
        return Report(task, verdict, why, done, time.perf_counter() - start)

    why = _not_read_here(task)
    if why:
        return report("unknown", why)
    try:
        task.settle()
        named = sorted(set(_PATH.findall(task.instruction)))
    except SandboxError as error:
        return report("unknown", str(error))
    try:
        built = image.build(task.path / "environment" / "Dockerfile", root, network=network)
        missing = _missing(task, built)
    except SandboxError as error:
        return report("unknown", f"its environment could not be built: {error}")
    if missing:
        return report("unknown", f"the root {root.name} has no {', '.join(missing)}")
    workdir = _section(task, "environment").get("workdir")
    built = replace(built, workdir=str(workdir)) if workdir else built
    ready = _Built(task.path, task.settings, over or Event())
    has_oracle = (task.path / "solution" / "solve.sh").is_file()
    attempt = partial(ready.attempt, built, end_session=end_session)
    if has_oracle:
        done += [_deliver(ready, ORACLE, attempt) for _ in range(repeat)]
    done.append(_deliver(ready, NOTHING, lambda: _untouched(ready, built, ())))
    if named:
        empty = _deliver(ready, EMPTY, lambda: _untouched(ready, built, named))
        done += [empty] if empty.exit_code != _NO_NEW_FILE else []
    for script in task.wrong:
        name = script.stem if script.stem not in (ORACLE, NOTHING, EMPTY) else script.name
        done.append(_deliver(ready, name, partial(attempt, script)))
    faults, flaky, unknown = _judge(done)
    if not has_oracle:
        unknown.append("there is no solution/solve.sh: nothing shows that the verifier can be satisfied")
    oracle = done[0] if has_oracle else None
    if oracle and end_session and not flaky and (oracle.passed is False or oracle.fault):
        kept = _deliver(ready, ORACLE, partial(ready.attempt, built, end_session=False))
        if kept.passed:
            faults[0] += " (it passes if what is attached to the oracle's session lives on: --keep-session)"
    verdict: Literal["ok", "fault", "flaky", "unknown"]
    verdict = "fault" if faults else "flaky" if flaky else "unknown" if unknown else "ok"
    return report(verdict, *faults, *flaky, *unknown)


def check_all(
    tasks: Sequence[Task],
    root: Root,
    *,
    jobs: int,
    repeat: int = 2,
    network: Literal["none", "host"] = "none",
    end_session: bool = True,
) -> Iterator[Report]:
    """Checks tasks, so many at once; reports come in the tasks' order, each as soon as it is there.

    Who stops listening waits for nothing: sandboxes that still run end with the process.
    """
    over = Event()
    left, reports = SimpleQueue[int](), [Future[Report]() for _ in tasks]

    def work() -> None:
        while not over.is_set():
            try:
                at = left.get_nowait()
            except Empty:
                return
            try:
                reports[at].set_result(
                    check(tasks[at], root, repeat=repeat, network=network, end_session=end_session, over=over)
                )
            except BaseException as error:
                reports[at].set_exception(error)

    for at in range(len(tasks)):
        left.put(at)
    for _ in range(min(jobs, len(tasks))):
        Thread(target=work, daemon=True).start()  # an executor's threads would be waited for
    try:
        for report in reports:
            yield report.result()
    finally:
        over.set()


def _judge(done: Sequence[Delivery]) -> tuple[list[str], list[str], list[str]]:
    """What is a fault, what is flaky, and what is not known."""
    faults, flaky, unknown = list[str](), list[str](), list[str]()
    oracles = [one for one in done if one.name == ORACLE]
    for one in done:
        if one.rewards is None and not one.fault:
            unknown.append(f"{one.name}: {one.said}")
    known = [one for one in oracles if one.rewards is not None or one.fault]
    if len({one.shown for one in known}) > 1:
        last = next(one for one in known if not one.passed or one is known[-1])
        flaky.append(f"the oracle's reward varies: {', '.join(one.shown for one in known)} ({last.said})")
    elif known and not known[0].passed:
        what = "leaves no reward for" if known[0].fault else "refuses"
        faults.append(f"the verifier {what} the oracle: {known[0].said}")
    for one in done:
        if one.name == ORACLE:
            continue
        called = {NOTHING: "nothing done", EMPTY: "empty files"}.get(
            one.name, f"wrong/{one.name.removesuffix('.sh')}.sh"
        )
        if one.passed:
            faults.append(f"the verifier accepts {called}: {one.said}")
        elif one.fault:
            faults.append(f"the verifier leaves no reward for {called}, which is an error and not a 0: {one.said}")
        elif one.exit_code:
            faults.append(f"{called} itself ends with {one.exit_code}: that the verifier refuses it proves little")
    return faults, flaky, unknown


def _deliver(task: Task, name: str, work: Callable[[], Attempt | Verdict]) -> Delivery:
    start = time.perf_counter()
    try:
        seen = work()
    except SandboxError as error:
        why = str(error).removeprefix(f"the verifier of {task.name} ")
        return Delivery(name, None, None, None, why, time.perf_counter() - start, fault=isinstance(error, NoReward))
    verdict = seen.verdict if isinstance(seen, Attempt) else seen
    lines = verdict.output.strip().splitlines()
    code = seen.exit_code if isinstance(seen, Attempt) else None
    said = lines[-1].strip()[:200] if lines else "it says nothing"
    return Delivery(name, verdict.rewards, verdict.passed, code, said, time.perf_counter() - start, verdict.output)


_NO_NEW_FILE = 3


def _untouched(task: Task, built: Root, files: Sequence[str]) -> Attempt | Verdict:
    """Nothing is done, but for new empty files at those paths that are not there yet."""
    with task.sandbox(built) as box:
        if not files:
            box.end_session()
            return task.verify(box)
        made = box.exec(["bash", "-c", _TOUCH, "-", *files], cwd="/", timeout=60)
        if made.exit_code:  # each of them is there, or cannot be made
            return Attempt("", _NO_NEW_FILE, (), Verdict({}, ""))
        return Attempt("", 0, box.end_session(), task.verify(box))


_TOUCH = """
made=3
for path; do
    [ -e "$path" ] || [ -L "$path" ] || { mkdir -p "${path%/*}" && : > "$path" && made=0; }
done 2> /dev/null
exit $made
"""


def _missing(task: Task, built: Root) -> list[str]:
    """Programs that the task names as needed (metadata.needs) and its root lacks."""
    needs = _section(task, "metadata").get("needs", [])
    if not isinstance(needs, list) or not needs:
        return []
    with BubblewrapSandbox(built, limits=task.limits) as box:
        return [str(one) for one in needs if box.exec(["sh", "-c", 'command -v "$0"', str(one)], cwd="/").exit_code]


def _section(task: Task, name: str) -> Mapping[str, Any]:
    section = task.settings.get(name, {})
    return section if isinstance(section, Mapping) else {}


def _not_read_here(task: Task) -> str:
    """What the task has that these sandboxes do not do: its check would say something of another task."""
    environment, verifier = _section(task, "environment"), _section(task, "verifier")
    folder = task.path / "environment"
    if (task.path / "steps").is_dir() or task.settings.get("steps"):
        return "it has several steps, which are not read here"
    for name in ("docker-compose.yaml", "docker-compose.yml"):
        if (folder / name).is_file():
            return f"environment/{name} is not read here"
    if verifier.get("environment") or verifier.get("environment_mode", "shared") != "shared":
        return "its verifier has an environment of its own, which is not read here"
    for name in ("healthcheck", "mcp_servers", "gpus", "tpu"):
        if environment.get(name):
            return f"{name} of [environment] is not read here"
    for name in ("agent", "verifier"):
        if _section(task, name).get("user") not in (None, "root", 0, "0"):
            return f"the user of [{name}] is not read here"
    for name in ("environment", "verifier", "solution"):
        values = _section(task, name).get("env", {})
        asked = [key for key, value in values.items() if "${" in str(value)] if isinstance(values, Mapping) else []
        if asked:
            return f"{asked[0]} of [{name}.env] is taken from this machine, which is not done here"
    if not (task.path / "tests" / "test.sh").is_file():
        return "there is no tests/test.sh"
    if not (folder / "Dockerfile").is_file():
        image = environment.get("docker_image")
        return f"it has no environment/Dockerfile{f', only the image {image}' if image else ''}"
    return ""


def find(path: Path) -> list[Task]:
    """The task of a folder, or all tasks in it.

    Raises:
        SandboxError: it holds none, or one cannot be read.
    """
    if (path / "task.toml").is_file():
        return [Task.load(path.resolve())]
    found = [Task.load(one.parent) for one in sorted(path.glob("*/task.toml"))]
    if not found:
        raise SandboxError(f"{path} is no task folder and holds none: expected task.toml, or folders with one")
    return found
