"""Replies as mail programs write them: how they quote, sign, encode and say that no person wrote them."""

import base64
from email.message import EmailMessage

import pytest

from shared.contracts import DeliveryKind, Urgency
from shared.delivery.channels import Mail, Message, Reply
from shared.delivery.mailbox import read_mail
from shared.delivery.smtp import LONGEST_REPLY, compose, parse_reply, strip_quoted

OFFICE = "office@example.org"
MAIL = Mail(smtp="smtp://mail.example.org", sender=OFFICE, to="ada@example.org", imap="imaps://a@b")
REQUEST = Message(
    id="d1",
    kind=DeliveryKind.APPROVAL,
    urgency=Urgency.HIGH,
    title="engineer asks: git push",
    text="git push origin main",
    acts=("approve", "refuse"),
    token="0123456789abcdef",
    code="K7Q2MX",
)
SENT = compose(MAIL, REQUEST)
QUOTED = "\n".join(f"> {line}" for line in SENT.get_content().splitlines())
HEAD = "Mailroom <office@example.org>"
WROTE = {
    "gmail": f"On Mon, Nov 23, 2026 at 9:00 AM {HEAD}\nwrote:\n\n{QUOTED}",
    "gmail wrapped twice": f"On Mon, Nov 23, 2026 at 9:00 AM Mailroom\n<{OFFICE}>\nwrote:\n\n{QUOTED}",
    "gmail in German": f"Am Mo., 23. Nov. 2026 um 09:00 Uhr schrieb Mailroom <\n{OFFICE}>:\n\n{QUOTED}",
    "gmail in French": f"Le lun. 23 nov. 2026 à 09:00, {HEAD} a\nécrit :\n\n{QUOTED}",
    "gmail in Spanish": f"El lun, 23 nov 2026 a las 9:00, Mailroom (<{OFFICE}>) escribió:\n\n{QUOTED}",
    "apple": f"> On 23 Nov 2026, at 09:00, {HEAD} wrote:\n> \n{QUOTED}",
    "apple on a telephone": "Sent from my iPhone\n\n"
    f"> On 23 Nov 2026, at 09:00, {HEAD} wrote:\n> \n> \ufeff\n{QUOTED}",
    "thunderbird": f"On 11/23/26 09:00, Mailroom wrote:\n{QUOTED}",
    "thunderbird in German": f"Am 23.11.26 um 09:00 schrieb Mailroom:\n{QUOTED}",
    "outlook": f"-----Original Message-----\nFrom: {HEAD}\nSent: Monday, November 23, 2026 9:00 AM\n"
    f"To: ada@example.org\nSubject: engineer asks\n\n{SENT.get_content()}",
    "outlook on the web": f"{32 * '_'}\nFrom: {HEAD}\nSent: Monday, November 23, 2026 9:00 AM\n"
    f"To: ada@example.org <ada@example.org>\nSubject: engineer asks\n\n{SENT.get_content()}",
    "outlook without a line": f"Von: {HEAD}\nGesendet: Montag, 23. November 2026 09:00\nAn: ada@example.org\n"
    f"Betreff: engineer asks\n\n{SENT.get_content()}",
    "outlook on a telephone": "Get Outlook for iOS<https://aka.ms/o0ukef>\n"
    f"{32 * '_'}\nFrom: {HEAD}\nSent: Monday\nTo: Ada\n\n{SENT.get_content()}",
    "proton": "Sent with Proton Mail secure email.\n\n"
    f"On Monday, November 23rd, 2026 at 9:00 AM, {HEAD} wrote:\n\n{QUOTED}",
    "in bold": f"*From:* {HEAD}\n*Sent:* Monday\n*To:* Ada\n*Subject:* engineer asks\n\n{SENT.get_content()}",
    "not marked": f"On Mon, Nov 23, 2026 at 9:00 AM {HEAD} wrote:\n\n{SENT.get_content()}",
    "a forwarded mail": f"---------- Forwarded message ---------\nFrom: {HEAD}\n\n{SENT.get_content()}",
    "signed": f"-- \nAda Lovelace\nEngines Ltd\n\n{QUOTED}",
}


