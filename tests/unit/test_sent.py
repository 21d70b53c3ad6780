"""The record of what was sent to models: each text once, bounded, forgotten, and after a restart."""

import os
import time
from pathlib import Path

import pytest

from shared.errors import ModelUnavailable
from shared.llm import sent as records
from shared.llm.protocol import Message, Usage
from shared.llm.sent import SentLog, read_models, read_sent, sent_for
from shared.operations.erasure.redaction import overwrite_quotations
from shared.settings import Settings, load
from shared.text.quotations import Quotations

NOTE = 'Ana said "we leave in March" and\nthen the lighthouse was sold to Bernhard for nine million'


@pytest.fixture
def office(tmp_path: Path) -> Settings:
    sent_for.set(("goal-1", "goal-1-fix"))
    return load({"MAILROOM_STATE_DIR": str(tmp_path)})


def send(log: SentLog, *texts: str, usage: Usage | None = None) -> None:
    messages = [Message(role="user", text=text) for text in texts]
    with log.request(messages=messages, model="openai:big", place="api.example.com") as request:
        request.usage = usage or Usage(input_tokens=10, output_tokens=2, calls=1)


def log_of(office: Settings) -> SentLog:
    return SentLog(office.sent / "scout", "scout", days=90)


def test_each_text_is_kept_once_also_by_a_process_that_starts_again(office: Settings) -> None:
    log = log_of(office)
    send(log, "The task")
    send(log, "The task", "What came of it")
    send(log_of(office), "The task", "What came of it", "And then")
    for name in ("goal-1", "goal-1-fix"):
        sent = read_sent(office.sent, name)
        assert [len(each.messages) for each in sent.requests] == [1, 2, 3]
        assert len(sent.texts) == 3
        assert {end.input_tokens for end in sent.ends.values()} == {10}
    (file,) = office.sent.rglob("*.jsonl")
    assert file.read_text().count("The task") == 1
    (scout,) = read_models(office.sent)
    assert [(each.requests, each.input_tokens) for each in scout.today] == [(3, 30)]


def test_a_request_that_failed_is_on_record_with_the_reason(office: Settings) -> None:
    with (
        pytest.raises(ModelUnavailable),
        log_of(office).request(messages=[Message(role="user", text="x")], model="m", place="p"),
    ):
        raise ModelUnavailable("The server is away")
    sent = read_sent(office.sent, "goal-1")
    assert [sent.ends[each.id].failed for each in sent.requests] == ["The server is away"]


def test_a_record_has_a_bound_and_counts_what_it_leaves_out(
    office: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "MAX_FILE", 2_000)
    send(log_of(office), "a" * 1_500, "b" * 1_500)
    texts = {each.text[:1]: each.left_out for each in read_sent(office.sent, "goal-1").texts.values()}
    assert texts == {"a": 0, "": 1_500}


def test_what_is_forgotten_is_overwritten_there_and_the_rest_stays_readable(office: Settings) -> None:
    send(log_of(office), f"Note:\n{NOTE}", "Another")
    assert len(overwrite_quotations(office, Quotations([NOTE], []))) == 1
    sent = read_sent(office.sent, "goal-1")
    assert "lighthouse" not in str(sent.texts)
    assert "Another" in str(sent.texts)
    assert len(sent.requests) == 1


def test_a_torn_line_and_a_strange_name_are_passed_over(office: Settings) -> None:
    send(log_of(office), "The task")
    (file,) = office.sent.rglob("*.jsonl")
    file.write_bytes(file.read_bytes() + b'{"type":"request","id":"x","at"')
    assert len(read_sent(office.sent, "goal-1").requests) == 1
    assert read_sent(office.sent, "../scout/goal-1").requests == []
    assert read_sent(office.sent, "*").requests == []


def test_what_was_not_added_to_for_long_is_removed(office: Settings) -> None:
    send(log_of(office), "The task")
    (file,) = office.sent.rglob("*.jsonl")
    long_ago = time.time() - 91 * records.DAY
    os.utime(file, (long_ago, long_ago))
    sent_for.set(("goal-2", ""))
    send(log_of(office), "Another")
    assert not file.parent.exists()
    assert len(read_sent(office.sent, "goal-2").requests) == 1


def test_without_a_state_folder_nothing_is_made(tmp_path: Path) -> None:
    log = SentLog(tmp_path / "nowhere" / "sent" / "scout", "scout")
    send(log, "The task")
    assert not (tmp_path / "nowhere").exists()
