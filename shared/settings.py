"""The settings: the only reader of the environment and of mailroom.toml."""

import difflib
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from shared.errors import ConfigError
from shared.setting_values import Context, Days, Leaves, Name, Night, Port, Prices, Replicas, Seconds, Sync

PREFIX = "MAILROOM_"
NOT_SETTINGS = ("MAILROOM_CONFIG", "MAILROOM_INSTANCE", "MAILROOM_TEST_EVENTS", "MAILROOM_TEST_SECONDS")
"""Variables that are read elsewhere: the last two by reporters of tests, also of tests of Mailroom itself."""
UNPREFIXED = (
    ("NATS_URL", "nats_url"),
    ("NATS_SERVER_BIN", "nats_server_bin"),
    ("OPENAI_API_KEY", "openai_api_key"),
    ("ANTHROPIC_API_KEY", "anthropic_api_key"),
)

SECRETS = tuple(
    "embedding_key brain_key cerebellum_key openai_api_key anthropic_api_key smtp_url calendar_password "
    "gateway_oidc_client_secret".split()
)
"""The settings that are printed nowhere."""
SECRET_FILES = {f"{name}_file": name for name in SECRETS}
"""Names under which a secret is given as the path of a file, whose whole content it is."""
HIDDEN = (*SECRETS, "agents", "deliver", "deliver_secrets", "audit_witness", "mcp")  # those may hold one
DELIVER_PREFIX = f"{PREFIX}DELIVER_"
"""What the variables with the secrets of channels begin with: ``MAILROOM_DELIVER_<CHANNEL>_<FIELD>``."""

