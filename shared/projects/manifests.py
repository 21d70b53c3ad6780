"""Reading manifests: bounded, and empty if they are missing or malformed, because a stranger wrote them."""

import configparser
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

LARGEST = 20_000_000
"""The most bytes of a manifest or a lock that are read; a lock of a large monorepo has about 5 MB."""
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The compiled one if there is one: a lock of 5 MB takes a minute with the other."""


def read_text(path: Path) -> str:
    """The text of a regular file; empty if there is none or it is larger than LARGEST."""
    try:
        if not path.is_file() or path.stat().st_size > LARGEST:
            return ""
        return path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError:
        return ""


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file."""
    try:
        return tomllib.loads(read_text(path))
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file."""
    try:
        return as_table(json.loads(read_text(path) or "{}"))
    except (ValueError, RecursionError):
        return {}


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file."""
    try:
        return as_table(yaml.load(read_text(path), Loader=LOADER))  # noqa: S506 - both are safe
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}


def parse_ini(text: str) -> dict[str, dict[str, str]]:
    """The sections of an INI file, names as they are written."""
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True, default_section="\0")
    try:
        parser.read_string(text)
    except configparser.Error:
        return {}
    return {
        section: {name: value or "" for name, value in parser.items(section)} for section in parser.sections()
    }


def as_table(value: object) -> dict[str, Any]:
    """``value`` if it is a table, else an empty one."""
    return value if isinstance(value, dict) else {}


def get_table(tables: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The table at ``names``, empty if there is none."""
    value: object = tables
    for name in names:
        value = as_table(value).get(name)
    return as_table(value)


def list_texts(value: object) -> tuple[str, ...]:
    """The texts in a list, or one text as a list; empty for anything else."""
    if isinstance(value, str):
        return (value,)
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()
