"""What is shown whole: the environment, what was typed before, a file of the system; and who takes parts."""

import re
from typing import TYPE_CHECKING

from shared.policy.scope import Stream
from shared.policy.secrets import is_secret_variable, is_sought

if TYPE_CHECKING:
    from shared.policy.call import Call

_WHOLE = frozenset("cat sort gsort uniq tac nl column fold pr fmt expand rev less more tee ts".split())
"""Programs whose output is their input, in another order or dress."""
_PARTS = frozenset("grep egrep fgrep awk gawk mawk cut sed head tail wc read comm join uniq diff".split())
"""Programs that pick lines or columns."""
_FITS_MOST = re.compile(r"-\w*v\w*|(?!-)[^A-Za-z]*[A-Za-z]?[^A-Za-z]*").fullmatch
"""A pattern that leaves most lines: turned round, or without two letters."""


def is_listing(stream: Stream) -> bool:
    """Whether all of something is shown that only parts may be shown of."""
    return stream.source in {"environment", "history"} or stream.source.startswith("/")


def judge_listing(call: "Call") -> bool:
    """Judge what takes a listing; whether it is still a listing afterwards."""
    source = call.stdin.source
    if call.name in _WHOLE:
        return source != "history" and not (source.startswith("/") and call.name in {"sort", "uniq"})
    texts = [word.text for word in call.args]
    if "grep" in call.name or call.name in {"rg", "ag", "ack"}:
        sought = any(is_sought(text) or is_secret_variable(text) for text in texts)
        if sought or (not source.startswith("/") and any(_FITS_MOST(text) for text in texts)):
            call.find("secret.search")
    elif source == "environment" and not (call.name == "wc" or (call.name == "cut" and "-f1" in texts)):
        call.find("secret.environment")
    elif source.startswith("/") and call.name not in _PARTS:
        call.find("read.system", source)
    return False
