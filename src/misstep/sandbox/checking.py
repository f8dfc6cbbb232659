"""Whether a task's verifier can be trusted: it accepts the oracle, each time, and refuses nothing done and wrong deliveries.

Any of Harbor's task folders will do; those without `wrong/` are checked with the oracle and with nothing done.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from misstep.sandbox import dockerfile
from misstep.sandbox.base import Root, SandboxError
from misstep.sandbox.bubblewrap import BubblewrapSandbox
from misstep.sandbox.tasks import Attempt, NoReward, Task, Verdict

ORACLE, NOTHING = "oracle", "nothing"


@dataclass(frozen=True)
class _Built(Task):
    """A task of which the root that it is given is the environment already."""

    def environment(self, root: Root, images: Mapping[str, Root] | None = None) -> Root:
        return root


@dataclass(frozen=True)
class Delivery:
    """One delivery in a fresh sandbox."""

    name: str
    """oracle, nothing, or the name of a script in wrong/."""
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


def check(task: Task, root: Root, *, repeat: int = 2, network: Literal["none", "host"] = "none") -> Report:
    """Runs the oracle `repeat` times, nothing, and each wrong delivery, all in fresh sandboxes, and verifies each.

    Args:
        root: stands for the image that the task's Dockerfile starts from.
        network: whether the Dockerfile's RUN may reach the network; deliveries and the verifier never do.
    """
    start, done = time.perf_counter(), list[Delivery]()

    def report(verdict: Literal["ok", "fault", "flaky", "unknown"], *why: str) -> Report:
        return Report(task, verdict, why, done, time.perf_counter() - start)

    why = _not_read_here(task)
    if why:
        return report("unknown", why)
    try:
        built = dockerfile.build(task.path / "environment" / "Dockerfile", root, network=network)
        missing = _missing(task, built)
    except SandboxError as error:
        return report("unknown", f"its environment could not be built: {error}")
    if missing:
        return report("unknown", f"the root {root.name} has no {', '.join(missing)}")
    ready = _Built(task.path, task.settings)
    has_oracle = (task.path / "solution" / "solve.sh").is_file()
    if has_oracle:
        done += [_deliver(ready, ORACLE, lambda: ready.attempt(built)) for _ in range(repeat)]
    done.append(_deliver(ready, NOTHING, lambda: _nothing(ready, built)))
    for script in task.wrong:
        done.append(_deliver(ready, script.stem, partial(ready.attempt, built, script)))
    faults, flaky, unknown = _judge(done)
    if not has_oracle:
        unknown.append("there is no solution/solve.sh: nothing shows that the verifier can be satisfied")
    verdict: Literal["ok", "fault", "flaky", "unknown"]
    verdict = "fault" if faults else "flaky" if flaky else "unknown" if unknown else "ok"
    return report(verdict, *faults, *flaky, *unknown)


def check_all(
    tasks: Sequence[Task], root: Root, *, jobs: int, repeat: int = 2, network: Literal["none", "host"] = "none"
) -> Iterator[Report]:
    """Checks tasks, so many at once; reports come in the tasks' order, each as soon as it is there."""
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(lambda task: check(task, root, repeat=repeat, network=network), tasks)


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
        called = "nothing done" if one.name == NOTHING else f"wrong/{one.name}.sh"
        if one.passed:
            faults.append(f"the verifier accepts {called}: {one.said}")
        elif one.fault:
            faults.append(f"the verifier leaves no reward for {called}, which is an error and not a 0: {one.said}")
        elif one.name != NOTHING and one.exit_code:
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


def _nothing(task: Task, built: Root) -> Verdict:
    with task.sandbox(built) as box:
        box.end_session()
        return task.verify(box)


def _missing(task: Task, built: Root) -> list[str]:
    """Programs that the task names as needed (metadata.needs) and its root lacks."""
    metadata = task.settings.get("metadata", {})
    needs = metadata.get("needs", []) if isinstance(metadata, Mapping) else []
    if not isinstance(needs, list) or not needs:
        return []
    with BubblewrapSandbox(built, limits=task.limits) as box:
        return [str(one) for one in needs if box.exec(["sh", "-c", 'command -v "$0"', str(one)], cwd="/").exit_code]


def _not_read_here(task: Task) -> str:
    """What the task has that these sandboxes do not do: its check would say something of another task."""
    environment, agent, verifier = (
        section if isinstance(section := task.settings.get(name, {}), Mapping) else {}
        for name in ("environment", "agent", "verifier")
    )
    folder = task.path / "environment"
    if (task.path / "steps").is_dir():
        return "it has several steps, which are not read here"
    for name in ("docker-compose.yaml", "docker-compose.yml"):
        if (folder / name).is_file():
            return f"environment/{name} is not read here"
    if verifier.get("environment_mode", "shared") != "shared":
        return "its verifier has an environment of its own, which is not read here"
    if not (task.path / "tests" / "test.sh").is_file():
        return "there is no tests/test.sh"
    for name, section in (("agent", agent), ("verifier", verifier)):
        if section.get("user") not in (None, "root", 0, "0"):
            return f"the user of [{name}] is not read here"
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
