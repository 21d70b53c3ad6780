"""Texts of strangers parsed, and never run: one that is malformed, in whatever way, raises ValueError."""

import ast
import configparser
import json
import threading
import tomllib
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

_quiet = threading.Lock()
MOST_VALUES = 1_000_000
"""The most values of a YAML file; references to an earlier part count as much as that part."""


def _parse(parser: Callable[[str], T], text: str) -> T:
    try:
        return parser(text)
    except ValueError:
        raise
    except Exception as error:
        # Seen: KeyError of "!!bool x", AttributeError of an INI file, RecursionError, MemoryError.
        raise ValueError(" ".join(str(error).split()) or "nested too deeply") from None


def parse_module(text: str) -> ast.Module:
    """The syntax tree of Python source; raises ValueError if this Python cannot parse it.

    Warnings of the parser are ignored. Warning filters are global to the process, hence the lock.
    """
    with _quiet, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _parse(ast.parse, text)


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML file."""
    return _parse(tomllib.loads, text)


def parse_json(text: str) -> Any:
    """The value in a JSON file."""
    return _parse(json.loads, text)


def parse_yaml(text: str, loader: Any = None) -> Any:
    """The value in a YAML file, by default read by the safe loader."""
    import yaml

    # The compiled one if there is one: a lock of 5 MB takes a minute with the other.
    loader = loader or getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    value = _parse(lambda text: yaml.load(text, Loader=loader), text)  # noqa: S506 - those named are safe
    _parse(lambda _: _count(value, {}), text)
    return value


def _count(value: object, sizes: dict[int, int]) -> int:
    """How many values there are in ``value``; ``sizes`` has those of its parts, 0 while one is counted."""
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in sizes:
        sizes[id(value)] = 0
        parts = [*value.keys(), *value.values()] if isinstance(value, dict) else value
        sizes[id(value)] = 1 + sum(_count(part, sizes) for part in parts)
    size = sizes[id(value)]
    if not 0 < size <= MOST_VALUES:
        raise ValueError("a part of it refers to itself" if not size else f"it has {size:,} values")
    return size


def parse_ini(text: str) -> dict[str, dict[str, str]]:
    """The sections of an INI file, names as they are written, values without interpolation."""
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True, default_section="\0")
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    _parse(parser.read_string, text)
    return {name: {key: value or "" for key, value in parser.items(name)} for name in parser.sections()}
