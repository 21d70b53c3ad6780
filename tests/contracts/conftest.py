"""How thoroughly the property tests look: ``--hypothesis-profile=search`` tries many new examples."""

from hypothesis import settings

settings.register_profile("steady", max_examples=15, deadline=None, derandomize=True, database=None)
settings.register_profile("search", max_examples=1_000, deadline=None, database=None)
settings.load_profile("steady")
