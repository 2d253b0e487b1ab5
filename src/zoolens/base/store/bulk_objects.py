"""Bulk facts in an object store that speaks S3, through pyarrow's own file system.

A PUT of an object is atomic: readers see all of it or nothing. Credentials come from the environment or from where the
AWS SDK finds them; none is kept, and none is shown: of what the server says, only the name of its error is passed on.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import IO, TYPE_CHECKING, Any, Final, TypeVar, cast
from urllib.parse import parse_qsl, urlsplit

from zoolens.base.errors import MissingDependency, StoreError
from zoolens.base.store.bulk_place import MARKER
from zoolens.base.store.retry import Unavailable, with_patience

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

T = TypeVar("T")

SCHEME: Final = "s3"
FORM: Final = "s3://bucket/prefix?region=eu-west-1&endpoint_override=host:9000&scheme=http"
_OPTIONS: Final = ("region", "endpoint_override", "scheme", "tls_ca_file_path")
_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")  # as the AWS SDKs read them
_CLOCK: Final = "clock/"  # before the names of objects whose only use is the time at which the server wrote them
_CODE: Final = re.compile(r"AWS Error (\w+)(?: during (\w+))?")
_PASSING: Final = frozenset(
    {
        "NETWORK_CONNECTION",
        "SLOW_DOWN",
        "THROTTLING",
        "SERVICE_UNAVAILABLE",
        "INTERNAL_FAILURE",
        "REQUEST_TIMEOUT",
        "REQUEST_EXPIRED",
    }
)
_REFUSED: Final = frozenset(
    {
        "ACCESS_DENIED",
        "INVALID_ACCESS_KEY_ID",
        "INVALID_CLIENT_TOKEN_ID",
        "INVALID_SIGNATURE",
        "MISSING_AUTHENTICATION_TOKEN",
        "NOT_SIGNED_IN",
        "SIGNATURE_DOES_NOT_MATCH",
        "UNRECOGNIZED_CLIENT",
        "EXPIRED_TOKEN",
    }
)
_CREDENTIALS: Final = (
    "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, and check what the bucket allows that user."
)


class BulkObjects:
    """See `bulk_place.BulkPlace`. `root`: the bucket and the prefix within it. `connect` makes the file system when it
    is first needed, since importing pyarrow takes longer than most commands that look at rows alone."""

    def __init__(self, root: str, connect: Callable[[], FileSystem], patience: float) -> None:
        self.root, self._connect, self._patience = root, connect, patience

    @cached_property
    def _files(self) -> FileSystem:
        return self._connect()

    @property
    def name(self) -> str:
        return f"{SCHEME}://{self.root}"

    def address(self, name: str) -> str:
        return f"{SCHEME}://{self.root}/{name}"

    def put(self, name: str, content: bytes | memoryview) -> None:
        def write() -> None:
            with self._files.open_output_stream(f"{self.root}/{name}") as stream:
                stream.write(content)

        # The name is ours alone, so that a second try writes the same bytes once more.
        self._try(write)

    def put_pieces(self, name: str, pieces: Callable[[], Iterator[bytes]]) -> None:
        """pyarrow sends parts of ten megabytes, which become an object when the stream is closed. It cannot be told to
        give up: closed after an error of `pieces`, the stream makes an object of what was sent, which is removed."""

        def write() -> None:
            with self._files.open_output_stream(f"{self.root}/{name}") as stream:
                for piece in pieces():
                    stream.write(piece)

        try:
            self._try(write)
        except BaseException:
            self.remove(name)
            raise

    def get(self, name: str) -> bytes:
        def read() -> bytes:
            with self._files.open_input_stream(f"{self.root}/{name}") as stream:
                content: bytes = stream.read()
                return content

        try:
            return self._try(read)
        except FileNotFoundError:
            self._require_bucket()
            raise

    def open(self, name: str) -> IO[bytes]:
        # pyarrow's files have the methods of Python's, but not their class.
        return cast("IO[bytes]", self._try(lambda: self._files.open_input_file(f"{self.root}/{name}")))

    def pieces(self, name: str, length: int) -> Iterator[bytes]:
        place = 0
        with self.open(name) as file:
            # By position, so that a request can be tried again.
            while piece := self._try(partial(cast("Any", file).read_at, length, place)):
                place += len(piece)
                yield piece

    def size(self, name: str) -> int | None:
        info = self._info(f"{self.root}/{name}")
        return int(info.size) if info.is_file else None

    def has(self, name: str) -> bool:
        return bool(self._info(f"{self.root}/{name}").is_file)

    def remove(self, name: str) -> bool:
        # It is litter that the next sweep removes: no reason to stop anybody's work.
        try:
            self._files.delete_file(f"{self.root}/{name}")
        except FileNotFoundError:
            return True
        except (OSError, StoreError):
            return False
        return True

    def names(self, older_than: float | None = None) -> list[str]:
        from pyarrow.fs import FileSelector

        selector = FileSelector(self.root, recursive=True, allow_not_found=True)
        found = [info for info in self._try(lambda: self._files.get_file_info(selector)) if info.is_file]
        if not found:
            self._require_bucket()
        if older_than is not None and found:
            limit = self._now() - older_than
            found = [info for info in found if info.mtime_ns / 1e9 <= limit]
        names = sorted(info.path.removeprefix(f"{self.root}/") for info in found)
        if older_than is not None:
            self._remove_clocks(names)
        return [name for name in names if not name.startswith((_CLOCK, MARKER))]

    def _remove_clocks(self, names: Sequence[str]) -> None:
        """A process that was killed while it asked for the time left its object; no part is ever named so."""
        for name in names:
            if name.startswith(_CLOCK):
                self.remove(name)

    def _now(self) -> float:
        """The server's clock, by which objects are dated: ours may be hours off."""
        name = f"{_CLOCK}{secrets.token_hex(8)}"
        self.put(name, b"")
        written: int | None = self._info(f"{self.root}/{name}").mtime_ns
        self.remove(name)
        return time.time() if written is None else written / 1e9

    def _info(self, path: str) -> Any:
        return self._try(lambda: self._files.get_file_info(path))

    def _require_bucket(self) -> None:
        """To a server that lacks the bucket, an object is merely not found."""
        bucket = self.root.partition("/")[0]
        from pyarrow.fs import FileType

        if self._info(bucket).type is FileType.NotFound:
            raise _no_bucket(self.root)

    def _try(self, action: Callable[[], T]) -> T:
        import pyarrow as pa

        def once() -> T:
            try:
                return action()
            except FileNotFoundError:
                raise
            except (OSError, pa.ArrowInvalid) as error:
                # ArrowInvalid, a ValueError: what pyarrow refuses before it asks the server.
                raise _explained(error, self.root) from error

        return with_patience(once, self.name, self._patience)


