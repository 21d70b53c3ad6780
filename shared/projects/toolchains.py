"""Tool chains: which programs a kind of project needs, and the packages that have them."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from shared.errors import ActionError
from shared.sandbox.visible_files import search_path

PACKAGES = {
    "python3": ("python3", "python"),
    "node": ("nodejs", "node"),
    "npm": ("npm", "node"),
    "pnpm": ("", "pnpm"),
    "yarn": ("yarnpkg", "yarn"),
    "bun": ("", "oven-sh/bun/bun"),
    "deno": ("", "deno"),
    "cargo": ("cargo", "rust"),
    "rustup": ("rustup", "rustup"),
    "go": ("golang-go", "go"),
    "java": ("default-jdk", "openjdk"),
    "javac": ("default-jdk", "openjdk"),
    "mvn": ("maven", "maven"),
    "gradle": ("gradle", "gradle"),
    "cc": ("build-essential", "gcc"),
    "gcc": ("build-essential", "gcc"),
    "c++": ("build-essential", "gcc"),
    "g++": ("build-essential", "gcc"),
    "clang": ("clang", "llvm"),
    "gfortran": ("gfortran", "gcc"),
    "make": ("make", "make"),
    "cmake": ("cmake", "cmake"),
    "ninja": ("ninja-build", "ninja"),
    "meson": ("meson", "meson"),
    "autoreconf": ("autoconf", "autoconf"),
    "pkg-config": ("pkg-config", "pkgconf"),
    "just": ("just", "just"),
    "task": ("", "go-task"),
    "bundle": ("ruby-bundler", "ruby"),
    "ruby": ("ruby-full", "ruby"),
    "composer": ("composer", "composer"),
    "php": ("php-cli", "php"),
    "mix": ("elixir", "elixir"),
    "dotnet": ("", "dotnet"),
    "swift": ("swiftlang", "swift"),
    "zig": ("", "zig"),
    "dart": ("", "dart"),
    "stack": ("haskell-stack", "haskell-stack"),
    "cabal": ("cabal-install", "cabal-install"),
    "sbt": ("", "sbt"),
    "lein": ("leiningen", "leiningen"),
    "clojure": ("clojure", "clojure"),
    "dune": ("ocaml-dune", "dune"),
    "git": ("git", "git"),
    "pg_config": ("libpq-dev", "libpq"),
    "mysql_config": ("default-libmysqlclient-dev", "mysql-client"),
    "swig": ("swig", "swig"),
    "protoc": ("protobuf-compiler", "protobuf"),
}
"""Program: the package of Debian and of Homebrew that has it; empty if there is none."""
PAGES = {
    "pnpm": "npm install -g pnpm",
    "bun": "npm install -g bun",
    "task": "see https://taskfile.dev/installation",
    "deno": "see https://deno.com",
    "dotnet": "see https://dotnet.microsoft.com/download",
    "zig": "see https://ziglang.org/download",
    "dart": "see https://dart.dev/get-dart",
    "sbt": "see https://www.scala-sbt.org/download",
}
NEEDS: dict[str, tuple[str, ...]] = {
    "ruby": ("ruby", "bundle"),
    "php": ("php", "composer"),
    "elixir": ("mix",),
    "dotnet": ("dotnet",),
    "swift": ("swift",),
    "zig": ("zig",),
    "deno": ("deno",),
    "dart": ("dart",),
    "scala": ("sbt",),
    "ocaml": ("dune",),
    "just": ("just",),
    "task": ("task",),
    "make": ("make",),
}
"""Kind of project (a key of ``reading.recognition.OTHERS``): the programs that it needs."""


def find_program(name: str) -> str:
    """Where ``name`` is on the PATH; empty if it is not."""
    return shutil.which(name, path=search_path()) or ""


def format_package(program: str) -> str:
    """How to install ``program``, as the cure of an error."""
    debian, brew = PACKAGES.get(program, ("", ""))
    ways = [
        f"apt install {debian}" if debian else "",
        f"brew install {brew}" if brew else "",
        PAGES.get(program, ""),
    ]
    known = " or ".join(way for way in ways if way)
    return f"Install it ({known})" if known else f"Install {program}, and have its folder on the PATH"


def require_programs(names: Iterable[str], needed_by: str) -> None:
    """Raise ActionError that names the first program that is missing, and the package that has it."""
    for name in names:
        if not find_program(name):
            raise ActionError(f"{name} is not installed, which {needed_by} needs", format_package(name))


def list_needs(kind: str, folder: Path) -> tuple[str, ...]:
    """The programs that a project of ``kind`` in ``folder`` needs."""
    if kind == "c":
        return _list_c(folder)
    if kind == "haskell":
        return ("stack",) if (folder / "stack.yaml").is_file() else ("cabal",)
    if kind == "clojure":
        return ("lein",) if (folder / "project.clj").is_file() else ("clojure",)
    return NEEDS.get(kind, ())


def _list_c(folder: Path) -> tuple[str, ...]:
    if (folder / "CMakeLists.txt").is_file():
        presets = (folder / "CMakePresets.json").is_file() and "Ninja" in (
            folder / "CMakePresets.json"
        ).read_text(errors="replace")
        return ("cmake", "cc", "ninja" if presets else "make")
    if (folder / "meson.build").is_file():
        return ("meson", "ninja", "cc")
    if (folder / "configure").is_file() or not (folder / "configure.ac").is_file():
        return ("make", "cc")
    return ("autoreconf", "make", "cc")
