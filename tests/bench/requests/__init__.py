"""Sixty requests to the conductor as people write them: where each goes, and whether a part gets lost."""
