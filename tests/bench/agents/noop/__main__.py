"""An agent whose actions do nothing."""

from shared.agent.base import Agent
from shared.agent.process import run
from shared.tasks.actions import register_action


class Noop(Agent):
    """Does nothing, so that what is measured is the office around it."""

    @register_action("Do nothing")
    async def rest(self) -> str:
        """Nothing."""
        return "done"

    @register_action("Do nothing, and note it")
    async def note(self) -> str:
        """Nothing; the note has the task claimed first, as any effect has."""
        await self.context.progress("rests")
        return "done"


if __name__ == "__main__":
    run(Noop, __file__)
