"""The servers of an office, one or three on this machine: their folders, ports and certificates."""

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from services.cli.supervisor.programs import SERVER_NAME, choose_port, free_port
from shared.errors import StartError
from shared.files import write_atomically
from shared.settings import Settings

CERTIFICATES = "certificates"
"""The folder of the servers' keys and certificates in ``<state_dir>/nats``; that of the authority among them.
They are made once and stay, until they are rotated."""
AUTHORITY = "authority"
DAYS = 3_650  # Days for which a certificate is good
MOVING = "adopting.json"  # The file beside the first server's that is there while a log is moved
CLUSTER_CONFIG = "cluster.conf"
"""The file of one server of several, which includes that of one alone."""
NAMES = (SERVER_NAME, f"{SERVER_NAME}-2", f"{SERVER_NAME}-3")
"""The servers; as containers these are their hosts too."""
CONTAINER_CONFIG = "container.conf"
"""The file of one server in a container; what is put ahead of it is the number of one of several."""
ROUTE_PORT = 6222  # On which servers in containers listen for the others


class ServerPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where one of the office's servers has its files, and its ports; ``route`` 0: it is alone."""

    name: str
    folder: Path
    port: int
    route: int = 0

    @property
    def config(self) -> Path:
        """The file with which it is started."""
        return self.folder / (CLUSTER_CONFIG if self.route else "nats-server.conf")


def folders(settings: Settings, number: int) -> list[Path]:
    """The folders of the office's servers, the first of which is that of one alone."""
    return [settings.state_dir / name for name in NAMES[:number]]


def plan_servers(settings: Settings) -> list[ServerPlace]:
    """The servers to run, with ports chosen; raises StartError if a port is taken.

    The first listens on ``nats_port``, the others on those that follow it.
    """
    require_synced(settings)
    number, first = settings.nats_replicas, settings.nats_port
    ports = [
        choose_port(msgspec.structs.replace(settings, nats_port=first and first + at)) for at in range(number)
    ]
    return [
        ServerPlace(
            name=NAMES[at],
            folder=folder,
            port=port,
            route=free_port() if number > 1 else 0,
        )
        for at, (folder, port) in enumerate(zip(folders(settings, number), ports, strict=True))
    ]


def require_synced(settings: Settings) -> None:
    """Raise StartError for a log on several servers that do not write each message to disk.

    A server that lost what it had answered takes part in the next election as if nothing was missing.
    """
    if settings.nats_replicas > 1 and settings.nats_sync != "always":
        raise StartError(
            f'A log on {settings.nats_replicas} servers needs nats_sync = "always", and it is '
            f"{settings.nats_sync!r}",
            "Correct it: servers that sync late can lose together what each of them had answered",
        )


def require_place(settings: Settings) -> None:
    """Raise StartError if the log lies on another number of servers than the settings say."""
    first = folders(settings, 1)[0]
    if (first / MOVING).exists():
        raise StartError("The log of this office is being moved", "Go on with: mailroom cluster adopt")
    on_three = (first / CLUSTER_CONFIG).exists()
    if settings.nats_replicas == 1 and on_three:
        raise StartError(
            "The log of this office lies on three servers",
            "Start them with '--servers 3', or write 'replicas = 3' below '[nats]' of mailroom.toml",
        )
    if settings.nats_replicas > 1 and not on_three and (first / "store").exists():
        raise StartError(
            "The log of this office lies on one server", "Move it to three: mailroom cluster adopt"
        )


def urls(places: Sequence[ServerPlace]) -> str:
    """The addresses of the servers for their clients, separated by commas."""
    return ",".join(f"nats://127.0.0.1:{place.port}" for place in places)


def write_cluster(settings: Settings, places: Sequence[ServerPlace]) -> None:
    """Write the part of each server's configuration that makes it one of several, and the certificates.

    Raises StartError if one cannot be made.
    """
    certificates = settings.state_dir / SERVER_NAME / CERTIFICATES
    make_certificates(certificates)
    routes = [f"nats-route://127.0.0.1:{place.route}" for place in places]
    for place in places:
        text = format_cluster(place.name, f"127.0.0.1:{place.route}", routes, certificates)
        write_atomically(place.config, text, mode=0o600)


def write_containers(folder: Path) -> None:
    """Write the same for three servers in containers, whose hosts are their names, into a folder of all.

    Raises StartError.
    """
    make_certificates(folder / CERTIFICATES)
    routes = [f"nats-route://{name}:{ROUTE_PORT}" for name in NAMES]
    for at, name in enumerate(NAMES, 1):
        text = format_cluster(
            name, f"0.0.0.0:{ROUTE_PORT}", routes, folder / CERTIFICATES, base=CONTAINER_CONFIG
        )
        write_atomically(folder / f"{at}-{CONTAINER_CONFIG}", text, mode=0o600)


