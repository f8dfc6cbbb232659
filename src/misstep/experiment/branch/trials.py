"""Codex and Claude Code from a decision point on: a trial of Harbor's that begins in the branched state, with the conversation
restored through `load_trajectory` (ATIF).

The container is one of our sandboxes: it starts on the layers of the point's state, or, where processes live on there, replays
the recorded commands by itself before the agent comes. These agents go on only with a message of a user's. At a stop that is
the arm's text, as a hook's would be; with nothing to say there is nothing to run, and the verifier judges the state as it is.
At a call the text stands below the call's result (or in its place, where it is denied), and the message is `Go on.` in every
arm. The policy acts once, at the point: no hook runs in the rest.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from misstep.experiment.branch.engines import CONTINUED, Work, judged
from misstep.experiment.branch.records import Branched
from misstep.experiment.branch.treatment import PointLost, Said, treatment
from misstep.experiment.outcomes.classify import attempt_of, trajectories_of
from misstep.experiment.runs.archive import now
from misstep.sandbox.base import SandboxError, shorten
from misstep.sandbox.record import Recorded, Recording
from misstep.trajectory import Before, Stop, Trajectory, atif_out
from misstep.trajectory.model import Result, Step

if TYPE_CHECKING:
    from harbor.models.trial.config import TrialConfig

    from misstep.experiment.branch.design import BranchDesign
    from misstep.sandbox.base import Root
    from misstep.trajectory.model import Call

GO_ON = "Go on."
"""What an agent is told, in every arm alike, to go on from a call."""
AGENTS = {
    "codex": "misstep.experiment.branch.restored:RestoredCodex",
    "claude-code": "misstep.experiment.branch.restored:RestoredClaudeCode",
}
ENVIRONMENT = "misstep.experiment.branch.restored:BranchedEnvironment"
TRIALS = "trials"


class InTrials:
    """Continuations as trials of Harbor's. An `Engine`."""

    def __init__(self, plain: Mapping[str, Any], design: BranchDesign, folder: Path, root: Root) -> None:
        os.environ.setdefault("HARBOR_TELEMETRY", "0")
        os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        self.plain, self.design, self.folder, self.root = plain, design, folder, root
        self.ends_session = bool(design.environment.kwargs.get("end_session", False))
        (folder / CONTINUED).mkdir(exist_ok=True)

    async def run(self, work: Work) -> Branched:
        """See `Engine.run`."""
        began = time.monotonic()
        common: dict[str, Any] = {"started": now(), "agent": self.design.agent.name, "simulated": self.design.simulated}
        try:
            told = self._told(work)
            if work.rebuilt.pending is None and not told.text:
                return await self._as_it_is(work, began, common)
            return await self._trial(work, told, began, common)
        except SandboxError as error:
            fault = " ".join(str(error).split())[:300]
        except Exception as error:  # whatever Harbor raises before a trial is one
            fault = f"the trial could not be run: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
        return work.record(termination="invalid", fault=fault, total_seconds=_since(began), **common)

    def _told(self, work: Work) -> Said:
        """What the arm says at the point."""
        rebuilt = work.rebuilt
        arm = treatment(self.plain, rebuilt.point, work.arm, rebuilt.past, self.design.texts)
        step = len(rebuilt.cut.steps) - 1
        if rebuilt.pending is not None:
            return arm.consider(Before(arm.index, step, rebuilt.pending))
        return arm.consider(Stop(arm.index, step, rebuilt.stopping or ""))

    async def _as_it_is(self, work: Work, began: float, common: dict[str, Any]) -> Branched:
        """The agent stops, and nobody says anything: only the verifier is left."""
        box, shell = (await asyncio.to_thread(work.rebuilt.prefix.branch, 1))[0]
        try:
            shell.close()
            passed, reward = await judged(work.task, box, self.ends_session)
        finally:
            await asyncio.to_thread(box.stop)
        end = "pass" if passed else "fail"
        return work.record(termination=end, passed=passed, reward=reward, total_seconds=_since(began), **common)

    async def _trial(self, work: Work, told: Said, began: float, common: dict[str, Any]) -> Branched:
        from harbor.trial.trial import Trial

        rebuilt, point = work.rebuilt, work.rebuilt.point
        layers: tuple[Path, ...] = rebuilt.prefix.state.layers.own if rebuilt.prefix.state is not None else ()
        recording = None if rebuilt.prefix.state is not None else rebuilt.prefix.recording
        result, discard = None, None
        if rebuilt.pending is not None:
            result, state = await asyncio.to_thread(self._called, work, told)
            if state is not None:
                layers, discard = state.layers.own, state
        try:
            path = self.folder / CONTINUED / f"{work.name}.json"
            told_as = document(rebuilt.cut, rebuilt.pending, result)
            path.write_text(
                json.dumps(told_as, ensure_ascii=False, indent=1) + "\n", encoding="utf-8", errors="replace"
            )
            prompt = GO_ON if rebuilt.pending is not None else told.text
            made = self._config(work, path, prompt, layers, recording)
            trial = await Trial.create(made)
            await trial.run()
        finally:
            if discard is not None:
                await asyncio.to_thread(discard.discard)
        folder = self.folder / TRIALS / work.name
        attempt = await asyncio.to_thread(attempt_of, folder, task=point.task, arm=work.arm, root=self.folder)
        return work.record(
            termination=attempt.termination,
            passed=attempt.passed,
            reward=attempt.reward,
            fault=attempt.fault and f"{attempt.fault}: {attempt.extra.get('exception_message', '')}"[:300],
            model=attempt.model,
            answers=_answers(folder, prompt),
            input_tokens=attempt.input_tokens or 0,
            cached_tokens=attempt.cached_tokens or 0,
            output_tokens=attempt.output_tokens or 0,
            cost_usd=attempt.cost_usd,
            seconds=attempt.seconds or 0.0,
            total_seconds=_since(began),
            fired={point.policy: 1} if told.text else {},
            behaviour=attempt.behaviour.get(point.misstep),
            trajectory=f"{TRIALS}/{work.name}",
            **common,
        )

    def _called(self, work: Work, told: Said) -> tuple[Result, Any]:
        """What the call at the point gives in this arm, and the state after it (None where it was denied)."""
        rebuilt = work.rebuilt
        call = rebuilt.pending
        assert call is not None
        if told.action == "deny":
            return Result(told.text, None, None, "refused"), None
        if call.command is None:
            raise PointLost("the call at the point is none of a shell: it cannot be made before the agent is there")
        if rebuilt.prefix.state is None:
            raise PointLost("processes live on at the point, and its call has yet to run: a trial cannot begin there")
        recording = rebuilt.prefix.recording
        box, shell = rebuilt.prefix.branch(1)[0]
        try:
            if recording.lasting:
                seen = shell.run(call.command, timeout=call.timeout)
                text, code, late = seen.output, seen.exit_code, seen.timed_out
            else:
                done = box.exec(call.command, cwd=call.cwd or recording.workdir, timeout=call.timeout, merge=True)
                text, code, late = done.text, done.exit_code, done.timed_out
            shell.close()
            if box.processes():
                raise PointLost("the call at the point leaves processes: a trial cannot begin after it")
            result = Result(shorten(text), code, None if code is None else code != 0, timed_out=late)
            if told.text:
                result.output = f"{result.output.rstrip()}\n\n{told.text}"
            return result, box.snapshot()
        finally:
            box.stop()

    def _config(
        self, work: Work, conversation: Path, prompt: str, layers: tuple[Path, ...], recording: Recording | None
    ) -> TrialConfig:
        from harbor.models.trial.config import AgentConfig, EnvironmentConfig, TaskConfig, TrialConfig

        given, agent = self.design.environment, self.design.agent
        kwargs: dict[str, Any] = {**agent.kwargs, "misstep": {"prompt": prompt}}
        if agent.version:
            kwargs["version"] = agent.version
        fields = set(EnvironmentConfig.model_fields) - {"type", "import_path", "kwargs"}
        own = {key: value for key, value in given.kwargs.items() if key not in fields and key != "network"}
        own["layers"] = [str(path) for path in layers]
        if recording is not None:
            own["recording"] = _told_recording(work, recording)
        folder = (self.folder / TRIALS).resolve()
        folder.mkdir(exist_ok=True)
        return TrialConfig(
            task=TaskConfig(path=work.task.path.resolve()),
            trial_name=work.name,
            trials_dir=folder,
            agent=AgentConfig(
                import_path=agent.import_path or AGENTS[agent.name],
                model_name=agent.model or None,
                kwargs=kwargs,
                env=agent.env,
                load_trajectory=str(conversation.resolve()),
            ),
            environment=EnvironmentConfig(
                import_path=given.import_path or ENVIRONMENT,
                kwargs=own,
                **{key: value for key, value in given.kwargs.items() if key in fields},
            ),
        )


