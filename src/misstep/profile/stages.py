"""The stages of a taxonomy in a run's folder: built, refined, frozen, labelled. Each reads what the one before left there.

A stage whose file is there is done, and not done again; one that was ended goes on where it stopped (answers that were paid for are in
the cache, cards and labels in their files). A stage made from something else is named, never mixed in.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from misstep.profile import cards as cards_
from misstep.profile import labelling
from misstep.profile.asking import Asker, Watch
from misstep.profile.build import Parameters, build
from misstep.profile.labels import StepLabel
from misstep.profile.labels import load as load_steps
from misstep.profile.refine import refine
from misstep.profile.taxonomy import FILES, Taxonomy, TaxonomyError, load, save

if TYPE_CHECKING:
    from misstep.models import Client
    from misstep.profile.annotator import Annotator
    from misstep.profile.labelling import Labels

BUILD_PROMPTS = ("card", "propose_types", "same_type", "name_type")


def steps_of(folder: Path) -> tuple[list[StepLabel], list[StepLabel]]:
    """(error steps, all judged steps) of a run.

    Raises:
        LinesError; TaxonomyError where no step was called bad.
    """
    _, every = load_steps(folder)
    found = cards_.error_steps(every)
    if not found:
        raise TaxonomyError(f"{folder / 'profile.jsonl'}: no step has the verdict bad: nothing to sort")
    return found, every


async def built(folder: Path, client: Client, parameters: Parameters, watch: Watch | None = None) -> Taxonomy:
    """types.json: made, or as it is there.

    Raises:
        TaxonomyError, TooFew, Stopped, LinesError.
    """
    from misstep.profile.annotator import identities

    steps, _ = steps_of(folder)
    annotator, asker = _annotator(client, watch)
    made = {
        "annotator": annotator.identity,
        "prompts": identities(*BUILD_PROMPTS),
        "room": cards_.ROOM.identity,
        "steps": _digest(steps),
    }
    path = folder / FILES["built"]
    if path.exists():
        return _as_it_is(path, {**made, "parameters": _plain(parameters)})
    written = await cards_.make(steps, folder, annotator, asker)
    taxonomy = await build(written, annotator, asker, parameters, made)
    save(folder, taxonomy)
    return taxonomy


async def refined(folder: Path, client: Client, watch: Watch | None = None) -> Taxonomy:
    """refined.json: made from types.json, or as it is there.

    Raises:
        TaxonomyError, Stopped, LinesError.
    """
    from misstep.profile.annotator import identities

    draft = _there(folder, "built", "build")
    steps, _ = steps_of(folder)
    annotator, asker = _annotator(client, watch)
    more = {
        "refined_from": draft.sha256,
        "refined_by": annotator.identity,
        "refined_with": identities("assign_types", "name_type", "same_type"),
        "refined_on": _digest(steps),
    }
    path = folder / FILES["refined"]
    if path.exists():
        return _as_it_is(path, {**draft.made, **more})
    parameters = _parameters(draft, folder)
    written = await cards_.make(steps, folder, annotator, asker)
    taxonomy = await refine(draft, written, annotator, asker, parameters)
    taxonomy = replace(taxonomy, made={**draft.made, **more})
    save(folder, taxonomy)
    return taxonomy


def frozen(folder: Path) -> Taxonomy:
    """taxonomy.json: from refined.json, once and for all. Raises TaxonomyError."""
    taxonomy = _there(folder, "refined", "refine").frozen()
    save(folder, taxonomy)
    return taxonomy


async def labelled(
    folder: Path, client: Client, watch: Watch | None = None, again: int = 0, second: Client | None = None
) -> Labels:
    """labels.jsonl of all error steps; of a sample of `again` of them, another draw, and where given a second model's reading.

    Raises:
        TaxonomyError, Stopped, LinesError.
    """
    taxonomy = _there(folder, "frozen", "freeze")
    steps, _ = steps_of(folder)
    annotator, asker = _annotator(client, watch)
    first = await labelling.label(taxonomy, steps, folder, annotator, asker)
    some = labelling.sample(steps, again)
    if some:
        await labelling.label(taxonomy, some, folder, annotator, asker, "draw")
    if some and second is not None:
        other, its = _annotator(second, watch)
        await labelling.label(taxonomy, some, folder, other, its, "second")
    return first


def latest(folder: Path) -> Taxonomy:
    """Of the stage that a folder has come to. Raises TaxonomyError."""
    for stage in ("frozen", "refined"):
        if (folder / FILES[stage]).exists():
            return load(folder / FILES[stage])
    return _there(folder, "built", "build")


def _there(folder: Path, stage: str, command: str) -> Taxonomy:
    path = folder / FILES[stage]
    if not path.exists():
        raise TaxonomyError(f"{path} is not there yet: misstep taxonomy {command} {folder}")
    return load(path)


def _as_it_is(path: Path, made: dict[str, Any]) -> Taxonomy:
    """The taxonomy of a file, edited by a person or not, if it was made as it would be now. Raises TaxonomyError."""
    there = load(path)
    wanted = json.loads(json.dumps(made))
    for name in [*wanted, *there.made]:
        if there.made.get(name) != wanted.get(name):
            what = {"steps": "error steps", "refined_on": "error steps", "refined_from": "types.json"}.get(name, name)
            raise TaxonomyError(
                f"{path}: was made with other {what}: remove it to have it made anew (what was paid for is in the cache)"
            )
    return there


def _parameters(taxonomy: Taxonomy, folder: Path) -> Parameters:
    given = taxonomy.made.get("parameters")
    try:
        return Parameters(**(given or {}))
    except TypeError:
        raise TaxonomyError(f"{folder / FILES[taxonomy.stage]}: parameters of another version") from None


def _plain(parameters: Parameters) -> dict[str, Any]:
    return {one.name: getattr(parameters, one.name) for one in fields(parameters)}


def _annotator(client: Client, watch: Watch | None) -> tuple[Annotator, Asker[Any]]:
    from misstep.profile.annotator import Annotator

    annotator = Annotator(client)
    return annotator, Asker(annotator.at_once, watch)


def _digest(steps: list[StepLabel]) -> str:
    """SHA-256 of which steps they are, and why they are errors."""
    told = [[*one.key, one.task, one.reason] for one in steps]
    return hashlib.sha256(json.dumps(told, separators=(",", ":")).encode()).hexdigest()
