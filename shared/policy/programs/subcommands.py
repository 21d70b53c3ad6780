"""Programs whose first words say what they do: ``kubectl get``, ``npm run lint``."""

from collections.abc import Mapping

from shared.policy.call import Call, Handler
from shared.policy.scope import Stream

HARMLESS = ("help", "version", "--help", "--version", "-h", "-v", "-V", "")


def by_words(
    default: str, table: Mapping[str, str], valued: str = "", options: Mapping[str, str] | None = None
) -> Handler:
    """A handler that looks the first words up: by rule ("" allows) ``table`` holds words between commas.

    The longest run of words that is listed decides, ``default`` where none is. ``options`` are rules for
    options wherever they stand.
    """
    rules = {tuple(words.split()): name for name, line in table.items() for words in line.split(",")}

    def judge(call: Call) -> Stream | None:
        found = call.options(valued)
        for option, wrong in (options or {}).items():
            if found.has(*option.split(",")):
                call.find(wrong)
        words = tuple(word.text for word in found.operands[:3])
        listed = (rules.get(words[:length]) for length in range(len(words), 0, -1))
        rule: str | None = next((rule for rule in listed if rule is not None), None)
        if rule is None:
            helps = not words or found.has("help", "version", "h") or words[0] in HARMLESS
            rule = "" if helps else default
        if rule:
            call.find(rule)
        for word in found.operands[1:]:
            call.read(word)
        return None

    return judge
