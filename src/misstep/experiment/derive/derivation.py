"""From policy-free attempts to candidates for policies (FIRE, section 4: deriving).

A procedural loss is a failure of a task that the agent can do. Evidence of that is a passed attempt at the same task by the
same agent (`split`, as 1 of 2): the failed attempts are aligned with a passed one at the first step where they part. Where no
attempt passed (`never`, as 0 of 2) an omission may still be seen: a misstep of the catalogue, or the state that one of its
policies watches. Candidates are clustered by misstep, not by task: what occurs in a failed attempt and in no passed attempt at
that task. Infrastructure faults, agents that never ran and attempts under policies are left out, and counted.

All of it is counting: no model, no judgement. Whether a cluster is a mechanism that a policy could change is for a person
to say.
"""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from misstep.catalogue import Fold, Misstep, missteps
from misstep.experiment.attempts import Attempt, AttemptsError, fair
from misstep.experiment.derive.align import Move, diverge, moves
from misstep.experiment.derive.losses import Case, Cluster, Derivation, Evidence, Facts, Pair, Sighting
from misstep.experiment.outcomes import classify
from misstep.experiment.outcomes.ingest import Options, each, ingest
from misstep.experiment.outcomes.places import Place, instruction, task_folder
from misstep.scan.record import cut, describe
from misstep.trajectory import Before, Event, Prompt, events

FREE = frozenset(["baseline"])
"""Arms of the guard that leave the agent alone."""


def chosen(preview: bool) -> list[Misstep]:
    """The missteps that are looked for: stable ones and those of the policies; with preview all that are not retired."""
    return [one for one in missteps() if one.status != "retired" and (preview or one.status == "stable" or one.scoped)]


def derive(
    paths: Sequence[Path],
    *,
    by: str = "agent",
    preview: bool = False,
    options: Options | None = None,
    folder: Path | None = None,
) -> Derivation:
    """The candidates of the trials below some folders.

    Args:
        by: whose attempts are of one kind: "agent" (agent and model) or "job".
        preview: look for missteps in preview too.
        options: how attempts are read; arms are told by `by`.
        folder: where `write` puts what the printed commands read.

    Raises:
        AttemptsError: something that is no trial; or a table, which has no steps to look at.
        OSError: a file cannot be read.
    """
    for path in paths:
        if path.is_file() and path.suffix != ".json":
            raise AttemptsError(
                f"{path}: trials are expected, with the agent's steps (Harbor jobs, terminal-bench runs)"
            )
    # without a verdict nothing was lost that is known
    options = replace(options or Options(), arm_from="agent" if by == "agent" else "job", ungraded="missing")
    read = ingest([Place(path) for path in paths], options)
    left_out: Counter[str] = Counter()
    kept: list[Attempt] = []
    for one in read.attempts:
        why = _unfit(one)
        if why:
            left_out[why] += 1
        else:
            kept.append(one)
    ids = tuple(one.id for one in chosen(preview))
    facts = dict(
        zip([a.trial for a in kept], each(_facts, [(a.trial, ids) for a in kept], options.workers), strict=True)
    )
    groups: dict[tuple[str, str], list[Attempt]] = defaultdict(list)
    for one in kept:
        groups[one.task, one.arm].append(one)
    cases: list[Case] = []
    solved = 0
    for (task, agent), found in sorted(groups.items()):
        if len(found) < 2:
            left_out["tasks with one attempt that counts"] += 1
        elif all(one.passed for one in found):
            solved += 1
        else:
            cases.append(_case(task, agent, found, facts))
    prompts: dict[str, str] = {}
    for one in kept:
        about = facts[one.trial]
        text = about.prompt or (instruction(Path(about.folder)) if about.folder else "")
        if text:
            prompts.setdefault(one.task, text)
    clusters = _clusters(cases, kept, facts, paths, _tasks(facts.values()), folder)
    return Derivation(len(read.attempts), solved, cases, clusters, dict(left_out), prompts, read.notes)


