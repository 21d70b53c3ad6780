"""What of the machine the jail shows: decided without starting anything."""

import importlib.util
from pathlib import Path

import pytest

from shared.errors import ActionError
from shared.jailer import JailSpec, Mount, read_spec, write_spec
from shared.sandbox import jail, jailer_client


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with tool chains of several kinds, and nothing else on the PATH."""
    home = tmp_path / "home" / "person"
    for place in (
        *(".cargo/bin", ".local/bin", ".local/lib", ".local/share/keyrings", ".docker/bin", "bin", "lib"),
        *(".nvm/versions/node/v20/bin", ".nvm/versions/node/v20/lib", ".pyenv/shims", ".pyenv/versions"),
        *("plain/bin", ".rustup/toolchains"),
    ):
        (home / place).mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    return home


def shown(home: Path, monkeypatch: pytest.MonkeyPatch, *entries: str) -> set[str]:
    monkeypatch.setenv("PATH", ":".join(str(home / entry) for entry in entries) + ":/usr/bin:.:relative/bin")
    folders = [Path(path) for path in jail.tool_folders()]
    return {str(path.relative_to(home)) for path in folders if path.is_relative_to(home)}


def test_a_tool_chain_is_shown_whole(home, monkeypatch):
    always = {".pyenv", ".rustup"}
    assert shown(home, monkeypatch) == always
    node = ".nvm/versions/node/v20"
    assert shown(home, monkeypatch, f"{node}/bin", ".pyenv/shims") == {node, *always}


def test_of_folders_that_hold_more_than_tools_the_programs_alone_are_shown(home, monkeypatch):
    entries = (".cargo/bin", ".local/bin", ".docker/bin", "bin", "plain/bin")
    assert shown(home, monkeypatch, *entries) == {*entries, ".pyenv", ".rustup"}


def test_relative_entries_of_the_path_count_nothing(home, monkeypatch):
    shown(home, monkeypatch, "bin")
    assert jail.search_path() == f"{home}/bin:/usr/bin"


def test_a_home_is_never_shown_nor_what_holds_it(home):
    for path in (
        home,
        home.parent,
        Path("/"),
        Path("/etc"),
        Path("/etc/ssl"),
        Path("/proc/self"),
        Path("/var"),
    ):
        assert jail.is_closed(str(path)), path
    for path in (home / "project", Path("/opt/tool"), Path("/srv/www"), Path("/var/lib/thing")):
        assert not jail.is_closed(str(path)), path


def test_the_inner_folder_comes_after_the_outer_and_what_is_there_already_is_left_out(tmp_path):
    outer, inner, same = tmp_path / "outer", tmp_path / "outer" / "inner", tmp_path / "outer" / "same"
    for folder in (inner, same):
        folder.mkdir(parents=True)
    folders = jail.visible_mounts(inner, writable=[inner], readable=[outer, same, Path("/usr/share")])
    mine = [folder for folder in folders if folder.target.startswith(str(tmp_path))]
    ours = [folder for folder in mine if "/home/" not in folder.target]
    assert ours == [Mount(str(outer), str(outer), False), Mount(str(inner), str(inner), True)]


def test_a_link_is_shown_where_it_is_and_where_it_leads(tmp_path):
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    targets = {
        folder.target for folder in jail.visible_mounts(link, writable=[link]) if folder.source == str(real)
    }
    assert targets == {str(real), str(link)}


def test_tools_and_the_system_cannot_be_made_writable(home, monkeypatch):
    shown(home, monkeypatch, ".cargo/bin")
    for path in (Path("/usr"), home / ".cargo" / "bin", home / ".pyenv"):
        with pytest.raises(ActionError, match="may not see all of"):
            jail.visible_mounts(Path("/"), writable=[path])


def test_a_program_of_a_closed_place_is_shown_alone(home):
    program = home / "tool"
    program.write_text("#!/bin/sh\n")
    targets = {folder.target for folder in jail.visible_mounts(Path("/"), program=str(program))}
    assert str(program) in targets
    assert str(home) not in targets


def test_elsewhere_than_on_linux_there_is_no_jail(monkeypatch):
    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(ActionError, match="needs Linux, and this is darwin"):
        jail.find_bubblewrap.__wrapped__()


def test_without_bubblewrap_the_cure_is_told(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ActionError, match=r"There is no bubblewrap .* Install it"):
        jail.find_bubblewrap.__wrapped__()


def test_of_the_machines_settings_only_what_everybody_may_read_is_copied(tmp_path):
    settings, copy = tmp_path / "java", tmp_path / "etc" / "java"
    (settings / "security").mkdir(parents=True)
    for name, mode in (("public", 0o644), ("security/policy", 0o644), ("security/password", 0o600)):
        (settings / name).write_text("x")
        (settings / name).chmod(mode)
    jailer_client._copy(settings, copy)
    jailer_client._copy(settings / "security" / "password", tmp_path / "etc" / "password")
    found = {str(path.relative_to(tmp_path / "etc")) for path in (tmp_path / "etc").rglob("*")}
    assert found == {"java", "java/public", "java/security", "java/security/policy"}


def test_a_specification_is_read_as_it_was_written():
    wanted = JailSpec(
        bubblewrap=["bwrap", "--proc", "/proc"],
        mounts=[Mount("/a", "/b", True)],
        late_options=["--chdir", "/"],
        command=["echo", "\udcff", "é\n"],
        environment={"A": "b"},
        limits=[(0, 1)],
        memory=5,
        stop_signal=2,
        grace=1.5,
    )
    read = read_spec(write_spec(wanted), "/place")
    assert read.mounts.pop(0) == Mount("/place/etc", "/etc", False)
    assert read._replace(limits=[tuple(pair) for pair in read.limits]) == wanted


def test_where_its_etc_cannot_be_made_the_place_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "a file"
    place.touch()
    monkeypatch.setattr(jailer_client, "PLACE", str(place))
    with pytest.raises(ActionError, match=r"cannot be made in .*a file: .*chmod 1777"):
        jailer_client.make_jail_folder()
