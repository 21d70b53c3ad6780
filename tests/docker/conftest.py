"""One office in containers for all tests of this folder."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from testcontainers.compose import DockerCompose

from services.cli.supervisor.programs import free_port
from tests.support.containers import ROOT, Containers, make_repository, missing
from tests.support.openid_provider import CLIENT, SECRET

ISSUER = "http://127.0.0.1:8999"
"""Where a test starts an OpenID provider, in the gateway's container."""
KEY = "the-key-of-a-model"


@contextmanager
def open_office(folder: Path, *services: str, **more: str) -> Iterator[Containers]:
    """The office in containers under a name of its own, of ``services`` and what they need, or of all.

    ``more`` is set in the environment of compose.yaml.
    """
    if reason := missing():
        pytest.skip(reason)
    make_repository(folder / "repos" / "tiny")
    port, gateway_port = free_port(), free_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COMPOSE_PROJECT_NAME", f"mailroom-{folder.name.strip('_-0')}-{os.getpid()}")
        patch.setenv("MAILROOM_IMAGE", "mailroom-test")
        patch.setenv("MAILROOM_NATS_PORT", str(port))
        patch.setenv("MAILROOM_GATEWAY_PORT", str(gateway_port))
        patch.setenv("MAILROOM_GATEWAY_OIDC_ISSUER", ISSUER)
        patch.setenv("MAILROOM_GATEWAY_OIDC_CLIENT_ID", CLIENT)
        patch.setenv("MAILROOM_GATEWAY_OIDC_CLIENT_SECRET", SECRET)
        patch.setenv("MAILROOM_REPOS", str(folder / "repos"))
        for name, value in more.items():
            patch.setenv(name, value)
        for name, text in (("config", 'home_place = "Bern"\n[deliver.terminal]\n'), ("brain_key_file", KEY)):
            (folder / name).write_text(text)
            patch.setenv(f"MAILROOM_{name.upper()}", str(folder / name))
        for name in ("exports", "outputs"):
            (folder / name).mkdir()
            (folder / name).chmod(0o777)
            patch.setenv(f"MAILROOM_{name.upper()}", str(folder / name))
        with DockerCompose(ROOT, build=True, wait=True, services=list(services) or None) as compose:
            urls = f"nats://127.0.0.1:{port}", f"http://127.0.0.1:{gateway_port}"
            running = Containers(compose, *urls, folder / "user.nk")
            running.key.write_text(
                running.run("run", "--rm", "--no-TTY", "--entrypoint", "cat", "cli", "/keys/user.nk")
            )
            try:
                yield running
            finally:
                # A command of `cli` that still runs holds the network, and `down` looks at no profile.
                running.close()


@pytest.fixture(scope="session")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Containers]:
    with open_office(tmp_path_factory.mktemp("compose")) as running:
        yield running