def _unfit(attempt: Attempt) -> str:
    """Why an attempt says nothing about what the agent does by itself, '' where it does."""
    if not fair(attempt):
        return "never ran" if attempt.termination == "never-ran" else "infrastructure faults"
    arms = set((attempt.extra.get("guard") or {}).get("arms", ()))
    return "attempts under policies" if attempt.fired or arms - FREE else ""


# -- one trial -----------------------------------------------------------------------------------------------------------


def _facts(job: tuple[str, tuple[str, ...]]) -> Facts:
    """What a trial shows: its first trajectory that is no sub-agent's."""
    trial, ids = job
    place = trial.partition("#")[0]
    found = [one for one in classify.trajectories_of(Path(place)) if not one.parent]
    if place != trial:
        found = [one for one in found if one.path == trial]
    if not classify.steps_of(found):
        return Facts(trial, False, folder=_task_folder(Path(place)))
    looked = [one for one in missteps() if one.id in ids]
    seen: dict[str, list[Sighting]] = defaultdict(list)
    made: list[Move] = []
    prompt = ""
    for trajectory in found:
        stream = list(events(trajectory))
        fold = Fold(looked)
        for event in stream:
            fold.push(event)
        for name, verdicts in fold.finish().verdicts.items():
            seen[name] += [_sighting(trial, stream[v.at], v.why) for v in verdicts if v.holds]
        prompt = prompt or next((event.text for event in stream if isinstance(event, Prompt)), "")
        made += moves(trajectory)
    occurred = {name: tuple(one) for name, one in seen.items() if one}
    return Facts(trial, True, tuple(made), occurred, prompt, _task_folder(Path(place)))


def _sighting(trial: str, event: Event, why: str) -> Sighting:
    command = describe(event.call, brief=True) if isinstance(event, Before) else ""
    return Sighting(trial, event.step, cut(why, 200), " ".join(cut(command, 200).split()))


def _task_folder(trial: Path) -> str:
    """The folder of the task that a Harbor trial ran, '' where it names none that is there."""
    try:
        found = task_folder(json.loads((trial / "result.json").read_bytes()))
    except (OSError, ValueError, AttributeError, RecursionError):
        return ""
    return str(found or "")


# -- one task ------------------------------------------------------------------------------------------------------------


def _case(task: str, agent: str, found: Sequence[Attempt], facts: Mapping[str, Facts]) -> Case:
    failed = [one for one in found if not one.passed]
    passed = [one for one in found if one.passed]
    return Case(
        task,
        agent,
        "split" if passed else "never",
        len(passed),
        len(found),
        dict(sorted(Counter(one.termination for one in failed).items())),
        tuple(_pairs(failed, passed, facts)),
        tuple(_evidence(failed, passed, facts)),
        sum(not facts[one.trial].recorded for one in found),
    )


def _pairs(failed: Sequence[Attempt], passed: Sequence[Attempt], facts: Mapping[str, Facts]) -> Iterable[Pair]:
    """Each failed attempt with the passed one that goes with it longest."""
    partners = [one for one in passed if facts[one.trial].recorded]
    for one in failed:
        if not facts[one.trial].recorded or not partners:
            continue
        made = [Pair(one, other, diverge(facts[one.trial].moves, facts[other.trial].moves)) for other in partners]
        yield max(made, key=lambda pair: (pair.divergence.common, -pair.divergence.passed_moves))


