"""Webhooks: their file, their signatures, and the goals made of their bodies."""

import hashlib
import hmac
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers

from services.gateway.hooks import fill
from shared import settings
from shared.access.scopes import HookFile
from shared.delivery.outlets import (
    DELIVERY,
    SIGNATURE,
    TIMESTAMP,
    TOLERANCE,
    sign,
    verify,
    verify_github,
)
from shared.errors import ConfigError
from shared.settings import Settings
from shared.tasks.said import names_something, words_in

SECRET = "0123456789abcdef"
FILE = f"""
[in.ci]
secret = "{SECRET}"
text = "Look at {{build.name}}"
priority = "HIGH"

[out.chat]
on = ["approval_asked", "goal_failed"]
url = "http://192.168.1.5:8065/hooks/x"
secret = "{SECRET}"
"""


@pytest.fixture
def config(tmp_path: Path) -> Settings:
    config = settings.load({"MAILROOM_STATE_DIR": str(tmp_path)})
    config.gateway.mkdir()
    return config


class TestFile:
    def test_it_is_read_again_when_it_changes(self, config: Settings) -> None:
        file = HookFile(config)
        assert not file.read().incoming
        (config.gateway / "hooks.toml").write_text(FILE)
        assert file.read().incoming["ci"].priority == "HIGH"
        assert file.read().out["chat"].on == ("approval_asked", "goal_failed")
        (config.gateway / "hooks.toml").unlink()
        assert not file.read().out

    def test_what_is_wrong_is_named_with_what_it_takes(self, config: Settings) -> None:
        (config.gateway / "hooks.toml").write_text(FILE.replace("goal_failed", "everything"))
        with pytest.raises(ConfigError) as error:
            HookFile(config).read()
        assert "[out.chat]: Invalid enum value 'everything'" in error.value.cause
        assert "'on' takes approval_asked, goal_ended" in error.value.cure

    @pytest.mark.parametrize(
        "text",
        [
            FILE + "\n[inn.x]\n",
            FILE.replace(SECRET, "short"),
            FILE.replace("in.ci", 'in."../x"'),
            FILE.replace("http://192", "file://192"),
            FILE.replace("goal_failed", "everything"),
            FILE.replace("priority", "prioritie"),
            FILE.replace("text =", "txt ="),
            "[in",
        ],
    )
    def test_a_wrong_one_is_refused(self, config: Settings, text: str) -> None:
        (config.gateway / "hooks.toml").write_text(text)
        with pytest.raises(ConfigError, match=r"hooks\.toml is wrong") as error:
            HookFile(config).read()
        assert SECRET not in str(error.value)


class TestSignature:
    def test_what_is_signed_is_taken(self) -> None:
        headers = sign(SECRET, b"{}", delivery="d1", moment=int(time.time()))
        assert verify(SECRET, Headers(headers), b"{}") == "d1"

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            (DELIVERY, "d2"),
            (DELIVERY, ""),
            (TIMESTAMP, "in a minute"),
            (TIMESTAMP, ""),
            (TIMESTAMP, "٣"),
            (SIGNATURE, ""),
            (SIGNATURE, "sha256="),
            (SIGNATURE, "ä"),
        ],
    )
    def test_what_was_changed_is_not(self, name: str, value: str) -> None:
        now = int(time.time())
        headers = sign(SECRET, b"{}", delivery="d1", moment=now)
        value = str(now + 60) if value == "in a minute" else value
        changed = Headers(
            raw=[(k.encode(), (value if k == name else v).encode()) for k, v in headers.items()]
        )
        assert verify(SECRET, changed, b"{}") == ""
        assert verify(SECRET, Headers(headers), b"{ }") == ""
        assert verify(f"{SECRET}x", Headers(headers), b"{}") == ""

    @pytest.mark.parametrize("shift", [-TOLERANCE - 5, TOLERANCE + 5, -(10**18), 10**18])
    def test_what_is_old_or_ahead_is_not(self, shift: int) -> None:
        headers = sign(SECRET, b"{}", delivery="d1", moment=int(time.time()) + shift)
        assert verify(SECRET, Headers(headers), b"{}") == ""

    def test_github_s_form_counts_a_body_once(self) -> None:
        digest = hmac.new(SECRET.encode(), b"{}", hashlib.sha256).hexdigest()
        headers = {"x-hub-signature-256": f"sha256={digest}"}
        first = verify_github(SECRET, Headers({**headers, "x-github-delivery": "a"}), b"{}")
        assert first
        assert verify_github(SECRET, Headers({**headers, "x-github-delivery": "b"}), b"{}") == first
        assert verify_github(SECRET, Headers(headers), b"[]") == ""
        assert verify(SECRET, Headers(headers), b"{}") == ""


class TestTemplate:
    def test_one_word_stands_in_the_text_and_all_else_is_quoted(self) -> None:
        body = {"a": {"name": "main", "path": "/etc/passwd"}, "list": [{"n": 5}], "text": "two words"}
        text, context = fill("{a.name} {a.path} {list.0.n} {text} {a.path} {none} {a}", {"mode": "x"}, body)
        assert text == '"main" (quoted 1) "5" (quoted 2) (quoted 1) "null" (quoted 3)'
        assert context["mode"] == "x"
        assert context["quoted"]["1"] == {"field": "a.path", "value": "/etc/passwd"}
        assert context["quoted"]["2"]["value"] == "two words"

    def test_what_names_no_field_stays(self) -> None:
        assert fill("{} {1} {a b} {{x}}", {}, {"x": "y"}) == ('{} {1} {a b} {"y"}', {})

    @given(st.recursive(st.text() | st.integers() | st.none(), lambda inner: st.lists(inner, max_size=3)))
    def test_no_field_names_a_path_or_an_address_as_a_person_s_word(self, value: Any) -> None:
        text, context = fill("Look at {x} and {x.0}", {}, {"x": value})
        assert not names_something(words_in(text, context))

    @pytest.mark.parametrize(
        "value",
        ["/srv/secret", "evil.example", "a\n/etc/passwd", "../x", "http://10.0.0.1", "user@evil.example"],
    )
    def test_such_a_value_is_quoted(self, value: str) -> None:
        text, context = fill("Look at {x}", {}, {"x": value})
        assert value not in text
        assert not names_something(words_in(text, context))

    def test_no_word_of_theirs_stands_beside_a_path_of_ours(self) -> None:
        text, context = fill("Check {x}\nin /srv/app on {x}", {}, {"x": "localhost"})
        assert text == 'Check "localhost"\nin /srv/app on (quoted 1)'
        assert context["quoted"]["1"]["value"] == "localhost"
