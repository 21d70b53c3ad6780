"""Files that travel between hosts: what a task works with is fetched before it begins, stored as it goes.

On an office of one host nothing of this happens: its workspaces are folders, and stay where they are. Only
what a person sent from elsewhere is fetched there too.
"""

import asyncio
import contextlib
import os
import secrets
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Collection
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from shared import subjects
from shared.bus import Bus, Claim
from shared.bus.entry import seal
from shared.bus.hosts import HOSTS, read_hosts
from shared.bus.objects import get_object, put_object, remove_object, sweep
from shared.bus.records import read_record
from shared.bus.stores import bucket_of
from shared.contracts import Parcel, ParcelsStored, StateChanged, StoredObject, Task, TaskResult
from shared.errors import ActionError, BusError, BusUnavailable, Conflict
from shared.files import hold_lock, write_atomically
from shared.log import logger
from shared.sandbox import remove_tree, run_command
from shared.sandbox.confined import ConfinedFolder
from shared.sandbox.parcels import Entry, Known, Manifest, Packer, unpack
from shared.sandbox.restoring import scan
from shared.sandbox.snapshots import MAX_FILES
from shared.settings import Settings
from shared.subjects import host_of
from shared.tasks.context import (
    INPUT,
    goal_of,
    inputs_path,
    localiser,
    sent_name,
    workspace_name,
)

MOST_OBJECTS = 16  # Of one workspace; then all of it is stored again
TRIES = 5  # How often the list of a goal's parcels is written if others write it too
LOOK_EVERY = 1.0  # Seconds between two looks whether a host has joined
SWEEP_EVERY = 3_600.0  # Seconds between two looks for what is left of goals that have ended
SWEPT_AFTER = 86_400.0  # Seconds after which that is removed: a task without a goal is at work for less
LOCKS = frozenset({"lock", "changing"})
T = TypeVar("T")

log = logger(__name__)


class _Stored(msgspec.Struct):
    """What of a workspace this process has stored."""

    objects: tuple[StoredObject, ...] = ()
    known: dict[bytes, Known] = {}
    contents: set[bytes] = set()
    entries: tuple[Entry, ...] = ()


