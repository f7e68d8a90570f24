"""Hypothesis for all unit tests: the same examples every time, and no deadline on a busy machine."""

from hypothesis import settings

settings.register_profile("unit", derandomize=True, deadline=None, database=None, max_examples=60)
settings.load_profile("unit")
