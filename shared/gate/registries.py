"""The package registries of an ecosystem: the public one, and those that the person's own settings name.

Read are the files and variables of pip, uv, npm, cargo, Go and Maven. What a repository names is not opened,
since it could name any host. Credentials stay outside of the jail: they are taken out of the addresses.
"""

import configparser
import contextlib
import json
import re
import shutil
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import msgspec

from shared import settings
from shared.errors import ActionError
from shared.sandbox import Reach
from shared.sandbox.jail import LOOPBACK, is_closed

if TYPE_CHECKING:
    from xml.etree import ElementTree

PUBLIC = {
    "python": ("pypi.org", "files.pythonhosted.org"),
    "javascript": ("registry.npmjs.org", "registry.yarnpkg.com"),
    "rust": ("index.crates.io", "static.crates.io", "crates.io"),
    "go": ("proxy.golang.org", "sum.golang.org", "storage.googleapis.com"),
    "java": ("repo.maven.apache.org", "repo1.maven.org", "plugins.gradle.org", "services.gradle.org"),
    "debian": ("deb.debian.org", "security.debian.org"),
}
"""The hosts of the public registries: indexes and files."""
PYPI = "https://pypi.org/simple"
SOURCE_KEYS = ("registry", "local-registry", "directory", "git", "branch", "tag", "rev", "replace-with")
"""The keys of a table [source.X] of cargo."""


class Registry(msgspec.Struct, frozen=True, kw_only=True):
    """What a command needs to use the registries of an ecosystem.

    ``reach`` are their hosts, ``environment`` makes the ecosystem's tools use them, ``readable`` are the
    folders of this machine among them. ``settings`` is a file of settings, without credentials, for tools
    that take a mirror from there alone (cargo, Maven). ``named`` are further hosts that the repository's own
    settings name: they are not part of ``reach``, and a person can grant them.
    """

    reach: Reach
    environment: dict[str, str] = {}
    readable: tuple[Path, ...] = ()
    settings: str = ""
    named: tuple[str, ...] = ()

    def join(self, other: "Registry") -> "Registry":
        """What either needs."""
        return Registry(
            reach=self.reach.join(other.reach),
            environment={**self.environment, **other.environment},
            readable=tuple(dict.fromkeys((*self.readable, *other.readable))),
        )


class _Found(msgspec.Struct, frozen=True, kw_only=True):
    """Addresses (URLs or folders) that settings name, and what makes tools use them."""

    addresses: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    settings: str = ""


def registry_reach(ecosystem: str, named: Iterable[str] = ()) -> Registry:
    """The registries of ``ecosystem``, a key of PUBLIC; raises ActionError for another.

    ``named`` are the addresses of registries that a repository names.

    The names of the public registries may lead to private addresses, because a company's name server may send
    them to a mirror, and nothing in a repository decides what they resolve to.
    """
    if ecosystem not in PUBLIC:
        raise ActionError(f"No registry is known for {ecosystem!r}", f"Known are {', '.join(PUBLIC)}")
    found = READERS[ecosystem](settings.environment(), Path.home())
    own = tuple(dict.fromkeys(host for address in found.addresses if (host := _host(address))))
    hosts = tuple(dict.fromkeys((*PUBLIC[ecosystem], *own)))
    folders = dict.fromkeys(folder for address in found.addresses if (folder := _folder(address)))
    return Registry(
        reach=Reach(hosts=hosts, allow_private=hosts),
        environment=found.environment,
        readable=tuple(folders),
        settings=found.settings,
        named=tuple(dict.fromkeys(host for each in named if (host := _host(each)) and host not in hosts)),
    )


def open_reach(entries: Iterable[str], *, trusted: Iterable[str] = ()) -> Registry:
    """What a command gets for ``entries``: registries (keys of PUBLIC), and hosts as ``host:NAME``.

    Hosts among ``trusted``, which may be patterns, may have private addresses. Raises ActionError if one is
    malformed.
    """
    opened = Registry(reach=Reach(allow_private=tuple(trusted)))
    for entry in entries:
        kind, _, name = entry.partition(":")
        if kind == "host":
            opened = opened.join(Registry(reach=Reach(hosts=(name,))))
        elif kind in PUBLIC:
            opened = opened.join(registry_reach(kind))
    return opened