class Travelling:
    """The files of an agent's tasks, on whatever host they are worked on."""

    def __init__(self, settings: Settings, bus: Bus) -> None:
        self._settings, self._bus = settings, bus
        self._stored: dict[str, _Stored] = {}
        self._storing = asyncio.Lock()
        self._roles: frozenset[str] = frozenset()
        self._seen: tuple[int, int] = (0, 0)
        self._swept = self._looked = float("-inf")

    def roles(self) -> Collection[str]:
        """The agents that work on several hosts, as far as this one knows; none in an office of one."""
        if self._bus.host != subjects.OFFICE_HOST:
            return {self._bus.name}
        if (now := time.monotonic()) < self._looked + LOOK_EVERY:
            return self._roles
        self._looked = now
        with contextlib.suppress(OSError):
            info = (self._settings.keys / HOSTS).stat()
            if (mark := (info.st_mtime_ns, info.st_ino)) != self._seen:
                joined = read_hosts(self._settings.keys).joined.values()
                self._roles = frozenset(role for each in joined for role in each.roles)
                self._seen = mark
        return self._roles

    # --- what a task begins with -----------------------------------------------------------------

    async def open_task(self, task: Task) -> Task:
        """``task`` with its paths as they are on this host, once the files are there that it works with.

        Raises ActionError if what a person sent is gone or damaged, BusUnavailable if it does not come.
        """
        is_named = "/inputs/" in task.text or b"/inputs/" in msgspec.json.encode(task.context)
        if is_named:
            await self.open_inputs(msgspec.json.encode((task.text, task.context)).decode())
        if self.roles():
            await self._open_goal(goal_of(task), {workspace_name(task), *task.starts_from})
        elif not is_named:
            return task
        here = self._localiser(goal_of(task))
        return msgspec.structs.replace(task, text=here(task.text), context=here(task.context))

    async def open_result(self, result: TaskResult) -> TaskResult:
        """``result`` with its paths as they are on this host, once what it delivered is there."""
        if not self.roles() or host_of(result.worker) == self._bus.host:
            return result
        try:
            await self._open_goal(result.goal_id or result.task_id, frozenset())
        except (ActionError, BusError) as error:
            log.warning("files_not_fetched", task_id=result.task_id, reason=str(error))
        return self._localiser(result.goal_id or result.task_id)(result)

    def _localiser(self, goal: str) -> Callable[[T], T]:
        return localiser(self._settings, goal)

    async def open_inputs(self, text: str) -> None:
        """Have the folders that people sent, as far as ``text`` names them, as they sent them last."""
        for key in dict.fromkeys(INPUT.findall(text)):
            record = subjects.record(subjects.GATEWAY, subjects.PARCELS, key)
            known = await read_record(self._bus, record, ParcelsStored)
            if known is None or not known.value.parcels:
                continue  # a folder of the user's with that name
            place, parcel = inputs_path(self._settings) / key, known.value.parcels[0]
            async with hold_lock(inputs_path(self._settings) / f".{key}.lock"):
                if _is_there(place, parcel):
                    os.utime(place)
                    continue
                async with self._unpacked(parcel, inputs_path(self._settings), is_closed=True) as draft:
                    await add_history(draft)
                    whole = draft.with_name(f"{draft.name}.whole")
                    (draft / "files").rename(_made(whole) / sent_name(parcel.source))
                    _mark(whole, parcel)
                    await asyncio.to_thread(remove_tree, place)
                    whole.rename(place)

    async def _open_goal(self, goal: str, workspaces: Collection[str]) -> None:
        """Have what other hosts stored for a goal: what was delivered, and these workspaces."""
        for role, _, parcel in await self._read_parcels(goal):
            place = self._settings.snapshots / goal / parcel.workspace
            path = self._settings.workspaces / goal / parcel.workspace
            wanted = parcel.workspace in workspaces
            is_own = parcel.host == self._bus.host and (path.is_dir() or not wanted)
            mark = place if wanted else self._settings.snapshots / goal / ".delivered" / parcel.workspace
            if is_own or not parcel.objects or _is_there(mark, parcel):
                continue
            try:
                async with hold_lock(self._settings.snapshots / f".{goal}.lock"):
                    await self._place(goal, parcel, mark, wanted=wanted, by_self=role == self._bus.name)
            except ActionError as error:
                if wanted:
                    raise
                log.warning("files_not_fetched", goal_id=goal, reason=str(error))

    async def _place(self, goal: str, parcel: Parcel, mark: Path, *, wanted: bool, by_self: bool) -> None:
        name, state = parcel.workspace, self._settings.state_dir.absolute()
        own = (f"workspaces/{goal}/{name}/", f"snapshots/{goal}/{name}/", f"snapshots/{goal}/.bases/")
        allowed = (f"outputs/{goal}/", *(own if wanted else ()))

        def rename(path: str) -> str:
            return path if f"{path}/".startswith(allowed) else ""

        async with self._unpacked(parcel, self._settings.snapshots, rename=rename) as draft:
            here = self._localiser(goal)

            def settle() -> None:
                _merge(draft / "outputs", state / "outputs", replace=by_self)
                if wanted:
                    _merge(draft / "snapshots" / goal / ".bases", state / "snapshots" / goal / ".bases")
                    _relocate(draft, goal, name, here)
                    for kind in ("snapshots", "workspaces"):  # the mark lies in the first: never without it
                        if (made := draft / kind / goal / name).is_dir() or kind == "workspaces":
                            target = state / kind / goal / name
                            remove_tree(target)
                            if made.is_dir():
                                _made(target.parent)
                                made.rename(target)
                _mark(_made(mark), parcel)

            await asyncio.to_thread(settle)
            self._stored.pop(f"{goal}/{name}", None)
        log.info("files_fetched", goal_id=goal, workspace=name, host=parcel.host)

    @contextlib.asynccontextmanager
    async def _unpacked(self, parcel: Parcel, place: Path, **options: Any) -> AsyncIterator[Path]:
        """The files of a parcel in a folder of its own beneath ``place``; removed at the end."""
        aside = Path(tempfile.mkdtemp(prefix=".fetched-", dir=_made(place)))
        try:
            paths = []
            for number, each in enumerate(parcel.objects):
                paths.append(aside / f"{number}.parcel")
                try:
                    await get_object(self._bus, each, paths[-1])
                except BusUnavailable:
                    raise
                except BusError as error:
                    raise ActionError(f"Files cannot be fetched: {error.cause}", "Submit it again") from None
                except OSError as error:
                    raise ActionError(
                        f"Files cannot be fetched: {error.strerror}", "Free disk space"
                    ) from None
            draft = aside / "draft"
            await asyncio.to_thread(unpack, paths, draft, **options)
            yield draft
        finally:
            await asyncio.to_thread(remove_tree, aside)

    # --- what it leaves --------------------------------------------------------------------------

    async def store(self, claim: Claim) -> str:
        """Store the files of a task, as far as they changed, for whatever host goes on with it.

        Returns why they are not stored, if they are not: the task goes on without, where it is. Raises
        Conflict if another process has taken the task.
        """
        if self._bus.name not in self.roles():
            return ""
        task = claim.task
        try:
            async with self._storing:
                await self._store(claim, goal_of(task), workspace_name(task))
        except Conflict:
            raise
        except (ActionError, BusError, OSError) as error:
            log.warning("files_not_stored", task_id=task.task_id, reason=str(error))
            with contextlib.suppress(BusError):
                await self._pin(claim, goal_of(task), workspace_name(task))
            return f"Its files stay on the host {self._bus.host}: {error}"
        return ""

    async def _store(self, claim: Claim, goal: str, name: str) -> None:
        key = f"{goal}/{name}"
        before = self._stored.get(key, _Stored())
        if len(before.objects) >= MOST_OBJECTS:
            before = _Stored()
        with tempfile.TemporaryFile(dir=_made(self._settings.snapshots)) as file:
            packing = asyncio.to_thread(self._pack, file, goal, name, before)
            manifest, known = await packing
            if manifest is None:
                return
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            bucket = bucket_of(self._bus.name, self._bus.host)
            stored = await put_object(self._bus, bucket, f"{key}/{secrets.token_hex(6)}", file)
        parcel = Parcel(workspace=name, host=self._bus.host, objects=(*before.objects, stored))
        earlier = await self._list(claim, goal, parcel, f"stored its files ({size:,} bytes)")
        contents = before.contents | manifest.contents.keys()
        self._stored[key] = _Stored(
            objects=parcel.objects, known=known, contents=contents, entries=manifest.entries
        )
        used = {each.key for each in parcel.objects}
        for each in earlier:
            if each.bucket == bucket and each.key not in used:
                with contextlib.suppress(BusError):  # it expires
                    await remove_object(self._bus, bucket, each.name)
        if time.monotonic() > self._swept + SWEEP_EVERY:
            self._swept = time.monotonic()
            await self._sweep(bucket)

    async def _sweep(self, bucket: str) -> None:
        """Remove what is left of goals that are not open any more."""
        with contextlib.suppress(BusError, ValueError):  # it expires
            state = await read_record(self._bus, subjects.OFFICE_STATE, StateChanged)
            if state is not None:
                active = state.value.active
                await sweep(self._bus, bucket, lambda name: name.partition("/")[0] in active, age=SWEPT_AFTER)

    def _pack(
        self, file: Any, goal: str, name: str, before: _Stored
    ) -> tuple[Manifest | None, dict[bytes, Known]]:
        packer = Packer(file, before.contents, before=before.known)
        state = self._settings.state_dir.absolute()
        places = (f"workspaces/{goal}/{name}", f"snapshots/{goal}/{name}", f"snapshots/{goal}/.bases")
        with ConfinedFolder(state) as confined:
            for place in (*places, f"outputs/{goal}"):
                if confined.stat(place) is None:
                    continue
                packer.add(confined, place)
                with ConfinedFolder(state / place) as folder:
                    for raw in sorted(scan(folder, MAX_FILES).entries):
                        path = os.fsdecode(raw)
                        if not (place == places[1] and (path in LOCKS or path.startswith("objects/new-"))):
                            packer.add(folder, path, f"{place}/{path}")
        if not packer.entries or tuple(packer.entries) == before.entries:
            return None, {}
        return packer.finish(), packer.found

    async def read_origin(self, task: Task) -> tuple[str, str] | None:
        """Which host stored a task's workspace last, and when, at the latest; empty if none did.

        None if it is not known: another state may be on a host, or several agents stored it.
        """
        parcels = await self._read_parcels(goal_of(task))
        found = [(each.host, at) for _, at, each in parcels if each.workspace == workspace_name(task)]
        return found[0] if len(found) == 1 else None if found else ("", "")

    async def _pin(self, claim: Claim, goal: str, name: str) -> None:
        """Record that the present state of a workspace is on this host alone."""
        parcels = await self._read_parcels(goal)
        own = (each for by, _, each in parcels if (by, each.workspace) == (self._bus.name, name))
        known = next(own, Parcel(workspace=name))
        pinned = msgspec.structs.replace(known, host=self._bus.host, pinned=True)
        if pinned != known and (self._settings.workspaces / goal / name).is_dir():
            await self._list(claim, goal, pinned, "keeps its files")

    async def kept_elsewhere(self, goal: str, workspaces: Collection[str]) -> dict[str, str]:
        """The workspaces among these whose present state is on another host alone, as goal/name.

        With that host, or empty if an older state was stored.
        """
        return {
            f"{goal}/{each.workspace}": "" if each.objects else each.host
            for _, _, each in await self._read_parcels(goal)
            if each.pinned and each.host != self._bus.host and each.workspace in workspaces
        }

    async def _read_parcels(self, goal: str) -> list[tuple[str, str, Parcel]]:
        """What agents stored of a goal, after who did and when it was listed."""
        roles = tuple({*subjects.OPENING, self._bus.name})
        records = (subjects.record(role, subjects.PARCELS, goal) for role in roles)
        reading = (read_record(self._bus, each, ParcelsStored) for each in records)
        found = [
            (role, each.value)
            for role, each in zip(roles, await asyncio.gather(*reading), strict=True)
            if each
        ]
        return [(role, each.created_at, parcel) for role, each in found for parcel in each.parcels]

    async def _list(self, claim: Claim, goal: str, parcel: Parcel, note: str) -> tuple[StoredObject, ...]:
        """Record where the files are, if the task is still this process's; returns what they were before."""
        subject, seq = subjects.record(self._bus.name, subjects.PARCELS, goal), -1
        for _ in range(TRIES):
            known = await read_record(self._bus, subject, ParcelsStored)
            if known is not None and known.seq == seq:
                break
            seq = known.seq if known else 0
            there = known.value.parcels if known else ()
            others = tuple(each for each in there if each.workspace != parcel.workspace)
            listed = ParcelsStored(sender=self._bus.name, goal_id=goal, parcels=(*others, parcel))
            try:
                await claim.note(note, [seal(subject, listed, seq)])
            except Conflict as conflict:  # of the claim, or of the list
                lost = conflict
            else:
                return tuple(o for each in there if each.workspace == parcel.workspace for o in each.objects)
        raise lost


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


