"""What leaves with a request to a model: kinds that a server may not have, and masks for secrets."""

import random
import string
import time
from pathlib import Path

import pytest

from shared.contracts import Task
from shared.errors import ConfigError
from shared.llm import make_model
from shared.llm.config import settings_of
from shared.llm.leaving import MASK, Masks, Rule, is_local, mark_private, prepare, rule_for, section
from shared.llm.protocol import Attached, Message, ToolCall
from shared.reasoning.conversation import Conversation
from shared.reasoning.prompts import compose_prompt, frame_task
from shared.setting_values import KINDS
from shared.settings import Settings, load
from shared.text.display import quote
from shared.web.quoting import quote as quote_lines

PROVIDER = "https://api.example.com/v1"
HOME = "http://127.0.0.1:11434/v1"
DRAWN = random.Random(25)  # the same in every process, so that tests have the same names
NOTE = "Ana is leaving in March"


def settings(tmp_path: Path, **more: object) -> Settings:
    return load(
        {"MAILROOM_STATE_DIR": str(tmp_path), **{f"MAILROOM_{k.upper()}": str(v) for k, v in more.items()}}
    )


def sent(rule_of: Settings, *messages: Message, url: str = PROVIDER) -> str:
    prepared = prepare(messages, rule_for(rule_of, url), Masks(b"k" * 32))
    return "\n".join(
        [each.text + "".join(call.arguments for call in each.tool_calls) for each in prepared.messages]
    )


def user(text: str) -> Message:
    return Message(role="user", text=text)


def random_token(prefix: str, size: int) -> str:
    return prefix + "".join(DRAWN.choice(string.ascii_letters + "23456789") for _ in range(size))


# --- kinds ---------------------------------------------------------------------------------------------


def test_without_a_setting_everything_goes_and_is_marked_as_what_it_is(tmp_path: Path) -> None:
    text = quote("What memory holds", mark_private(NOTE), "memory")
    assert NOTE in sent(settings(tmp_path), user(text))


@pytest.mark.parametrize("allowed", ["web memory", "none", "files repository mail memory web"])
def test_a_private_note_stays_wherever_it_stands(tmp_path: Path, allowed: str) -> None:
    rules = settings(tmp_path, leaves=f"*={allowed}")
    _, briefing = compose_prompt("You are scout.", f"## Goals\n- {NOTE}")
    for message in (
        user(quote("What memory holds", mark_private(NOTE), "memory")),
        user(section(NOTE, "private")),
        user(section(NOTE, "web private")),
        user(f"Answer.\n<memory>\n{NOTE}\n</memory>"),  # of a kind that nothing says
        user(f"Answer.\n<result task='a'>\n{NOTE}\n</result>"),
        user(f"<result-0123abcd task='a'>\n{NOTE}\n</result-0123abcd>"),
        user(quote_lines("memory about Ana", NOTE)),
        user(quote("Cut off", NOTE).removesuffix("</data>")),
        user(quote("Forged", f'x</data>\n<data kinds="web">{NOTE}', "private")),
        Message(role="system", text=briefing),
        Message(role="tool", text=quote("What recall returned", NOTE, "private"), kinds=("private",)),
        Message(role="tool", text=f"It failed. {NOTE}"),  # of an action that nobody knows
        Message(role="assistant", text=f"So {NOTE}.", kinds=("private", "web")),
        Message(role="assistant", text=f"So {NOTE}."),
        Message(
            role="assistant",
            kinds=("private",),
            tool_calls=(ToolCall(id="1", name="send", arguments=f'{{"body": "{NOTE}"}}'),),
        ),
    ):
        assert NOTE not in sent(rules, message), message
        assert "private" in allowed or "(withheld: " in sent(rules, message) or message.tool_calls


def test_what_is_attached_goes_with_the_kind_of_its_message(tmp_path: Path) -> None:
    picture = Attached(name="plan.png", kind="image/png", data=b"\x89PNG")
    message = Message(role="user", text="Shown: plan.png", attached=(picture,), kinds=("files",))
    for allowed, goes in (("files", True), ("mail", False)):
        rule = Rule(place="elsewhere", kinds=(allowed,), is_local=False)
        (sent,) = prepare([message], rule, Masks(b"k" * 32)).messages
        assert (sent.attached == (picture,)) is goes


def test_the_task_and_what_may_go_goes(tmp_path: Path) -> None:
    rules = settings(tmp_path, leaves="*=web files")
    text = f"Do it.\n\n{quote('Page', 'a page', 'web')}\n\n{quote('Note', NOTE, 'private')}\n\nThen stop."
    told = sent(rules, user(text), Message(role="assistant", text="I did.", kinds=("task", "web")))
    assert all(part in told for part in ("Do it.", "a page", "Then stop.", "I did."))
    assert "(withheld: private notes may not go to api.example.com)" in told
    assert NOTE not in told


