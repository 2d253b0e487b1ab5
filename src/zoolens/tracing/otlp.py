"""Spans as OTLP, the protocol of OpenTelemetry: protobuf over HTTP, made from columns and sent to any collector."""

from __future__ import annotations

import gzip
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from zoolens import __version__
from zoolens.errors import MissingDependency, ZoolensError

if TYPE_CHECKING:
    import pyarrow as pa

PATH: Final = "/v1/traces"
AT_ONCE: Final = 2_000  # spans of one request: collectors refuse bodies of more than some megabytes
TIMEOUT: Final = 30.0
_TEXTS: Final = ("kind", "level", "observed", "kernel", "precision", "device")


def send_otlp(url: str, tables: Iterable[tuple[str, pa.Table]], headers: Mapping[str, str] | None = None) -> int:
    """Send tables of spans, each with the name of its service, to a collector, and return how many spans it took.

    A URL without a path gets the one of the protocol, /v1/traces. ZoolensError where the collector cannot be reached or
    refuses them.
    """
    address = endpoint(url)
    sent = 0
    for service, table in tables:
        rows = table.to_pylist()
        for start in range(0, len(rows), AT_ONCE):
            some = rows[start : start + AT_ONCE]
            _post(address, encode(service, some), headers or {})
            sent += len(some)
    return sent


def endpoint(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ZoolensError(f"{url!r} is no address of a collector.", hint="Write http://host:4318.")
    return f"{url.rstrip('/')}{PATH}" if parts.path in ("", "/") else url


def encode(service: str, rows: Sequence[Mapping[str, Any]]) -> bytes:
    """The body of a request."""
    try:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
        from opentelemetry.proto.trace.v1.trace_pb2 import Span as Message
    except ImportError as error:
        raise MissingDependency("Sending spans", "opentelemetry-proto", "otlp") from error
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    _set(resource.resource.attributes, [("service.name", service)])
    scope = resource.scope_spans.add()
    scope.scope.name, scope.scope.version = "zoolens", __version__
    for row in rows:
        message = scope.spans.add()
        message.trace_id = bytes.fromhex(row["trace_id"])
        message.span_id = int(row["span_id"]).to_bytes(8)
        if row["parent"]:
            message.parent_span_id = int(row["parent"]).to_bytes(8)
        message.name, message.kind = row["name"], Message.SPAN_KIND_INTERNAL
        message.start_time_unix_nano, message.end_time_unix_nano = row["time"], row["time"] + row["duration"]
        _set(message.attributes, _attributes(row))
    body: bytes = request.SerializeToString()
    return body


def _attributes(row: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name in _TEXTS:
        if row[name] is not None:
            yield f"zoolens.{name}", row[name]
    if row["nodes"]:
        yield "zoolens.nodes", ", ".join(row["nodes"])
    if row["shapes"]:
        yield "zoolens.shapes", ", ".join("×".join(map(str, shape)) for shape in row["shapes"])
    yield "zoolens.repeat", row["repeat"]
    if row["clean"] is not None:
        yield "zoolens.clean", row["clean"]
    yield "zoolens.synthetic_start", row["synthetic"]
    if row["thread"] is not None:
        yield "thread.id", row["thread"]


def _set(attributes: Any, values: Iterable[tuple[str, Any]]) -> None:
    for name, value in values:
        attribute = attributes.add()
        attribute.key = name
        if isinstance(value, bool):
            attribute.value.bool_value = value
        elif isinstance(value, int):
            attribute.value.int_value = value
        else:
            attribute.value.string_value = str(value)


def _post(address: str, body: bytes, headers: Mapping[str, str]) -> None:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    request = urllib.request.Request(  # noqa: S310 - `endpoint` lets only http and https pass
        address,
        gzip.compress(body, 1),
        {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip", **headers},
        method="POST",
    )
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:  # noqa: S310
            told = answer.read(1 << 20)
    except urllib.error.HTTPError as error:
        words = error.read(300).decode(errors="replace").strip()
        raise ZoolensError(f"The collector at {address} refused the spans: {error.code} {words}") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise ZoolensError(
            f"The collector at {address} cannot be reached: {reason}.",
            hint="The trace is stored: `zoolens trace show`.",
        ) from error
    refused = _refused(told, ExportTraceServiceResponse)
    if refused:
        raise ZoolensError(f"The collector at {address} took only some of the spans: {refused}")


def _refused(told: bytes, kind: Any) -> str:
    """Why a collector that answered in the affirmative left spans out; empty where it did not."""
    from google.protobuf.message import DecodeError

    try:
        partial = kind.FromString(told).partial_success
    except DecodeError:  # some answer with JSON, or with nothing
        return ""
    return f"{partial.rejected_spans} were refused. {partial.error_message}" if partial.rejected_spans else ""
