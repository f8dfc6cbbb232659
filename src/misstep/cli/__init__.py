"""The `misstep` command: one file a command group."""
