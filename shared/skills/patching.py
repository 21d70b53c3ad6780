"""Patches, applied by git in the jail: all of one or nothing, and nowhere but where it belongs."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from shared.errors import ActionError
from shared.sandbox import remove_tree, run_command

PATCH_SECONDS = 60.0


async def apply_patch(workspace: Path, folder: Path, diff: bytes) -> list[str]:
    """Apply a diff to the ``folder`` of a ``workspace``; returns the paths it touches. Raises ActionError."""
    aside = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="mailroom-diff-"))
    try:
        patch = aside / "patch.diff"
        await asyncio.to_thread(patch.write_bytes, diff)
        # Were the folder in a repository, git would take the paths from its top and skip those outside.
        env = {"GIT_CEILING_DIRECTORIES": str(folder.parent), "GIT_DIR": "/nonexistent"}
        places: dict[str, Any] = {"cwd": workspace, "writable": [workspace], "readable": [aside]}
        for leniency in ([], ["--recount"]):  # models miscount the lines of their hunks
            git = ["git", "-C", str(folder), "apply", "--whitespace=nowarn", *leniency]
            listing = await run_command(
                [*git, "--numstat", "-z", str(patch)], timeout=PATCH_SECONDS, env=env, **places
            )
            done = await run_command([*git, str(patch)], timeout=PATCH_SECONDS, env=env, **places)
            if listing.exit_code == done.exit_code == 0:
                return [entry.split("\t")[-1] for entry in listing.output.split("\0") if "\t" in entry]
        words = done.output.strip().splitlines() or [f"exit code {done.exit_code}"]
        raise ActionError(
            f"The diff does not apply: {words[0].removeprefix('error: ')[:300]}",
            "Read the files as they are, and make the diff anew",
        )
    finally:
        await asyncio.to_thread(remove_tree, aside)
