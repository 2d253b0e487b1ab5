"""Virtual environments for worker processes: made on demand from "mxnet==1.9.1,numpy<1.24".

An environment lies in the cache under the hash of what it holds, is built once whoever asks, and counts only when
its marker is there, which is written last. A specification names packages and versions, nothing else: it may come
from a manifest, and pip would follow paths, addresses and options to code of anyone's choice.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from zoolens.base.errors import EnvironmentBuildError, UnknownName
from zoolens.base.paths import cache_dir
from zoolens.base.safety import consent

if TYPE_CHECKING:
    from packaging.requirements import Requirement

Progress = Callable[[str], None]

_WORKER_NEEDS = ("numpy",)
_LAYOUT = 1  # raise it when environments made by older versions must not be used any more
_MARKER = "zoolens-environment.json"
_LOCK_TIMEOUT = 1800
_ARCHIVE = re.compile(r"\.(whl|zip|tar|gz|tgz|bz2|tbz|xz|txz|lz|tlz|lzma|egg)$", re.IGNORECASE)
_STEPS = ("Collecting ", "Downloading ", "Building ", "Installing ")
_DECISIVE = ("No matching distribution", "Cannot install", "No space left", "Failed building", "Failed to build")


@dataclass(frozen=True)
class EnvSpec:
    """Requirements in normal form, sorted; equal content is equal.

    `alone`: installed after the others and without what they ask for, because they pin what cannot be had.
    """

    requirements: tuple[str, ...]
    alone: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ",".join((*self.requirements, *self.alone))


@dataclass(frozen=True)
class Environment:
    """A complete environment. `freeze`: what is installed in it, normalised name to version."""

    python: Path
    spec: EnvSpec
    key: str
    freeze: dict[str, str] = field(hash=False)


def parse_env(text: str) -> EnvSpec:
    """Read "mxnet==1.9.1,numpy>=1.20,<1.24": a piece that begins with an operator continues the one before."""
    requirements = [_normal(piece) for piece in split_requirements(text)]
    if not requirements:
        raise _refused(text, "it names no package")
    return EnvSpec(tuple(sorted(set(requirements))))


def environment_of(requirements: Iterable[str], without_dependencies: Iterable[str] = ()) -> EnvSpec:
    """The specification of an environment that a plug-in declares, each requirement a string of its own."""
    together = {_normal(piece) for piece in requirements}
    alone = {_normal(piece) for piece in without_dependencies}
    return EnvSpec(tuple(sorted(together)), tuple(sorted(alone)))


def split_requirements(text: str) -> list[str]:
    """Split at commas, but neither inside [extras] nor before a bare operator."""
    pieces: list[str] = []
    for piece in (part.strip() for part in re.split(r",(?![^\[]*\])", text)):
        if piece[:1] in tuple("<>=!~") and pieces:
            pieces[-1] += f",{piece}"
        elif piece:
            pieces.append(piece)
    return pieces


def ensure_environment(spec: EnvSpec, needs: Sequence[str] = (), progress: Progress | None = None) -> Environment:
    """The environment of `spec`, made now if it is not there.

    `needs` are the requirements of the plug-in that will run in it; they count for packages that `spec` does not name.

    `progress` is given one line at a time. Safe when several processes ask for the same one.
    """
    report = progress or (lambda _: None)
    requirements = _completed(spec, needs)
    key = _key(requirements, spec.alone)
    folder = _root() / key
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _alone(key, report):
            built = _read(folder) or _build(folder, spec, requirements, report)
    except OSError as error:
        raise EnvironmentBuildError(
            f"An environment cannot be made in the cache folder: {error.strerror or error}.",
            hint="Set ZOOLENS_HOME to a folder that can be written to.",
        ) from error
    return Environment(built.python, spec, key, built.freeze)


def confirm_environment(spec: EnvSpec, needs: Sequence[str], asked_by: str) -> None:
    """Ask the user before something other than the user's command, `asked_by`, has packages installed.

    Returns where the environment is there already, or the user agrees; raises NotGranted otherwise.
    """
    requirements = _completed(spec, needs)
    if _read(_root() / _key(requirements, spec.alone)) is None:
        packages = ", ".join((*requirements, *spec.alone))
        consent.require(f"{asked_by} asks to install {packages} with pip, which runs the installers of these packages.")


def list_environments() -> list[Environment]:
    """All complete environments in the cache."""
    if not _root().is_dir():
        return []
    environments = (_read(folder) for folder in sorted(_root().iterdir()) if folder.is_dir())
    return [environment for environment in environments if environment is not None]


def remove_environment(key: str) -> None:
    """Delete an environment, complete or not."""
    root = _root()
    folders = {folder.name: folder for folder in root.iterdir() if folder.is_dir()} if root.is_dir() else {}
    if key not in folders:
        raise UnknownName("environment", key, folders)
    with _alone(key, lambda _: None):
        # First, so that a deletion cut short leaves nothing usable.
        (folders[key] / _MARKER).unlink(missing_ok=True)
        shutil.rmtree(folders[key])


@contextmanager
def _alone(key: str, report: Progress) -> Iterator[None]:
    """Holds the lock of one environment, and reports if it has to wait for it."""
    from filelock import FileLock, Timeout

    lock = FileLock(_root() / f"{key}.lock")
    try:
        lock.acquire(blocking=False)
    except Timeout:
        report("Waiting for another process that makes this environment")
        try:
            lock.acquire(timeout=_LOCK_TIMEOUT)
        except Timeout as error:
            raise EnvironmentBuildError(
                f"Another process has been making the environment {key} for {_LOCK_TIMEOUT // 60} minutes.",
                hint="End it and try again.",
            ) from error
    try:
        yield
    finally:
        lock.release()


def _build(folder: Path, spec: EnvSpec, requirements: Sequence[str], report: Progress) -> Environment:
    if folder.exists():
        shutil.rmtree(folder)
    report("Making a virtual environment")
    python = _python(folder)
    # Ours can install into the other environment: giving it its own takes longer than numpy.
    if find_spec("pip"):
        _run([sys.executable, "-m", "venv", "--without-pip", str(folder)], folder.parent, report)
        pip = [sys.executable, "-m", "pip", "--python", str(python)]
    else:
        _run([sys.executable, "-m", "venv", str(folder)], folder.parent, report)
        pip = [str(python), "-m", "pip"]
    quiet = ["--disable-pip-version-check", "--no-input", "--progress-bar", "off"]
    _run([*pip, "install", *quiet, "--", *requirements], folder, report)
    if spec.alone:
        _run([*pip, "install", *quiet, "--no-deps", "--", *spec.alone], folder, report)
    freeze = _installed(folder)
    marker = folder / _MARKER
    draft = marker.with_suffix(".draft")
    content = {"spec": spec.requirements, "alone": spec.alone, "requirements": requirements, "freeze": freeze}
    draft.write_text(json.dumps(content, indent=1))
    # The marker appears last and all at once: a folder without it was interrupted, and is built again.
    draft.replace(marker)
    return Environment(python, spec, folder.name, freeze)


def _run(command: Sequence[str], folder: Path, report: Progress) -> None:
    """Run venv or pip in `folder`, where no file lies that pip could take for a package."""
    lines: list[str] = []
    with subprocess.Popen(
        command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            for line in process.stdout or ():
                lines.append(line.strip())
                if lines[-1].startswith(_STEPS):
                    report(lines[-1].partition(" (from ")[0][:120])
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        raise EnvironmentBuildError(
            f"The environment could not be made: {_decisive(lines)}",
            hint=f"Check names and versions (Python here is {platform.python_version()}) and the network.",
        )


def _decisive(lines: Sequence[str]) -> str:
    """The one line of pip's output that says why."""
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR:")]
    decisive = [line for line in errors if any(word in line for word in _DECISIVE)]
    for candidates in (decisive, errors, [line for line in lines if line]):
        if candidates:
            return candidates[-1][:300].rstrip(".") + "."
    return "no reason was given."


