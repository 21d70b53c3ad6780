"""A task as an agent sees it: its context, its actions, the profiles of agents."""