def bulk_objects(url: str, folder: str, patience: float) -> BulkObjects:
    """The objects of one store below the prefix that a URL such as `FORM` names."""
    options, root = _parsed(url)
    return BulkObjects(f"{root}/{folder}", lambda: _connected(root, options), patience)


def _parsed(url: str) -> tuple[dict[str, str], str]:
    parts = urlsplit(url)
    # The URL itself is shown nowhere: somebody may have written a key into it.
    if parts.scheme != SCHEME:
        raise StoreError(f"Bulk facts cannot be kept in {parts.scheme}://.", hint=f"Name a folder, or {FORM}.")
    if "@" in parts.netloc:
        raise StoreError("The URL of the object store holds credentials, which would be shown.", hint=_CREDENTIALS)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    unknown = sorted(set(options) - set(_OPTIONS))
    if unknown:
        raise StoreError(
            f"The URL of the object store has an unknown option, {unknown[0]!r}.",
            hint=f"There are {', '.join(_OPTIONS)}.",
        )
    root = f"{parts.netloc}{parts.path}".strip("/")
    if not parts.netloc:
        raise StoreError("The URL of the object store names no bucket.", hint=f"It looks like {FORM}.")
    if "" in root.split("/"):
        raise StoreError("The URL of the object store has two slashes in its path.", hint=f"It looks like {FORM}.")
    return options, root


def _connected(root: str, options: Mapping[str, str]) -> FileSystem:
    try:
        from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem
    except ImportError as error:
        raise MissingDependency("An object store", "pyarrow with S3", None) from error
    chosen = {name: value for name, value in options.items() if value}
    endpoint = next((os.environ[name] for name in _ENDPOINTS if os.environ.get(name)), None)
    if endpoint is not None and "endpoint_override" not in chosen:
        scheme, _, host = endpoint.rpartition("://")
        chosen["endpoint_override"] = host.rstrip("/")
        chosen.setdefault("scheme", scheme or "https")
    try:
        # One try: `with_patience` repeats it, and says so. Delayed open: a small object is one PUT, not three requests.
        # Not in the background: parts of a file that is read faster than it is sent would fill the memory.
        return S3FileSystem(
            **chosen,
            allow_delayed_open=True,
            background_writes=False,
            retry_strategy=AwsStandardS3RetryStrategy(max_attempts=1),
        )
    except (OSError, ValueError, TypeError) as error:
        raise StoreError(f"The object store {SCHEME}://{root} cannot be reached: its options are wrong.") from error


def _explained(error: Exception, root: str) -> Exception:
    """What went wrong as a sentence, or as `Unavailable` where it may pass."""
    text = str(error)
    found = _CODE.search(text)
    code, operation = found.groups() if found else ("", None)
    during = f"{code} during {operation}" if operation else code
    if code == "NO_SUCH_BUCKET":
        return _no_bucket(root)
    if code == "REQUEST_TIME_TOO_SKEWED":
        return StoreError(
            f"The object store {SCHEME}://{root} refuses access: the clock of this machine is off ({during}).",
            hint="Set this machine's clock, for example by NTP: S3 accepts a difference of at most 15 minutes.",
        )
    if code in _REFUSED or "HTTP status 403" in text or "HTTP status 401" in text:
        return StoreError(f"The object store {SCHEME}://{root} refuses access ({during}).", hint=_CREDENTIALS)
    if "resolve host" in text:
        return StoreError(
            f"The object store {SCHEME}://{root} cannot be reached: its host is unknown.",
            hint="Check endpoint_override in ZOOLENS_BULK, or AWS_ENDPOINT_URL.",
        )
    if code in _PASSING or re.search(r"HTTP status (5\d\d|429)", text):
        return Unavailable("no connection" if code == "NETWORK_CONNECTION" else during or "the server is busy")
    return StoreError(
        f"The object store {SCHEME}://{root} cannot be used: {during or type(error).__name__}.",
        hint="Check ZOOLENS_BULK and the bucket.",
    )


def _no_bucket(root: str) -> StoreError:
    bucket = root.partition("/")[0]
    return StoreError(
        f"There is no bucket {bucket!r} in the object store.", hint="Make it, or set ZOOLENS_BULK to another."
    )
