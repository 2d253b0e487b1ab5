"""Files on the Hugging Face hub, written hf://owner/repository/path/to/file[@revision].

Looking whether a file is here reads the hub's cache folder directly; only fetching needs `huggingface_hub`.
"""

from __future__ import annotations

import os
import re
import socket
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from zoolens.base.errors import AssetError, MissingDependency, first_line
from zoolens.inventory.manifests.digests import sha256_file

_PATTERN = re.compile(r"^hf://([\w.-]+/[\w.-]+)/([^@]+?)(?:@([\w./-]+))?$")
# Formats that can be read without running code from them. A pickle is not among them.
PICKLES = (".bin", ".pkl", ".pickle", ".joblib", ".msgpack")


@dataclass(frozen=True)
class HubFile:
    repository: str
    path: str
    revision: str = "main"


def parse(location: str) -> HubFile:
    match = _PATTERN.match(location)
    if match is None or ".." in re.split("[/@]", location):
        raise AssetError(f"{location!r} is not a hub location.", hint="Write hf://owner/repository/file.")
    repository, path, revision = match.groups()
    if path.endswith(PICKLES):
        raise AssetError(
            f"{location} is a pickle, which can run any code when it is read.",
            hint="Use the .safetensors, .onnx or .tflite file of that repository.",
        )
    return HubFile(repository, path, revision or "main")


def cache_root() -> Path:
    """Where huggingface_hub keeps its files, by the same variables it reads."""
    cache = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    return _cache_root(
        cache, os.environ.get("HF_HOME"), os.environ.get("XDG_CACHE_HOME", "~/.cache"), os.environ.get("HOME")
    )


@lru_cache(4)  # a listing asks for thousands of models
def _cache_root(cache: str | None, home: str | None, user_cache: str, _user: str | None) -> Path:
    if cache:
        return Path(cache).expanduser()
    return Path(home or Path(user_cache, "huggingface")).expanduser() / "hub"


def cached(file: HubFile) -> Path | None:
    """The file in the hub's cache, or None."""
    folder = cache_root() / f"models--{file.repository.replace('/', '--')}"
    if not folder.is_dir():
        return None
    for snapshot in _snapshots(folder, file.revision):
        path = folder / "snapshots" / snapshot / file.path
        if path.is_file():
            return path
    return None


def fetch(file: HubFile) -> Path:
    try:
        from huggingface_hub import hf_hub_download
    except ImportError as error:
        raise MissingDependency("Fetching from the Hugging Face hub", "huggingface_hub", "huggingface") from error
    check_reachable()
    try:
        # Endpoint and cache are passed on: the client reads their variables once, at import.
        where = {"endpoint": endpoint_url(), "cache_dir": cache_root()}
        path = Path(hf_hub_download(file.repository, file.path, revision=file.revision, **where))
    except Exception as error:
        reason = first_line(error).rstrip(".")
        raise AssetError(
            f"{file.path} of {file.repository} cannot be fetched from the Hugging Face hub: {reason}.",
            hint="Check the name and the network; `zoolens pull` again when the hub can be reached.",
        ) from error
    _verify(path)
    return path


def endpoint_url() -> str:
    return os.environ.get("HF_ENDPOINT") or "https://huggingface.co"


def check_reachable() -> None:
    """One quick attempt before the hub's client, which would retry for half a minute without a network."""
    endpoint = urllib.parse.urlsplit(endpoint_url())
    if endpoint.hostname is None or endpoint.scheme in urllib.request.getproxies():
        return
    port = endpoint.port or (443 if endpoint.scheme == "https" else 80)
    try:
        socket.create_connection((endpoint.hostname, port), timeout=5).close()
    except OSError as error:
        raise AssetError(
            f"The Hugging Face hub cannot be reached: {error.strerror or error}.",
            hint="Check the network and try again; models that are already here need none.",
        ) from error


def _verify(path: Path) -> None:
    """The hub names large files by their SHA-256: a download that does not match its name is refused."""
    name = path.resolve().name
    if re.fullmatch(r"[0-9a-f]{64}", name) and sha256_file(path) != name:
        path.resolve().unlink()
        raise AssetError(f"{path.name} arrived damaged from the Hugging Face hub.", hint="Pull it again.")


def _snapshots(folder: Path, revision: str) -> Iterator[str]:
    reference = folder / "refs" / revision
    if reference.is_file():
        yield reference.read_text().strip()
    yield revision  # a commit is its own snapshot
