"""The command policy: allow, ask or deny, with the rule that decided and why."""

from shared.sandbox.policy.judgement import judge
from shared.sandbox.policy.ruling import Ruling

__all__ = ["Ruling", "judge"]
