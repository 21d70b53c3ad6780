"""A calendar at an address: fetched, refused, away; its secret address is not told."""

from pathlib import Path

import pytest

from shared import settings
from shared.errors import ActionError
from shared.settings import Settings
from shared.skills.calendar import read_agenda
from tests.support.briefing import write_calendar
from tests.support.http import Site


def config(tmp_path: Path, address: str, timeout: float = 5.0) -> Settings:
    environment = {
        "MAILROOM_STATE_DIR": str(tmp_path),
        "MAILROOM_CALENDAR": address,
        "MAILROOM_HTTP_TIMEOUT": str(timeout),
    }
    return settings.load(environment)


async def test_a_calendar_is_fetched(tmp_path: Path, site: Site) -> None:
    text = Path(write_calendar(tmp_path / "c.ics")).read_text()
    agenda = await read_agenda(config(tmp_path, site.page("/secret-token/c.ics", text)), 2, "2027-01-15")
    assert [event.title for event in agenda.events] == ["Water the plants"] * 2


async def test_one_that_cannot_be_reached_is_said_without_its_address(tmp_path: Path, site: Site) -> None:
    for address in (site.page("/secret-token/c.ics", "gone", 404), site.silence("/secret-token/slow.ics")):
        with pytest.raises(ActionError) as error:
            await read_agenda(config(tmp_path, address, 0.3))
        assert str(error.value).startswith("The calendar at 127.0.0.1:")
        assert "cannot be reached" in str(error.value)
        assert "secret-token" not in str(error.value)


async def test_a_page_instead_of_a_calendar_is_said(tmp_path: Path, site: Site) -> None:
    with pytest.raises(ActionError, match="no ICS file"):
        await read_agenda(config(tmp_path, site.page("/c.ics", "<html>Sign in</html>", kind="text/html")))
