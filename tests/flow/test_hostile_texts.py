"""Texts that are made to become headers, lines or markup of ours: what arrives on each channel."""

import email
import re
import unicodedata
from collections.abc import Iterator
from email.policy import SMTP, strict
from pathlib import Path

import pytest

from shared.contracts import DeliveryKind, Urgency
from shared.delivery.channels import LONGEST, Mail, Message, Ntfy, Telegram, Webhook
from shared.delivery.mailbox import read_mail
from shared.delivery.outlets import make_outlet
from shared.delivery.smtp import MailOutlet, parse_reply
from shared.settings import Settings
from shared.skills.mail import MailServer, submit_message, write_message
from shared.text.display import escape_invisible, quote_exactly
from tests.support.channels import SECRET, MailStub, WebStub

EVIL = "Reply-To: evil@example.org"
BREAKS = ("\r\n", "\n", "\r", "\0", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029")
WORDS = (
    "=?utf-8?q?x=0D=0AReply-To:_evil@example.org?=",
    "=?utf-8?Q?x=0AReply-To:_evil@example.org?=",
    "=?utf-8?q?x=0DReply-To:_evil@example.org?=",
    "=?utf-8?b?eA0KUmVwbHktVG86IGV2aWxAZXhhbXBsZS5vcmc=?=",
    "=?us-ascii?q?x=0D=0A=0D=0Aapprove_AAAAAA?=",
    "=?iso-8859-1?q?x=0D=0A_Reply-To:_evil@example.org?=",
    "=?utf-16?b?DQAKAA==?= Reply-To: evil@example.org",
    "=?utf-8*en?q?x=0D=0AReply-To:_evil@example.org?=",
    "=?utf-8?q?=3D=3Futf-8=3Fq=3Fx=3D0D=3D0AReply-To:_evil=40example.org=3F=3D?=",
    "=?utf-8?q?a?= =?utf-8?q?=0D=0AReply-To:_evil@example.org?=",
    "=?utf-8?q?a?==?utf-8?q?=0D=0AReply-To:_evil@example.org?=",
    "=\u200b?utf-8?q?x=0D=0AReply-To:_evil@example.org?=",
    "=\u00ad?utf-8?q?x=0D=0AReply-To:_evil@example.org?\u200b=",
    "==??utf-8?q?x=0D=0AReply-To:_evil@example.org?==??=",
    "=?unknown-8bit?q?x=0D=0AReply-To:_evil@example.org?=",
    "=?utf-8?q?x=E2=80=A8Reply-To:_evil@example.org?=",
    "=?utf-8?q?x=E2=80=AEgro.elpmaxe?=",
    "=?utf-8?q?" + "x=0D=0A" * 60 + "?=",
    '"=?utf-8?q?x=0D=0AReply-To:_evil@example.org?=" <a@b>',
    "(=?utf-8?q?x=0D=0AReply-To:_evil@example.org?=)",
)
OTHERS = (
    "",
    " ",
    "\u200b\u2060\ufeff",
    f"x\r\n\r\n{EVIL}",
    f"x\r\n {EVIL}",
    f"x\r\n\t{EVIL}",
    "\u202egpj.live\u202c",
    "\u2066a\u2069\u061c\u180e",
    "pay\u00adpal\u200bload",
    "x" * 3_000,
    "é" * 400,
    "漢字" * 200 + "\r\n" + EVIL,
    "\ud800lone\udfff",
    "tag\U000e0041\U000e0042 and selectors a\ufe00\U000e0100\U000e01ef",
    "filler\u3164\u115f\uffa0\u2800",
    "[Open](https://evil.example.org) <a href='https://evil.example.org'>Open</a> <b>**bold**</b>",
    "x\x1b[2J\x1b]8;;https://evil.example.org\x07click\x1b]8;;\x07",
    f"Subject: y\nTo: {EVIL}\nX: " + "=?utf-8?q?" * 30,
)
TEXTS = (*(f"x{each}{EVIL}" for each in BREAKS), *WORDS, *OTHERS)
HEADERS = ["From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted", "X-Auto-Response-Suppress"]
OF_BODY = ["Content-Type", "Content-Transfer-Encoding", "MIME-Version"]
SEEN = re.compile(
    r"[\u00ad\u034f\u061c\u115f\u1160\u180e\u3164\u2800\ufe00-\ufe0d\uffa0\U000e0100-\U000e01ef]"
)


@pytest.fixture
def mail() -> Iterator[MailStub]:
    with MailStub() as server:
        yield server


def is_plain(text: str) -> bool:
    """Whether a text has no control, format or line-separating character, and none that shows nothing."""
    kinds = {unicodedata.category(each) for each in text} - {"Zs"}
    return not kinds & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"} and not SEEN.search(text)


def read_headers(raw: bytes) -> list[str]:
    """The names of the headers, line by line: a parser forgives too much."""
    head = raw.partition(b"\r\n\r\n")[0].decode("ascii")
    assert not re.search(r"[^\r]\n|\r[^\n]|[\x00-\x08\x0b\x0c\x0e-\x1f]", head)
    lines = [line for line in head.split("\r\n") if not line.startswith((" ", "\t"))]
    return [re.fullmatch(r"([!-9;-~]+): .*", line)[1] for line in lines]  # type: ignore[index]


def check(raw: bytes, shown: str, more: list[str]) -> None:
    """Exactly the expected headers arrived, and the subject that is displayed is ``shown``."""
    assert sorted(read_headers(raw)) == sorted([*HEADERS, *more, *OF_BODY])
    parsed = email.message_from_bytes(raw, policy=strict + SMTP)
    assert not parsed.defects
    subject = str(parsed["Subject"])
    assert subject == shown
    assert is_plain(subject)
    assert "evil@example.org" not in str(parsed["To"]) + str(parsed["From"])


async def test_a_mail_has_our_headers_alone_whatever_its_title_and_thread_are(mail: MailStub) -> None:
    assert len(TEXTS) >= 40
    channel = Mail(
        smtp=f"smtp://127.0.0.1:{mail.port}",
        sender="office@example.org",
        to="ada@example.org",
        imap="imap://a@b",
    )
    for number, text in enumerate(TEXTS):
        message = Message(
            id=f"m{number}",
            kind=DeliveryKind.APPROVAL,
            urgency=Urgency.HIGH,
            title=f"engineer asks: {text}",
            text=text,
            acts=("approve", "refuse"),
            code="K7Q2MX",
            thread=f"<{text}@example.org>",
        )
        await MailOutlet(channel).send(message)
        shown = message.title.replace("=?", "= ?")
        answered = "In-Reply-To" in read_headers(mail.raw[-1])
        check(mail.raw[-1], shown, ["In-Reply-To", "References"] if answered else [])
        body = mail.mails[-1].get_content()
        assert all(map(is_plain, body.replace("\r\n", "\n").split("\n")))
    assert len(mail.raw) == len(TEXTS)


async def test_a_skill_sends_no_header_of_a_subject(mail: MailStub) -> None:
    settings = Settings(state_dir=Path("unused"), smtp_sender="Office <office@example.org>")
    server = MailServer(scheme="smtp", host="127.0.0.1", port=mail.port)
    for text in WORDS:
        message = write_message(settings, "ada@example.org", text, "body", "id")
        assert await submit_message(server, message, 10) is None
        check(mail.raw[-1], str(message["Subject"]), [])
        assert "?=" not in str(message["Subject"]) or "=?" not in str(message["Subject"])


@pytest.mark.parametrize("name", ["ntfy", "telegram", "webhook"])
async def test_no_channel_gets_characters_that_steer_or_hide(name: str) -> None:
    with WebStub() as web:
        channel = {
            "ntfy": Ntfy(url=f"{web.root}/topic"),
            "telegram": Telegram(chat=7, token=SECRET, api=web.root),
            "webhook": Webhook(url=f"{web.root}/hook", secret=SECRET),
        }[name]
        outlet = make_outlet(channel)
        bodies = [(text, body) for text in TEXTS for body in (text, quote_exactly(text, 8_000, "here"))]
        for number, (text, body) in enumerate(bodies):
            message = Message(
                id=f"m{number}",
                kind=DeliveryKind.APPROVAL,
                urgency=Urgency.HIGH,
                title=text,
                text=body,
                link="https://office.example.org/",
            )
            await outlet.send(message)
        got = {"ntfy": web.ntfy, "telegram": web.sent, "webhook": web.hooks}[name]
    assert len(got) == len(bodies)
    for each in got:
        for field in ("title", "text", "message"):
            assert all(map(is_plain, str(each.get(field, "")).split("\n")))
        assert "\n" not in str(each.get("title", ""))
        assert not each.get("markdown")
        assert "parse_mode" not in each


def test_a_text_that_is_cut_says_so_and_where_the_whole_is() -> None:
    message = Message(
        id="m",
        kind=DeliveryKind.APPROVAL,
        urgency=Urgency.HIGH,
        title="t",
        text="a" * 5_000,
        link="https://office.example.org/goals/g",
    )
    shown = message.brief()
    assert shown.startswith("a" * LONGEST)
    assert "Cut after 3,000 of 5,000 characters: the whole is at https://office.example.org/goals/g" in shown


def test_what_is_quoted_can_be_read_back_and_marks_each_line() -> None:
    for text in (*TEXTS, "a\\u{1b}b", "\\\\u{5c}u{", "\x1b\\u{", "a\n-- \napprove K7Q2MX", "tab\there"):
        quoted = quote_exactly(text, 10**9, "")
        lines = quoted.split("\n")
        assert all(line.startswith("| ") and is_plain(line) for line in lines)
        shown = "\n".join(line[2:] for line in lines)
        assert shown == escape_invisible(text)
        read = re.sub(r"\\u\{([0-9a-f]+)\}", lambda found: chr(int(found[1], 16)), shown)
        assert read == text


def test_a_mail_that_comes_in_brings_no_lines_along() -> None:
    for text in WORDS:
        raw = f"From: a@b\r\nSubject: {text}\r\nMessage-ID: {text}\r\n\r\nHi\r\n".encode("utf-8", "replace")
        found = read_mail(raw)
        assert is_plain(found.subject)
        assert is_plain(found.sender)
        reply = parse_reply(raw, Mail(smtp="smtp://a", sender="a@b", to="a@b"))
        assert is_plain(reply.thread)
