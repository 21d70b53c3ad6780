"""Logging by structlog: one event a line, as JSON into a file and for people onto a terminal."""

import contextlib
import logging
import sys
from pathlib import Path
from typing import Any, TextIO, cast

# structlog imports these if it can, for what is not used here: rich is a third of the start-up time of every
# agent, and 8 MB, greenlet one. It has no switch for that, so both are hidden from it; tests/unit/test_log.py
# fails if that stops working.
_HIDDEN = {name: sys.modules.get(name) for name in ("rich", "greenlet")}
sys.modules.update(dict.fromkeys(_HIDDEN))  # type: ignore[arg-type]
import structlog  # noqa: E402

for _name, _module in _HIDDEN.items():
    if _module is None:
        del sys.modules[_name]
    else:
        sys.modules[_name] = _module

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def configure(service: str, *, level: str = "info", form: str = "auto", stream: TextIO | None = None) -> None:
    """Send events of ``level`` and above to ``stream`` (default standard error), bound to ``service``.

    ``form`` is ``console``, ``json``, or ``auto``: console if the stream is a terminal.
    """
    out = stream or sys.stderr
    console = form == "console" or (form == "auto" and out.isatty())
    renderer: Any = (
        structlog.dev.ConsoleRenderer(colors=out.isatty(), pad_event_to=0)
        if console
        else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *([] if console else [structlog.processors.format_exc_info]),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS.get(level, logging.INFO)),
        logger_factory=structlog.PrintLoggerFactory(cast(TextIO, _Undisturbed(out))),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(service=service)


class _Undisturbed:
    """A stream that drops what it cannot write: a full disk must not end who logs an event."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self._stream.write(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.flush()


def logger(name: str) -> Any:
    """A logger whose events carry ``module=name``."""
    return structlog.get_logger(module=name)


def open_log(path: Path) -> TextIO:
    """The log file at ``path``, line-buffered, appended to, its folder made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("a", buffering=1, encoding="utf-8")