def answer(text: str, *, kind: str = "plain", charset: str = "utf-8", **headers: str) -> EmailMessage:
    mail = EmailMessage()
    given = {"From": "Ada <ada@example.org>", "Message-ID": "<1@x>", "Subject": "Re: engineer asks"}
    given["In-Reply-To"] = str(SENT["Message-ID"])
    for name, value in {
        **given,
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }.items():
        if value:
            mail[name] = value
    mail.set_content(text, subtype=kind, charset=charset)
    return mail


def read(mail: EmailMessage | bytes) -> Reply:
    return parse_reply(mail if isinstance(mail, bytes) else bytes(mail), MAIL)


class TestQuoting:
    @pytest.mark.parametrize("program", WROTE)
    def test_what_is_written_above_is_all_that_counts(self, program: str) -> None:
        for written in (
            "why does it?",
            "approve K7Q2MX\nit is fine: 2 tests\n\nAda",
            "Two things:\n1. no\n2. why?",
        ):
            reply = read(answer(f"{written}\n\n{WROTE[program]}"))
            assert (reply.text, reply.ignored) == (written, "")
        assert strip_quoted(WROTE[program]) == ""

    def test_what_is_written_below_and_between_counts_if_nothing_is_above(self) -> None:
        below = f"On Mon, Nov 23, 2026, Mailroom wrote:\n{QUOTED}\n\nrefuse K7Q2MX\n\n-- \nAda"
        assert read(answer(below)).text == "refuse K7Q2MX"
        between = f"{HEAD} wrote:\n> Which branch?\nmain\n> And when?\nafter noon"
        assert strip_quoted(between) == "main\nafter noon"

    def test_text_that_only_looks_like_an_introduction_stays(self) -> None:
        written = "Note: do this at 10:30:\nTo: be sure\nthen: go"
        assert strip_quoted(written) == written

    def test_html_of_programs(self) -> None:
        gmail = (
            '<div dir="ltr">approve&nbsp;<b>K7Q2MX</b></div><br><div class="gmail_quote"><div dir="ltr" '
            'class="gmail_attr">On Mon, Nov 23, 2026 at 9:00 AM Mailroom &lt;<a href="x">x@y</a>&gt; '
            "wrote:<br></div><blockquote>git push<br>refuse K7Q2MX</blockquote></div>"
        )
        outlook = (
            "<html><head><style>p { margin: 0 }</style><body><p class=MsoNormal>approve\r\nK7Q2MX<o:p></o:p>"
            "</p>"
            "<div style='border-top:solid #E1E1E1 1.0pt'><p class=MsoNormal><b>From:</b> Mailroom "
            "&lt;office@example.org&gt; <br><b>Sent:</b> Monday<br><b>To:</b> Ada<br></p></div>"
            "<p>refuse K7Q2MX and, if you like, why</p></body></html>"
        )
        below = "<blockquote>refuse K7Q2MX</blockquote><p>approve K7Q2MX</p>"
        for page in (gmail, outlook, below):
            assert read(answer(page, kind="html")).text == "approve K7Q2MX"

    def test_an_empty_text_beside_html(self) -> None:
        mail = answer(" \n")
        mail.add_alternative("<p>approve K7Q2MX</p>", subtype="html")
        assert read(mail).text == "approve K7Q2MX"


