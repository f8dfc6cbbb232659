"""Randomised experiments: a design, its schedule and lock, the attempts, what they say, and branch tests.

    design (TOML) -> lock + schedule -> trials (Harbor) -> attempts -> analysis -> report
                                        any Harbor job, any run of terminal-bench -^

One attempt is one record (`Attempt`). Everything below is a function of records, a design and nothing else, so that
whoever has the files of a panel can compute its numbers again.
"""

from misstep.experiment.attempts import (
    TERMINATIONS,
    Attempt,
    AttemptsError,
    fair,
    observed,
    read_attempts,
    write_attempts,
)

__all__ = [
    "TERMINATIONS",
    "Attempt",
    "AttemptsError",
    "fair",
    "observed",
    "read_attempts",
    "write_attempts",
]
