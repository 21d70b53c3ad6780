"""Looks for secrets in files: a script that scans.py runs in a process of its own.

    python -I secret_scan.py ROOT LIST OUTPUT

LIST holds paths below ROOT parted by NUL characters; OUTPUT gets one JSON array a find:
[path, line, kind, how sure (2: a token's own form, 1: a guess), mask]. No secret is ever written.
"""

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shared.text.secret_forms import (
    FORMS,
    INVENTED,
    KEY,
    PRIVATE_KEY,
    REFERENCE,
    is_token,
    looks_random,
)

FILE_LIMIT = 2_000_000  # Bytes of a file that are read; what is longer is data or was generated
LINE_LIMIT = 4_000  # Characters of a line that are read; longer ones were generated

DETECTORS = (
    "artifactory.ArtifactoryDetector aws.AWSKeyDetector azure_storage_key.AzureStorageKeyDetector"
    " discord.DiscordBotTokenDetector github_token.GitHubTokenDetector gitlab_token.GitLabTokenDetector"
    " jwt.JwtTokenDetector mailchimp.MailchimpDetector npm.NpmDetector openai.OpenAIDetector"
    " pypi_token.PypiTokenDetector sendgrid.SendGridDetector slack.SlackDetector"
    " square_oauth.SquareOAuthDetector stripe.StripeDetector telegram_token.TelegramBotTokenDetector"
    " twilio.TwilioKeyDetector"
).split()
"""The detectors of detect-secrets whose tokens have a form of their own."""

GUESSING = ["basic_auth.BasicAuthDetector", "keyword.KeywordDetector"]
"""Those that go by a name or a place; what they find must also look random."""

KEY_BODY = re.compile(r"(?:\\n|\\r|[\s\"'+,\\])*[A-Za-z0-9+/=]{40,}")
RUN = re.compile(r"[A-Za-z0-9+/_=-]{12,}")
NAMED = re.compile(r"PRIVATE KEY|(?:pass|pwd|secret|key|token|://).*\d", re.IGNORECASE)
"""A line without a long word that holds a digit, and without these, is not looked at further."""
ALLOWED = re.compile(
    r"pragma:\s*(?:allowlist|whitelist)\s+secret|gitleaks:allow|trufflehog:ignore|nosecret", re.IGNORECASE
)


def main(root: str, listing: str, output: str) -> None:
    """Scan every listed file and write what was found."""
    sure, guessing = _load(DETECTORS), _load(GUESSING)
    forms = [(kind, re.compile(form)) for kind, form in FORMS.items()]
    paths = [path for path in Path(listing).read_text("utf-8").split("\0") if path]
    with Path(output).open("w", encoding="utf-8") as found:
        for path in paths:
            rows = _scan(Path(root, path), path, sure, guessing, forms)
            found.writelines(f"{json.dumps(row)}\n" for row in rows)


def _load(detectors: list[str]) -> list[Any]:
    from importlib import import_module

    names = (detector.partition(".") for detector in detectors)
    return [getattr(import_module(f"detect_secrets.plugins.{module}"), name)() for module, _, name in names]


def _scan(
    full: Path, path: str, sure: list[Any], guessing: list[Any], forms: list[tuple[str, re.Pattern[str]]]
) -> Iterator[list[Any]]:
    rows = _read(full)
    for number, whole in enumerate(rows, start=1):
        row = whole[:LINE_LIMIT]
        if not NAMED.search(row) and not any(any(map(str.isdigit, run)) for run in RUN.findall(row)):
            continue
        if ALLOWED.search(row):
            continue
        if match := KEY.search(row):
            if KEY_BODY.match("\n".join([match[1], *rows[number : number + 4]])[:LINE_LIMIT]):
                yield [path, number, PRIVATE_KEY, 2, "not shown"]
            continue
        found = {value: kind for kind, form in forms for value in form.findall(row)}
        for detector in sure:
            for value in _values(detector, row):
                found.setdefault(value, detector.secret_type)
        for value, kind in found.items():
            if is_token(value):
                yield [path, number, kind, 2, f"{len(value)} characters, not shown"]
        if not found:
            yield from _guess(path, number, row, guessing)


def _values(detector: Any, row: str) -> Iterator[str]:
    """What a detector finds; if that is only a part of the token, such as its prefix, the whole token."""
    for value in detector.analyze_string(row):
        matches = (form.search(row) for form in detector.denylist) if len(value) < 12 else ()
        yield next((match[0] for match in matches if match and value in match[0]), value)


def _guess(path: str, number: int, row: str, guessing: list[Any]) -> Iterator[list[Any]]:
    from detect_secrets.filters.heuristic import (
        is_indirect_reference,
        is_likely_id_string,
        is_potential_uuid,
        is_sequential_string,
    )

    for detector in guessing:
        for value in detector.analyze_string(row):
            if not looks_random(value) or INVENTED.search(value) or REFERENCE.search(value):
                continue
            if is_sequential_string(value) or is_potential_uuid(value) or is_indirect_reference(row):
                continue
            if not is_likely_id_string(value, row):
                yield [path, number, detector.secret_type, 1, f"{len(value)} characters, not shown"]


def _read(full: Path) -> list[str]:
    try:
        handle = os.open(full, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return []
    with os.fdopen(handle, "rb") as file:
        try:
            data = file.read(FILE_LIMIT)
        except OSError:
            return []
    return [] if b"\0" in data[:8192] else data.decode("utf-8-sig", "replace").split("\n")


if __name__ == "__main__":
    main(*sys.argv[1:4])
