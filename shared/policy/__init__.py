"""The command policy: allow, ask or deny, with the rule that decided, why, and what has to be reached."""

from shared.policy.judgement import find_faults, judge, judge_read
from shared.policy.rules import Ruling

__all__ = ["Ruling", "find_faults", "judge", "judge_read"]