def format_cluster(
    name: str, listen: str, routes: Sequence[str], certificates: Path, *, base: str = "nats-server.conf"
) -> str:
    """The configuration of the server ``name`` with routes to the others, under TLS on both sides.

    ``base`` is the file of one alone, which it includes.
    A server that hangs counts as gone after three pings, or the others would send it what it never answers.
    """
    return f"""\
# Written by Mailroom; changes are overwritten.
include {base}
server_name: {json.dumps(name)}
cluster {{
  name: mailroom
  listen: {json.dumps(listen)}
  routes: {json.dumps(list(routes))}
  ping_interval: "2s"
  ping_max: 2
  connect_backoff: true
  tls {{
    cert_file: {json.dumps(str(certificates / f"{name}.pem"))}
    key_file: {json.dumps(str(certificates / f"{name}.key"))}
    ca_file: {json.dumps(str(certificates / f"{AUTHORITY}.pem"))}
    verify: true
    timeout: 5
  }}
}}
"""


def client_certificate(settings: Settings) -> Path | None:
    """The certificate that hosts are shown, made once; None if the servers are for this machine alone.

    It is known to each host that joined, so it is neither rotated nor signed by anybody. Raises StartError.
    """
    path = settings.state_dir / SERVER_NAME / CERTIFICATES / "clients.pem"
    if settings.nats_address == "127.0.0.1":
        return None
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with TemporaryDirectory(dir=path.parent) as draft:
            _run_openssl(Path(draft), "clients", [])
            for suffix in (".key", ".pem"):
                write_atomically(
                    path.with_suffix(suffix), (Path(draft) / f"clients{suffix}").read_bytes(), mode=0o600
                )
    return path


def format_encryption(settings: Settings) -> str:
    """What the configuration of a server says of TLS with its clients; raises StartError.

    Those on this machine need not encrypt, so it does not insist. A host does, whatever the server says.
    """
    certificate = client_certificate(settings)
    if certificate is None:
        return ""
    key = certificate.with_suffix(".key")
    files = f"cert_file: {json.dumps(str(certificate))}, key_file: {json.dumps(str(key))}"
    return f"allow_non_tls: true\ntls {{ {files}, timeout: 5 }}"


def make_certificates(folder: Path, *, renew: bool = False, more: Sequence[str] = ()) -> bool:
    """Make an authority, and a key and certificate of each server: what is missing, or all with ``renew``.
    ``more`` are further addresses of the servers.

    The files are of mode 0600. The authority before stays known, so that servers which have not read the new
    certificates yet still reach the others. Returns whether anything was made. Raises StartError.
    """
    made = [folder / f"{name}.{kind}" for name in (AUTHORITY, *NAMES) for kind in ("pem", "key")]
    if not renew and all(path.exists() for path in made):
        return False
    hosts = ",".join(
        ["IP:127.0.0.1", *(f"DNS:{host}" for host in ("localhost", *NAMES)), *(f"IP:{each}" for each in more)]
    )
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with TemporaryDirectory(dir=folder) as draft:
        signed = ["-CA", f"{AUTHORITY}.pem", "-CAkey", f"{AUTHORITY}.key"]
        leaf = ["-addext", "basicConstraints=critical,CA:FALSE", "-addext", f"subjectAltName={hosts}"]
        for name in (AUTHORITY, *NAMES):
            _run_openssl(Path(draft), name, [] if name == AUTHORITY else [*signed, *leaf])
        for path in made:
            fresh = (Path(draft) / path.name).read_bytes()
            known = path.read_bytes() if path.name == f"{AUTHORITY}.pem" and path.exists() else b""
            write_atomically(path, fresh + known[: known.find(b"-----END") + 26], mode=0o600)
    return True


def _run_openssl(folder: Path, name: str, more: Sequence[str]) -> None:
    """Make a key and a certificate in ``folder``, signed by itself unless ``more`` says otherwise."""
    program = shutil.which("openssl")
    if program is None:
        raise StartError("The servers' certificates cannot be made: openssl is not installed", "Install it")
    new = ["req", "-x509", "-newkey", "ed25519", "-nodes", "-days", str(DAYS), "-batch"]
    files = ["-keyout", f"{name}.key", "-out", f"{name}.pem"]
    done = subprocess.run(
        [program, *new, "-subj", f"/CN=mailroom {name}", *files, *more],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise StartError(f"The certificate of {name} cannot be made: {reason}", "Is openssl 3 there?")