CHARACTERS_A_TOKEN = 3  # a low estimate, as for code and JSON: English text has about four
USUAL_CONTEXT = 100_000  # Tokens that a model can read if nothing says how many
ANSWER_SHARE = 4  # a quarter of the model's context is reserved for its answer


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How this installation runs.

    Each field is read from the environment as ``MAILROOM_<FIELD>``, else from mailroom.toml
    (``MAILROOM_CONFIG``, else in the state directory), else it has the default given here. A secret may be in
    a file that ``MAILROOM_<FIELD>_FILE`` or ``<field>_file`` names.
    ``NATS_URL`` and ``NATS_SERVER_BIN`` work without the prefix too.
    """

    state_dir: Path
    """The folder of everything Mailroom writes; default ``$XDG_STATE_HOME/mailroom``."""
    nats_url: str = ""
    """A running nats-server to use; empty: ``mailroom up`` starts one of its own."""
    nats_servers: tuple[str, ...] = ()
    """The addresses of all servers of a cluster, in place of ``nats_url``; ``servers`` in ``[nats]``."""
    nats_replicas: Literal[1, 3] = 1
    """On how many servers the log lies; without ``nats_url`` the office runs as many (docs/cluster.md)."""
    nats_tenant: str = ""
    """The name of an office on the server of another, as ``mailroom office add`` writes it."""
    nats_server_bin: str = ""
    """The nats-server program; empty: the one of the nats-server-bin package."""
    nats_port: Port = 4222
    """The port of the office's own nats-server; 0 takes a free one."""
    nats_address: Literal["127.0.0.1", "0.0.0.0", "::"] = "127.0.0.1"  # noqa: S104
    """Where it listens: any but 127.0.0.1 opens it, under TLS, to hosts that join (docs/hosts.md)."""
    nats_sync: Sync = "always"
    """When the server syncs: ``always``, or how often (``2m``: can lose what was answered, memories too)."""
    nats_max_store: Annotated[int, Meta(ge=0)] = 0
    """The most bytes JetStream may store; 0 takes half of what the disk has free, at most 10 GiB."""
    url: str = ""
    """The gateway that commands ask; empty: that of ``mailroom login``, else that of the state directory."""
    gateway_address: str = "127.0.0.1"
    """The address that the gateway listens on; any but a loopback one opens it to the network."""
    gateway_port: Port = 8642
    """The gateway's port; if another program has it, or with 0, a free one is taken."""
    gateway_public_url: str = ""
    """The address by which people reach the gateway, if not the one it listens on, as behind a proxy."""
    gateway_hosts: tuple[str, ...] = ()
    """More names of the gateway, such as ``office.example.org``, or ``https://...`` behind a TLS proxy."""
    gateway_oidc_issuer: str = ""
    """An OpenID provider for signing in, such as ``https://accounts.example.org``; empty: links alone."""
    gateway_oidc_client_id: str = ""
    """What the provider calls the gateway."""
    gateway_oidc_client_secret: str = ""
    """The gateway's secret at the provider. It is printed nowhere."""
    gateway_oidc_claim: str = "email"
    """The claim that has to be the ``email`` of a person in ``gateway/users.toml``."""
    audit_witness: tuple[str, ...] = ()
    """Who keeps seals of the log, as docs/audit.md has it; in mailroom.toml ``witness`` in ``[audit]``."""
    identity: Name = "user"
    """The name under which scripts use memory: ``user``, or that of the agent they work for."""
    key_dir: Path | None = None
    """The folder of the identities' NKey seeds; default ``<state_dir>/keys``."""
    model_dir: Path | None = None
    """The folder of the embedding model; default ``$XDG_CACHE_HOME/mailroom/models``, with ``web`` beside."""
    embedding: str = ""
    """Another embedding model: ``openai:NAME``, ``ollama:NAME`` or ``sentence-transformers:NAME``."""
    embedding_url: str = ""
    """The address of its server, as for an OpenAI-compatible one."""
    embedding_key: str = ""
    """The key for it; it is printed nowhere."""
    ingest_dir: Path | None = None
    """The folder whose files memory ingests; default ``<state_dir>/ingest``."""
    ingest_by_model: bool = False
    """Whether the small model gives ingested passages their kinds where rules leave these unclear."""
    linker_interval: Seconds = 60.0
    """Seconds between two rounds of linking what is new in memory."""
    linker_by_model: bool = False
    """Whether the small model judges what the linker cannot decide; without it people are asked."""
    memory_tables: str = ""
    """The s3:// or gs:// address of memory's tables; empty: in the state directory."""
    memory_keep: Annotated[dict[str, Annotated[int, Meta(ge=1)]], "event=90,episodic=30"] = {}
    """Days after which memories of a kind are retired, such as event=90,episodic=30; empty: all are kept."""
    keep: Annotated[dict[Literal["outputs", "workspaces"], Days], "outputs=90,workspaces=7"] = {}
    """Days without use after which what goals leave is removed: outputs (default 90), and workspaces with
    their snapshots (7); 0: never. What open goals have stays, and so do the log and memory."""
    briefing_ttl: Seconds = 300.0
    """Seconds until a briefing is composed again although nothing changed."""
    briefed_agents: tuple[str, ...] = tuple("conductor engineer scout critic nexus cortex frontier".split())
    """The agents whose briefings are kept ready."""
    promptforge_url: str = ""
    """A PromptForge server to fetch the agents' SOUL from; empty: the prompts of their profiles."""
    brain: str = ""
    """The agents' model: ``openai:MODEL`` (or compatible), ``anthropic:MODEL``; empty: none is asked."""
    brain_url: str = ""
    """The address of its server, such as ``http://127.0.0.1:11434/v1``; empty: its provider's address."""
    brain_key: str = ""
    """The key for it, printed nowhere; empty: at their own OPENAI_API_KEY or ANTHROPIC_API_KEY."""
    brain_price: str = ""
    """US dollars for a million tokens in and out, as ``3/15``; empty: what ``prices`` or the table says."""
    prices: Prices = {}
    """Prices of models by their names, such as openai:gpt-5=1.25/10; without one only tokens are counted."""
    brain_fallback: tuple[str, ...] = ()
    """Models asked in this order where ``brain`` fails; one's own as ``openai:MODEL@http://host:11434/v1``."""
    brain_concurrency: Annotated[int, Meta(ge=0, le=1_000)] = 0
    """The most requests that all agents have open at one model server; 0: 2 at one's own, 16 at others."""
    brain_tokens_per_minute: Annotated[int, Meta(ge=0)] = 0
    """The most tokens of one model in a minute, of all agents together; 0: what its server says it allows."""
    brain_plan: str = ""
    """The model that makes plans, written as a fallback; empty: ``brain``, asked too where it cannot."""
    brain_review: str = ""
    """The model that judges what was done, likewise."""
    agents: dict[str, Any] = {}
    """What single agents have for themselves, as ``[agents.critic]`` with ``brain = "anthropic:MODEL"``."""
    mcp: dict[str, Any] = {}
    """Servers whose tools agents get, as ``[mcp.NAME]`` with ``command = "python"``; docs/mcp.md."""
    brain_local: bool = False
    """Whether only models in your own network may be asked: any other is refused at the start."""
    leaves: Leaves = {}
    """The kinds of text that may go to a model's server, by its host, ``*`` for all others: ``*=web memory``;
    what is not named goes wherever a model is asked, and to models in one's own network in any case."""
    brain_effort: Literal["", "low", "medium", "high", "xhigh", "max"] = ""
    """How much a reasoning model thinks before it answers; empty: what its provider chooses."""
    brain_temperature: Annotated[float, Meta(ge=-1, le=2)] = -1
    """The temperature of answers; below 0: what the provider chooses (reasoning models refuse any other)."""
    brain_answer: Annotated[int, Meta(ge=256, le=1_000_000)] = 8_192
    """The most tokens of one answer, where a request has no limit of its own and the format wants one."""
    brain_images: bool = True
    """Whether models are shown the images and PDFs that a task refers to; others get their names."""
    brain_timeout: Seconds = 120.0
    """Seconds a model has for one answer."""
    brain_context: Context = 0
    """The model's context in tokens; 0: what its server says, else 100,000. The model sums up more."""
    answer_within: Seconds = 20.0
    """Seconds after which a question is answered from memory alone if the model has not answered it yet."""
    cerebellum: str = ""
    """The small model, which fills in parameters of actions; empty: that of ``brain``."""
    cerebellum_url: str = ""
    """The address of its server; empty: as ``brain_url``."""
    cerebellum_key: str = ""
    """The key for it; empty: as ``brain_key``."""
    cerebellum_price: str = ""
    """Its price; empty: as ``brain_price``."""
    openai_api_key: str = ""
    """OPENAI_API_KEY, used at OpenAI itself if a model has no other key. It is printed nowhere."""
    anthropic_api_key: str = ""
    """ANTHROPIC_API_KEY, likewise."""
    max_steps: Annotated[int, Meta(ge=1, le=1_000)] = 50
    """The most steps of an agent loop on one task."""
    task_tokens: Annotated[int, Meta(ge=0)] = 400_000
    """The most tokens of model calls for one task; 0 is no limit."""
    goal_tokens: Annotated[int, Meta(ge=0)] = 0
    """The most tokens of model calls for one goal, all its tasks and agents together; 0 is no limit."""
    goal_cost: Annotated[float, Meta(ge=0)] = 0.0
    """The most US dollars of one goal, by ``brain_price``; 0 is no limit."""
    day_tokens: Annotated[int, Meta(ge=0)] = 5_000_000
    """The most tokens of one agent in a day (UTC); 0 is no limit."""
    day_cost: Annotated[float, Meta(ge=0)] = 0.0
    """The most US dollars of one agent in a day (UTC), by ``brain_price``; 0 is no limit."""
    approval_timeout: Seconds = 3600.0
    """Seconds until a command that waits for a person's approval counts as refused."""
    approvals: dict[str, Literal["member", "approver", "admin"]] = {}
    """Who answers approvals, by their risk or rule, as ``high=admin,reach=member``; others: approvers."""
    second_person: bool = False
    """Whether nobody may grant what their own goal asks for."""
    max_specialists: Annotated[int, Meta(ge=0, le=32)] = 4
    """How many specialists may be at work at once."""
    agents_dir: Path | None = None
    """A folder of further agents, one folder with a profile.yaml each."""
    skills: tuple[str, ...] = ()
    """Further skills: classes (``package.module.Class``), entry points of the group ``mailroom.skills``."""
    skills_dir: Path | None = None
    """A folder of skills for the models of all agents, one folder with a SKILL.md each; docs/extend.md."""
    replicas: Replicas = {}
    """The number of processes that ``mailroom up`` starts for an agent; default one."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """debug, info, warning or error."""
    log_format: Literal["auto", "console", "json"] = "auto"
    """``console``, ``json``, or ``auto``: console on a terminal, JSON elsewhere."""
    goal_timeout: Seconds = 3600.0
    """Seconds until a goal that names no deadline of its own times out."""
    task_ack_wait: Seconds = 30.0
    """Seconds without progress until a message is delivered again."""
    max_attempts: Annotated[int, Meta(ge=1)] = 5
    """Failures of a message until it becomes a dead letter."""
    drain_timeout: Seconds = 5.0
    """Seconds a stopping process gives its running handlers."""
    start_limit: Seconds = 300.0
    """Seconds a process may take to get ready, until it is started again."""
    unresponsive_limit: Seconds = 60.0
    """Seconds until a process is started again whose event loop is blocked, or that is stopped."""
    command_timeout: Seconds = 300.0
    """Seconds a command of an agent may take."""
    environments_limit: Annotated[int, Meta(ge=0)] = 10 << 30
    """The most bytes that the environments of prepared projects may have together; the oldest are removed."""
    test_timeout: Seconds = 1200.0
    """Seconds the tests of a project may take, each of its test commands."""
    test_limit: Seconds = 120.0
    """Seconds a single test may take before it counts as hung."""
    arxiv_url: str = "https://export.arxiv.org/api/query"
    """The arXiv query interface."""
    feeds: tuple[str, ...] = ("https://hnrss.org/newest?q=AI", "https://export.arxiv.org/rss/cs.AI")
    """News feeds (RSS or Atom) that frontier reads."""
    search_url: str = ""
    """A SearXNG server to search the web with, such as ``http://127.0.0.1:8888``; empty: ddgs."""
    weather_url: str = "https://api.open-meteo.com/v1/forecast"
    """The Open-Meteo forecast interface."""
    geocoding_url: str = "https://geocoding-api.open-meteo.com/v1/search"
    """The Open-Meteo interface that finds places."""
    home_place: str = ""
    """The town of the office's people, such as ``Bern``: for the weather in briefings."""
    time_zone: str = ""
    """Their time zone, such as ``Europe/Zurich``; empty: this machine's."""
    night: Night = "22:00-06:00"
    """When jobs of the overnight queue begin that name no time, in ``time_zone``; ``always``: at once."""
    night_load: Annotated[float, Meta(ge=0)] = 2.0
    """The load of the machine (1 minute, for each core) above which none begins; 0 is no limit."""
    night_on_battery: bool = False
    """Whether they begin while the machine runs on its battery."""
    night_tokens: Annotated[int, Meta(ge=0)] = 0
    """The tokens that all agents may use in a night before no further job begins; 0 is no limit."""
    night_cost: Annotated[float, Meta(ge=0)] = 0.0
    """The same in US dollars, by ``brain_price`` or ``prices``."""
    calendar: str = ""
    """An ICS calendar: a file, an https address, or one on a CalDAV server (``caldavs://user@host/path/``)."""
    calendar_password: str = ""
    """The password for it there; it is printed nowhere."""
    smtp_url: str = ""
    """The server for mail to people, as ``smtp://user:password@host:587``. It is printed nowhere."""
    smtp_sender: str = ""
    """The address mail to people comes from."""
    smtp_recipients: tuple[str, ...] = ()
    """The only addresses that agents may send mail to."""
    deliver: dict[str, Any] = {}
    """By which channels people are told: ``[deliver]`` and ``[deliver.CHANNEL]``; docs/delivery.md."""
    deliver_secrets: dict[str, str] = {}
    """The channels' secrets in the environment (DELIVER_PREFIX); the gateway alone gets them."""
    http_timeout: Seconds = 20.0
    """Seconds a fetch may take."""
    reach: tuple[str, ...] = ()
    """What commands may reach unasked: registries (``python``), hosts (``example.org:8443``, ``*.lan``)."""
    private_hosts: tuple[str, ...] = ()
    """host:port pairs on private addresses that fetches may reach nevertheless."""

    def __repr__(self) -> str:
        shown = {name: getattr(self, name) for name in self.__struct_fields__}
        hidden = {name: "(hidden)" for name in HIDDEN if shown[name]}
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in (shown | hidden).items())})"

    @property
    def brain_characters(self) -> int:
        """Characters that the model can read, by ``brain_context`` without the part for its answer."""
        context = self.brain_context or USUAL_CONTEXT
        return (context - context // ANSWER_SHARE) * CHARACTERS_A_TOKEN

    @property
    def keys(self) -> Path:
        """The folder of the identities' seeds."""
        return self.key_dir or self.state_dir / "keys"

    @property
    def models(self) -> Path:
        """The folder of the embedding model."""
        return self.model_dir or _xdg("XDG_CACHE_HOME", ".cache") / "mailroom" / "models"

    @property
    def assets(self) -> Path:
        """The folder of the dashboard's libraries, ``web`` in ``model_dir`` or beside the model's default."""
        return (self.model_dir or self.models.parent) / "web"

    @property
    def gateway(self) -> Path:
        """The folder of the gateway: its index, sessions and tokens."""
        return self.state_dir / "gateway"

    @property
    def ingest(self) -> Path:
        """The folder whose files memory ingests."""
        return self.ingest_dir or self.state_dir / "ingest"

    @property
    def inbox(self) -> Path:
        """The folder of morning and evening briefings."""
        return self.state_dir / "inbox"

    @property
    def specialists(self) -> Path:
        """The folder of the specialists' profiles, one folder each."""
        return self.state_dir / "specialists"

    @property
    def outputs(self) -> Path:
        """The folder of finished reports."""
        return self.state_dir / "outputs"

    def days_kept(self, kind: Literal["outputs", "workspaces"]) -> int:
        """After how many days without use a kind of file is removed; 0: never."""
        return {"outputs": 90, "workspaces": 7, **self.keep}[kind]

    @property
    def sent(self) -> Path:
        """The folder of what was sent to models, one folder for each goal."""
        return self.state_dir / "sent"

    @property
    def snapshots(self) -> Path:
        """The folder of the snapshots of workspaces."""
        return self.state_dir.absolute() / "snapshots"

    @property
    def workspaces(self) -> Path:
        """The folder of workspaces, one for each goal."""
        return self.state_dir / "workspaces"

    @property
    def environments(self) -> Path:
        """The folder of the environments that projects are prepared in."""
        return self.state_dir / "environments"

    @property
    def logs(self) -> Path:
        """The folder of log files."""
        return self.state_dir / "logs"


def load(environ: Mapping[str, str] | None = None) -> Settings:
    """Read the settings; raises ConfigError that names the field, its source and the allowed values."""
    env = dict(os.environ if environ is None else environ)
    state_dir = Path(
        env.get("MAILROOM_STATE_DIR") or _xdg("XDG_STATE_HOME", ".local/state", env) / "mailroom"
    )
    config = settings_file(state_dir, env)
    of_channels = env.items() - without_secrets(env).items()
    secrets = {name.removeprefix(DELIVER_PREFIX).lower(): text for name, text in of_channels if text}
    values = {"state_dir": str(state_dir), **_from_file(config, env), "deliver_secrets": secrets}
    places = {name: f"{config}: {name}" for name in values}
    for variable, name in (*UNPREFIXED, *_variables(env)):
        if env.get(variable):
            values[name] = _parse(name, env[variable])
            places[name] = variable
    _read_secrets(values, places)
    if values.get("nats_servers") and not values.get("nats_url"):
        values["nats_url"] = ",".join(map(str, values["nats_servers"]))
    try:
        return msgspec.convert(values, Settings, strict=False, dec_hook=_path)
    except msgspec.ValidationError as error:
        given = {name: env.get(place, values[name]) for name, place in places.items()}
        name = re.split(r"\W", str(error).partition(" - at `$.")[2])[0]
        shown = "(hidden)" if name in HIDDEN else f"{given.get(name)!r:.100}"
        hint = get_type_hints(Settings, include_extras=True)[name]
        raise ConfigError(f"{places.get(name, name)} is {shown}", f"Write {_wanted(hint)}") from None


def settings_file(state_dir: Path, env: Mapping[str, str] | None = None) -> Path:
    """The mailroom.toml of the installation in ``state_dir``, which need not be there."""
    named = (os.environ if env is None else env).get("MAILROOM_CONFIG")
    return Path(named or state_dir / "mailroom.toml").expanduser()


def _read_secrets(values: dict[str, Any], places: dict[str, str]) -> None:
    """Replace the paths of secrets' files by what is in them; a secret given itself goes first."""
    for name in SECRET_FILES.keys() & values.keys():
        path, place = Path(str(values.pop(name))).expanduser(), places.pop(name)
        if values.get(SECRET_FILES[name]):
            continue
        try:
            values[SECRET_FILES[name]] = path.read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is no text"
            raise ConfigError(f"{place} names {path}, which cannot be read: {reason}", "Correct it") from None
        places[SECRET_FILES[name]] = place


def _wanted(hint: Any) -> str:
    """The allowed values of a field, for people."""
    if get_origin(hint) is Literal:
        return f"one of {', '.join(map(str, get_args(hint)))}"
    if get_origin(hint) is tuple:
        return "a list of texts"
    if get_origin(hint) is not Annotated:
        return "true or false" if hint is bool else "a text"
    kind, meta = get_args(hint)
    if meta.description:
        return str(meta.description)
    word = "a whole number" if kind is int else "a number"
    return f"{word} of {meta.ge:g} or more" if meta.le is None else f"{word} from {meta.ge} to {meta.le}"


def environment(config: Settings | None = None, **overrides: object) -> dict[str, str]:
    """The environment of this process with settings overridden, for ``load`` or for a child process.

    None overrides nothing. With ``config``, a child in another folder finds the folders of ``config``.
    """
    env = dict(os.environ)
    if file := env.get("MAILROOM_CONFIG"):
        env["MAILROOM_CONFIG"] = str(Path(file).absolute())
    folders = ("state_dir", "key_dir", "model_dir", "agents_dir", "skills_dir", "ingest_dir")
    chosen = {**({name: getattr(config, name) for name in folders} if config else {}), **overrides}
    return env | {PREFIX + name.upper(): str(value) for name, value in chosen.items() if value is not None}


def _path(kind: type, value: Any) -> Any:
    if kind is Path:
        return Path(value).expanduser().absolute()
    raise NotImplementedError(kind)


def _xdg(variable: str, default: str, env: Mapping[str, str] | None = None) -> Path:
    return Path((os.environ if env is None else env).get(variable) or Path.home() / default)


def _from_file(path: Path, env: Mapping[str, str]) -> dict[str, Any]:
    if not path.exists():
        if env.get("MAILROOM_CONFIG"):
            raise ConfigError(f"MAILROOM_CONFIG names {path}, which does not exist", "Correct or unset it")
        return {}
    try:
        values = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}", "Correct it: it has to be TOML") from None
    if "audit_witness" in values:
        raise ConfigError(f"{path}: audit_witness is none here", "Write 'witness = [...]' below '[audit]'")
    for table in ("audit", "memory", "nats"):
        if isinstance(values.get(table), dict):
            values |= {f"{table}_{name}": value for name, value in values.pop(table).items()}
    if isinstance(servers := values.pop("mcpServers", {}), dict) and servers:  # as hosts write it
        values["mcp"] = servers | values.get("mcp", {})
    for name in values:
        _require_known(name, f"{path}: {name}")
    if "deliver_secrets" in values:
        cure = f"Set {DELIVER_PREFIX}<CHANNEL>_<FIELD>"
        raise ConfigError(f"{path}: deliver_secrets are not read from here", cure)
    return values


