"""How projects other than Python's are tested: Node, Rust, Go, make, CMake, Java."""

import shutil
from pathlib import Path

import msgspec

from services.engineer.clues import TestCommand, find_line, parse, read


def find_node(folder: Path) -> TestCommand | None:
    """The test script of package.json, run by the package manager whose lock file is there."""
    text = read(folder / "package.json")
    scripts = parse(text, msgspec.json.decode).get("scripts")
    script = scripts.get("test") if isinstance(scripts, dict) else None
    if not isinstance(script, str) or not script.strip() or "no test specified" in script:
        return None
    line = find_line(text, r'^[ \t]*"test" *:') or find_line(text, r'"scripts"')
    wanted = next((tool for lock, tool in NODE_LOCKS.items() if (folder / lock).exists()), "npm")
    manager = wanted if shutil.which(wanted) else "npm"
    instead = "" if manager == wanted else f"; {wanted} is not installed, so npm runs it"
    found = f"package.json:{line} (scripts.test: {script[:100]}{instead})"
    return TestCommand(runner="node", argv=(manager, "run", "test"), found=found)


NODE_LOCKS = {"pnpm-lock.yaml": "pnpm", "yarn.lock": "yarn", "bun.lock": "bun", "bun.lockb": "bun"}


def find_cargo(folder: Path) -> TestCommand | None:
    """``cargo test`` for a Rust package or workspace."""
    line = find_line(read(folder / "Cargo.toml"), r"^\[(package|workspace)\]")
    argv = ("cargo", "test", "--no-fail-fast")
    return (
        TestCommand(runner="cargo", argv=argv, found=f"Cargo.toml:{line} (a Rust package)") if line else None
    )


def find_go(folder: Path) -> TestCommand | None:
    """``go test`` for all packages of a Go module."""
    line = find_line(read(folder / "go.mod"), r"^module\s")
    argv = ("go", "test", "-v", "./...")
    return TestCommand(runner="go", argv=argv, found=f"go.mod:{line} (a Go module)") if line else None


def find_make(folder: Path) -> TestCommand | None:
    """The target ``test``, else ``check``, of a makefile."""
    for name in ("GNUmakefile", "makefile", "Makefile"):
        text = read(folder / name)
        for target in ("test", "check"):
            if line := find_line(text, rf"^{target} *:(?!=)"):
                return TestCommand(
                    runner="any", argv=("make", target), found=f"{name}:{line} (the target {target})"
                )
    return None


def find_cmake(folder: Path) -> TestCommand | None:
    """Configure, build and run CTest where CMakeLists.txt enables tests."""
    line = find_line(read(folder / "CMakeLists.txt"), r"(?i)^[ \t]*(enable_testing *\(|include *\( *CTest\b)")
    build = "cmake -S . -B build-test && cmake --build build-test"
    steps = f"{build} && ctest --test-dir build-test --output-on-failure"
    found = f"CMakeLists.txt:{line} (tests of CTest)"
    return TestCommand(runner="any", argv=("sh", "-c", steps), found=found) if line else None


def find_java(folder: Path) -> TestCommand | None:
    """Maven or Gradle, through the project's own wrapper where it has one."""
    for name, wrapper, program, arguments in (
        ("pom.xml", "mvnw", "mvn", ("--batch-mode", "test")),
        ("build.gradle", "gradlew", "gradle", ("test",)),
        ("build.gradle.kts", "gradlew", "gradle", ("test",)),
    ):
        if (folder / name).is_file():
            start = f"./{wrapper}" if (folder / wrapper).is_file() else program
            return TestCommand(
                runner="any", argv=(start, *arguments), found=f"{name}:1 (a project of {program})"
            )
    return None
