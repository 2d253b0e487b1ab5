"""Fetch one file over HTTPS: streamed to a temporary name, verified, then moved into place at once."""

from __future__ import annotations

import hashlib
import http.client
import ipaddress
import os
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from zoolens.errors import AssetError

Progress = Callable[[int, int | None], None]  # bytes so far, bytes in all where known

MAX_BYTES = 64 << 30  # no model file is larger; a server that streams for ever must not fill the disk
_CHUNK = 1 << 20
_TIMEOUT_S = 30


def download(url: str, target: Path, *, sha256: str, size: int | None = None, progress: Progress | None = None) -> None:
    """Put the content of `url` at `target`, or raise AssetError and leave nothing behind."""
    check_url(url)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".partial-")
    partial = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            found = _stream(url, stream, size, progress)
        if not found.startswith(sha256):
            raise AssetError(
                f"{url} was fetched but its SHA-256 is {found}, not {sha256} as the manifest says.",
                hint="The file was altered or replaced at its source: do not use it, or correct the manifest.",
            )
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def check_url(url: str) -> None:
    """HTTPS only; plain HTTP is for a server on this machine."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme == "https" and parts.hostname:
        return
    if parts.scheme == "http" and _is_loopback(parts.hostname or ""):
        return
    raise AssetError(f"{url} cannot be used: models are fetched over https only.", hint="Use an https:// address.")


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        check_url(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _stream(url: str, out: Any, size: int | None, progress: Progress | None) -> str:
    hasher, count = hashlib.sha256(), 0
    request = urllib.request.Request(url, headers={"User-Agent": "zoolens"})  # noqa: S310  (checked above)
    try:
        with urllib.request.build_opener(_SafeRedirects).open(request, timeout=_TIMEOUT_S) as answer:
            length = answer.headers.get("Content-Length", "")
            announced = int(length) if length.isdigit() else None
            limit = size if size is not None else MAX_BYTES
            while chunk := answer.read(_CHUNK):
                count += len(chunk)
                if count > limit:
                    raise AssetError(f"{url} sends more than the {limit:,} bytes it should have.")
                hasher.update(chunk)
                out.write(chunk)
                if progress:
                    progress(count, size or announced)
    except urllib.error.HTTPError as error:
        _refused(url, f"the server answers {error.code} {error.reason}")
    except http.client.IncompleteRead:
        _truncated(url, count)
    except (urllib.error.URLError, OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        _refused(url, f"{reason}")
    expected = size if size is not None else announced
    if expected is not None and count != expected:
        _truncated(url, count, expected)
    return hasher.hexdigest()


def _truncated(url: str, count: int, expected: int | None = None) -> NoReturn:
    of = f" of {expected:,}" if expected is not None else ""
    raise AssetError(f"{url} broke off after {count:,}{of} bytes.", hint="Try again.")


def _refused(url: str, reason: str) -> NoReturn:
    raise AssetError(
        f"{url} cannot be fetched: {reason}.",
        hint="Check the address and the network, or fetch the file elsewhere and give its path in a manifest.",
    )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
