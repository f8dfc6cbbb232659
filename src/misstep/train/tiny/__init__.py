"""A small stochastic policy made from nothing, on tasks of its own: what training is proved on, on a CPU.

Nothing is downloaded: tasks come by seed, dialogs from scripts that run in real sandboxes, the tokenizer and the model from
the dialogs. It commits known missteps because some of the scripts do. Needs torch (extra `train`) in `model`, `policy`, `fit`.
"""