def _read(folder: Path) -> Environment | None:
    """The environment in this folder, or None where it is incomplete or its interpreter is gone."""
    python = _python(folder)
    try:
        marker = json.loads((folder / _MARKER).read_text())
        spec = EnvSpec(tuple(marker["spec"]), tuple(marker.get("alone", ())))
        environment = Environment(python, spec, folder.name, dict(marker["freeze"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return environment if python.exists() else None


def _completed(spec: EnvSpec, needs: Sequence[str]) -> tuple[str, ...]:
    """What the specification leaves open comes from the plug-in, and numpy from the worker's needs."""
    wanted = list(spec.requirements)
    for source in (needs, _WORKER_NEEDS):
        named = {_name(requirement) for requirement in wanted}
        missing = [_parsed(requirement) for requirement in source if _name(requirement) not in named]
        wanted += [_formatted(piece) for piece in missing if piece.marker is None or piece.marker.evaluate()]
    return tuple(sorted(wanted))


def _key(requirements: Iterable[str], alone: Iterable[str] = ()) -> str:
    interpreter = [platform.python_implementation(), platform.python_version(), sys.platform, platform.machine()]
    identity = [_LAYOUT, list(requirements), *interpreter]
    # Only where there are any: environments that were built before this field existed keep their key.
    if alone:
        identity.append(list(alone))
    text = json.dumps(identity)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _normal(piece: str) -> str:
    """One requirement of the user's, checked, in normal form."""
    requirement = _parsed(piece)
    if requirement.url:
        raise _refused(piece, "it gives an address")
    if requirement.marker:
        raise _refused(piece, "it carries a condition")
    if any(part.operator == "===" for part in requirement.specifier):
        raise _refused(piece, "=== takes any text for a version, also a path")
    if _ARCHIVE.search(piece.strip()):
        raise _refused(piece, "it looks like a file")
    return _formatted(requirement)


def _formatted(requirement: Requirement) -> str:
    """Written again from its parts, so that nothing unread reaches pip."""
    from packaging.utils import canonicalize_name

    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    versions = ",".join(sorted(str(part) for part in requirement.specifier))
    return f"{canonicalize_name(requirement.name)}{extras}{versions}"


def _parsed(piece: str) -> Requirement:
    from packaging.requirements import InvalidRequirement, Requirement

    if piece.lstrip().startswith("-"):
        raise _refused(piece, "it is an option of pip")
    try:
        return Requirement(piece)
    except InvalidRequirement as error:
        raise _refused(piece, "it is not a package with versions") from error


def _name(requirement: str) -> str:
    from packaging.utils import canonicalize_name

    return canonicalize_name(_parsed(requirement).name)


def _refused(text: str, why: str) -> EnvironmentBuildError:
    return EnvironmentBuildError(
        f"{text[:80]!r} cannot be part of an environment: {why}.",
        hint="Write packages and versions only, such as 'onnxruntime==1.20.1,numpy<2'.",
    )


def _root() -> Path:
    return cache_dir() / "envs"


def _python(folder: Path) -> Path:
    return Path(_path("scripts", folder)) / ("python.exe" if sys.platform == "win32" else "python")


def _installed(folder: Path) -> dict[str, str]:
    from packaging.utils import canonicalize_name

    installed = metadata.distributions(path=[_path("purelib", folder)])
    return {str(canonicalize_name(package.name)): package.version for package in installed}


def _path(name: str, folder: Path) -> str:
    return sysconfig.get_path(name, "venv", vars={"base": str(folder), "platbase": str(folder)})
