"""The node_modules in a person's folder: used if they are what the lock says."""

import shutil
from pathlib import Path

from shared.projects.manifests import get_table, read_json, read_text
from shared.projects.node_managers import Manager


def find_fault(folder: Path, manager: Manager) -> str:
    """Why the node_modules in ``folder`` are not used, ``-`` for none there; empty if they fit the lock."""
    modules = folder / "node_modules"
    if not modules.is_dir() or modules.is_symlink():
        return "-"
    manifest = read_json(folder / "package.json")
    if manifest.get("workspaces") or (folder / "pnpm-workspace.yaml").is_file():
        return "those of a workspace are spread over its members"
    if manager.name == "npm" and manager.lock:
        return _compare_npm(folder, modules, manager.lock)
    if manager.name == "pnpm" and manager.lock:
        same = read_text(modules / ".pnpm/lock.yaml") == read_text(folder / manager.lock)
        return "" if same else "they are of another lock"
    return "there is no lock to compare them with"


def _compare_npm(folder: Path, modules: Path, lock: str) -> str:
    installed = get_table(read_json(modules / ".package-lock.json"), "packages")
    if not installed:
        return "npm has not noted what it installed"
    locked = get_table(read_json(folder / lock), "packages")
    for name, package in locked.items():
        if not name or not isinstance(package, dict) or package.get("optional") or package.get("devOptional"):
            continue
        if not isinstance(there := installed.get(name), dict) or there.get("version") != package.get(
            "version"
        ):
            return f"{name.removeprefix('node_modules/')} is not the one in the lock"
    return ""


def copy_modules(source: Path, target: Path) -> None:
    """Copy the node_modules of ``source`` into ``target``, with links as they are."""
    place = target / "node_modules"
    if not place.exists():
        shutil.copytree(
            source / "node_modules", place, symlinks=True, ignore=shutil.ignore_patterns(".cache")
        )
