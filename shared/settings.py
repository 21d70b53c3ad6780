"""The settings: the only reader of the environment and of mailroom.toml."""

import difflib
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from shared.errors import ConfigError


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How this installation runs.

    Each field is read from the environment as ``MAILROOM_<FIELD>``, else from mailroom.toml
    (``MAILROOM_CONFIG``, else in the state directory), else it has the default given here.
    ``NATS_URL`` and ``NATS_SERVER_BIN`` work without the prefix too.
    """

    state_dir: Path
    """Everything Mailroom writes lies here; default ``$XDG_STATE_HOME/mailroom``."""
    nats_url: str = ""
    """A running nats-server to use; empty: ``mailroom up`` starts one of its own."""
    nats_server_bin: str = ""
    """The nats-server program; empty: the one of the nats-server-bin package."""
    nats_port: int = 4222
    """Where the office's own nats-server listens, on 127.0.0.1; 0 takes a free port."""
    nats_sync: str = "always"
    """When the server syncs to disk: ``always``, or a duration such as ``2m`` (can lose what was acknowledged)."""
    nats_max_store: int = 0
    """The most bytes JetStream may store; 0 takes half of what the disk has free, at most 10 GiB."""
    key_dir: Path | None = None
    """Where the identities' seeds lie; default ``<state_dir>/keys``."""
    model_dir: Path | None = None
    """Where the embedding model lies; default ``$XDG_CACHE_HOME/mailroom/models``."""
    agents_dir: Path | None = None
    """A folder of further agents, one folder with a profile.yaml each."""
    replicas: dict[str, int] = {}
    """How many processes of an agent ``mailroom up`` starts, where it is not one."""
    log_level: str = "info"
    """debug, info, warning or error."""
    log_format: str = "auto"
    """``console``, ``json``, or ``auto``: console on a terminal, JSON elsewhere."""
    goal_timeout: float = 3600.0
    """Seconds until a goal that names no deadline of its own times out."""
    task_ack_wait: float = 30.0
    """Seconds without a sign of life after which a message is handed out again."""
    max_attempts: int = 5
    """How often a message is handed out before it is buried."""
    drain_timeout: float = 5.0
    """Seconds a stopping process gives its running handlers."""
    command_timeout: float = 300.0
    """Seconds a command of an agent may take."""
    arxiv_url: str = "https://export.arxiv.org/api/query"
    """The arXiv query interface."""
    feeds: tuple[str, ...] = ("https://hnrss.org/newest?q=AI", "https://export.arxiv.org/rss/cs.AI")
    """News feeds (RSS or Atom) that frontier reads."""
    http_timeout: float = 20.0
    """Seconds a fetch may take."""
    private_hosts: tuple[str, ...] = ()
    """host:port pairs on private addresses that fetches may reach all the same."""

    @property
    def keys(self) -> Path:
        """The folder of the identities' seeds."""
        return self.key_dir or self.state_dir / "keys"

    @property
    def models(self) -> Path:
        """The folder of the embedding model."""
        return self.model_dir or _xdg("XDG_CACHE_HOME", ".cache") / "mailroom" / "models"

    @property
    def outputs(self) -> Path:
        """The folder of finished reports."""
        return self.state_dir / "outputs"

    @property
    def workspaces(self) -> Path:
        """The folder of working copies, one a task."""
        return self.state_dir / "workspaces"

    @property
    def logs(self) -> Path:
        """The folder of log files."""
        return self.state_dir / "logs"


def load(environ: Mapping[str, str] | None = None) -> Settings:
    """Read the settings; raises ConfigError naming the field, where it stood and what is allowed."""
    env = dict(os.environ if environ is None else environ)
    state_dir = Path(env.get("MAILROOM_STATE_DIR") or _xdg("XDG_STATE_HOME", ".local/state", env) / "mailroom")
    values: dict[str, Any] = _from_file(Path(env.get("MAILROOM_CONFIG") or state_dir / "mailroom.toml"), env)
    for name in ("NATS_URL", "NATS_SERVER_BIN"):
        if env.get(name):
            values[name.lower()] = env[name]
    values.update(_from_environment(env))
    values.setdefault("state_dir", str(state_dir))
    try:
        return msgspec.convert(values, Settings, strict=False, dec_hook=_path)
    except msgspec.ValidationError as error:
        raise ConfigError(f"A setting is wrong: {error}") from None


def _path(kind: type, value: Any) -> Any:
    if kind is Path:
        return Path(value).expanduser().absolute()
    raise NotImplementedError(kind)


def _xdg(variable: str, default: str, env: Mapping[str, str] | None = None) -> Path:
    value = (os.environ if env is None else env).get(variable)
    return Path(value) if value else Path.home() / default


def _from_file(path: Path, env: Mapping[str, str]) -> dict[str, Any]:
    if not path.exists():
        if env.get("MAILROOM_CONFIG"):
            raise ConfigError(f"MAILROOM_CONFIG names {path}, which does not exist")
        return {}
    try:
        values = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None
    for name in values:
        _require_known(name, f"{path}: {name}")
    return values


def _from_environment(env: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for variable, text in env.items():
        name = variable.removeprefix("MAILROOM_").lower()
        if not variable.startswith("MAILROOM_") or name in ("config", "instance") or not text:
            continue
        _require_known(name, variable)
        values[name] = _parse(name, text)
    return values


def _parse(name: str, text: str) -> Any:
    if name == "replicas":
        pairs = (pair.partition("=") for pair in text.split(",") if pair.strip())
        return {agent.strip(): count.strip() for agent, _, count in pairs}
    if name in ("feeds", "private_hosts"):
        return [part.strip() for part in text.split(",") if part.strip()]
    return text


def _require_known(name: str, where: str) -> None:
    known = Settings.__struct_fields__
    if name in known:
        return
    near = difflib.get_close_matches(name, known, n=1)
    cure = f"Did you mean {near[0]!r}?" if near else f"Known settings: {', '.join(known)}"
    raise ConfigError(f"{where} is not a setting", cure)
