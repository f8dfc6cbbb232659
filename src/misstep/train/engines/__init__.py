"""Engines: the same recipes on other machinery. Each is imported where it is used; torch and the like come with extra `train`."""
