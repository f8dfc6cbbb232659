"""What the judged steps of a profile come to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from misstep.profile.labels import StepLabel
from misstep.stats import Agreement, clopper_pearson, cohen_kappa, wilson, wilson_clustered


@dataclass(frozen=True, slots=True)
class Share:
    """Some of all, with an interval of 95 %."""

    some: int
    of: int
    exact: bool = False
    """Clopper-Pearson's interval instead of Wilson's."""
    clusters: tuple[tuple[int, int], ...] = ()
    """(some, of) of each task, where what is counted is not independent within one: the interval is that of the tasks."""

    @property
    def rate(self) -> float | None:
        return self.some / self.of if self.of else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """None where there is nothing."""
        if self.clusters:
            found = wilson_clustered(self.clusters)
        else:
            found = (clopper_pearson if self.exact else wilson)(self.some, self.of)
        return None if found is None else (found[0], found[1])

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {"some": self.some, "of": self.of, "rate": self.rate, "interval": self.interval}


@dataclass(frozen=True)
class Summary:
    """Counts of calls unless it says otherwise."""

    calls: int
    bad: Share
    """Of those with a verdict."""
    trajectories_bad: Share
    """Trajectories with a bad call, of those with a verdict on any."""
    tasks_bad: Share
    failures: dict[str, int]
    """Kind -> calls without a verdict."""
    invalid_votes: int
    confidence: float | None
    """Mean over those with several votes."""
    agreement: Agreement
    """Of the model (bad) and the catalogue (some misstep occurred), over the calls at which the catalogue knows an answer."""
    caught: Share
    """Calls with a misstep of the catalogue that the model calls bad."""
    known: Share
    """Calls that the model calls bad and in which the catalogue finds a misstep: the rest is what no detector was written for."""
    by_misstep: dict[str, Share] = field(default_factory=dict)
    """Catalogue misstep -> its occurrences that the model calls bad."""

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "calls": self.calls,
            "bad": self.bad.plain(),
            "trajectories_bad": self.trajectories_bad.plain(),
            "tasks_bad": self.tasks_bad.plain(),
            "failures": self.failures,
            "invalid_votes": self.invalid_votes,
            "confidence": self.confidence,
            "agreement": {
                "calls": self.agreement.items,
                "observed": self.agreement.observed,
                "kappa": self.agreement.kappa,
            },
            "caught": self.caught.plain(),
            "known": self.known.plain(),
            "by_misstep": {name: share.plain() for name, share in self.by_misstep.items()},
        }


def summary(labels: Iterable[StepLabel]) -> Summary:
    """Of the judged steps. A step without a verdict counts among the failures, and nowhere else."""
    every = list(labels)
    judged = [one for one in every if one.verdict is not None]
    bad = [one for one in judged if one.verdict == "bad"]
    spoken = [(one.verdict == "bad", _occurred(one)) for one in judged if one.catalogue]
    occurred = [one for one in judged if one.missteps]
    several = [one.confidence for one in judged if one.confidence is not None]
    names = sorted({name for one in occurred for name in one.missteps})
    return Summary(
        calls=len(every),
        bad=_share((one.task, one.verdict == "bad") for one in judged),
        trajectories_bad=_groups(((one.path, one.n) for one in judged), ((one.path, one.n) for one in bad)),
        tasks_bad=_groups((one.task for one in judged), (one.task for one in bad)),
        failures=dict(sorted(Counter(one.failure_kind for one in every if one.verdict is None).items())),
        invalid_votes=sum(vote is None for one in judged for vote in one.votes),
        confidence=sum(several) / len(several) if several else None,
        agreement=cohen_kappa(spoken),
        caught=_share((one.task, one.verdict == "bad") for one in occurred),
        known=_share((one.task, bool(one.missteps)) for one in bad),
        by_misstep={
            name: _share((one.task, one.verdict == "bad") for one in occurred if name in one.missteps) for name in names
        },
    )


def _occurred(label: StepLabel) -> bool | None:
    said = set(label.catalogue.values())
    return True if True in said else None if None in said else False


def _share(found: Iterable[tuple[str, bool]]) -> Share:
    """Of (task, whether it is so)."""
    clusters: dict[str, list[int]] = {}
    for task, so in found:
        count = clusters.setdefault(task, [0, 0])
        count[0] += so
        count[1] += 1
    counts = tuple((some, of) for some, of in clusters.values())
    return Share(sum(some for some, _ in counts), sum(of for _, of in counts), clusters=counts)


def _groups(all: Iterable[Any], some: Iterable[Any]) -> Share:
    return Share(len(set(some)), len(set(all)), exact=True)
