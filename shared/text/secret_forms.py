"""How secrets look in text: the forms of tokens, private keys, and values that a name calls secret.

The critic's scan and the masks of what is sent to a model read secrets by these.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

PRIVATE_KEY = "private key"
KEY = re.compile(r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----(.*)")

FORMS = {
    "Anthropic API key": r"\bsk-ant-[a-z0-9]+-[A-Za-z0-9_-]{60,}",
    "GitHub fine-grained token": r"\bgithub_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}\b",
    "Google API key": r"\bAIza[0-9A-Za-z_-]{35}(?![0-9A-Za-z_-])",
    "Hugging Face token": r"\bhf_[A-Za-z]{34}\b",
    "npm token": r"\bnpm_[A-Za-z0-9]{36}\b",
    "DigitalOcean token": r"\bdo[opr]_v1_[a-f0-9]{64}\b",
    "Shopify token": r"\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}\b",
    "Stripe restricted key": r"\brk_live_[0-9A-Za-z]{24,}\b",
    "age secret key": r"\bAGE-SECRET-KEY-1[0-9A-Z]{58}\b",
    "NKey seed": r"\bS[AUON][A-Z2-7]{56}\b",
}
"""Tokens of an unmistakable form that detect-secrets does not know."""

KNOWN = {
    "AWS access key": r"(?<![A-Za-z0-9])(?:A3T[A-Z0-9]|ABIA|ACCA|AKIA|ASIA)[0-9A-Z]{16}\b",
    "Azure storage key": r"(?<=AccountKey=)[a-zA-Z0-9+/=]{88}",
    "GitHub token": r"(?<![A-Za-z0-9])gh[pousr]_[A-Za-z0-9_]{36,}",
    "GitLab token": r"\bgl(?:pat|dt|ft|soat|rt)-[A-Za-z0-9_-]{20,50}(?!\w)",
    "JSON Web Token": r"\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
    "OpenAI API key": r"\bsk-(?:proj-|svcacct-|admin-)?[A-Za-z0-9_-]{20,}(?![A-Za-z0-9_-])",
    "OpenRouter API key": r"\bsk-or-v1-[a-f0-9]{64}\b",
    "PyPI token": r"\bpypi-Ag[A-Za-z0-9_-]{70,}",
    "SendGrid API key": r"\bSG\.[\w-]{22}\.[\w-]{43}",
    "Slack token": r"\bxox[abposr]-(?:\d+-)+[A-Za-z0-9]+",
    "Slack webhook": r"https://hooks\.slack\.com/services/T\w+/B\w+/\w+",
    "Stripe key": r"\b[rs]k_live_[0-9a-zA-Z]{24,}",
    "Telegram bot token": r"\b\d{8,10}:AA[0-9A-Za-z_-]{33}(?![\w-])",
}
"""The forms of providers that detect-secrets knows too, written so that none reads on without an end."""

ANCHORS = {
    "Anthropic API key": ("sk-ant-",),
    "GitHub fine-grained token": ("github_pat_",),
    "Google API key": ("AIza",),
    "Hugging Face token": ("hf_",),
    "npm token": ("npm_",),
    "DigitalOcean token": ("_v1_",),
    "Shopify token": ("shp",),
    "Stripe restricted key": ("rk_live_",),
    "age secret key": ("AGE-SECRET-KEY-1",),
    "NKey seed": ("SA", "SU", "SO", "SN"),
    "AWS access key": ("A3T", "ABIA", "ACCA", "AKIA", "ASIA"),
    "Azure storage key": ("AccountKey=",),
    "GitHub token": ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
    "GitLab token": ("glpat-", "gldt-", "glft-", "glsoat-", "glrt-"),
    "JSON Web Token": ("eyJ",),
    "OpenAI API key": ("sk-",),
    "OpenRouter API key": ("sk-or-v1-",),
    "PyPI token": ("pypi-Ag",),
    "SendGrid API key": ("SG.",),
    "Slack token": ("xox",),
    "Slack webhook": ("hooks.slack.com",),
    "Stripe key": ("k_live_",),
    "Telegram bot token": (":AA",),
}
"""What a text has to hold for a form to be looked for: finding that is much quicker than the form."""

INVENTED = re.compile(
    r"example|sample|dummy|fake|test|changeme|change[_-]me|your[_-]|placeholder|redacted|insert|replace"
    r"|todo|foobar|xxxx|\*\*\*|1234567|abcdef|0000|\.\.\.|password|secret",
    re.IGNORECASE,
)
REFERENCE = re.compile(
    r"^[$<{%@&]|[$%]\{|\{\{|\(|\)|\[|\]|<|>|\s|::|^\w+(?:\.\w+)+$|^[/~.]|^https?:|^[a-z]+(?:[_-][a-z]+)*$",
    re.IGNORECASE,
)
LEAST_ENTROPY = 2.5  # Bits a character below which a token of a known form is an invented one


def entropy(value: str) -> float:
    """Shannon's entropy in bits a character: random base 64 of 20 characters has about 4, hex about 3.3."""
    counts = Counter(value)
    return -sum(n / len(value) * math.log2(n / len(value)) for n in counts.values())