THEM, ME = "Office <office@example.org>", "Tove Lind <tove@example.org>"
HEADS = {
    "en": f"From: {THEM}|Sent: Monday, November 9, 2026 10:00 AM|To: {ME}|Subject: Lamp",
    "de": f"Von: {THEM}|Gesendet: Montag, 9. November 2026 10:00|An: {ME}|Betreff: Lamp",
    "fr": f"De : {THEM}|Envoyé : lundi 9 novembre 2026 10:00|À : {ME}|Objet : Lamp",
    "es": f"De: {THEM}|Enviado el: lunes, 9 de noviembre de 2026 10:00|Para: {ME}|Asunto: Lamp",
    "pl": f"Od: {THEM}|Wysłano: poniedziałek, 9 listopada 2026 10:00|Do: {ME}|Temat: Lamp",
    "ru": f"От: {THEM}|Отправлено: понедельник, 9 ноября 2026 г. 10:00|Кому: {ME}|Тема: Lamp",
    "tr": f"Kimden: {THEM}|Gönderilme Tarihi: 9 Kasım 2026 Pazartesi 10:00|Kime: {ME}|Konu: Lamp",
    "ar": f"من: {THEM}|تاريخ الإرسال: 09/11/2026 10:00|إلى: {ME}|الموضوع: Lamp",
    "he": f"\u200fמאת: {THEM}|\u200fנשלח: יום שני 09 נובמבר 2026 10:00|\u200fאל: {ME}|\u200fנושא: Lamp",
    "ja": f"差出人: {THEM}|送信日時: 2026年11月9日 10:00|宛先: {ME}|件名: Lamp",
    "ko": f"보낸 사람: {THEM}|보낸 날짜: 2026년 11월 9일 월요일 오전 10:00|받는 사람: {ME}|제목: Lamp",
    "zh": f"发件人：{THEM}|发送时间：2026年11月9日 10:00|收件人：{ME}|主题：Lamp",
    "fi": f"Lähettäjä: {THEM}|Lähetetty: maanantai 9. marraskuuta 2026 10.00|Vastaanottaja: {ME}|Aihe: Lamp",
    "el": f"Από: {THEM}|Στάλθηκε: Δευτέρα, 9 Νοεμβρίου 2026 10:00 πμ|Προς: {ME}|Θέμα: Lamp",
    "vi": f"Từ: {THEM}|Đã gửi: Thứ Hai, 9 tháng 11, 2026 10:00 SA|Đến: {ME}|Chủ đề: Lamp",
    "in bold": f"**From:** {THEM}|**Sent:** Monday, November 9, 2026 10:00 AM|**To:** {ME}|**Subject:** Lamp",
    "wrapped": f"From: {THEM}|Sent: Monday, November 9, 2026|To: {ME};| Bo <b@example.org>|Subject: Lamp",
    "apart": f"From: {THEM}||Sent: Monday, November 9, 2026||To: {ME}||Subject: Lamp",
    "without addresses": "Від: Офіс|Надіслано: 9 листопада 2026 р. 10:00|Кому: Tove Lind|Тема: RE: Lamp",
    "of a list": f"Le 9 nov. 2026 à 10:00, {THEM} a écrit :",
    "in Chinese": f"2026年11月9日 10:00，{THEM} 写道：",
    "in Japanese": f"2026年11月9日(月) 10:00 {THEM}:",
}


@pytest.mark.parametrize("language", HEADS)
def test_what_stands_below_the_head_of_another_mail_is_not_the_writers(language: str) -> None:
    written = "New statement of tonight: the lamp is repaired by Odd."
    head = HEADS[language].replace("|", "\n")
    assert strip_quoted(f"{written}\n\n{head}\n\nThe lamp must be sold.", "Re: Lamp") == written


@pytest.mark.parametrize(
    "written",
    [
        "Who: Anna\nWhen: Monday 9 November 2026 10:00\nWhere: Pier 4\n\nPlease come.",
        "Contact: anna@example.org\nDate: 10 Nov 2026 10:00\nRoom: 5\n\nBring boots.",
        "Facts: the crane costs 90.\nDate: 10 Nov 2026\nOwner: bo@example.org\nBackup: liv@example.org",
        "Prices from 2026:\ncrane 90\ntug 40",
        "Agenda:\nTime: 10:30\nTopic: Lamps",
    ],
)
def test_lists_of_the_writer_are_no_head(written: str) -> None:
    assert strip_quoted(written, "Meeting") == written