def _evidence(failed: Sequence[Attempt], passed: Sequence[Attempt], facts: Mapping[str, Facts]) -> Iterable[Evidence]:
    """Missteps of the failed attempts. Where some passed, and none of those is on record, nothing can be told."""
    known = [one for one in passed if facts[one.trial].recorded]
    if passed and not known:
        return
    excluded = {name for one in known for name in facts[one.trial].seen}
    held = {policy for one in known for policy in one.state}
    names = {name for one in failed for name in facts[one.trial].seen} - excluded
    states = {policy for one in failed if facts[one.trial].recorded for policy in one.state} - held
    for name in sorted(names | {_misstep(policy) for policy in states}):
        mine = {policy for policy in states if _misstep(policy) == name}
        attempts = [one for one in failed if name in facts[one.trial].seen or mine.intersection(one.state)]
        sightings = [s for one in attempts for s in facts[one.trial].seen.get(name, ())] if name not in excluded else []
        yield Evidence(name, len(attempts), tuple(sightings), tuple(sorted(mine)))


def _misstep(policy: str) -> str:
    return policy.partition("/")[0]


# -- clusters ------------------------------------------------------------------------------------------------------------


def _clusters(
    cases: Sequence[Case],
    kept: Sequence[Attempt],
    facts: Mapping[str, Facts],
    paths: Sequence[Path],
    tasks: str,
    folder: Path | None,
) -> list[Cluster]:
    by_id = {one.id: one for one in missteps()}
    recorded = [one for one in kept if facts[one.trial].recorded]
    names = sorted({evidence.misstep for case in cases for evidence in case.evidence} & by_id.keys())
    found = []
    for name in names:
        mine = [case for case in cases if any(one.misstep == name for one in case.evidence)]
        with_it = [one for one in recorded if name in facts[one.trial].seen]
        misstep = by_id[name]
        policies = tuple(policy.id for policy in misstep.policies)
        found.append(
            Cluster(
                name,
                misstep.name,
                tuple(case.task for case in mine if case.kind == "split"),
                tuple(case.task for case in mine if case.kind == "never"),
                sum(not one.passed for one in with_it),
                sum(not one.passed for one in recorded),
                sum(bool(one.passed) for one in with_it),
                sum(bool(one.passed) for one in recorded),
                policies,
                tuple(_next(name, bool(with_it), paths, tasks, folder)),
            )
        )
    return sorted(found, key=lambda one: (-len(one.split), -len(one.never), one.misstep))


def _next(name: str, occurs: bool, paths: Sequence[Path], tasks: str, folder: Path | None) -> Iterable[str]:
    """The commands that come next: a draft of a policy from the occurrences, and its routing (else that of those in use)."""
    if occurs:
        more = ["--folder", str(folder)] if folder else []
        yield shlex.join(["misstep", "policies", "propose", name, *map(str, paths), *more])
    described = str(folder / "tasks") if folder else tasks
    if described:
        # the draft stands in the portfolio that `write` made; without one, the portfolio in use
        more = ["--portfolio", str(folder / f"{name}.toml")] if folder and occurs else []
        yield shlex.join(["misstep", "policies", "audit", described, *more])


def _tasks(facts: Iterable[Facts]) -> str:
    """The folder that holds the folders of all tasks that are on this machine, '' where there is no one such."""
    parents = {str(Path(one.folder).parent) for one in facts if one.folder}
    return parents.pop() if len(parents) == 1 else ""


def write(derivation: Derivation, folder: Path) -> list[Path]:
    """Put down what the printed commands read: tasks/<task>.md, and a portfolio for the draft against each misstep.

    Files that are there already are left as they are. Raises OSError.
    """
    described = folder / "tasks"
    described.mkdir(parents=True, exist_ok=True)
    made = []
    for task, text in sorted(derivation.prompts.items()):
        made.append((described / f"{re.sub(r'[^A-Za-z0-9._@-]+', '-', task).strip('.-') or 'task'}.md", text))
    for cluster in derivation.clusters:
        name = f"{cluster.misstep}-reminder"
        text = f'[[policy]]\nid = "{name}"\nfile = "{name.replace("-", "_")}.py"\n'
        made.append((folder / f"{cluster.misstep}.toml", text))
    for path, text in made:
        if not path.exists():
            path.write_text(text, encoding="utf-8")
    return [path for path, _ in made]
