"""``python -m tests.settings_page`` writes docs/settings.md from shared/settings.py."""

import ast
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from shared import settings
from shared.settings import PREFIX, SECRETS, Settings

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "settings.md"
HEAD = f"""# Settings

Made from `shared/settings.py` by `python -m tests.settings_page`; a test compares.

Each setting is read from the environment, in capitals with `{PREFIX}` before its name
(`{PREFIX}TIME_ZONE=Europe/Zurich`), else from `mailroom.toml` in the state folder
(`time_zone = "Europe/Zurich"`; `MAILROOM_CONFIG` names another file), else it has its default.
`mailroom init` writes that file by asking. A wrong value, and a name that is none, is refused at the start
with the place it stands in. In the environment lists are separated by commas (`{PREFIX}REACH=python,npm`),
pairs are `{PREFIX}REPLICAS=engineer=2,scout=1`. `NATS_URL` and `NATS_SERVER_BIN` work without the prefix too.

A setting marked *secret* is printed nowhere, and a file can hold it (`{PREFIX}BRAIN_KEY_FILE`, or
`brain_key_file` in mailroom.toml). Secrets of channels are in `{PREFIX}DELIVER_<CHANNEL>_<FIELD>`
([delivery.md](delivery.md)).
"""
GROUPS = {
    "state_dir": "The state folder and the server",
    "gateway_address": "The gateway",
    "identity": "Folders, memory, and what is kept",
    "promptforge_url": "Models",
    "max_steps": "Agents and their budgets",
    "log_level": "Logs and limits of time",
    "arxiv_url": "Where things are looked up",
    "home_place": "Place, time and the night",
    "calendar": "Calendar, mail, notices",
    "http_timeout": "The network",
}
"""The heading above each of these settings, in the order of the module."""


def described() -> dict[str, str]:
    """What the module says of each setting."""
    tree = ast.parse(Path(settings.__file__).read_text("utf-8"))
    body = next(node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Settings")
    found = {}
    for field, text in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            said = ast.literal_eval(text.value) if isinstance(text, ast.Expr) else ""
            assert said, f"Nothing says what {field.target.id} is"
            found[field.target.id] = " ".join(said.split()).replace("``", "`")
    return found


def format_default(value: Any) -> str:
    """A default as mailroom.toml would have it; empty for what has none."""
    if value is msgspec.NODEFAULT or value in ("", None, (), {}):
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return ", ".join(f"`{each}`" for each in value)
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def make_page() -> str:
    """The whole page."""
    fields = {each.name: each for each in msgspec.structs.fields(Settings)}
    lines = [HEAD.rstrip()]
    for name, text in described().items():
        if name in GROUPS:
            lines += ["", f"## {GROUPS[name]}", "", "| setting | default | what it is |", "|---|---|---|"]
        field = fields[name]
        default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
        secret = " *(secret)*" if name in SECRETS else ""
        lines.append(f"| `{name}`{secret} | {format_default(default)} | {text.replace('|', chr(92) + '|')} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(make_page(), "utf-8")
