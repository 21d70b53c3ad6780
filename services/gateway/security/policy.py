"""The headers of every response, with which browsers protect its content."""

import base64
import hashlib
import re
from collections.abc import Iterable

_SCRIPT = re.compile(r"<script\b([^>]*)>(.*?)</script\s*>", re.DOTALL | re.IGNORECASE)
API_POLICY = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; sandbox"
"""For answers of the API: nothing in them runs or loads anything, should a browser show them as a page."""
HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}


def inline_scripts(html: str) -> list[str]:
    """The contents of the scripts that stand in a page; that of an import map is one."""
    found = _SCRIPT.findall(html)
    return [content for attributes, content in found if not re.search(r"\bsrc\s*=", attributes)]


def hash_source(content: str) -> str:
    """A script as the policy names it."""
    digest = hashlib.sha256(content.replace("\r\n", "\n").encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def format_page_policy(pages: Iterable[str]) -> str:
    """The Content-Security-Policy of these pages, given as HTML.

    Scripts come from the gateway alone, or have the hash of one that stands in a page: the import map. Text
    can become neither script nor, where the browser knows trusted types, HTML.
    """
    hashes = dict.fromkeys(hash_source(script) for page in pages for script in inline_scripts(page))
    return "; ".join(
        (
            "default-src 'none'",
            " ".join(("script-src 'self'", *hashes)),
            "style-src 'self'",
            "img-src 'self' data: blob:",
            "font-src 'self'",
            "connect-src 'self'",
            "manifest-src 'self'",
            "worker-src 'self'",
            "base-uri 'none'",
            "form-action 'self'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
        )
    )