def _since(began: float) -> float:
    return round(time.monotonic() - began, 3)


def document(cut: Trajectory, pending: Call | None, result: Result | None) -> dict[str, Any]:
    """The conversation up to the point as ATIF: the recorded document's own steps where the record is one, else ours.

    What the agent's program put before the first answer by itself (its rules, its environment) is left out: it does so again
    when it goes on. result: of the proposed call, as it is now.
    """
    found = _recorded(cut)
    first = next((n for n, step in enumerate(cut.steps) if step.source == "agent"), len(cut.steps))
    kept = [n for n, step in enumerate(cut.steps) if n >= first or (step.source == "user" and step.prompt)]
    ours = atif_out.write(_with(cut, pending, result))
    if found is None:
        steps = [ours["steps"][n] for n in kept]
    else:
        ours["agent"] = found["agent"]
        steps = [found["steps"][n] for n in kept]
        calls = {call.id for call in cut.steps[-1].calls} | ({pending.id} if pending is not None else set())
        last = {**steps[-1]}
        last["tool_calls"] = [one for one in last.get("tool_calls") or () if one.get("tool_call_id") in calls]
        results = [
            one for one in (last.get("observation") or {}).get("results", ()) if one.get("source_call_id") in calls
        ]
        if pending is not None and result is not None:
            results = [one for one in results if one["source_call_id"] != pending.id]
            results.append({"source_call_id": pending.id, "content": result.output})
        last["observation"] = {"results": results}
        steps[-1] = {key: value for key, value in last.items() if value not in ([], {"results": []})}
    ours["steps"] = [{**step, "step_id": number} for number, step in enumerate(steps, 1)]
    del ours["final_metrics"]
    return ours


