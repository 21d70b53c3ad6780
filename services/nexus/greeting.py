"""Greetings, and what the front desk says to them: who is here, and what can be asked."""

import re
from collections.abc import Mapping

_POLITE = re.compile(
    r"\W*(?:(?:hi|hello|hey|good\s+(?:morning|day|afternoon|evening)|greetings|nexus|there|you|all|everybody)\b\W*)+$",
    re.IGNORECASE,
)
_THANKS = re.compile(
    r"\W*(?:(?:thanks|thank\s+you|thx|great|well\s+done|perfect|ok|okay|bye|goodbye|see\s+you)\b\W*"
    r"(?:(?:a\s+lot|very\s+much|so\s+much|again|all|for\s+(?:that|your\s+help))\b\W*)?)+$",
    re.IGNORECASE,
)
_HELP = re.compile(
    r"\W*(?:help|(?:please\s+)?help\s+me|what\s+(?:can|do)\s+you\s+do(?:\s+for\s+me)?|who\s+are\s+you|what\s+are\s+you"
    r"|how\s+(?:can|do)\s+(?:you\s+help(?:\s+me)?|i\s+use\s+(?:you|this))|what\s+can\s+i\s+(?:ask|do)(?:\s+(?:you|here))?)\W*$",
    re.IGNORECASE,
)


def greet(text: str, tools: Mapping[str, str]) -> str:
    """The answer to a greeting, to thanks, and to a question after what can be asked; empty for the rest.

    ``tools`` says what each of them does.
    """
    if len(text) > 200:
        return ""
    if _THANKS.match(text):
        return "You are welcome."
    if not (_POLITE.match(text) or _HELP.match(text)):
        return ""
    abilities = "".join(f"\n- {what}" for what in tools.values() if what)
    return (
        "This is Nexus, the front desk. Ask a question, and I answer from what the office remembers. Ask for "
        "something to be done, and I pass it on and tell you its number. Besides, one of us here"
        f"{abilities}\nSuch as: Remind me to call Ana tomorrow at 9."
    )
