"""The base of every skill: an object with actions that is handed the agent's context."""

from shared.agent.context import AgentContext


class Skill:
    """Actions that any agent can have, by naming the class under ``skills`` in its profile."""

    def __init__(self, context: AgentContext) -> None:
        self.context = context

    def describe_action(self, name: str, description: str) -> str:
        """What the action ``name`` does, for people and models: ``description`` unless a skill adds to it."""
        return description
