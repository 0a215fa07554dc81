"""Settings every test shares."""

from hypothesis import settings

# The same examples on every run and machine; no deadline, as CI machines stall.
settings.register_profile("fixed", derandomize=True, deadline=None, database=None, max_examples=50)
settings.load_profile("fixed")
