"""Before anything runs: the design, its tasks and cohorts, the schedule, the lock, what it will cost and can find."""
