"""Clients of the SDKs, made alike: a key or none, no retries and no redirects, patience to connect."""

import asyncio
import functools
import importlib
import ssl
from typing import Any

from shared.errors import ModelError
from shared.llm.config import ModelConfig

CONNECT = 10.0
"""Seconds to connect in: a host that drops packets must not take the whole time of a call."""


CLIENTS = {"openai": "AsyncOpenAI", "anthropic": "AsyncAnthropic"}
NO_KEY = "none"
"""What servers without keys are sent, since the SDKs insist on one."""


async def open_client(choice: ModelConfig, seconds: float) -> Any:
    """A client of the SDK for one question, to be closed; raises ModelError as require_sdk does.

    One for each question: nothing stays open when an event loop ends, and no stale connection is met.
    """
    # Importing takes up to 2 s, and the agent's heart must go on beating.
    name = CLIENTS[choice.kind]
    sdk = await asyncio.to_thread(require_sdk, choice.kind, name, "DefaultAsyncHttpxClient")
    from shared.llm.response_limit import bound

    return getattr(sdk, name)(
        api_key=choice.key or NO_KEY,
        # Anthropic's SDK adds the version of the interface itself.
        base_url=choice.url if choice.kind == "openai" else choice.url.removesuffix("/v1"),
        max_retries=0,
        timeout=sdk.Timeout(seconds, connect=min(seconds, CONNECT)),
        http_client=sdk.DefaultAsyncHttpxClient(
            verify=read_ssl(),
            # A redirect would take the key to another server.
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
    """The TLS context for every connection: reading the certificates takes 30 ms, once is enough."""
    import httpx2

    return httpx2.create_ssl_context()
