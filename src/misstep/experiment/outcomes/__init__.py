"""From what an attempt left behind to its record: how it ended, its funnel; Harbor jobs, terminal-bench runs, tables."""