def _recorded(cut: Trajectory) -> dict[str, Any] | None:
    """The ATIF document that a record was read from, where its steps are those of the record."""
    try:
        given = json.loads(Path(cut.path).read_text(encoding="utf-8"))
        sources = [step["source"] for step in given["steps"][: len(cut.steps)]]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return given if sources == [step.source for step in cut.steps] and isinstance(given.get("agent"), dict) else None


def _with(cut: Trajectory, pending: Call | None, result: Result | None) -> Trajectory:
    """The steps with the proposed call and its result."""
    made = Trajectory(cut.id, "atif", cut.agent, list(cut.steps), "", cut.agent_version, cut.model, cut.cwd)
    old = cut.steps[-1]
    last = Step(old.source, old.message, old.reasoning, list(old.calls), dict(old.results))
    last.time, last.id, last.model, last.metrics, last.prompt = old.time, old.id, old.model, old.metrics, old.prompt
    if pending is not None:
        last.calls.append(pending)
        if result is not None:
            last.results[pending.id] = result
    made.steps[-1] = last
    return made


def _answers(folder: Path, prompt: str) -> int:
    """Steps of the agent after what it was told."""
    words = " ".join(prompt.split())[:200]
    for one in trajectories_of(folder):
        told = [
            n for n, step in enumerate(one.steps) if step.source == "user" and words in " ".join(step.message.split())
        ]
        if told and not one.parent:
            return sum(step.source == "agent" for step in one.steps[told[-1] + 1 :])
    return 0


def _told_recording(work: Work, recording: Recording) -> list[Any]:
    """A recording with what its first replay showed, as JSON: a trial's settings are JSON."""
    rows = []
    for one in work.rebuilt.prefix.compared:
        row = {key: value for key, value in asdict(one.recorded).items() if value not in (None, (), "")}
        rows.append([row, one.grade, one.replays[0].output, one.replays[0].exit_code])
    return [{"lasting": recording.lasting, "workdir": recording.workdir}, *rows]


def recording_from(given: list[Any]) -> tuple[Recording, list[tuple[str, str, int | None]]]:
    """(the recording, (grade, output, exit code) of each command) of what `_told_recording` made."""
    head, *rows = given
    commands, shown = [], []
    for row, grade, output, code in rows:
        edits = tuple(cast("tuple[str, str, str]", tuple(edit)) for edit in row.get("edits", ()))
        commands.append(replace(Recorded(**{k: v for k, v in row.items() if k != "edits"}), edits=edits))
        shown.append((grade, output, code))
    return Recording(tuple(commands), head["lasting"], head["workdir"]), shown


__all__ = ["InTrials", "recording_from"]
