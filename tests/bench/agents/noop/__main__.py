"""An agent whose one action does nothing."""

from shared.agent.base import Agent
from shared.agent.process import run
from shared.tasks.actions import register_action


class Noop(Agent):
    """Does nothing, so that what is measured is the office around it."""

    @register_action("Do nothing")
    async def rest(self) -> str:
        """Nothing."""
        return "done"


if __name__ == "__main__":
    run(Noop, __file__)