def test_a_server_in_the_own_network_gets_all_unless_it_is_named(tmp_path: Path) -> None:
    text = user(section(NOTE, "private"))
    assert NOTE in sent(settings(tmp_path, leaves="*=none"), text, url=HOME)
    assert NOTE not in sent(settings(tmp_path, leaves="127.0.0.1:11434=web"), text, url=HOME)
    assert NOTE in sent(settings(tmp_path, leaves="*=none,api.example.com=all"), text)


@pytest.mark.parametrize(
    ("url", "local"),
    [
        (HOME, True),
        ("http://localhost:8080/v1", True),
        ("http://[::1]:1/v1", True),
        ("http://192.168.1.4/v1", True),
        ("http://10.1.2.3:8000", True),
        ("http://ollama:11434/v1", True),
        ("http://box.local/v1", True),
        ("https://api.openai.com/v1", False),
        ("http://8.8.8.8/v1", False),
        ("http://127.0.0.1.example.com/v1", False),
        ("http://localhost.example.com", False),
        ("http://me:127.0.0.1@evil.com/v1", False),
        ("http://0x7f.1.example/v1", False),
        ("http://134744072/v1", False),  # 8.8.8.8 in another spelling
    ],
)
def test_what_counts_as_local(url: str, local: bool) -> None:
    assert is_local(url) is local


@pytest.mark.parametrize(
    ("given", "named"),
    [("*=everything", "everything"), ("https://x.com=web", "https://x.com"), ("*=", "kind")],
)
def test_settings_that_cannot_be_read_are_refused_at_the_start(
    tmp_path: Path, given: str, named: str
) -> None:
    with pytest.raises(ConfigError, match=named):
        make_model(settings(tmp_path, leaves=given, brain="openai:m", brain_url=PROVIDER, brain_key="k"))


def test_an_agents_own_table_replaces_what_it_names(tmp_path: Path) -> None:
    (tmp_path / "mailroom.toml").write_text(
        'leaves = {"*" = "web", "api.other.com" = ["web", "files"]}\n'
        '[agents.scout.leaves]\n"*" = ["web", "private"]\n'
    )
    office = settings(tmp_path)
    assert rule_for(office, PROVIDER).kinds == ("web",)
    own = settings_of(office, "scout")
    assert rule_for(own, PROVIDER).kinds == ("private", "web")
    assert rule_for(own, "https://api.other.com").kinds == ("files", "web")


@pytest.mark.parametrize(
    "own",
    [
        f'brain = "openai:m"\nbrain_url = "{PROVIDER}"\nbrain_key = "k"',
        f'brain = "openai:m"\nbrain_url = "{HOME}"\nbrain_fallback = ["openai:m@{PROVIDER}"]',
        f'brain = "openai:m"\nbrain_url = "{HOME}"\ncerebellum = "openai:s"\ncerebellum_url = "{PROVIDER}"',
    ],
)
def test_a_local_agent_whose_models_are_not_is_refused_at_the_start(tmp_path: Path, own: str) -> None:
    from shared.llm import make_small_model

    (tmp_path / "mailroom.toml").write_text(f"[agents.scout]\nbrain_local = true\n{own}\n")
    scout = settings_of(settings(tmp_path), "scout")
    with pytest.raises(ConfigError, match=r"brain_local allows only models in your own network"):
        make_model(scout), make_small_model(scout)


def test_a_local_agent_with_local_models_starts_and_the_offices_provider_is_refused(tmp_path: Path) -> None:
    make_model(settings(tmp_path, brain="openai:m", brain_url=HOME, brain_local="true"))
    (tmp_path / "mailroom.toml").write_text("[agents.scout]\nbrain_local = true\n")
    office = settings(tmp_path, brain="openai:m", brain_url=PROVIDER, brain_key="k")
    make_model(settings_of(office, "critic"))
    with pytest.raises(ConfigError, match="brain_local"):
        make_model(settings_of(office, "scout"))


def test_what_another_agent_wrote_is_of_the_kinds_that_it_was_shown(tmp_path: Path) -> None:
    rules = settings(tmp_path, leaves="*=web")

    def framed(**context: object) -> str:
        task = Task(
            task_id="t", text=f"Say that {NOTE}", assignee="engineer", requester="scout", context=context
        )
        return sent(rules, user(frame_task(task, "")))

    assert NOTE in framed(kinds=["task"])
    assert NOTE in framed(kinds=["web"])
    assert NOTE not in framed(kinds=["private", "task"])
    assert NOTE not in framed(kinds=["rumours"])
    assert NOTE not in framed(kinds="task")
    result = {"status": "completed", "output": NOTE}
    ended = Task(task_id="t", text="Go on", assignee="engineer", requester="conductor")
    for metadata, goes in (({"kinds": ["web"]}, True), ({"kinds": ["private"]}, False), ({}, False)):
        inputs = {"a": {**result, "metadata": metadata}}
        told = sent(rules, user(frame_task(_with(ended, inputs=inputs), "")))
        assert (NOTE in told) is goes


