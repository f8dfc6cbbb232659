"""misstep: find, stop, train away and prove the recurring wrong steps of terminal agents."""

__version__ = "0.1.0"
