"""Makes and retires specialists: it writes the profile, and ``mailroom up`` starts the process."""

import asyncio
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import msgspec

from shared import subjects
from shared.bus import Bus
from shared.bus.records import read_presences
from shared.contracts import Presence
from shared.errors import ActionError, ModelError
from shared.llm.protocol import Message
from shared.log import logger
from shared.reasoning.model import ModelSession
from shared.settings import Settings
from shared.tasks.profiles import (
    MAX_WORDS,
    SKILLS,
    Profile,
    check_profile,
    choose_skills,
    name_of,
    read_specialists,
    refusal_path,
    require_supervision,
    retire_profile,
    write_profile,
)

START_WAIT = 45.0  # Seconds a new specialist has to start: most of it is for the process on a busy machine
POLL_EVERY = 0.1

log = logger(__name__)


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """A specialist as a model describes it: ``skills`` are names of the list, as few as possible."""

    description: str
    prompt: str
    skills: tuple[str, ...]


class SpecialistFactory:
    """Makes and retires specialists; ``skills_of`` returns the skills of another agent."""

    def __init__(
        self,
        config: Settings,
        bus: Bus,
        models: ModelSession,
        skills_of: Callable[[str], Awaitable[set[str]]],
    ) -> None:
        self._config = config
        self._bus = bus
        self._models = models
        self._skills_of = skills_of
        self._making = asyncio.Lock()

    async def count_free(self) -> int:
        """How many more specialists can be made; 0 if no supervisor starts them."""
        try:
            require_supervision(self._config)
        except ActionError:
            return 0
        good, _ = await asyncio.to_thread(read_specialists, self._config)
        return max(0, self._config.max_specialists - len(good))

    async def create(self, domain: str, requirements: str, requester: str) -> Profile:
        """Make a specialist and wait until it is at work; an existing one if it was made for the same.

        It gets no skill that ``requester`` lacks or that SKILLS does not list. Raises ActionError.
        """
        require_supervision(self._config)
        if not requirements.strip() or len(requirements) > MAX_WORDS:
            raise ActionError(f"What a specialist is to do must have 1 to {MAX_WORDS:,} characters")
        async with self._making:
            known = await self._find_existing(domain, requirements)
            profile = known or await self._make(domain, requirements, requester)
        await self._await_at_work(profile.name)
        return profile

    async def _await_at_work(self, name: str) -> None:
        async for presence in self._poll_presence(name):
            if presence is not None:
                return
            if (refusal := refusal_path(self._config, name)).exists():
                reason = refusal.read_text(errors="replace")[:1_000]
                shutil.rmtree(refusal.parent, ignore_errors=True)
                raise ActionError(f"Mailroom does not start {name}: {reason}")
        await asyncio.to_thread(retire_profile, self._config, name)
        log_path = self._config.logs / f"{name}.log"
        raise ActionError(f"{name} was not at work within {START_WAIT:g} s", f"Its log is {log_path}")

    async def retire(self, name: str) -> None:
        """End a specialist's process and set its profile aside; its mailbox stays on the audit trail.

        Raises ActionError if there is none of that name.
        """
        require_supervision(self._config)
        good, refused = await asyncio.to_thread(read_specialists, self._config)
        if name not in {*good, *refused}:
            there = ", ".join(good) or "none"
            raise ActionError(f"There is no specialist {name[:80]!r}", f"The specialists are: {there}")
        await asyncio.to_thread(retire_profile, self._config, name)
        async for presence in self._poll_presence(name):
            if presence is None:
                return

    async def _poll_presence(self, name: str) -> AsyncIterator[Presence | None]:
        deadline = time.monotonic() + START_WAIT
        while time.monotonic() < deadline:
            yield next(iter(await read_presences(self._bus, name)), None)
            await asyncio.sleep(POLL_EVERY)

    async def _find_existing(self, domain: str, requirements: str) -> Profile | None:
        name = name_of(domain)
        good, _ = await asyncio.to_thread(read_specialists, self._config)
        if name in good:
            if good[name].options.get("requirements") == requirements:
                return good[name]
            raise ActionError(
                f"There is a specialist {name!r} already: {good[name].description}",
                "Give it the task, or retire it first (retire_specialist)",
            )
        if len(good) >= self._config.max_specialists:
            raise ActionError(
                f"There are {len(good)} specialists, and no more are allowed: {', '.join(good) or 'none'}",
                "Retire one (retire_specialist), or raise MAILROOM_MAX_SPECIALISTS",
            )
        return None

    async def _make(self, domain: str, requirements: str, requester: str) -> Profile:
        own = SKILLS if requester == subjects.USER else await self._skills_of(requester)
        allowed = tuple(path for path in SKILLS if path in own)
        described = await self._describe(domain, requirements, allowed)
        profile = Profile(
            name=name_of(domain),
            description=described.description.strip()[:500],
            instructions=f"Ask me about {domain.strip()[:200]}. I was made for: {requirements.strip()[:500]}",
            prompt=described.prompt.strip()[:MAX_WORDS],
            skills=described.skills,
            concurrency=2,
            options={"domain": domain.strip()[:200], "requirements": requirements, "asker": requester},
        )
        if reason := check_profile(profile):
            raise ActionError(f"The specialist cannot be made: {reason}")
        await asyncio.to_thread(write_profile, self._config, profile)
        return profile

    async def _describe(self, domain: str, requirements: str, allowed: Sequence[str]) -> Description:
        """The specialist as a model describes it, else by its requirements; only with ``allowed`` skills."""
        skills = {path.split(".")[-2]: path for path in allowed}
        asked = (
            f"Describe a new specialist of this office.\nIts field: {domain[:500]}\n"
            f"It is to: {requirements}\n\n"
            "description: one sentence for the yellow pages. prompt: who it is and how it works, said to it "
            f"in at most ten sentences. skills: as few as will do, of these: {', '.join(skills) or 'none'}."
        )
        if self._models.model.available:
            try:
                found = await self._models.ask_model_for(
                    [Message(role="user", text=asked)],
                    Description,
                    lambda answer: _find_fault(answer, skills),
                )
                chosen = tuple(dict.fromkeys(skills[name] for name in found.skills))
                return msgspec.structs.replace(found, skills=chosen)
            except ModelError as error:
                log.warning("described_without_a_model", domain=domain, reason=str(error))
        return Description(
            description=f"Specialist for {domain.strip()[:200]}.",
            prompt=f"You are the office's specialist for {domain.strip()[:200]}. You were made for this: "
            f"{requirements.strip()}\nYou say what you do not know, and name the source of what you claim.",
            skills=tuple(path for path in choose_skills(f"{domain} {requirements}") if path in allowed),
        )


def _find_fault(answer: Description, skills: dict[str, str]) -> str | None:
    if unknown := [name for name in answer.skills if name not in skills]:
        return f"there is no skill {unknown[0][:60]!r}; there are {', '.join(skills) or 'none'}"
    if not answer.description.strip() or not answer.prompt.strip():
        return "description and prompt must not be empty"
    if len(answer.prompt) > MAX_WORDS:
        return f"the prompt has more than {MAX_WORDS:,} characters"
    return None
