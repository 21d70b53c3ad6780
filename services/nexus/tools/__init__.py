"""The tools of the desk, by domain, and messages that ask for them, in ``examples``."""
