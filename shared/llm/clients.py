"""Clients of the SDKs: without retries and redirects, with a limit for connecting."""

import asyncio
import functools
import importlib
import ssl
from typing import Any

from shared.errors import ModelError
from shared.llm.config import ModelConfig

CONNECT = 10.0  # Seconds to connect: a host that drops packets must not use up the time of a call


CLIENTS = {"openai": "AsyncOpenAI", "anthropic": "AsyncAnthropic"}  # by package
NO_KEY = "none"  # The key for servers without keys, since the SDKs require one


async def open_client(config: ModelConfig, seconds: float) -> Any:
    """A client of the SDK for one request, to be closed by the caller; raises ModelError like require_sdk.

    One for each request: no connection outlives its event loop or becomes stale.
    """
    # Importing takes up to 2 s, during which the agent's presence must be renewed.
    name = CLIENTS[config.package]
    sdk = await asyncio.to_thread(require_sdk, config.package, name, "DefaultAsyncHttpxClient")
    from shared.llm.response_limit import bound

    return getattr(sdk, name)(
        api_key=config.key or NO_KEY,
        # Anthropic's SDK adds the version of the interface itself.
        base_url=config.url if config.package == "openai" else config.url.removesuffix("/v1"),
        max_retries=0,
        timeout=sdk.Timeout(seconds, connect=min(seconds, CONNECT)),
        http_client=sdk.DefaultAsyncHttpxClient(
            verify=read_ssl(),
            # A redirect would send the key to another server.
            follow_redirects=False,
            headers={"accept-encoding": "identity"},
            event_hooks={"response": [bound]},
        ),
    )


def require_sdk(name: str, *needed: str) -> Any:
    """The SDK package; raises ModelError with the cure if it is missing or too old."""
    cure = f"pip install --upgrade 'mailroom[{name}]'"
    try:
        package = importlib.import_module(name)
    except ImportError as error:
        raise ModelError(f"The {name} package cannot be imported ({error})", cure) from None
    if any(not hasattr(package, attribute) for attribute in needed):
        raise ModelError(f"The {name} package is not the one needed, or too old", cure)
    return package


@functools.cache
def read_ssl() -> ssl.SSLContext:
    """The TLS context of all connections, cached: reading the certificates takes 30 ms."""
    import httpx2

    return httpx2.create_ssl_context()
