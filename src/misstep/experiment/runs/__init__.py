"""Attempts through Harbor: agents with the guard in them, what they need in a container, what counts, what is made again."""
