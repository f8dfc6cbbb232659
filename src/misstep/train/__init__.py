"""Training a policy away from its missteps: RL from the states where they happened (MiRL), and what it is compared with.

An `Episode` is what every engine gets; `rollout` makes them in sandboxes, from `starts`, with `rewards`. Nothing here imports
an engine: those are in `misstep.train.engines`, behind the extra `train`.
"""
