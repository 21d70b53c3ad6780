"""``mailroom init``: mailroom.toml by asking, and a first call of the model."""

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import click

from services.cli.commands.options import format_examples
from services.cli.commands.up import load_settings, state_dir_option
from services.cli.output.console import open_console, print_block, wrap
from shared import settings
from shared.clock import read_zone
from shared.errors import ConfigError, ModelError, StartError
from shared.files import write_atomically
from shared.llm import Message, make_model
from shared.llm.config import EXAMPLE, NoKey, configured_model
from shared.settings import Settings
from shared.text.display import clean, shorten

TRY_TIMEOUT = 30.0  # Seconds the model has for the call that tries it
TRIED = "Answer with the one word: ready"
DELIVER = """
# Where people are told what happens (docs/delivery.md); 'mailroom deliver test' tries it.
# [deliver]
# quiet_hours = "22:00-07:00"
# [deliver.ntfy]
# url = "https://ntfy.sh/a-long-topic-that-nobody-guesses"
"""
QUESTIONS = {
    "brain": f"Model: {EXAMPLE}; empty: none",
    "brain_url": "Address of its server; empty: its provider's",
    "brain_key_file": "File with its key; empty: none, or MAILROOM_BRAIN_KEY",
    "time_zone": "Time zone, such as Europe/Zurich; empty: this machine's",
    "night": "Hours of the night for queued work, or 'always'",
}


@click.command(
    epilog=format_examples(
        "mailroom init", "mailroom init --brain openai:qwen3 --brain-url http://127.0.0.1:11434/v1"
    )
)
@click.option("--brain", help=f"{EXAMPLE}.")
@click.option("--brain-url", help="Address of the model's server.")
@click.option("--brain-key-file", help="File with the key for the model.")
@click.option("--store-key", is_flag=True, help="Write MAILROOM_BRAIN_KEY of the environment into the file.")
@click.option("--time-zone", help="Such as Europe/Zurich.")
@click.option("--night", help="Such as 22:00-06:00, or always.")
@click.option("--yes", is_flag=True, help="Ask nothing: options, else defaults.")
@click.option("--force", is_flag=True, help="Replace the file if there is one.")
@click.option("--no-try", is_flag=True, help="Do not call the model.")
@state_dir_option
def init(*, store_key: bool, yes: bool, force: bool, no_try: bool, **given: str | Path | None) -> None:
    """Write mailroom.toml by asking, and try the model.

    The file is that of MAILROOM_CONFIG, else in the state directory; nobody else can read it. Keys stay
    in the environment or in files of their own.
    """
    folder = given.pop("state_dir")
    config = load_settings(folder if isinstance(folder, Path) else None)
    path = settings.settings_file(config.state_dir)
    if not yes and not sys.stdin.isatty():
        raise StartError("There is no terminal to ask at", "Use --yes with options such as --brain")
    _require_free(path, replace=force, ask=not yes)
    answers = _ask({name: str(value) for name, value in given.items() if value}, config, ask=not yes)
    if store_key and config.brain_key:
        answers["brain_key"] = config.brain_key
    try:
        chosen = _check(answers, config.state_dir)
    except NoKey as error:
        if yes:
            raise
        click.echo(f"\nNote: {error}; before 'mailroom up'.")
    else:
        if chosen.brain and not no_try:
            click.echo(f"Asking {clean(chosen.brain)} for one word ...")
            click.echo(asyncio.run(_try_model(chosen)))
    write_atomically(path, _format(answers), mode=0o600)
    for name in sorted(_variables(answers) & settings.environment().keys()):
        click.echo(f"Note: {name} is set here, and goes before the file.")
    click.echo(f"Written: {path}\nNext: 'mailroom up' starts the office, 'mailroom doctor' checks it.")


def _require_free(path: Path, *, replace: bool, ask: bool) -> None:
    """Raise StartError if the file is there and is to stay."""
    if not path.exists() or replace:
        return
    if not ask:
        raise StartError(f"{path} is there already, and was not changed", "Replace it with --force")
    click.confirm(f"{path} is there already. Replace it?", abort=True)


def _ask(given: dict[str, str], config: Settings, *, ask: bool) -> dict[str, str]:
    """The settings to write: options, else what a person answers, else nothing, which leaves the default."""
    answers = dict(given)
    for name, question in QUESTIONS.items():
        needless = name in given or (name.startswith("brain_") and not answers.get("brain"))
        if not ask or needless:
            continue
        default = config.night if name == "night" else ""
        click.echo()
        print_block(question, open_console())
        answers[name] = click.prompt(
            name, default=default, show_default=bool(default), value_proc=_checker(name, answers, config)
        )
    return {name: value.strip() for name, value in answers.items() if value.strip()}


def _checker(name: str, answers: dict[str, str], config: Settings) -> Callable[[str], str]:
    """A check of one answer, after which click asks again."""

    def check(answer: str) -> str:
        known = {each: text for each, text in answers.items() if text}
        try:
            _check(known | ({name: answer.strip()} if answer.strip() else {}), config.state_dir)
        except NoKey:  # another server needs none, and a key can be set later
            return answer
        except ConfigError as error:
            told = wrap(f"Error: {error}", open_console().width)
            raise click.UsageError(told.removeprefix("Error: ")) from None
        return answer

    return check


def _format(answers: dict[str, str]) -> str:
    lines = [f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in answers.items()]
    head = "# Settings of Mailroom; variables MAILROOM_<NAME> go before them. README.md names them all.\n"
    return f"{head}{''.join(lines)}{DELIVER}"


def _variables(answers: dict[str, str]) -> set[str]:
    return {f"MAILROOM_{name.upper()}" for name in answers}


def _check(answers: dict[str, str], state_dir: Path) -> Settings:
    """The settings with ``answers`` in their file, and as if they were not set here; raises ConfigError."""
    with tempfile.TemporaryDirectory(prefix="mailroom-init-") as folder:
        draft = Path(folder) / "mailroom.toml"
        write_atomically(draft, _format(answers), mode=0o600)
        env = settings.environment(state_dir=state_dir) | {"MAILROOM_CONFIG": str(draft)}
        asked = {name: text for name, text in env.items() if name not in _variables(answers)}
        try:
            chosen = settings.load(asked)
        except ConfigError as error:
            raise ConfigError(error.cause.removeprefix(f"{draft}: "), error.cure) from None
    configured_model(chosen)
    if chosen.time_zone:
        read_zone(chosen.time_zone)
    return chosen


async def _try_model(config: Settings) -> str:
    """What one small call of the model gave, or why it failed."""
    begun = time.monotonic()
    try:
        thought = await make_model(config).complete(
            [Message(role="user", text=TRIED)], max_tokens=64, timeout=TRY_TIMEOUT
        )
    except ModelError as error:
        return f"It did not answer: {clean(str(error))}"
    answer = shorten(clean(thought.text), 60) or "nothing"
    tokens = thought.usage.input_tokens + thought.usage.output_tokens
    return f"It answered {answer!r} after {time.monotonic() - begun:.1f} s, {tokens} tokens."
