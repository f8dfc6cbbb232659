"""The guard: the catalogue's policies inside the hooks of a live agent.

`hook.py` is what a host runs for each event; `engine` decides, `session` remembers, `hosts` translate. That path is
standard library only, runs on Python 3.10 and imports as little as it can: nothing is imported here.
"""
