"""Profiling with models: find missteps that nobody wrote a detector for (MiRL, the stage of profiling).

A localizer judges the steps of recorded (`recorded`) or live trajectories; what it found is one file of lines (`labels`), from
which a taxonomy is made. What a model sees of a trajectory is in `view`, what it is told in `prompts/`.
"""
