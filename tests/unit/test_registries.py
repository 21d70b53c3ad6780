"""The registries of a person's own settings: their hosts, the variables for tools, no credentials."""

import tomllib
from pathlib import Path

import pytest

from shared.errors import ActionError
from shared.gate.registries import PUBLIC, Registry, open_reach, registry_reach
from shared.projects.reading.project_files import ProjectFiles, list_registries


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, and no variables of package managers."""
    import os

    for name in list(os.environ):
        if name.upper().startswith(("PIP_", "UV_", "NPM_", "CARGO_", "GO", "XDG_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def values(registry: Registry) -> str:
    return " ".join(registry.environment.values())


def test_the_public_registry_is_always_there(home: Path) -> None:
    for ecosystem, hosts in PUBLIC.items():
        assert set(hosts) <= set(registry_reach(ecosystem).reach.hosts)


def test_an_unknown_ecosystem_is_refused() -> None:
    with pytest.raises(ActionError, match="No registry is known"):
        registry_reach("cobol")


def test_pip_s_settings_also_hold_for_uv(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    simple = home / "index" / "pypi" / "simple"
    links = home / "wheels"
    simple.mkdir(parents=True)
    links.mkdir()
    write(
        home / ".config/pip/pip.conf",
        "[global]\nindex-url = https://me:secret@pypi.corp.example:8443/simple\n"
        f"extra-index-url = file://{simple} http://more.example/simple\n",
    )
    monkeypatch.setenv("PIP_FIND_LINKS", str(links))
    found = registry_reach("python")
    assert {"pypi.corp.example:8443", "more.example"} <= set(found.reach.allow_private)
    assert found.environment["PIP_INDEX_URL"] == "https://pypi.corp.example:8443/simple"
    assert found.environment["UV_DEFAULT_INDEX"] == "https://pypi.corp.example:8443/simple"
    assert "http://more.example/simple" in found.environment["UV_INDEX"]
    assert found.environment["UV_FIND_LINKS"] == str(links)
    # The files of an index lie beside its folder "simple".
    assert {simple.parent, links} <= set(found.readable)
    assert "secret" not in values(found)


def test_a_registry_on_this_machine_is_reached_through_the_gate(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not registry_reach("python").reach.has_loopback
    monkeypatch.setenv("PIP_INDEX_URL", "http://localhost:3141/root/pypi/+simple/")
    assert registry_reach("python").reach.has_loopback
    assert "localhost:3141" in registry_reach("python").reach.allow_private


def test_uv_s_own_settings_are_read(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(
        home / ".config/uv/uv.toml",
        '[[index]]\nname = "corp"\nurl = "https://u:p@uv.example/simple"\n'
        '[[index]]\nurl = "https://main.example/simple"\ndefault = true\n',
    )
    monkeypatch.setenv("UV_INDEX", "named=https://third.example/simple")
    found = registry_reach("python")
    assert {"uv.example", "main.example", "third.example"} <= set(found.reach.hosts)
    assert found.environment["UV_DEFAULT_INDEX"] == "https://main.example/simple"
    assert "u:p@" not in values(found)


def test_npm_s_settings(home: Path) -> None:
    write(
        home / ".npmrc",
        "registry=https://npm.example/\n@corp:registry = https://corp.example:8443/npm/\n"
        "//npm.example/:_authToken=topsecret\n",
    )
    found = registry_reach("javascript")
    assert {"npm.example", "corp.example:8443"} <= set(found.reach.hosts)
    assert found.environment["npm_config_registry"] == "https://npm.example/"
    assert found.environment["npm_config_@corp:registry"] == "https://corp.example:8443/npm/"
    assert "topsecret" not in values(found)


def test_cargo_s_go_s_and_maven_s_settings(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(
        home / ".cargo/config.toml",
        '[registries.corp]\nindex = "sparse+https://crates.example/index/"\n'
        'token = "topsecret"\n[source.crates-io]\nreplace-with = "mirror"\n'
        '[source.mirror]\nregistry = "sparse+https://me:topsecret@mirror.example/"\n'
        '[source.own]\ndirectory = "vendor"\n',
    )
    monkeypatch.setenv("GOPROXY", "https://me:x@go.example,https://two.example|direct")
    write(
        home / ".m2/settings.xml",
        '<settings xmlns="http://maven.apache.org/SETTINGS/1.2.0"><mirrors><mirror><id>own</id>'
        "<mirrorOf>*</mirrorOf><url>https://me:topsecret@maven.example/all</url></mirror></mirrors>"
        "<servers><server><password>topsecret</password></server></servers></settings>",
    )
    rust, go, java = (registry_reach(each) for each in ("rust", "go", "java"))
    assert {"crates.example", "mirror.example"} <= set(rust.reach.hosts)
    assert rust.environment["CARGO_REGISTRIES_CORP_INDEX"] == "sparse+https://crates.example/index/"
    assert {"go.example", "two.example"} <= set(go.reach.hosts)
    assert go.environment["GOPROXY"] == "https://go.example,https://two.example|direct"
    assert "maven.example" in java.reach.hosts
    assert tomllib.loads(rust.settings) == {
        "registries": {"corp": {"index": "sparse+https://crates.example/index/"}},
        "source": {
            "crates-io": {"replace-with": "mirror"},
            "mirror": {"registry": "sparse+https://mirror.example/"},
            "own": {"directory": str(home / "vendor")},
        },
    }
    assert java.settings == (
        "<settings><mirrors><mirror><id>own</id><mirrorOf>*</mirrorOf>"
        "<url>https://maven.example/all</url></mirror></mirrors></settings>"
    )


def test_what_a_repository_names_is_told_and_not_opened(home: Path, tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    write(repo / ".npmrc", "registry=https://evil.example/\n")
    write(
        repo / "pyproject.toml",
        '[project.urls]\nHome = "https://home.example"\n[[tool.uv.index]]\nurl = "https://whl.example/cpu"\n',
    )
    assert registry_reach("javascript", list_registries(ProjectFiles(repo))).named == (
        "evil.example",
        "whl.example",
    )
    assert "evil.example" not in registry_reach("javascript", list_registries(ProjectFiles(repo))).reach.hosts


def test_entries_are_opened_and_only_trusted_hosts_may_be_private(home: Path) -> None:
    found = open_reach(
        ("python", "host:a.example", "host:b.example:8080", "network"), trusted=["b.example:8080"]
    )
    assert set(found.reach.hosts) == {*PUBLIC["python"], "a.example", "b.example:8080"}
    assert "a.example" not in found.reach.allow_private
    assert "b.example:8080" in found.reach.allow_private


def test_broken_settings_are_as_none(home: Path) -> None:
    for name in (".config/pip/pip.conf", ".config/uv/uv.toml", ".npmrc", ".cargo/config.toml"):
        write(home / name, "[[[\n\x00=\n")
    for ecosystem in PUBLIC:
        assert set(PUBLIC[ecosystem]) <= set(registry_reach(ecosystem).reach.hosts)
