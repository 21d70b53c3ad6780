"""The weather: forecasts of Open-Meteo for a place by its name."""

import msgspec

from shared.errors import ActionError
from shared.settings import Settings
from shared.skills.skill import Skill
from shared.tasks.actions import Outcome, register_action
from shared.web.fetching import Service
from shared.web.quoting import clean

LONGEST = 16  # The most days Open-Meteo forecasts

CURRENT = "temperature_2m,apparent_temperature,weather_code,wind_speed_10m"
DAILY = "weather_code,temperature_2m_max,temperature_2m_min,precipitation_sum,precipitation_probability_max"

CONDITIONS: dict[int | None, str] = {
    0: "clear",
    1: "mostly clear",
    2: "partly cloudy",
    3: "overcast",
    **dict.fromkeys((45, 48), "fog"),
    **dict.fromkeys((51, 53, 55), "drizzle"),
    **dict.fromkeys((56, 57), "freezing drizzle"),
    61: "light rain",
    63: "rain",
    65: "heavy rain",
    **dict.fromkeys((66, 67), "freezing rain"),
    71: "light snow",
    73: "snow",
    75: "heavy snow",
    77: "snow grains",
    80: "light showers",
    81: "showers",
    82: "violent showers",
    **dict.fromkeys((85, 86), "snow showers"),
    95: "a thunderstorm",
    **dict.fromkeys((96, 99), "a thunderstorm with hail"),
}
"""What the codes of WMO table 4677 mean, as far as Open-Meteo uses them."""
UNKNOWN = "unknown conditions"


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A place as the geocoding service knows it; degrees north and east."""

    name: str
    latitude: float
    longitude: float
    country: str = ""
    admin1: str = ""

    @property
    def full_name(self) -> str:
        """Its name with region and country, as far as they are known and differ."""
        return clean(", ".join(dict.fromkeys(filter(None, (self.name, self.admin1, self.country)))), 120)


class Day(msgspec.Struct, frozen=True, kw_only=True):
    """One day's forecast: degrees Celsius, millimetres of rain or snow, and its probability in percent."""

    date: str
    condition: str
    high: float
    low: float
    precipitation: float = 0.0
    probability: int | None = None

    @property
    def sentence(self) -> str:
        """The forecast on one line, after its date."""
        wet = f", {self.precipitation:g} mm" if self.precipitation else ""
        chance = f" ({self.probability} % chance of rain)" if self.probability is not None else ""
        return f"{self.date}: {self.condition}, {self.low:.0f} to {self.high:.0f} °C{wet}{chance}"


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """The weather at a place: now, and day by day from today; ``source`` is the address it was read from."""

    place: str
    now: str
    days: tuple[Day, ...]
    source: str


class _Places(msgspec.Struct):
    results: list[Place] = []


class _Current(msgspec.Struct):
    temperature_2m: float
    apparent_temperature: float
    weather_code: int
    wind_speed_10m: float


class _Daily(msgspec.Struct):
    time: list[str]
    weather_code: list[int | None]
    temperature_2m_max: list[float | None]
    temperature_2m_min: list[float | None]
    precipitation_sum: list[float | None]
    precipitation_probability_max: list[int | None]


class _Weather(msgspec.Struct):
    current: _Current
    daily: _Daily


class WeatherSkill(Skill):
    """Forecasts the weather."""

    @register_action(
        "Get the weather now and for the next days",
        {"place": "The name of a town; empty for where the office is", "days": "How many days, 1 to 16"},
    )
    async def tell_weather(self, place: str = "", days: int = 3) -> Outcome:
        """The forecast as text, and in data key ``forecast``."""
        forecast = await read_forecast(self.context.settings, place, days)
        lines = [f"{forecast.place}: {forecast.now}", *(f"- {day.sentence}" for day in forecast.days)]
        return Outcome(
            output="\n".join(lines),
            data={"forecast": msgspec.to_builtins(forecast)},
            evidence_refs=(forecast.source,),
        )


async def read_forecast(settings: Settings, place: str = "", days: int = 3) -> Forecast:
    """The forecast for ``place`` (default: the setting home_place) and ``days`` from today, 1 to 16.

    Raises ActionError if no place is known by that name, or a service does not answer as it should.
    """
    name = place.strip() or settings.home_place
    if not name:
        raise ActionError("No place is named", "Name a town, or set MAILROOM_HOME_PLACE to one")
    if not 1 <= days <= LONGEST:
        raise ActionError(f"days is {days}", f"Ask for 1 to {LONGEST} days")
    found = await find_place(settings, name)
    service = Service(
        name="The weather service", url=settings.weather_url, setting="weather_url", settings=settings
    )
    where = {"latitude": found.latitude, "longitude": found.longitude}
    asked = {**where, "current": CURRENT, "daily": DAILY, "timezone": "auto", "forecast_days": days}
    weather = await service.ask_json(asked, _Weather)
    now = weather.current
    felt = f" (feels like {now.apparent_temperature:.0f})"
    return Forecast(
        place=found.full_name,
        now=f"now {CONDITIONS.get(now.weather_code, UNKNOWN)}, {now.temperature_2m:.0f} °C{felt}, "
        f"wind {now.wind_speed_10m:.0f} km/h",
        days=tuple(_days(weather.daily))[:days],
        source=f"{settings.weather_url}?latitude={found.latitude}&longitude={found.longitude}",
    )


async def find_place(settings: Settings, name: str) -> Place:
    """The best known place of that name; raises ActionError if there is none, or nobody can be asked."""
    service = Service(
        name="The geocoding service", url=settings.geocoding_url, setting="geocoding_url", settings=settings
    )
    asked = {"name": name[:100], "count": 1, "language": "en", "format": "json"}
    places = (await service.ask_json(asked, _Places)).results
    if not places:
        raise ActionError(f"No place is known as {clean(name, 60)!r}", "Name a town")
    return places[0]


def _days(daily: _Daily) -> list[Day]:
    rows = zip(*msgspec.structs.astuple(daily), strict=False)
    return [
        Day(
            date=clean(date, 10),
            condition=CONDITIONS.get(code, UNKNOWN),
            high=high,
            low=low,
            precipitation=wet or 0.0,
            probability=chance,
        )
        for date, code, high, low, wet, chance in rows
        if high is not None and low is not None
    ]
