"""Branch tests: from the very event at which a policy fires, on: with its text, with a sham, with nothing.

    recorded attempts -> points (policy, event) -> sandbox rebuilt by replay, conversation restored -> continuations
                      -> verifier -> records -> effect over tasks, points nested in them

All arms of a point share everything that came before it, so what differed before it is no variance of the effect.
See docs/branch.md.
"""

from misstep.experiment.branch.analysis import BranchAnalysis, analyse
from misstep.experiment.branch.design import BranchDesign, BranchDesignError
from misstep.experiment.branch.points import Found, Point, PointsError, Recorded, find
from misstep.experiment.branch.records import Branched, RecordsError

__all__ = [
    "BranchAnalysis",
    "BranchDesign",
    "BranchDesignError",
    "Branched",
    "Found",
    "Point",
    "PointsError",
    "Recorded",
    "RecordsError",
    "analyse",
    "find",
]
