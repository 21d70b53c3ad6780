"""The manifests of a repository, found and read."""

from collections.abc import Callable

from services.scout.manifest import Manifest, read_cargo, read_composer, read_go_mod, read_package_json
from services.scout.python_project import read_pyproject, read_setup_cfg, read_setup_py
from shared.source.tree import Tree, read_text
from shared.web.quoting import clean


def read_manifests(tree: Tree) -> tuple[Manifest, ...]:
    """The manifests of the root, and of the folders right below it where the root has none (at most six)."""
    readers: dict[str, Callable[[str, str], Manifest]] = {
        "pyproject.toml": read_pyproject,
        "setup.cfg": read_setup_cfg,
        "setup.py": read_setup_py,
        "package.json": read_package_json,
        "Cargo.toml": read_cargo,
        "go.mod": read_go_mod,
        "composer.json": read_composer,
    }
    found = [path for path in tree.files if path in readers]
    if not found:
        found = [path for path in tree.files if path.count("/") == 1 and path.split("/")[1] in readers][:6]
    manifests = []
    for path in sorted(found, key=lambda path: list(readers).index(path.split("/")[-1])):
        try:
            manifests.append(readers[path.split("/")[-1]](path, read_text(tree.root, path)))
        except (ValueError, RecursionError) as error:
            reason = clean(str(error), 160) or "nested too deeply"
            manifests.append(Manifest(path=path, problem=f"{path} cannot be read: {reason}"))
    return tuple(manifests)
