"""The command policy: allow, ask or deny, with the rule that decided and why."""

from shared.policy.judgement import judge, judge_read
from shared.policy.rules import Ruling

__all__ = ["Ruling", "judge", "judge_read"]
