"""What the policy says of one command."""

import msgspec

from shared.contracts import CommandVerdict


class Ruling(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on ``command``, the stable id of the ``rule`` that decided, and why in one sentence."""

    command: str
    verdict: CommandVerdict
    rule: str
    why: str
