"""How something is said: bullets, times, greetings and "fyi" in front of a sentence, and who said it."""

import re


def _compile(*alternatives: str, before: str = r"\b", after: str = r"\b") -> re.Pattern[str]:
    return re.compile(f"{before}(?:{'|'.join(alternatives)}){after}", re.IGNORECASE)


_SAYING = _compile(
    r"[\s\-*•>#]+",
    r"\[?\(?(?:\d{4}-\d\d-\d\d[T\s,]*)?\d{1,2}:\d\d(?::\d\d)?(?:\s*[ap]m)?\)?\]?(?=\s+\S+:|\s*[-–]"
    r"|\])[\]:\s–-]*",
    r"\[[^\]]{1,30}\]\s*",
    r"\d{4}-\d\d-\d\d\s*[:,–-]\s*",
    r"<@?\w[\w.]*>\s+",
    r"(?:hi|hey|hello|good morning|morning|dear)\b[^,.!:]{0,20}[,.!:]\s+",
    r"(?:decision|outcome|result|note|news|update|minutes)s? (?:from|of|in|after) [^:,]{3,30}:\s+",
    r"(?:fyi|btw|psa|note|update|reminder|heads[ -]up|news|info|decision|decided|correction|edit|scratch that"
    r"|quick (?:note|one|update)|for the record|just so you know|as discussed|as agreed|please note"
    r"|good to know"
    r"|announcement|change|changed|actually|also|and|so|ok|okay|well|sorry|i (?:think|believe|guess)|i'm sure"
    r"|it turns out|apparently|basically)\b(?: that)?[\s:,–-]+",
    r"(?:we|i|the team|they|it|everyone) (?:have |has |had |was |just )*"
    r"(?:agreed|decided|settled|said|confirmed|announced|learned|heard) (?:that|in [^,]{3,20} that)\s+",
    before="^",
    after="",
)
_RESOLVED = _compile(
    r"(?:we|i|the team|they|everyone) (?:have |has |had |all |just )*"
    r"(?:agreed|decided|resolved|settled|chose|opted)(?: in [^,]{3,20})? to (?=\w)",
    before="^",
    after="",
)
_REPORTED = re.compile(
    r"^(\w+) (?:told (?:me|us)|said|says|mentioned|wrote|reported|confirmed)(?: that)? (?:she|he|they|it)\b",
    re.IGNORECASE,
)
_SPEAKER = re.compile(
    r"^(?:@?[A-Za-z][\w.-]{1,20}(?: [A-Z][\w.-]{0,20})?)(?: ?\([^)]{1,30}\))?:\s+(?=\S+\s+\S+\s+\S+)"
)


def strip_saying(sentence: str) -> tuple[str, str]:
    """A sentence without bullets, times, greetings and "fyi", and the speaker or label before its colon."""
    text, label = sentence.strip(), ""
    for _ in range(6):
        shorter = _SAYING.sub("", text, count=1).strip()
        if not label and (match := _SPEAKER.match(shorter)):
            label, shorter = match[0].strip(" :"), shorter[match.end() :]
        if shorter == text or not shorter:
            break
        text = shorter
    text = _REPORTED.sub(r"\1", _RESOLVED.sub("we ", text))
    return text.rstrip(" .!"), label