def _host(address: str) -> str:
    with contextlib.suppress(ValueError):
        parts = urlsplit(address.removeprefix("sparse+"))
        if parts.scheme in ("http", "https") and parts.hostname:
            host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
            return f"{host}:{parts.port}" if parts.port else host
    return ""


def _folder(address: str) -> Path | None:
    path = unquote(urlsplit(address).path) if address.startswith("file:") else address
    folder = Path(path).expanduser()
    if not folder.is_absolute() or not folder.exists():
        return None
    if folder.name == "simple" and len(folder.parts) > 3:  # an index (PEP 503), whose files lie beside it
        folder = folder.parent
    return None if is_closed(str(folder.resolve())) else folder


def strip_credentials(address: str) -> str:
    """``address`` without a user name and a password."""
    return re.sub(r"(?<=://)[^/@\s]*@", "", address)


def _read_python(env: Mapping[str, str], home: Path) -> _Found:
    pip, uv = _read_pip(env, home), _read_uv(env, home)
    default = pip.get("index-url", []) or [PYPI]
    extra, links = pip.get("extra-index-url", []), pip.get("find-links", [])
    uv_default = uv.get("default", []) or default
    uv_extra = list(dict.fromkeys((*uv.get("index", []), *extra)))
    uv_links = list(dict.fromkeys((*uv.get("find-links", []), *links)))
    variables = {
        "PIP_INDEX_URL": " ".join(default[-1:]),
        "PIP_EXTRA_INDEX_URL": " ".join(extra),
        "PIP_FIND_LINKS": " ".join(links),
        "PIP_TRUSTED_HOST": " ".join(pip.get("trusted-host", [])),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "UV_DEFAULT_INDEX": "" if uv_default[-1].rstrip("/") == PYPI else uv_default[-1],
        "UV_INDEX": " ".join(uv_extra),
        "UV_FIND_LINKS": ",".join(uv_links),
        # pip takes the best version of all indexes; uv by default only of the first that has the package.
        "UV_INDEX_STRATEGY": "unsafe-best-match" if extra else "",
        "UV_PYTHON_DOWNLOADS": "never",  # they come from another host
    }
    return _Found(
        addresses=(*default, *extra, *links, *uv_default, *uv_extra, *uv_links),
        environment={name: value for name, value in variables.items() if value},
    )


def _read_pip(env: Mapping[str, str], home: Path) -> dict[str, list[str]]:
    """pip's options about registries, without credentials: a variable wins over the files."""
    config = configparser.RawConfigParser(strict=False)
    config_home = Path(env.get("XDG_CONFIG_HOME") or home / ".config")
    files = [
        Path("/etc/xdg/pip/pip.conf"),
        Path("/etc/pip.conf"),
        home / ".pip/pip.conf",
        config_home / "pip/pip.conf",
    ]
    for file in (*files, Path(env.get("PIP_CONFIG_FILE", ""))):
        with contextlib.suppress(configparser.Error, UnicodeDecodeError):
            config.read(file)
    found: dict[str, list[str]] = {}
    for name in ("index-url", "extra-index-url", "find-links", "trusted-host"):
        for section in ("global", "install"):
            if value := config.get(section, name, fallback=""):
                found[name] = value.split()
        if value := env.get(f"PIP_{name.upper().replace('-', '_')}", ""):
            found[name] = value.split()
        found[name] = [strip_credentials(each) for each in found.get(name, [])]
    return found