class TestEncodings:
    @pytest.mark.parametrize(
        ("charset", "text"),
        [("iso-8859-1", "où ça ?"), ("windows-1252", "“why”?"), ("gb2312", "为什么"), ("koi8-r", "почему?")],
    )
    def test_sets_of_characters(self, charset: str, text: str) -> None:
        assert read(answer(text, charset=charset)).text == text

    def test_a_set_that_nobody_knows(self) -> None:
        raw = bytes(answer("approve K7Q2MX")).replace(b'charset="utf-8"', b'charset="x-unknown"')
        assert read(raw).text == "approve K7Q2MX"

    @pytest.mark.parametrize(
        ("named", "encoding", "text"),
        [
            ("iso-8859-1", "cp1252", "“big” costs 90 € – not more"),
            ("us-ascii", "cp1252", "it’s fine"),
            ("", "utf-8", "Der Schlüssel der Mühle"),
            ("iso-8859-1", "utf-8", "Der Schlüssel der Mühle"),
            ("utf-8", "cp1252", "Schlüssel – hier"),
            ("gb2312", "gb18030", "镕基与喆"),
            ("x-unknown", "utf-8", "où ça ?"),
        ],
    )
    def test_what_is_written_under_the_name_of_another_set(
        self, named: str, encoding: str, text: str
    ) -> None:
        kind = f'Content-Type: text/plain; charset="{named}"' if named else "Content-Type: text/plain"
        head = f"From: Ada <ada@example.org>\nSubject: x\n{kind}\nContent-Transfer-Encoding: 8bit\n\n"
        assert read_mail(head.encode() + text.encode(encoding)).text == text

    @pytest.mark.parametrize(
        ("page", "text"),
        [
            (
                "<table><tr><th>Dock</th><th>Fee</th></tr><tr><td>North</td><td>40</td></tr></table>",
                "Dock | Fee North | 40",
            ),
            ("<div style='display:none'>preheader <b>x</b></div><p>Shown</p>", "Shown"),
            ("<span style='font-size: 0px;'>a</span><p>Shown</p>", "Shown"),
            ("<div style='display: none !important'><div>in</div>out</div>Shown", "Shown"),
            ("<h4>Head</h4>text<br>more", "Head text more"),
            ("<p hidden>&nbsp;</p><img style='display:none'>Shown", "Shown"),
        ],
    )
    def test_html_is_what_its_reader_sees(self, page: str, text: str) -> None:
        head = b"From: a@b.org\nSubject: x\nContent-Type: text/html; charset=utf-8\n\n"
        assert read_mail(head + page.encode()).text == text

    def test_spaces_that_do_not_break_and_marks_of_order(self) -> None:
        assert read(answer("\ufeffapprove\xa0K7Q2MX\u200b")).text == "approve K7Q2MX"

    def test_a_large_attachment_may_be_missing(self) -> None:
        mail = answer("approve K7Q2MX")
        mail.add_attachment(10_000_000 * b"x", maintype="image", subtype="png", filename="logo.png")
        reply = read(bytes(mail)[:LONGEST_REPLY])
        assert (reply.text, reply.ignored) == ("approve K7Q2MX", "")
        assert base64.b64encode(b"xxx") in bytes(mail)[:LONGEST_REPLY]


class TestOrigin:
    def test_a_thread_alone_names_what_is_answered(self) -> None:
        thread = f"<mailroom.d0.{16 * 'a'}@example.org> {SENT['Message-ID']} <2@example.org>"
        reply = read(answer("done", In_Reply_To="<2@example.org>", References=thread))
        assert (reply.delivery_id, reply.token, reply.ignored) == ("d1", "0123456789abcdef", "")

    @pytest.mark.parametrize(
        "headers",
        [
            {"Auto_Submitted": "auto-replied"},
            {"X_Autoreply": "yes"},
            {"Subject": "Automatic reply: engineer asks"},
            {"Subject": "Out of Office: engineer asks"},
            {"Subject": "Automatische Antwort: engineer asks"},
            {"Subject": "Abwesenheitsnotiz: engineer asks"},
            {"Subject": "Réponse automatique : engineer asks"},
            {"Subject": "Undeliverable: engineer asks"},
            {"Return_Path": "<>"},
            {"From": "MAILER-DAEMON@example.org"},
            {"In_Reply_To": ""},
        ],
    )
    def test_nothing_follows_from_what_no_person_answered(self, headers: dict[str, str]) -> None:
        assert read(answer("I am away until Monday.", **headers)).ignored
