"""The briefings of morning and evening: their sections, sources and times."""
