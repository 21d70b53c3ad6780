"""``mailroom doctor``: whether everything that Mailroom needs is there, and how to fix what is not."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from importlib.util import find_spec
from pathlib import Path

import click
import msgspec
from rich.console import Console

from services.cli.commands.options import json_option
from services.cli.connection import connect
from services.cli.output.console import open_console, print_block, print_json
from shared import settings, subjects
from shared.bus import Bus
from shared.bus.connecting import find_instance
from shared.bus.hosts import read_membership
from shared.errors import ConfigError, MailroomError
from shared.llm.config import ModelConfig, configured_models, require_known_agents, settings_of
from shared.llm.probing import describe_model, examine
from shared.llm.probing import probe as probe_model
from shared.queries.checks import (
    ANSWER_WAIT,
    KNOWN_WAIT,
    Check,
    check_access,
    check_agents,
    check_deliver,
    check_disk,
    check_index,
    check_kept,
    check_keys,
    check_memory,
    check_rates,
    check_replicas,
    check_seals,
    check_server,
    check_streams,
    check_troubled,
    fail,
    failed,
    may_answer,
    ok,
    run_checks,
    warn,
)
from shared.queries.flooding import WATCHED, find_open_batches, format_open_batches
from shared.queries.processes import find_troubled
from shared.settings import Settings
from shared.tasks.installed_agents import load_agents, read_agents
from shared.tasks.profiles import read_specialists
from shared.text.display import clean
from shared.views.status import Process

RUN_NOTHING = (subjects.USER, subjects.GATEWAY, subjects.MEMORY_DAEMON, subjects.CONDUCTOR, subjects.NEXUS)
"""Whose containers have no jail, as they run no commands."""
SMALL_CONTEXT = 8_000  # Tokens that agents need at least
TOOLS = {True: "calls tools", False: "calls no tools, so they are described in the prompt", None: ""}
JSON = {"strict": "by a strict schema", "schema": "by a schema", "tool": "by a tool", "text": "in words"}
LOCAL_LIMIT = 8.0  # Seconds for each of the other checks
STYLES = {"ok": "green", "warn": "yellow", "fail": "red"}
_MODEL_CHECK = """
import sys
from pathlib import Path
from services.memory.local_model import is_complete
sys.exit(0 if is_complete(Path(sys.argv[1])) else 1)
"""


@click.command()
@click.option("--quick", is_flag=True, help="Send language models no requests, which cost some tokens.")
@json_option
def doctor(quick: bool, as_json: bool) -> None:
    """Check the installation, and say how to fix problems.

    Checks disk and what is kept there, bus, servers, streams, agents, memory, deliveries, commits, rates,
    keys, access, embedding model, language models and sandbox, all at once, and prints each as it is done.
    Each language model is tried with three small requests. Exits with 1 if a check fails.
    """
    console = open_console()
    checks: list[Check] = []

    def report(check: Check) -> None:
        checks.append(check)
        if not as_json:
            with suppress(SystemExit):  # what rich raises once nobody reads: as in "doctor | head"
                _print(check, console)

    asyncio.run(_run_checks(report, quick=quick))
    if as_json:
        print_json(checks)
    if any(check.verdict == "fail" for check in checks):
        raise SystemExit(1)


def _print(check: Check, console: Console) -> None:
    line = f"{check.verdict:<5}{check.name:<11}{clean(check.finding)}"
    print_block(line, console, hang=16, lead=5, style=STYLES[check.verdict])
    if check.fix:
        print_block(f"{'':16}fix: {clean(check.fix)}", console, hang=21)


async def _run_checks(report: Callable[[Check], None], *, quick: bool) -> None:
    """Report all checks, that of the disk first; without a connection, those that need one are left out."""
    try:
        config = settings.load()
    except ConfigError as error:
        report(failed("settings", error))
        return
    troubled = await asyncio.to_thread(find_troubled, config)
    for check in (check_disk(config), *check_own_agents(config), check_keys(config), check_access(config)):
        report(check)
    checks = {
        "embedder": check_embedder(config.models),
        "sandbox": check_sandbox(config),
        "kept": asyncio.to_thread(check_kept, config),
    }

    async def try_models() -> None:
        for check in await check_models(config, quick=quick):
            report(check)

    local = run_checks(checks, report, LOCAL_LIMIT)
    await asyncio.gather(_run_bus_checks(config, report, troubled), local, try_models())


def _find_identity(config: Settings) -> str:
    """Whose key is here: that of a person, or in a container the only one that there is."""
    return _find_only_key(config) or subjects.USER


def _find_only_key(config: Settings) -> str:
    names = [path.stem for path in config.keys.glob("*.nk")]
    return names[0] if len(names) == 1 else ""


def _not_checked(name: str) -> Check:
    cure = "'mailroom doctor' at the office checks them, in containers 'docker compose run --rm cli doctor'"
    return ok("office", f"streams, agents, memory and deliveries may not be read as {name}: {cure}")


async def _run_bus_checks(
    config: Settings, report: Callable[[Check], None], troubled: Sequence[Process]
) -> None:
    wait = ANSWER_WAIT if may_answer(config, troubled) else KNOWN_WAIT
    member, until = read_membership(config.keys), asyncio.get_running_loop().time() + wait
    name = member.roles[0] if member else _find_identity(config)
    try:
        async with AsyncExitStack() as stack:
            async with asyncio.timeout_at(until):
                if member is None:
                    bus = await stack.enter_async_context(connect(name, wait=0, answer=1, flush=0))
                else:
                    bus = await Bus.connect(name, member.servers, config.keys / f"{name}.nk", wait=1)
                    stack.push_async_callback(bus.close)
            report(check_server(bus))
            if name != subjects.USER:
                report(_not_checked(name))
                return
            agents = [agent.name for agent in load_agents(config)]
            probes = {
                "servers": check_replicas(bus, config),
                "streams": check_streams(bus, config, agents),
                "agents": check_agents(bus, config, agents),
                "memory": check_memory(bus),
                "deliver": check_deliver(bus, config),
                "index": check_index(bus, config),
                "commits": check_commits(bus, config),
                "rates": check_rates(bus),
                "seals": check_seals(bus, config),
            }
            await run_checks(probes, report, until - asyncio.get_running_loop().time())
    except MailroomError as error:
        report(failed("bus", error))
    except TimeoutError:
        fix = "See the check of the disk; 'mailroom up' starts a server that has ended"
        report(fail("bus", f"the server does not answer within {wait:g} s", fix))
    else:
        return
    if troubled:
        report(check_troubled(troubled))


# --- on the bus ----------------------------------------------------------------------------------


async def check_commits(bus: Bus, config: Settings) -> Check:
    """Whether a client leaves atomic commits open."""
    left = await find_open_batches(config, f"nats://{bus.url}")
    if left is None:
        return ok("commits", "not watched: the admin's key is not here")
    if left:
        fix = f"Stop it; if its key was stolen, delete {config.keys}/<name>.nk and start the office again"
        return warn("commits", format_open_batches(left, WATCHED), fix)
    return ok("commits", f"no client holds an atomic write open (watched for {WATCHED:g} s)")


# --- on this machine -----------------------------------------------------------------------------


def check_own_agents(config: Settings) -> list[Check]:
    """One check for each folder of ``agents_dir`` whose agent is kept out."""
    try:
        _, refused = read_agents(config)
    except ConfigError as error:
        return [failed("agents dir", error)]
    fix = "correct it, then restart the office"
    return [warn("own agent", f"{name} is kept out: {why}", fix) for name, why in refused.items()]


async def check_embedder(folder: Path) -> Check:
    """Whether the files of the embedding model are there with the right checksums."""
    if find_spec("onnxruntime") is None:
        return ok("embedder", "not needed: memory does not run here")
    # A service imports no other service, so memory's own check runs in a process of its own.
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _MODEL_CHECK, str(folder), stderr=asyncio.subprocess.DEVNULL
    )
    if await process.wait():
        finding = f"the model is missing or damaged in {folder}"
        return fail("embedder", finding, "python -m services.memory.local_model")
    return ok("embedder", f"the model is in {folder}, its checksums are right")


async def check_models(config: Settings, *, quick: bool = False) -> list[Check]:
    """What each language model that is set can do, tried with small requests unless ``quick``."""
    try:
        chosen = find_models(config)
    except ConfigError as error:
        return [failed("brain", error)]
    instance = find_instance(config)
    if instance is not None and instance.brain != config.brain:
        finding = f"the running office uses {instance.brain or 'no model'}"
        if not config.brain:
            return [ok("brain", f"{finding}; not tried, since MAILROOM_BRAIN is not set here")]
        return [warn("brain", f"{finding}, not {config.brain}", "Restart it, or unset MAILROOM_BRAIN")]
    if not chosen and config.nats_url:
        return [ok("brain", "no model is set here; agents that run elsewhere have settings of their own")]
    if not chosen:
        return [ok("brain", "no model: playbooks, and actions named in a task's context, work without one")]
    return await asyncio.gather(*(check_model(choice, uses, quick=quick) for choice, uses in chosen))


def find_models(config: Settings) -> list[tuple[ModelConfig, list[str]]]:
    """Every model that is set, each once, with what for and for whom; raises ConfigError."""
    agents, refused = read_agents(config)
    require_known_agents(config, [*(agent.name for agent in agents), *refused, *read_specialists(config)[0]])
    found: dict[tuple[str, str], tuple[ModelConfig, list[str]]] = {}
    for agent in ("", *config.agents):
        own = config.agents.get(agent, {})
        for each in configured_models(settings_of(config, agent)):
            if agent and not own.keys() & {"brain", each.setting}:
                continue  # what everybody has
            use = each.setting.removeprefix("brain_")
            _, uses = found.setdefault((each.name, each.url), (each, []))
            uses.append(f"{agent}'s {use}" if agent else use)
    return list(found.values())


async def check_model(choice: ModelConfig, uses: Sequence[str], *, quick: bool = False) -> Check:
    """Whether a model's server answers, and what the model can do there."""
    who = f"{choice.name} ({', '.join(uses)})"
    about = {"model": choice.name, "server": choice.place, "uses": list(uses)}
    try:
        await probe_model(choice)
        able = await (describe_model(choice) if quick else examine(choice))
    except MailroomError as error:
        return warn("brain", f"{who}: {error.cause}", error.cure)
    said = [
        f"context {able.context:,} tokens" if able.context else "",
        {True: "calls tools", False: "calls no tools: they are described in the prompt", None: ""}[
            able.tools
        ],
        f"JSON {JSON[able.json]}" if able.json else "",
        f"{able.tokens_a_second:g} tokens/s after {able.first_piece:g} s" if able.tokens_a_second else "",
    ]
    finding = ": ".join(filter(None, (who, ", ".join(filter(None, said)))))
    details = {**about, **msgspec.to_builtins(able)}
    if able.problem:
        fix = "Raise MAILROOM_BRAIN_TIMEOUT if it is only slow; else see its server's log"
        return Check(
            name="brain", verdict="warn", finding=f"{finding}; {able.problem}", fix=fix, details=details
        )
    if able.context and able.context < SMALL_CONTEXT:
        fix = (
            "Have its server give it more, such as 16,384 tokens (OLLAMA_CONTEXT_LENGTH, -c, --max-model-len)"
        )
        small = f"{finding}; agents need {SMALL_CONTEXT:,}"
        return Check(name="brain", verdict="warn", finding=small, fix=fix, details=details)
    return ok("brain", finding, details)


async def check_sandbox(config: Settings) -> Check:
    """Whether the jail works, tried with a command; not in a container whose process runs none."""
    from shared.sandbox import check_jail

    if config.nats_url and (name := _find_only_key(config)) and name in RUN_NOTHING:
        where = "in containers 'docker compose exec engineer mailroom doctor' tries the jail"
        return ok("sandbox", f"{name} runs no commands: {where}")
    if reason := await check_jail():
        cause, _, cure = reason.partition(". ")
        return warn("sandbox", f"commands are refused, because the jail does not work here: {cause}", cure)
    return ok("sandbox", "the jail works: commands run isolated, without network and without your files")
