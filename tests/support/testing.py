"""Runs the tests of little projects as the engineer does: in a copy, in the jail."""

import os
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

from services.engineer.testing import Limits, Site, discover, run_tests
from services.engineer.working_copy import working_copy
from shared.contracts import TestRun


def lay_out(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def make_runner(
    tmp_path: Path, environment: Path, notes: list[str] | None = None
) -> Callable[..., Awaitable[TestRun]]:
    """A function that runs the tests of a project of ``files`` with ``environment``, linked, as its own."""

    async def note(text: str) -> None:
        if notes is not None:
            notes.append(text)

    async def run(
        files: dict[str, str], seconds: float = 60.0, one: float = 60.0, *, bare: bool = False
    ) -> TestRun:
        repo = lay_out(tmp_path / "project", files)
        if not bare and not (repo / ".venv").exists():
            shutil.copytree(environment, repo / ".venv", symlinks=True, copy_function=os.link)
        before = {path: path.lstat().st_mtime_ns for path in (repo, *repo.rglob("*"))}
        async with working_copy(repo, tmp_path / "place") as copy:
            found = discover(copy.root)
            site = Site(
                repo=repo,
                copy=copy,
                log=tmp_path / "out" / "tests.log",
                limits=Limits(whole=seconds, one=one),
                note=note,
            )
            result = found if isinstance(found, TestRun) else await run_tests(found, site)
        assert {path: path.lstat().st_mtime_ns for path in (repo, *repo.rglob("*"))} == before
        assert TestRun.from_json(result.to_json()) == result
        return result

    return run