def without_secrets(env: Mapping[str, str]) -> dict[str, str]:
    """``env`` without the secrets of channels, for a process that is not to have them."""
    return {name: value for name, value in env.items() if not name.startswith(DELIVER_PREFIX)}


def _variables(env: Mapping[str, str]) -> list[tuple[str, str]]:
    found = [
        (variable, variable.removeprefix(PREFIX).lower())
        for variable, text in without_secrets(env).items()
        if text and variable.startswith(PREFIX) and variable not in NOT_SETTINGS
    ]
    for variable, name in found:
        _require_known(name, variable)
    return found


def _parse(name: str, text: str) -> Any:
    if name in ("replicas", "keep", "memory_keep", "prices", "leaves", "approvals"):
        pairs = (pair.partition("=") for pair in text.split(",") if pair.strip())
        return {agent.strip(): count.strip() for agent, _, count in pairs}
    if get_origin(get_type_hints(Settings).get(name)) is tuple:
        return [part.strip() for part in text.split(",") if part.strip()]
    return text


def _require_known(name: str, source: str) -> None:
    known = Settings.__struct_fields__
    if name in known or name in SECRET_FILES:
        return
    near = difflib.get_close_matches(name, known, n=1)
    written = f"MAILROOM_{near[0].upper()}" if near and source.isupper() else "".join(near)
    cure = f"Did you mean {written!r}?" if near else f"Known settings: {', '.join(known)}"
    raise ConfigError(f"{source} is not a setting", cure)
