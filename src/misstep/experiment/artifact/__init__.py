"""A panel as one folder that others can check: written, and every number of it computed again."""
