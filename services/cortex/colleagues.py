"""Colleagues: who else is at work, and which actions each of them offers."""

from collections.abc import Mapping

import msgspec

from shared.contracts import Presence


class Colleagues(msgspec.Struct, frozen=True, kw_only=True):
    """The other agents by name, each with its actions and what they do."""

    offers: Mapping[str, Mapping[str, str]] = {}
    descriptions: Mapping[str, str] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Their names, sorted."""
        return tuple(sorted(self.offers))

    def actions_of(self, name: str) -> Mapping[str, str] | None:
        """The actions of the agent called ``name`` with what they do; None where there is no such agent."""
        return self.offers.get(name)

    def describe(self) -> str:
        """A line for each of them and its actions, for a question to the model."""
        lines = []
        for name in self.names:
            lines.append(f"- {name}: {self.descriptions.get(name, '')}")
            lines += [f"  - {name}'s action {action}: {what}" for action, what in self.offers[name].items()]
        return "\n".join(lines)


def at_work(pages: Mapping[str, Presence], own_name: str) -> Colleagues:
    """The agents that the yellow pages name, oneself left out."""
    others = {name: page for name, page in pages.items() if name != own_name}
    return Colleagues(
        offers={name: page.actions for name, page in others.items()},
        descriptions={name: page.description for name, page in others.items()},
    )
