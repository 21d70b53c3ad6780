"""Records that are messages of a chat, as Slack, Telegram and Discord export them."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

from services.memory.ingest.fields import parse_date, tag_speaker
from services.memory.ingest.pieces import MAX_BODY, Piece, hash_text
from services.memory.ingest.splitting import first_words, split_text

DATES = (
    *("date", "created_at", "created", "timestamp", "time", "datetime", "when", "valid_from", "day"),
    *("ts", "sent_at", "date_unixtime"),
)
"""Fields that date a record."""

SAID = ("text", "content", "message", "body")
SPEAKERS = ("from", "sender", "author", "actor", "user_profile", "username", "user")
"""Fields of a record that is a message: what was said, and by whom; the first that is there counts."""
NO_WORDS = ("subtype", "service", "action")
"""Fields of messages that nobody wrote: somebody joined a channel, or left it."""
EPOCH = re.compile(r"(\d{10})(?:\d{3})?(?:\.\d{1,9})?")
"""Seconds or milliseconds since 1970."""


class Said(NamedTuple):
    """A message: when, by whom, and what; without words if nobody wrote it."""

    when: str
    who: str
    text: str

    def pieces(self, line: int) -> Iterator[Piece]:
        """It as a piece, or several if it is long."""
        for number, (_, part) in enumerate(split_text(self.text, MAX_BODY) if self.text else (), 1):
            body = f"{self.who}: {part}"
            title = first_words(body)
            yield Piece(
                title=title if number == 1 else f"{title} ({number})",
                body=body,
                key=hash_text("passage", body, self.when),
                line=line,
                default_kind="episodic",
                tags=tag_speaker(self.who),
                date=self.when,
                prose=part,
                said=True,
            )


def find_said(value: Any) -> Said | None:
    """The message that a record is; None if it is something else."""
    if not isinstance(value, dict):
        return None
    fields = {str(name).strip().lower(): member for name, member in value.items()}
    texts = (fields.get(name) for name in SAID)
    text = next((_join_parts(text) for text in texts if isinstance(text, str | list)), None)
    times = (fields.get(name) for name in DATES)
    when = next((date for time in times if (date := parse_date(time) or _read_epoch(time))), "")
    who = next((name for key in SPEAKERS if (name := _name_speaker(fields.get(key)))), "")
    if text is None or not when or not who or "title" in fields or "kind" in fields:
        return None
    return Said(when, who, "" if any(fields.get(name) for name in NO_WORDS) else text.strip())


def _join_parts(text: str | list[Any]) -> str:
    """The text of a message, which may be a list of texts and of links and mentions with a text."""
    parts = text if isinstance(text, list) else [text]
    told = (part.get("text") if isinstance(part, dict) else part for part in parts)
    return "".join(part for part in told if isinstance(part, str))


def _name_speaker(value: Any) -> str:
    if isinstance(value, dict):
        names = (value.get(key) for key in ("real_name", "display_name", "nickname", "name", "username"))
        return next((name for name in names if isinstance(name, str) and name), "")
    return value if isinstance(value, str) else ""


def _read_epoch(value: Any) -> str:
    match = EPOCH.fullmatch(str(value)) if isinstance(value, str | int | float) else None
    return datetime.fromtimestamp(int(match[1]), UTC).isoformat(timespec="microseconds") if match else ""