MARK = ".parcel"  # The file that says which parcel a folder was unpacked from


def _is_there(place: Path, parcel: Parcel) -> bool:
    try:
        return (place / MARK).read_text("ascii") == _digest(parcel)
    except OSError:
        return False


def _mark(place: Path, parcel: Parcel) -> None:
    write_atomically(place / MARK, _digest(parcel))


def _digest(parcel: Parcel) -> str:
    return parcel.objects[-1].digest if parcel.objects else ""


def _merge(source: Path, target: Path, *, replace: bool = False) -> None:
    """Move the files of ``source`` to ``target``; of one that is there already only if ``replace``."""
    for parent, _, files in os.walk(source):
        place = target / Path(parent).relative_to(source)
        _made(place)
        for name in files:
            if replace or not os.path.lexists(place / name):
                (Path(parent) / name).replace(place / name)


ALTERNATES = ".git/objects/info/alternates"


def _relocate(draft: Path, goal: str, name: str, here: Callable[[str], str]) -> None:
    """Correct the paths in what other hosts wrote: where folders come from, and whose objects clones read."""
    noted = draft / "snapshots" / goal / name / "origins.json"
    with contextlib.suppress(FileNotFoundError):
        write_atomically(noted, msgspec.json.encode(here(msgspec.json.decode(noted.read_bytes()))))
    root = draft / "workspaces" / goal / name
    if not root.is_dir():
        return
    with ConfinedFolder(root) as folder:
        for each, _ in folder.entries("."):
            with contextlib.suppress(ActionError):
                text = os.fsdecode(folder.read(f"{each}/{ALTERNATES}", 10_000)).rstrip("\n")
                folder.write(f"{each}/{ALTERNATES}", os.fsencode(f"{here(text)}\n"))