def _read_uv(env: Mapping[str, str], home: Path) -> dict[str, list[str]]:
    """uv's: ``default``, ``index`` and ``find-links``, without credentials."""
    config_home = Path(env.get("XDG_CONFIG_HOME") or home / ".config")
    found: dict[str, list[str]] = {"default": [], "index": [], "find-links": []}
    files = [Path("/etc/uv/uv.toml"), config_home / "uv/uv.toml"]
    if named := env.get("UV_CONFIG_FILE"):
        files = [Path(named)]
    for table in map(_read_toml, files):
        for part in (table, _table(table, "pip")):
            found["default"] += _texts(part.get("index-url"))
            found["index"] += _texts(part.get("extra-index-url"))
            found["find-links"] += _texts(part.get("find-links"))
        for index in table.get("index", []):
            if isinstance(index, dict):
                found["default" if index.get("default") else "index"] += _texts(index.get("url"))
    for variable, name in (
        ("UV_INDEX_URL", "default"),
        ("UV_DEFAULT_INDEX", "default"),
        ("UV_EXTRA_INDEX_URL", "index"),
        ("UV_INDEX", "index"),
    ):
        # An index may have a name before its address: name=https://...
        found[name] += [re.sub(r"^[\w.-]+=", "", each) for each in env.get(variable, "").split()]
    found["find-links"] += [each for each in env.get("UV_FIND_LINKS", "").split(",") if each]
    return {name: [strip_credentials(each) for each in values] for name, values in found.items()}


def _read_javascript(env: Mapping[str, str], home: Path) -> _Found:
    npm = shutil.which("npm", path=env.get("PATH"))
    files = [Path(npm).parents[1] / "etc/npmrc"] if npm else []
    files += [Path("/etc/npmrc"), Path(env.get("NPM_CONFIG_USERCONFIG") or home / ".npmrc")]
    found: dict[str, str] = {}
    for file in files:
        for line in _read_lines(file):
            name, _, value = line.partition("=")
            if re.fullmatch(r"(@[^:]+:)?registry", name.strip()):
                found[name.strip()] = value.strip().strip("\"'")
    for variable in ("npm_config_registry", "NPM_CONFIG_REGISTRY"):
        if chosen := env.get(variable):
            found["registry"] = chosen
    found = {name: strip_credentials(value) for name, value in found.items()}
    environment = {f"npm_config_{name}": value for name, value in found.items()}
    if "registry" in found:
        environment |= dict.fromkeys(("YARN_NPM_REGISTRY_SERVER", "BUN_CONFIG_REGISTRY"), found["registry"])
    return _Found(
        addresses=tuple(found.values()),
        environment={
            **environment,
            "npm_config_update_notifier": "false",
            # By default npm waits 10 s and 60 s before it asks again a host that cannot be reached.
            "npm_config_fetch_retry_mintimeout": "1000",
            "npm_config_fetch_retry_maxtimeout": "5000",
            "YARN_ENABLE_TELEMETRY": "0",
        },
    )


def _read_rust(env: Mapping[str, str], home: Path) -> _Found:
    cargo = Path(env.get("CARGO_HOME") or home / ".cargo")
    variables = {
        name: value for name, value in env.items() if re.fullmatch(r"CARGO_REGISTRIES_[A-Z0-9_]+_INDEX", name)
    }
    rows: list[str] = []
    addresses: list[str] = []
    # Of the two cargo reads the one without a suffix if both are there.
    own = _read_toml(cargo / "config") or _read_toml(cargo / "config.toml")
    for name in _table(own, "registries"):
        for index in _texts(_table(_table(own, "registries"), name).get("index")):
            variables.setdefault(f"CARGO_REGISTRIES_{name.upper().replace('-', '_')}_INDEX", index)
            rows += [f"[registries.{_quote(name)}]", f"index = {_quote(strip_credentials(index))}"]
    for name in _table(own, "source"):
        rows.append(f"[source.{_quote(name)}]")
        for key, value in _table(_table(own, "source"), name).items():
            if key in SOURCE_KEYS and isinstance(value, str):
                # A path is relative to the folder that holds the folder of the settings.
                is_path = key in ("local-registry", "directory")
                place = str(cargo.parent / value) if is_path else strip_credentials(value)
                rows.append(f"{key} = {_quote(place)}")
                addresses += [place] if is_path or key in ("registry", "git") else []
    variables = {name: strip_credentials(value) for name, value in variables.items()}
    return _Found(
        addresses=(*addresses, *variables.values()),
        environment=variables,
        settings="".join(f"{row}\n" for row in rows),
    )


