"""An agent whose one action does nothing."""

from shared.actions import register_action
from shared.agent import BaseAgent
from shared.process import run


class Noop(BaseAgent):
    """Does nothing, so that what is measured is the office around it."""

    @register_action("Do nothing")
    async def rest(self) -> str:
        """Nothing."""
        return "done"


if __name__ == "__main__":
    run(Noop, __file__)
