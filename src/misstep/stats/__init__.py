"""Exact paired inference over tasks. Imports nothing else of ours."""
