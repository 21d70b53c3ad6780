"""The cookie that holds a session: out of reach of scripts, and sent by pages of the gateway alone."""

from starlette.responses import Response

from services.gateway.security.sites import Site
from shared.access.sessions import SESSION_LIFETIME

COOKIE = "mailroom_session"


def cookie_name(site: Site) -> str:
    """The name of the cookie: with the port, which tells gateways on one machine apart where cookies do not.

    Browsers take a cookie with the prefix ``__Host-`` only from the host itself, by https.
    """
    name = f"{COOKIE}_{site.port}" if site.port else COOKIE
    return f"__Host-{name}" if site.secure else name


def set_cookie(answer: Response, site: Site, secret: str) -> None:
    """Have the browser keep the session ``secret``."""
    answer.set_cookie(
        cookie_name(site),
        secret,
        max_age=int(SESSION_LIFETIME.total_seconds()),
        path="/",
        httponly=True,
        secure=site.secure,
        samesite="strict",
    )


def clear_cookie(answer: Response, site: Site) -> None:
    """Have the browser forget the session."""
    answer.delete_cookie(cookie_name(site), path="/", httponly=True, secure=site.secure, samesite="strict")
