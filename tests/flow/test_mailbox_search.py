"""A person's own mailbox is searched by words, on a real IMAP server, and nothing in it is marked as read."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from services.gateway.delivery.service import MailboxSearch
from shared import settings, subjects
from shared.access.scopes import read_owner_name
from shared.bus.entry import seal
from shared.contracts import Email, Question, Response
from shared.delivery.channels import DeliveryError, Mail
from shared.delivery.mailbox import FoundMails, MailboxQuery, search_mailbox
from shared.delivery.smtp import MailOutlet
from shared.errors import ActionError, BusUnavailable
from tests.support.asking import ask_nexus
from tests.support.imap import PASSWORD, ImapServer, run_imap_server
from tests.support.office import Office
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def mailbox() -> Iterator[ImapServer]:
    with run_imap_server() as server:
        server.put(
            "Ana <ana@shop.example>", "Invoice 22", "It is due on Friday.", at="2026-03-10T09:00:00+00:00"
        )
        server.put(
            "Ana <ana@shop.example>", "Lunch", "The banana bread was good.", at="2026-03-11T09:00:00+00:00"
        )
        server.put("The bank <info@bank.example>", "Your loan", "Ana, your\n> quoted\nrate is fixed.")
        server.put(
            "Jürgen Groß <j@koeln.example>",
            "Grüße",
            "Aus Köln",
            html="<p>Aus <b>Köln</b></p><script>x</script>",
        )
        server.put("scout@example.org", "Tickets", "Two tickets\x1b[31m\u202e for the boat.", flags="\\Seen")
        server.put_raw(
            b"From: =?utf-8?q?=00?=\r\nSubject: \xff\xfe\r\nContent-Type: text/plain; charset=nope\r\n\r\nodd"
        )
        yield server


def channel(address: str, password: str = PASSWORD, **more: str) -> Mail:
    return Mail(
        smtp="smtp://mail.example.org",
        sender="office@example.org",
        to="ada@example.org",
        mailbox=address,
        mailbox_password=password,
        **more,  # type: ignore[arg-type]
    )


def find(mailbox: ImapServer, **query: object) -> FoundMails:
    return search_mailbox(channel(mailbox.address), MailboxQuery(**query))  # type: ignore[arg-type]


def subjects_of(found: FoundMails) -> list[str]:
    return [mail.subject for mail in found.mails]


@pytest.mark.parametrize(
    ("query", "subjects"),
    [
        ({"senders": ("Ana",)}, ["Lunch", "Invoice 22"]),
        ({"senders": ("Ana",), "words": ("invoice",)}, ["Invoice 22"]),
        ({"senders": ("bank",)}, ["Your loan"]),
        ({"words": ("tickets",)}, ["Tickets"]),
        ({"words": ("Köln",)}, ["Grüße"]),
        ({"senders": ("Jürgen",), "words": ("Grüße",)}, ["Grüße"]),
        ({"senders": ("Ana",), "since": "2026-03-11"}, ["Lunch"]),
        ({"senders": ("Ana",), "since": "2026-03-10", "before": "2026-03-11"}, ["Invoice 22"]),
        ({"words": ("tickets",), "unread": True}, []),
        ({"words": ('" OR ALL', "\r\nx LOGOUT")}, []),
        ({"senders": ("Zoe",), "words": ("invoice",)}, []),
    ],
)
def test_words_senders_and_days_choose(
    mailbox: ImapServer, query: dict[str, object], subjects: list[str]
) -> None:
    assert subjects_of(find(mailbox, **query)) == subjects


def test_without_words_it_has_the_newest_and_marks_none_as_read(mailbox: ImapServer) -> None:
    before = mailbox.unread()
    found = find(mailbox)
    assert (found.count, subjects_of(found)[1:3]) == (6, ["Tickets", "Grüße"])
    assert find(mailbox, unread=True).count == before == mailbox.unread() == 5


def test_what_strangers_wrote_is_one_line_of_text(mailbox: ImapServer) -> None:
    (tickets,) = find(mailbox, words=("tickets",)).mails
    assert (tickets.sender, tickets.text) == ("scout@example.org", "Two tickets [31m for the boat.")
    (greeting,) = find(mailbox, words=("Grüße",)).mails
    assert (greeting.sender, greeting.text) == ("Jürgen Groß <j@koeln.example>", "Aus Köln")
    assert find(mailbox, senders=("bank",)).mails[0].text == "Ana, your rate is fixed."


def test_if_no_mail_has_all_words_those_with_most_are_found(mailbox: ImapServer) -> None:
    found = find(mailbox, words=("invoice", "Friday", "zeppelin"))
    assert (subjects_of(found), found.partly) == (["Invoice 22"], True)
    assert find(mailbox, words=("invoice", "zeppelin", "harp")).count == 0


@pytest.mark.parametrize(
    ("path", "password", "sentence"),
    [
        ("", "wrong", "refused"),
        ("/Nowhere", PASSWORD, "has no folder 'Nowhere'"),
    ],
)
def test_errors_are_one_sentence(mailbox: ImapServer, path: str, password: str, sentence: str) -> None:
    with pytest.raises(DeliveryError, match=sentence) as error:
        search_mailbox(channel(mailbox.address + path, password), MailboxQuery())
    assert "\n" not in str(error.value)
    assert PASSWORD not in str(error.value)


def test_no_server_and_one_that_sends_too_much() -> None:
    with pytest.raises(DeliveryError, match=r"127\.0\.0\.1 cannot be reached: nothing listens there"):
        search_mailbox(channel("imap://ada@127.0.0.1:1"), MailboxQuery())
    with socket.create_server(("127.0.0.1", 0)) as server:

        def flood() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"* OK ready\r\n* 1 FETCH {3000000000}\r\n" + b"x" * 100)
                connection.recv(1_000)

        threading.Thread(target=flood, daemon=True).start()
        with pytest.raises(DeliveryError, match="it sends 3,000,000,000 bytes at once"):
            search_mailbox(channel(f"imap://ada@127.0.0.1:{server.getsockname()[1]}"), MailboxQuery())


@pytest.mark.parametrize(
    ("people", "channels", "person", "subjects"),
    [
        ((), ("",), "", ["Lunch", "Invoice 22"]),
        ((), ("",), read_owner_name(), ["Lunch", "Invoice 22"]),
        (("ada", "bob"), ("",), "", ["Lunch", "Invoice 22"]),
        (("ada", "bob"), ("",), "ada", None),
        (("ada", "bob"), ("ada",), "ada", ["Lunch", "Invoice 22"]),
        (("ada", "bob"), ("ada",), "bob", None),
        (("ada",), ("bob",), "ada", None),
        (("ada", "bob"), ("bob", "ada"), "ada", ["Lunch", "Invoice 22"]),
    ],
)
async def test_a_mailbox_is_its_persons(
    mailbox: ImapServer,
    tmp_path: Path,
    people: tuple[str, ...],
    channels: tuple[str, ...],
    person: str,
    subjects: list[str] | None,
) -> None:
    (tmp_path / "gateway").mkdir()
    if people:
        lines = [f'{name} = {{ role = "admin" }}\n' for name in people]
        (tmp_path / "gateway" / "users.toml").write_text("".join(lines))
    secret = tmp_path / "secret"
    secret.write_text(PASSWORD)
    secret.chmod(0o600)
    tables = [
        f'[deliver.mail{number}]\ntype = "mail"\nsmtp = "smtp://127.0.0.1:1"\nsender = "office@example.org"\n'
        f'to = "ada@example.org"\nperson = "{name}"\nmailbox_password_file = "{secret}"\n'
        f'mailbox = "{mailbox.address if name != "bob" else "imap://bob@127.0.0.1:1"}"\n'
        for number, name in enumerate(channels)
    ]
    (tmp_path / "mailroom.toml").write_text("".join(tables))
    search = MailboxSearch(settings.load({"MAILROOM_STATE_DIR": str(tmp_path)}))
    query = msgspec.json.encode(MailboxQuery(senders=("Ana",), person=person))
    if subjects is None:
        with pytest.raises(ActionError, match=r"No mailbox is set that is yours\. Set person"):
            await search.answer(query)
    else:
        found = msgspec.json.decode(await search.answer(query), type=FoundMails)
        assert subjects_of(found) == subjects


def test_what_is_no_day_is_said(mailbox: ImapServer) -> None:
    with pytest.raises(DeliveryError, match=r"'last week' is no day\. Write it as in 2026-03-18"):
        find(mailbox, since="last week")


async def test_it_is_tried_with_the_channel(mailbox: ImapServer) -> None:
    told = await MailOutlet(channel(mailbox.address)).check()
    assert told == "replies are not read: the channel has no imap; your mailbox is searched (5 unread)"


async def say(office: Office, text: str) -> Response:
    return await ask_nexus(office.user, Question(sender="user", recipient="nexus", text=text), 60)


async def test_the_desk_searches_it_for_people_alone(mailbox: ImapServer, tmp_path: Path) -> None:
    office = Office(tmp_path, MAILROOM_LINKER_INTERVAL="1000000")
    secret = tmp_path / "secret"
    secret.write_text(PASSWORD)
    secret.chmod(0o600)
    config = office.config.state_dir / "mailroom.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    try:
        await office.open(["memory", "nexus", "gateway"])
        unset = await say(office, "search my mail for tickets")
        assert "No mailbox of yours is set. Set mailbox of [deliver.mail]" in unset.text
        config.write_text(
            '[deliver.mail]\nsmtp = "smtp://127.0.0.1:1"\n'
            'sender = "office@example.org"\nto = "ada@example.org"\n'
            f'mailbox = "{mailbox.address}"\nmailbox_password_file = "{secret}"\n'
        )
        office.kill("gateway")
        absent = await say(office, "any mail from the bank?")
        assert "the gateway does not answer" in absent.text
        office.start("gateway")
        await office.ready("gateway")
        found = await say(office, "find the mail from Ana about the invoice")
        assert found.route_used == "tool:mail"
        assert "Ana <ana@shop.example>: Invoice 22 - It is due on Friday." in found.text
        assert "1 mail like that" in found.text
        assert "Your loan" in (await say(office, "any mail from the bank?")).text
        assert "Tickets" in (await say(office, "search my mail for tickets")).text
        # an agent that asks gets nothing of a person's mailbox
        scout = await office.connect("scout")
        letter = Email(sender="scout", recipient="nexus", subject="Mail", body="any mail from the bank?")
        await scout.commit([seal(subjects.mail("nexus", "scout"), letter)])

        async def answered() -> str:
            letters = await office.stored(subjects.mail("scout", "nexus"))
            return Email.from_json(letters[0][2]).body if letters else ""

        assert "mail is for people alone, and scout is an agent" in await eventually(answered, 30)
        with pytest.raises(BusUnavailable):
            await scout.request(subjects.MAILBOX, b"{}", timeout=0.5)
        assert b"Your loan" in await (await office.connect("nexus")).request(subjects.MAILBOX, b"{}")
    finally:
        await office.close()
