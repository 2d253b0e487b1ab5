"""Fetch one file over HTTPS: streamed to a temporary name, verified, then moved into place at once."""

from __future__ import annotations

import hashlib
import http.client
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, NoReturn

from zoolens.base.errors import AssetError
from zoolens.base.paths import replaced_file
from zoolens.base.protocol.address import is_loopback
from zoolens.inventory.manifests.addresses import opener_for

Downloaded = Callable[[int, int | None], None]  # bytes so far, bytes in all where known

MAX_BYTES = 64 << 30  # no model file is larger; a server that streams for ever must not fill the disk
_CHUNK = 1 << 20
_TIMEOUT_S = 30
_MAX_REDIRECTS = 10
_REDIRECTS = (301, 302, 303, 307, 308)


def download(
    url: str, target: Path, *, sha256: str, size: int | None = None, progress: Downloaded | None = None
) -> None:
    """Put the content of `url` at `target`, or raise AssetError and leave nothing behind."""
    check_url(url)
    with replaced_file(target) as stream:
        digest = _stream(url, stream, size, progress)
        if not digest.startswith(sha256):
            raise AssetError(
                f"{url} was fetched but its SHA-256 is {digest}, not {sha256} as the manifest says.",
                hint="The file was altered or replaced at its source: do not use it, or correct the manifest.",
            )


def check_url(url: str) -> None:
    """HTTPS only; plain HTTP is for a server on this machine."""
    try:
        parts = urllib.parse.urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise AssetError(f"{url!r} is not an address: {error}.", hint="Use an https:// address.") from error
    if parts.scheme == "https" and parts.hostname:
        return
    if parts.scheme == "http" and is_loopback(parts.hostname or ""):
        return
    raise AssetError(f"{url} cannot be used: models are fetched over https only.", hint="Use an https:// address.")


def _opened(url: str) -> Any:
    """The answer of the server where a chain of redirects ends; every step of it is judged like the first."""
    for _ in range(_MAX_REDIRECTS):
        check_url(url)
        request = urllib.request.Request(url, headers={"User-Agent": "zoolens"})  # noqa: S310  (checked above)
        try:
            return opener_for(url).open(request, timeout=_TIMEOUT_S)
        except urllib.error.HTTPError as error:
            onward = error.headers.get("Location") if error.code in _REDIRECTS else None
            if not onward:
                raise
            error.close()
            url = urllib.parse.urljoin(url, onward)
    raise AssetError(f"{url} redirects more than {_MAX_REDIRECTS} times.", hint="Use another address.")


def copy_counted(
    source: IO[bytes], out: IO[bytes], limit: int, who: str, tell: Callable[[int], None] | None = None
) -> str:
    """The SHA-256 of what is copied. Bytes are counted as they come: a declared length may be absent or false."""
    hasher, count = hashlib.sha256(), 0
    while chunk := source.read(_CHUNK):
        count += len(chunk)
        if count > limit:
            raise AssetError(f"{who} has more than the {limit:,} bytes it should have.")
        hasher.update(chunk)
        out.write(chunk)
        if tell:
            tell(count)
    return hasher.hexdigest()


def _stream(url: str, out: IO[bytes], size: int | None, progress: Downloaded | None) -> str:
    def tell(count: int) -> None:
        if progress:
            progress(count, size or announced)

    try:
        with _opened(url) as answer:
            length = answer.headers.get("Content-Length", "")
            announced = int(length) if length.isdigit() else None
            digest = copy_counted(answer, out, size if size is not None else MAX_BYTES, url, tell)
    except urllib.error.HTTPError as error:
        _refused(url, f"the server answers {error.code} {error.reason}")
    except http.client.IncompleteRead:
        _truncated(url, out.tell())
    except (urllib.error.URLError, OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        _refused(url, f"{reason}")
    expected = size if size is not None else announced
    if expected is not None and out.tell() != expected:
        _truncated(url, out.tell(), expected)
    return digest


def _truncated(url: str, count: int, expected: int | None = None) -> NoReturn:
    of = f" of {expected:,}" if expected is not None else ""
    raise AssetError(f"The download of {url} stopped after {count:,}{of} bytes.", hint="Try again.")


def _refused(url: str, reason: str) -> NoReturn:
    raise AssetError(
        f"{url} cannot be fetched: {reason}.",
        hint="Check the address and the network, or fetch the file elsewhere and give its path in a manifest.",
    )
