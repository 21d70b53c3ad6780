"""Settings come from the environment, else from mailroom.toml; a wrong one is named with its place."""

from pathlib import Path

import msgspec
import pytest

from shared.errors import ConfigError
from shared.settings import SECRETS, Settings, load


@pytest.fixture
def read(tmp_path):
    """Load settings whose state directory is tmp_path; ``toml`` is written there first."""

    def read(toml: str = "", **environ: str) -> Settings:
        if toml:
            (tmp_path / "mailroom.toml").write_text(toml)
        return load({"MAILROOM_STATE_DIR": str(tmp_path), **environ})

    return read


def test_defaults_lie_under_the_state_directory(read, tmp_path):
    settings = read()
    assert settings.state_dir == tmp_path
    assert settings.keys == tmp_path / "keys"
    assert settings.outputs == tmp_path / "outputs"
    assert settings.workspaces == tmp_path / "workspaces"
    assert settings.logs == tmp_path / "logs"
    assert settings.nats_port == 4222
    assert settings.nats_sync == "always"


def test_the_state_directory_follows_xdg(tmp_path):
    assert load({"XDG_STATE_HOME": str(tmp_path)}).state_dir == tmp_path / "mailroom"
    assert load({}).state_dir == Path.home() / ".local/state/mailroom"


def test_the_model_lies_in_the_cache_unless_it_is_told_otherwise(read, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert read().models == tmp_path / "cache" / "mailroom" / "models"
    assert read(MAILROOM_MODEL_DIR=str(tmp_path / "own")).models == tmp_path / "own"


def test_the_environment_wins_over_the_file(read):
    toml = 'nats_port = 4333\nlog_level = "debug"\nfeeds = ["https://a.example"]\nreplicas = { engineer = 2 }'
    settings = read(toml, MAILROOM_NATS_PORT="4444")
    assert settings.nats_port == 4444
    assert settings.log_level == "debug"
    assert settings.feeds == ("https://a.example",)
    assert settings.replicas == {"engineer": 2}


def test_the_file_may_lie_elsewhere(read, tmp_path):
    other = tmp_path / "other.toml"
    other.write_text("nats_port = 4555")
    assert read("nats_port = 4333", MAILROOM_CONFIG=str(other)).nats_port == 4555


def test_lists_and_pairs_are_written_with_commas(read):
    settings = read(
        MAILROOM_FEEDS="https://a.example, https://b.example,", MAILROOM_REPLICAS="engineer=2, scout=3"
    )
    assert settings.feeds == ("https://a.example", "https://b.example")
    assert settings.replicas == {"engineer": 2, "scout": 3}


def test_paths_are_absolute_and_know_the_home_directory(read):
    assert read(MAILROOM_KEY_DIR="~/keys").keys == Path.home() / "keys"
    assert read(MAILROOM_KEY_DIR="keys").keys == Path.cwd() / "keys"


def test_the_usual_variables_of_nats_work_and_the_own_ones_win(read):
    assert read(NATS_URL="nats://a:4222").nats_url == "nats://a:4222"
    assert read(NATS_URL="nats://a:4222", MAILROOM_NATS_URL="nats://b:4222").nats_url == "nats://b:4222"
    assert read(NATS_SERVER_BIN="/opt/nats-server").nats_server_bin == "/opt/nats-server"


def test_empty_variables_and_those_of_others_are_passed_over(read):
    assert (
        read(
            MAILROOM_NATS_PORT="",
            MAILROOM_XYZZY="",
            MAILROOM_INSTANCE="engineer-1",
            MAILROOM_TEST_EVENTS="4",
            NATS_PORT="1",
        )
        == read()
    )


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("MAILROOM_NATS_PROT", "1", "is not a setting. Did you mean 'MAILROOM_NATS_PORT'?"),
        ("MAILROOM_XYZZY", "1", "MAILROOM_XYZZY is not a setting. Known settings: state_dir, "),
        ("MAILROOM_NATS_PORT", "many", "MAILROOM_NATS_PORT is 'many'. Write a whole number from 0 to 65535"),
        (
            "MAILROOM_NATS_PORT",
            "70000",
            "MAILROOM_NATS_PORT is '70000'. Write a whole number from 0 to 65535",
        ),
        ("MAILROOM_NATS_SYNC", "often", "MAILROOM_NATS_SYNC is 'often'. Write 'always', or a span such as"),
        (
            "MAILROOM_REPLICAS",
            "engineer",
            "MAILROOM_REPLICAS is 'engineer'. Write agents with numbers from 0 to 100",
        ),
        ("MAILROOM_REPLICAS", "engineer=-1", "MAILROOM_REPLICAS is 'engineer=-1'. Write agents with numbers"),
        ("MAILROOM_LOG_LEVEL", "loud", "is 'loud'. Write one of debug, info, warning, error"),
        ("MAILROOM_GOAL_TIMEOUT", "-5", "MAILROOM_GOAL_TIMEOUT is '-5'. Write a number of seconds above 0"),
        ("MAILROOM_GOAL_TIMEOUT", "nan", "MAILROOM_GOAL_TIMEOUT is 'nan'. Write a number of seconds above 0"),
        ("MAILROOM_MAX_ATTEMPTS", "0", "MAILROOM_MAX_ATTEMPTS is '0'. Write a whole number of 1 or more"),
        ("MAILROOM_INGEST_BY_MODEL", "maybe", "is 'maybe'. Write true or false"),
        ("MAILROOM_IDENTITY", "A b", "is 'A b'. Write a name of 1 to 64 lower-case letters"),
        ("MAILROOM_CONFIG", "/no/such.toml", "MAILROOM_CONFIG names /no/such.toml, which does not exist"),
    ],
)
def test_a_wrong_variable_is_named_with_what_is_allowed(read, variable, value, message):
    with pytest.raises(ConfigError) as caught:
        read(**{variable: value})
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("nats_prot = 1", "mailroom.toml: nats_prot is not a setting. Did you mean 'nats_port'?"),
        ('nats_port = "many"', "mailroom.toml: nats_port is 'many'. Write a whole number"),
        ("feeds = 3", "mailroom.toml: feeds is 3. Write a list of texts"),
        ("brain_key = 12345", "mailroom.toml: brain_key is (hidden). Write a text"),
        ("nats_port =", "mailroom.toml cannot be read: Invalid value"),
    ],
)
def test_a_wrong_line_of_the_file_is_named_with_the_file(read, tmp_path, toml, message):
    with pytest.raises(ConfigError) as caught:
        read(toml)
    assert str(caught.value).startswith(str(tmp_path))
    assert message in str(caught.value)


