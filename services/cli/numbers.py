"""Numbers as people give them to a command."""

import math

import click


class NumberType(click.ParamType[float]):
    """A number from ``least`` to ``most`` (None: no bound), a whole one unless told otherwise."""

    name = "number"

    def __init__(self, least: float = 0, most: float | None = None, *, whole: bool = True) -> None:
        self._least, self._most, self._whole = least, most, whole

    @property
    def wanted(self) -> str:
        """What is allowed, in words."""
        word = "a whole number" if self._whole else "a number"
        if self._most is None:
            return f"{word} of {self._least:g} or more"
        return f"{word} from {self._least:g} to {self._most}"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        """``1..100`` in the help of an option that has both bounds."""
        if self._most is None or isinstance(param, click.Argument):
            return None
        return f"{self._least:g}..{self._most}"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number; a usage error for anything else and for what is out of bounds."""
        try:
            number = int(str(value)) if self._whole else float(str(value))
        except ValueError:
            number = math.nan
        most = math.inf if self._most is None else self._most
        if not (self._least <= number <= most and number != math.inf):
            self.fail(f"{str(value)[:100]!r} is not {self.wanted}", param, ctx)
        return number