def _quote(text: str) -> str:
    """``text`` as a string of TOML."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _read_go(env: Mapping[str, str], home: Path) -> _Found:
    file = Path(env.get("GOENV") or Path(env.get("XDG_CONFIG_HOME") or home / ".config") / "go/env")
    names = ("GOPROXY", "GOSUMDB", "GONOSUMDB", "GOPRIVATE", "GONOPROXY", "GONOSUMCHECK")
    found = dict(line.partition("=")[::2] for line in _read_lines(file))
    chosen = {name: env.get(name) or found.get(name, "") for name in names}
    chosen = {name: strip_credentials(value) for name, value in chosen.items() if value}
    return _Found(
        addresses=tuple(re.split(r"[,|]", chosen.get("GOPROXY", ""))),
        environment={**chosen, "GOTOOLCHAIN": "local", "GOTELEMETRY": "off"},
    )


def _read_java(env: Mapping[str, str], home: Path) -> _Found:
    from shared.gate import PORT

    settings, addresses = _read_maven(home / ".m2/settings.xml")
    is_local = any(LOOPBACK.match(_host(address)) for address in addresses)
    direct = "" if is_local else "localhost|127.*"
    proxy = " ".join(
        f"-D{scheme}.proxyHost=127.0.0.1 -D{scheme}.proxyPort={PORT} -D{scheme}.nonProxyHosts={direct}"
        for scheme in ("http", "https")
    )
    return _Found(
        addresses=addresses, environment={"MAVEN_OPTS": proxy, "GRADLE_OPTS": proxy}, settings=settings
    )


def _read_maven(file: Path) -> tuple[str, tuple[str, ...]]:
    """Maven's mirrors and repositories as settings of their own, without credentials, and their addresses."""
    from xml.etree import ElementTree  # half a megabyte in every agent, for those who build with Maven

    try:
        root = ElementTree.fromstring(file.read_bytes())  # noqa: S314 - the person's own file
    except (OSError, ElementTree.ParseError):
        return "", ()
    for element in root.iter():
        element.tag = str(element.tag).rpartition("}")[2]  # Maven does not read prefixes
    _keep(root, ("mirrors", "profiles", "activeProfiles"))
    for profile in root.iterfind("profiles/profile"):
        _keep(profile, ("id", "activation", "repositories", "pluginRepositories"))
    addresses = [element for element in root.iter("url") if element.text]
    for element in addresses:
        element.text = strip_credentials((element.text or "").strip())
    settings = ElementTree.tostring(root, encoding="unicode") if len(root) else ""
    return settings, tuple(element.text or "" for element in addresses)


def _keep(element: "ElementTree.Element", names: Iterable[str]) -> None:
    for child in list(element):
        if child.tag not in names:
            element.remove(child)


def _read_debian(env: Mapping[str, str], home: Path) -> _Found:
    files = [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*.[ls]*")]
    words = (word for file in files for line in _read_lines(file) for word in line.split())
    return _Found(addresses=tuple(strip_credentials(word) for word in words if "://" in word))


READERS: dict[str, Callable[[Mapping[str, str], Path], _Found]] = {
    "python": _read_python,
    "javascript": _read_javascript,
    "rust": _read_rust,
    "go": _read_go,
    "java": _read_java,
    "debian": _read_debian,
}


def _read_lines(path: Path) -> list[str]:
    try:
        # A repository may hold anything by that name, such as a pipe, which would never end.
        lines = path.read_text(errors="replace").splitlines() if path.is_file() else []
    except OSError:
        return []
    return [line.strip() for line in lines if line.strip() and line.strip()[0] not in "#;"]


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(errors="replace"))
    except (OSError, tomllib.TOMLDecodeError):
        return {}


def _table(table: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = table.get(name)
    return value if isinstance(value, dict) else {}


def _texts(value: object) -> list[str]:
    values: Iterable[object] = value if isinstance(value, list) else [value]
    return [each for each in values if isinstance(each, str) and each]
