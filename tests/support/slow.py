"""An agent that takes its time: what is killed while it works, to see how soon another goes on."""

from pathlib import Path

CODE = '''"""An agent for tests: waits."""
import asyncio
from shared.agent.base import Agent
from shared.agent.process import run
from shared.tasks.actions import Outcome, register_action


class Slow(Agent):
    """Waits."""

    @register_action("Wait", {"seconds": "how long"})
    async def wait(self, seconds: float = 0.0) -> str:
        """The number of the attempt."""
        await asyncio.sleep(seconds)
        return f"attempt {self.context.current_task.attempt}"

    @register_action("Hand a patch over", {"path": "of the patch", "folder": "that it is for"})
    async def deliver(self, path: str, folder: str) -> Outcome:
        """The patch, as an agent delivers one."""
        targets = [{"path": path, "folder": folder}]
        data = {"patches": [path], "patch_targets": targets}
        return Outcome(output="Changed.", output_paths=(path,), data=data)


if __name__ == "__main__":
    run(Slow, __file__)
'''


def install_slow_agent(folder: Path, concurrency: int = 8) -> dict[str, str]:
    """Write the agent ``slow`` below ``folder``; returns the settings with which an office has it."""
    home = folder / "agents" / "slow"
    home.mkdir(parents=True)
    (home / "profile.yaml").write_text(f"name: slow\ndescription: Waits.\nconcurrency: {concurrency}\n")
    (home / "__main__.py").write_text(CODE)
    return {"MAILROOM_AGENTS_DIR": str(folder / "agents"), "PYTHONPATH": str(Path.cwd())}


def slow_goal(goal_id: str, seconds: float) -> dict[str, object]:
    """A submission that has ``slow`` wait once."""
    context = {"assignee": "slow", "action": "wait", "params": {"seconds": seconds}}
    return {"text": "Wait", "goal_id": goal_id, "context": context}
