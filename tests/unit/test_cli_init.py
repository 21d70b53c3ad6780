"""``mailroom init``: what it asks, writes, tries and refuses."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from shared import settings
from tests.support.server import ROOT, environment, run_mailroom

INIT = [sys.executable, "-m", "services.cli", "init"]


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "script.json"
    path.write_text(json.dumps([{"replies": [{"text": "ready"}]}]))
    return f"scripted:{path}"


def init(folder: Path, *options: str, **more: str) -> "subprocess.CompletedProcess[str]":
    return run_mailroom(environment(folder / "state", **more), "init", *options)


def written(folder: Path) -> Path:
    return folder / "state" / "mailroom.toml"


def test_options_alone_are_written_and_the_model_is_tried(tmp_path: Path, script: str) -> None:
    done = init(
        tmp_path, "--yes", "--brain", script, "--time-zone", "Europe/Zurich", "--night", "23:00-05:00"
    )
    assert done.returncode == 0, done.stderr
    assert "It answered 'ready' after" in done.stdout
    assert written(tmp_path).stat().st_mode & 0o777 == 0o600
    config = settings.load({"MAILROOM_STATE_DIR": str(tmp_path / "state"), "HOME": str(tmp_path)})
    assert (config.brain, config.time_zone, config.night) == (script, "Europe/Zurich", "23:00-05:00")


def test_a_file_that_is_there_stays(tmp_path: Path) -> None:
    assert init(tmp_path, "--yes", "--night", "always").returncode == 0
    before = written(tmp_path).read_text()
    again = init(tmp_path, "--yes")
    assert again.returncode == 1
    assert "is there already, and was not changed. Replace it with --force" in again.stderr
    assert written(tmp_path).read_text() == before
    assert init(tmp_path, "--yes", "--force").returncode == 0
    assert "always" not in written(tmp_path).read_text()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--night", "late"], "the hours of the night as '22:00-06:00'"),
        (["--time-zone", "Mars/Base"], "is no time zone"),
        (["--brain", "gpt"], "names no model"),
        (["--brain", "openai:x", "--brain-key-file", "/no/such"], "names /no/such, which cannot be read"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_written(tmp_path: Path, options: list[str], said: str) -> None:
    done = init(tmp_path, "--yes", *options)
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not written(tmp_path).exists()


def test_a_key_is_written_only_if_asked(tmp_path: Path) -> None:
    key = {"MAILROOM_BRAIN_KEY": "sk-secret-of-this-test"}
    chosen = ["--yes", "--brain", "openai:x", "--brain-url", "http://127.0.0.1:1/v1"]
    done = init(tmp_path, *chosen, **key)
    assert "It did not answer: " in done.stdout
    assert "nothing listens there" in done.stdout
    assert key["MAILROOM_BRAIN_KEY"] not in written(tmp_path).read_text() + done.stdout
    assert init(tmp_path, *chosen, "--no-try", "--force", "--store-key", **key).returncode == 0
    assert key["MAILROOM_BRAIN_KEY"] in written(tmp_path).read_text()


def test_without_a_terminal_it_asks_nothing(tmp_path: Path) -> None:
    assert "There is no terminal to ask at. Use --yes" in init(tmp_path).stderr


def answer(folder: Path, typed: str) -> str:
    """What init says on a terminal to a person who types that."""
    mine, its = pty.openpty()
    env = environment(folder / "state", MAILROOM_NIGHT="", OPENAI_API_KEY="")
    process = subprocess.Popen(
        INIT, cwd=ROOT, env=env, stdin=its, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    os.write(mine, typed.encode())
    said = process.communicate(timeout=60)[0].decode()
    os.close(its)
    os.close(mine)
    assert process.returncode == 0, said
    return said


def test_a_model_of_another_server_can_be_named_before_its_address(tmp_path: Path) -> None:
    said = answer(tmp_path, "openai:x\nhttp://127.0.0.1:1/v1\n\n\n\n")
    assert "there is no key" not in said
    assert "nothing listens there" in said
    assert 'brain_url = "http://127.0.0.1:1/v1"' in written(tmp_path).read_text()


def test_a_key_can_be_set_later(tmp_path: Path) -> None:
    said = answer(tmp_path, "openai:x\n\n\n\n25-99\n\n")
    assert "Note: MAILROOM_BRAIN is openai:x, but there is no key for https://api.openai.com/v1" in said
    assert "Error: night is '25-99'. Write" in said
    assert 'brain = "openai:x"' in written(tmp_path).read_text()


def test_it_asks_again_for_what_is_wrong(tmp_path: Path, script: str) -> None:
    said = answer(tmp_path, f"gpt\n{script}\n\n\nMars/Base\nEurope/Zurich\n\n")
    assert "'gpt' names no model" in said
    assert "is no time zone" in said
    assert "It answered 'ready'" in said
    text = written(tmp_path).read_text()
    assert 'time_zone = "Europe/Zurich"' in text
    assert 'night = "22:00-06:00"' in text
