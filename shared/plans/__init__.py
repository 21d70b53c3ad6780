"""Plans: their steps, the agents that can do them, the checks before they are carried out, their order."""
