"""A skill: counts the words of a text."""

from shared.errors import ActionError
from shared.skills.skill import Skill
from shared.tasks.actions import Outcome, register_action


class CountingSkill(Skill):
    """Counts."""

    @register_action(
        "Count the words of a text", {"text": "The text", "at_least": "The letters that a word has at least"}
    )
    async def count_words(self, text: str, at_least: int = 1) -> Outcome:
        """The number as text and in data key ``words``; raises ActionError if ``at_least`` is below 1."""
        if at_least < 1:
            raise ActionError(f"at_least is {at_least}", "Ask for 1 or more")
        await self.context.progress("counts")
        words = sum(len(word) >= at_least for word in text.split())
        return Outcome(output=f"{words} words", data={"words": words})
