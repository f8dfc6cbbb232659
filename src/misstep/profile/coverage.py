"""What a labelled taxonomy comes to: shares of types with intervals, coverage, saturation, agreement, overlaps.

Steps of one environment are not independent: intervals of shares of steps are those of clusters (environments).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import comb
from typing import Any

from misstep.profile.labelling import Labels
from misstep.profile.labels import StepLabel
from misstep.profile.taxonomy import Key, Taxonomy
from misstep.stats import Agreement, clopper_pearson, cohen_kappa, wilson_clustered

Known = dict[Key, tuple[str, ...]]
"""The labels of the steps that have an answer."""
ALIKE = 0.5
"""Jaccard index from which on a type and a misstep of the catalogue are said to be much the same."""


def numbers(
    taxonomy: Taxonomy,
    steps: Sequence[StepLabel],
    every: Sequence[StepLabel],
    first: Labels,
    again: Mapping[str, Labels],
) -> dict[str, Any]:
    """All of it, as JSON values.

    steps: the error steps; every: all judged steps; again: other readings of a sample of the error steps.
    """
    known: Known = {}
    for step in steps:
        found = first.types.get(step.key)
        if found is not None:
            known[step.key] = found
    environments = {step.key: step.task for step in steps}
    types = [_type(one.id, known, environments, taxonomy) for one in taxonomy.types]
    types.sort(key=lambda one: (-one["steps"]["some"], one["id"]))
    return {
        "taxonomy": {
            "sha256": taxonomy.sha256,
            "made": dict(taxonomy.made),
            "cards": taxonomy.cards,
            "batches": taxonomy.batches,
            "asked": dict(taxonomy.asked),
        },
        "annotator": first.model,
        "error_steps": len(steps),
        "environments": len(set(environments.values())),
        "labelled": len(known),
        "failures": first.failures,
        "unread": sum(step.key not in first.types for step in steps),
        "types": types,
        "coverage": _share(known, environments, bool),
        "union": _union(types, known, environments),
        "none": sorted(list(key) for key, names in known.items() if not names)[:50],
        "passes": [dict(one) for one in taxonomy.passes],
        "rarefaction": rarefaction([one.batches for one in taxonomy.types if not one.since], taxonomy.batches),
        "tail": [dict(one) for one in sorted(taxonomy.tail, key=lambda one: (-one["cards"], one["name"]))],
        "agreement": {name: agreement(taxonomy, first, other) for name, other in again.items()},
        "overlap": overlap(taxonomy, known, every),
    }


def _type(name: str, known: Known, environments: Mapping[Key, str], taxonomy: Taxonomy) -> dict[str, Any]:
    kind = next(one for one in taxonomy.types if one.id == name)
    share = _share(known, environments, lambda names: name in names)
    return {
        "id": name,
        "name": kind.name,
        "definition": kind.definition,
        "since": kind.since,
        "batches": kind.batches,
        **share,
        "alone": sum(names == (name,) for names in known.values()),
        "small": bool(known) and share["steps"]["some"] < 0.01 * len(known),
    }


def _share(
    known: Known, environments: Mapping[Key, str], holds: Callable[[tuple[str, ...]], Any]
) -> dict[str, dict[str, Any]]:
    """The share of steps, and of environments with such a step."""
    by_environment: dict[str, list[bool]] = defaultdict(list)
    for key, names in known.items():
        by_environment[environments[key]].append(bool(holds(names)))
    counts = [(sum(one), len(one)) for one in by_environment.values()]
    some, of = sum(k for k, _ in counts), sum(n for _, n in counts)
    touched = sum(k > 0 for k, _ in counts)
    return {
        "steps": _with(some, of, wilson_clustered(counts)),
        "environments": _with(touched, len(counts), clopper_pearson(touched, len(counts))),
    }


def _with(some: int, of: int, interval: Any) -> dict[str, Any]:
    return {
        "some": some,
        "of": of,
        "rate": some / of if of else None,
        "interval": None if interval is None else [interval.low, interval.high],
    }


def _union(types: Iterable[Mapping[str, Any]], known: Known, environments: Mapping[Key, str]) -> list[dict[str, Any]]:
    """The share of steps and environments of the k largest types together, for k = 1, 2, ..."""
    seen: set[str] = set()
    made = []
    whole = len({environments[key] for key in known})
    for one in types:
        seen.add(one["id"])
        covered = [key for key, names in known.items() if seen & set(names)]
        made.append(
            {
                "types": len(seen),
                "id": one["id"],
                "steps": len(covered) / len(known) if known else None,
                "environments": len({environments[key] for key in covered}) / whole if whole else None,
            }
        )
    return made


def rarefaction(batches: Sequence[int], whole: int) -> list[list[float]]:
    """[b, how many of the types that recur had been proposed after b batches], the exact mean over all orders of the batches.

    batches: for each type, in how many of the `whole` batches it was proposed.
    """
    if not whole:
        return []
    shown = sorted({1, *(round(whole * n / 20) for n in range(1, 21))} - {0})
    return [[b, sum(1 - comb(whole - min(m, whole), b) / comb(whole, b) for m in batches)] for b in shown]


def agreement(taxonomy: Taxonomy, first: Labels, other: Labels) -> dict[str, Any]:
    """Cohen's kappa of two readings, over the steps that both read: of each type, and of whole answers."""
    both = [key for key in sorted(other.types) if key in first.types]
    whole = cohen_kappa((first.types[key], other.types[key]) for key in both)

    def of(name: str) -> Agreement:
        return cohen_kappa((_has(first.types[key], name), _has(other.types[key], name)) for key in both)

    return {
        "model": other.model,
        "steps": len(both),
        "failures": other.failures,
        "whole": _agreed(whole),
        "types": {one.id: _agreed(of(one.id)) for one in taxonomy.types},
    }


def _has(names: tuple[str, ...] | None, name: str) -> bool | None:
    return None if names is None else name in names


def _agreed(found: Agreement) -> dict[str, Any]:
    return {
        "items": found.items,
        "unknown": found.dropped,
        "observed": found.observed,
        "kappa": found.kappa,
        "interval": None if found.interval is None else [found.interval.low, found.interval.high],
    }


def overlap(taxonomy: Taxonomy, known: Known, every: Sequence[StepLabel]) -> list[dict[str, Any]]:
    """Each pair of a type and a misstep of the catalogue that occurs in a step of the type.

    both, type (only), misstep (only): labelled error steps; a detector that cannot tell counts as unknown, one that
    has nothing to say of a call as no occurrence. outside: its occurrences in steps that were not called bad.
    """
    labels = {one.key: one for one in every}
    said = {key: labels[key] for key in known if key in labels}
    outside: dict[str, int] = defaultdict(int)
    for one in every:
        if one.verdict == "good":
            for name in one.missteps:
                outside[name] += 1
    made = []
    for kind in taxonomy.types:
        mine = [one for key, one in said.items() if kind.id in known[key]]
        for name in sorted({name for one in mine for name in one.missteps}):
            both = sum(name in one.missteps for one in mine)
            unknown = sum(one.catalogue.get(name, False) is None for one in mine)
            misstep = sum(name in one.missteps for one in said.values()) - both
            only = len(mine) - both - unknown
            made.append(
                {
                    "type": kind.id,
                    "misstep": name,
                    "both": both,
                    "only_type": only,
                    "only_misstep": misstep,
                    "unknown": unknown,
                    "outside": outside[name],
                    "jaccard": both / (both + only + misstep),
                }
            )
    return sorted(made, key=lambda one: (-one["jaccard"], one["type"], one["misstep"]))
