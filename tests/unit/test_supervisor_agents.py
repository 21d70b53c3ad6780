"""Which agents there are, and which processes they make."""

import sys
from pathlib import Path

import pytest

from services.cli.supervisor.programs import AGENT, MEMORY, agent_programs
from shared import settings
from shared.errors import ConfigError
from shared.settings import Settings
from shared.tasks.installed_agents import SERVICES, load_agents, read_agents


def load(tmp_path: Path, **more: str) -> Settings:
    return settings.load({"MAILROOM_STATE_DIR": str(tmp_path), "HOME": str(tmp_path), **more})


def make_agent(folder: Path, *, profile: str = "name: clerk\ndescription: Files things.\n") -> Path:
    folder.mkdir(parents=True)
    (folder / "profile.yaml").write_text(profile)
    return folder


def test_the_agents_that_come_with_mailroom_begin_with_memory(tmp_path: Path) -> None:
    members = load_agents(load(tmp_path))
    names = [member.name for member in members]
    assert names[0] == "memory"
    assert names[1:] == sorted(names[1:])
    assert {"conductor", "cortex", "critic", "engineer", "frontier", "nexus", "scout"} < set(names)
    assert all(member.command == (sys.executable, "-m", f"services.{member.name}") for member in members)


def test_a_folder_with_a_profile_alone_is_an_agent(tmp_path: Path) -> None:
    folder = make_agent(tmp_path / "agents" / "clerk")
    config = load(tmp_path, MAILROOM_AGENTS_DIR=str(tmp_path / "agents"))
    clerk = next(member for member in load_agents(config) if member.name == "clerk")
    assert clerk.command == (sys.executable, "-m", "shared.agent.process", str(folder / "profile.yaml"))


def test_an_agent_with_code_of_its_own_finds_mailroom(tmp_path: Path) -> None:
    folder = make_agent(tmp_path / "agents" / "clerk")
    (folder / "__main__.py").write_text("")
    config = load(tmp_path, MAILROOM_AGENTS_DIR=str(tmp_path / "agents"))
    clerk = next(member for member in load_agents(config) if member.name == "clerk")
    assert clerk.command == (sys.executable, str(folder))
    (program,) = agent_programs(config, clerk, "nats://127.0.0.1:4222")
    assert program.env["PYTHONPATH"].split(":")[0] == str(SERVICES.parent)


def test_replicas_have_logs_of_their_own(tmp_path: Path) -> None:
    config = load(tmp_path, MAILROOM_REPLICAS="engineer=3,scout=0,memory=2,memory-reader=2")
    programs = {
        member.name: list(agent_programs(config, member, "nats://127.0.0.1:4222"))
        for member in load_agents(config)
    }
    assert [program.log.name for program in programs["engineer"]] == [
        "engineer.log",
        "engineer.2.log",
        "engineer.3.log",
    ]
    assert programs["scout"] == []
    assert [(program.name, program.command[-1]) for program in programs["memory"]] == [
        ("memory", "services.memory"),
        ("memory.2", "services.memory"),
        ("memory-reader.1", "reader"),
        ("memory-reader.2", "reader"),
    ]
    assert {program.stage for each in programs.values() for program in each} == {AGENT, MEMORY}


def test_an_agent_sees_the_settings_of_the_office(tmp_path: Path) -> None:
    config = load(tmp_path, MAILROOM_KEY_DIR=str(tmp_path / "keys"))
    (program,) = agent_programs(config, load_agents(config)[0], "nats://127.0.0.1:7")
    seen = settings.load(program.env)
    assert (seen.state_dir, seen.keys, seen.nats_url) == (tmp_path, tmp_path / "keys", "nats://127.0.0.1:7")
    assert seen.log_format == "json"


@pytest.mark.parametrize(
    ("replicas", "sentence"),
    [
        ("enginer=2", "MAILROOM_REPLICAS names 'enginer', which is no agent. Did you mean 'engineer'?"),
        (
            "memory-raeder=2",
            "MAILROOM_REPLICAS names 'memory-raeder', which is no agent. Did you mean 'memory-reader'?",
        ),
    ],
)
def test_replicas_that_cannot_be(tmp_path: Path, replicas: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_agents(load(tmp_path, MAILROOM_REPLICAS=replicas))
    assert str(caught.value) == sentence


def test_a_name_that_is_taken_keeps_that_agent_out(tmp_path: Path) -> None:
    make_agent(tmp_path / "agents" / "clerk")
    folder = make_agent(tmp_path / "agents" / "second", profile="name: scout\ndescription: Reads things.\n")
    config = load(tmp_path, MAILROOM_AGENTS_DIR=str(tmp_path / "agents"), MAILROOM_REPLICAS="second=2")
    agents, refused = read_agents(config)
    assert refused == {
        "second": f"Two profiles are named 'scout'; one of them is {folder / 'profile.yaml'}. "
        "Give it a name of its own"
    }
    (scout,) = (agent for agent in agents if agent.name == "scout")
    assert scout.built_in
    assert "clerk" in {agent.name for agent in agents}


def test_a_folder_of_agents_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"cannot be read: No such file or directory\. Correct MAILROOM_AGENTS_DIR"
    ):
        load_agents(load(tmp_path, MAILROOM_AGENTS_DIR=str(tmp_path / "nowhere")))
