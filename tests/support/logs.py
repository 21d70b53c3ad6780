"""What a module logs."""

import pytest
import structlog
import structlog.testing


def capture_log(monkeypatch: pytest.MonkeyPatch, module: object) -> list[dict[str, object]]:
    """What ``module`` logs from now on, however logging was set up in this process."""
    capture = structlog.testing.LogCapture()
    quiet = structlog.wrap_logger(
        None, processors=[capture], wrapper_class=structlog.BoundLogger, cache_logger_on_first_use=False
    )
    monkeypatch.setattr(module, "log", quiet)
    return capture.entries  # type: ignore[return-value]