def is_token(value: str) -> bool:
    """Whether a value of a known form is likely a real token, and no example of one."""
    return not INVENTED.search(value) and entropy(value) > LEAST_ENTROPY


def looks_random(value: str) -> bool:
    """Whether a value is more likely drawn than written: long, mixed, of high entropy, not made of words."""
    words = [part for part in re.split(r"[-_./: ]", value) if len(part) > 2 and part.isalpha()]
    mixed = bool(re.search(r"\d", value)) and bool(re.search(r"[A-Za-z]", value))
    if not mixed or not 12 <= len(value) <= 200 or sum(map(len, words)) > len(value) / 2:
        return False
    return entropy(value) >= (3.0 if re.fullmatch(r"[0-9a-f]+", value) else 3.3)


class Secret(NamedTuple):
    """Where a secret stands in a text, and of what kind it is."""

    start: int
    end: int
    kind: str


_BREAK = r"(?:\\[nr]|[\s\"'+,\\])"
_PEM = re.compile(
    rf"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----({_BREAK}*(?:[A-Z][\w-]{{2,30}}: [^\n\\]{{0,100}}"
    rf"{_BREAK}+){{0,4}}[A-Za-z0-9+/=]{{40,}}(?:{_BREAK}+[A-Za-z0-9+/=]+)*)"
)
"""A private key without its marks; the last of them may be cut off."""
_PASSWORD = re.compile(r"(?<=://)[^\s:/?#\[\]@'\"<>]{0,100}:([^\s/?#@'\"<>]{4,200})@([\w.-]+)")
"""The password in an address, as in ``postgres://user:PASSWORD@host``."""
_NAMED = re.compile(
    r"(?:pass(?:word|wd)?|pwd|secret|token|api_?key|access_?key|private_?key|credentials?)\w{0,20}"
    r"[\"']?\s{0,3}(?::=|[:=])\s{0,3}(?:[\"']([^\s\"']{8,200})[\"']|([^\s\"',;#(){}\[\]]{8,200})(?=\s|$))",
    re.IGNORECASE,
)
"""A value that its name calls a secret, in code, YAML, JSON or a file of settings."""
_NAMES = ("pass", "pwd", "secret", "token", "key", "credential")
_HEADER = re.compile(r"\b(?:Bearer|Basic)\s+([A-Za-z0-9._~+/=-]{20,500})", re.IGNORECASE)
_WORDS = re.compile(r"pass|pw|user|admin|postgres|mysql|root|guest|foo|bar|login|none|null|true|false")
_LETTERS = re.compile(r"[A-Za-z]")


@lru_cache(maxsize=512)
def find_secrets(text: str) -> tuple[Secret, ...]:
    """The secrets in ``text``, in order and apart from each other.

    Found are tokens of known forms, private keys, passwords in addresses, headers with credentials, and
    values with a secret's name that look drawn. Not found is what is encoded, or split over two texts.
    """
    found = [*_find_tokens(text), *_find_values(text)]
    kept: list[Secret] = []
    for secret in sorted(found, key=lambda secret: (secret.start, -secret.end)):
        if not kept or secret.start >= kept[-1].end:
            kept.append(secret)
    return tuple(kept)


_FORMS = {kind: re.compile(form) for kind, form in (FORMS | KNOWN).items()}


def _find_tokens(text: str) -> Iterator[Secret]:
    for kind, form in _FORMS.items():
        if any(anchor in text for anchor in ANCHORS[kind]):
            yield from (Secret(*m.span(), kind) for m in form.finditer(text) if is_token(m[0]))
    if "PRIVATE KEY" in text:
        yield from (Secret(*match.span(1), PRIVATE_KEY) for match in _PEM.finditer(text))


def _find_values(text: str) -> Iterator[Secret]:
    if "://" in text:
        for match in _PASSWORD.finditer(text):
            value = match[1]
            if not (REFERENCE.search(value) or INVENTED.search(value) or _WORDS.fullmatch(value.lower())):
                yield Secret(*match.span(1), "password")
    lowered = text.lower()
    if "bearer" in lowered or "basic" in lowered:
        yield from (
            Secret(*match.span(1), "credentials")
            for match in _HEADER.finditer(text)
            if looks_random(match[1]) and not INVENTED.search(match[1])
        )
    if any(name in lowered for name in _NAMES):
        for match in _NAMED.finditer(text):
            part = 1 if match[1] else 2
            if _is_secret_value(match[part], quoted=part == 1):
                yield Secret(*match.span(part), "secret")


def _is_secret_value(value: str, *, quoted: bool) -> bool:
    if INVENTED.search(value) or REFERENCE.search(value):
        return False
    if looks_random(value):
        return True
    # As people choose passwords: letters with digits and a sign, behind a name that says so.
    signs = sum(not (each.isalnum() or each in "_-./:") for each in value)
    return not quoted and bool(signs) and any(map(str.isdigit, value)) and bool(_LETTERS.search(value))