def test_settings_do_not_change(read):
    with pytest.raises(AttributeError):
        read().nats_port = 1
    assert Settings.__struct_config__.forbid_unknown_fields
    assert msgspec.structs.replace(read(), nats_port=1).nats_port == 1


def test_no_secret_is_in_the_settings_as_they_are_printed(read):
    loaded = read(**{f"MAILROOM_{name.upper()}": f"very-secret-{name}" for name in SECRETS})
    assert getattr(loaded, SECRETS[0]) == f"very-secret-{SECRETS[0]}"
    assert "very-secret" not in repr(loaded) + str(loaded)


def test_a_secret_may_be_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sk-1\n")
    env = {"MAILROOM_STATE_DIR": str(tmp_path), "HOME": str(tmp_path)}
    place = {"MAILROOM_BRAIN_KEY_FILE": str(tmp_path / "key")}
    assert load({**env, **place}).brain_key == "sk-1"
    assert load({**env, **place, "MAILROOM_BRAIN_KEY": "sk-2"}).brain_key == "sk-2"
    (tmp_path / "mailroom.toml").write_text(f'brain_key_file = "{tmp_path}/key"')
    assert load(env).brain_key == "sk-1"
    (tmp_path / "key").unlink()
    with pytest.raises(ConfigError, match=r"brain_key_file names .*/key, which cannot be read: No such file"):
        load(env)


def test_the_witnesses_stand_in_a_table(read):
    assert read('[audit]\nwitness = ["/mnt/seals"]').audit_witness == ("/mnt/seals",)
    assert read("", MAILROOM_AUDIT_WITNESS="/a,nats://u:pw@h/s").audit_witness == ("/a", "nats://u:pw@h/s")
    assert "pw" not in repr(read("", MAILROOM_AUDIT_WITNESS="nats://u:pw@h/s"))
    with pytest.raises(ConfigError, match=r"Write 'witness = \[...\]' below '\[audit\]'"):
        read('audit_witness = ["/mnt/seals"]')
    with pytest.raises(ConfigError, match="Did you mean 'audit_witness'"):
        read('[audit]\nwitnes = ["/mnt/seals"]')


def test_servers_and_replicas_of_the_log_are_a_table(read):
    settings = read('[nats]\nservers = ["nats://a:1", "nats://b:2"]\nreplicas = 3\nport = 4999')
    assert settings.nats_servers == ("nats://a:1", "nats://b:2")
    assert (settings.nats_url, settings.nats_replicas, settings.nats_port) == (
        "nats://a:1,nats://b:2",
        3,
        4999,
    )
    settings = read("", MAILROOM_NATS_SERVERS="nats://a:1,nats://b:2", MAILROOM_NATS_REPLICAS="3")
    assert (settings.nats_url, settings.nats_replicas) == ("nats://a:1,nats://b:2", 3)
    assert read("", NATS_URL="nats://c:3", MAILROOM_NATS_SERVERS="nats://a:1").nats_url == "nats://c:3"
    assert read("[nats]\nreplicas = 1").nats_url == ""


@pytest.mark.parametrize("text", ["2", "0", "three"])
def test_the_log_lies_on_one_server_or_on_three(read, text):
    with pytest.raises(ConfigError, match="Write one of 1, 3"):
        read("", MAILROOM_NATS_REPLICAS=text)
