"""Proofreader: an agent with one action of its own and one skill."""

import asyncio
from pathlib import Path

from links import find_broken_links

from shared.agent.base import Agent
from shared.agent.process import run
from shared.errors import ActionError
from shared.skills.workspace import require_readable
from shared.tasks.actions import Outcome, register_action


class Proofreader(Agent):
    """Reads documents and changes none."""

    @register_action(
        "Find links that lead nowhere", {"folder": "Absolute path of a folder of Markdown files"}
    )
    async def check_links(self, folder: str) -> Outcome:
        """Each link with its file and line; raises ActionError unless the policy lets the folder be read."""
        if not Path(folder).is_dir():
            raise ActionError(f"{folder} is no folder", "Name one by its absolute path")
        await require_readable(self.context, folder, ".")
        broken = await asyncio.to_thread(find_broken_links, Path(folder))
        lines = [f"{len(broken)} links lead nowhere", *(f"- {each.place}: {each.target}" for each in broken)]
        return Outcome(output="\n".join(lines), evidence_refs=tuple(each.place for each in broken))


if __name__ == "__main__":
    run(Proofreader, __file__)