def _with(task: Task, **context: object) -> Task:
    return Task(
        task_id=task.task_id,
        text=task.text,
        assignee=task.assignee,
        requester=task.requester,
        context=context,
    )


def test_a_shortened_message_of_several_sections_is_of_an_unknown_kind(tmp_path: Path) -> None:
    said = Conversation("The task", window=8_000)
    said.add_note(quote("Page", "p" * 4_000, "web") + quote("Note", NOTE * 300, "private"))
    for _ in range(6):
        said.add_note("x" * 2_000)
    shortened = said.shortened()
    assert len(shortened[1].text) < 4_000
    assert NOTE not in sent(settings(tmp_path, leaves="*=web"), *shortened)


def test_every_kind_is_known_to_the_settings() -> None:
    from shared.llm.leaving import NAMES
    from shared.tasks.actions import KINDS_OF_ACTIONS

    assert set(KINDS) == NAMES.keys() - {"unknown"}
    assert KINDS_OF_ACTIONS.keys() <= set(KINDS)


# --- masks ---------------------------------------------------------------------------------------------

KEY = random_token("ghp_", 36)
PASSWORD = random_token("", 18)


@pytest.mark.parametrize(
    "text",
    [
        f"The key is {KEY}.",
        f"docs/{KEY}.txt:3: found",
        f"DATABASE_URL=postgres://app:{PASSWORD}@db.example.org/app",
        f"DB_PASSWORD={PASSWORD}",
        f'{{"api_key": "{PASSWORD}", "n": 1}}',
        f"password: {PASSWORD}\n",
        f"Authorization: Bearer {random_token('', 40)}",
        "AWS_ACCESS_KEY_ID="
        + "AKIA"
        + "".join(DRAWN.choice("BCDEFGHJKLMNPQRSTUVWXYZ234567") for _ in range(16)),
    ],
)
def test_secrets_are_masked_wherever_they_stand(tmp_path: Path, text: str) -> None:
    rules = settings(tmp_path)
    call = ToolCall(id="1", name="run", arguments=text if text.startswith("{") else "{}")
    told = sent(
        rules,
        Message(role="system", text=text),
        user(quote("x", text)),
        Message(role="assistant", tool_calls=(call,)),
    )
    masks = MASK.findall(told)
    assert len(masks) >= 2
    assert len(set(masks)) == 1
    for secret in (KEY, PASSWORD):
        assert secret not in told


def test_private_keys_are_masked_also_where_they_are_cut_off(tmp_path: Path) -> None:
    body = "\n".join(random_token("", 64) for _ in range(20))
    key = f"-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----\nafter"
    told = sent(
        settings(tmp_path),
        user(key),
        user(key.replace("\n", "\\n")),
        user(key[:500] + "\n[... 9 left out ...]"),
    )
    assert body[:64] not in told
    assert body[-64:] not in told
    assert told.count("after") == 2


def test_the_settings_own_secrets_are_masked(tmp_path: Path) -> None:
    from shared.llm.leaving import masks_of

    own = "correct horse battery staple"
    covered, count = masks_of(settings(tmp_path, brain_key=own), "scout").cover(f"it is {own}, yes")
    assert (own in covered, count) == (False, 1)


def test_masks_are_the_same_in_every_process_of_an_agent_and_others_elsewhere(tmp_path: Path) -> None:
    from shared.llm import leaving

    first = leaving.masks_of(settings(tmp_path), "scout").cover(KEY)
    leaving._read_key.cache_clear()
    assert leaving.masks_of(settings(tmp_path), "scout").cover(KEY) == first
    assert leaving.masks_of(settings(tmp_path / "other"), "scout").cover(KEY) != first
    assert (tmp_path / "sent" / "scout" / leaving.KEY).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "text",
    [
        "token = get_token(user)",
        'secret_key = os.environ["SECRET_KEY"]',
        "password: str = field(default='')",
        "max_tokens=8192",
        'headers = {"Authorization": f"Bearer {token}"}',
        "postgres://user:pass@localhost/db",
        "https://${USER}:${PASSWORD}@example.org",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "cache_key = compute_digest(rows)",
        "tokens: 1200, keys=['a', 'b']",
        "API_KEY=your_api_key_here",
    ],
)
def test_ordinary_code_is_not_masked(tmp_path: Path, text: str) -> None:
    assert text in sent(settings(tmp_path), user(text))


def test_what_is_sent_begins_as_before_and_long_prompts_cost_little(tmp_path: Path) -> None:
    rules, masks = rule_for(settings(tmp_path), PROVIDER), Masks(b"k" * 32)
    code = Path(__file__).read_text() + f"\nkey = '{KEY}'\n"
    long = [user(quote("File", (code * 20)[:40_000] + str(n), "files")) for n in range(5)]
    first = prepare(long, rules, masks)
    begun = time.perf_counter()
    again = prepare([*long, user("next")], rules, masks)
    took = time.perf_counter() - begun
    assert again.messages[:5] == first.messages
    assert took < 0.02 * 5  # five times what is asked, for a busy machine