HISTORY = """
cd files && git init --quiet --template= || exit
[ ! -s ../history/shallow ] || cp ../history/shallow .git/shallow || exit
git index-pack --strict --stdin < ../history/pack > /dev/null || exit
read -r head branch < ../history/head && git check-ref-format "refs/heads/$branch" || exit
git update-ref "refs/heads/$branch" "$head" && git symbolic-ref HEAD "refs/heads/$branch" || exit
while read -r object ref; do
  case $ref in refs/tags/*) git update-ref "$ref" "$object" || exit;; esac
done < ../history/tags
git read-tree HEAD || exit
git ls-files -sz | sed -zn 's/^160000 [^\\t]*\\t//p' | git update-index -z --force-remove --stdin
"""
"""A repository of the pack that was sent. Submodules are plain files: what git knows of them was not sent."""


async def add_history(draft: Path) -> None:
    """Make ``files`` of what a person sent the repository that it was, as far as its history was sent."""
    _made(draft / "files")
    if not (draft / "history" / "head").is_file():
        return
    environment = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}
    made = await run_command(
        ["bash", "-c", HISTORY], cwd=draft, timeout=300.0, writable=[draft], env=environment
    )
    if failure := made.find_failure():
        lines = [line for line in made.output.splitlines() if line.strip()]
        raise ActionError(
            f"The history that was sent cannot be read: {(lines or [failure])[-1][:200]}", "Send it again"
        )
