"""The agent loop and what surrounds it: prompts, tools, limits, checkpoints, usage."""
