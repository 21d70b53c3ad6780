"""The skills that agents can be given: one ``*Skill`` a file; a profile lists its own under ``skills``."""
