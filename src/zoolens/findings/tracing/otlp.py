"""Spans as OTLP, the protocol of OpenTelemetry: protobuf over HTTP, made from columns and sent to any collector.

Collectors show a trace from its one outermost span, and some take its name and its length from it. Hundreds of repeated
calls have none, so that spans around them are added: one for all, one for each model in a runtime, and one for each
level that was observed, from the first of its calls to the last.
"""

from __future__ import annotations

import gzip
import hashlib
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from zoolens.base.errors import MissingDependency, ZoolensError
from zoolens.base.version import __version__

if TYPE_CHECKING:
    import pyarrow as pa

PATH: Final = "/v1/traces"
AT_ONCE: Final = 2_000  # spans of one request: collectors refuse bodies of more than some megabytes
TIMEOUT: Final = 30.0
_ALL: Final = "zoolens trace"  # the span around several models or runtimes that were traced together
_Row = Mapping[str, Any]
_TEXTS: Final = ("kind", "level", "observed", "kernel", "precision", "device")


def send_otlp(url: str, tables: Iterable[tuple[str, pa.Table]], headers: Mapping[str, str] | None = None) -> int:
    """Send tables of spans, each with the name of its service, to a collector, and return how many spans it took.

    A URL without a path gets the one of the protocol, /v1/traces. ZoolensError where the collector cannot be reached or
    refuses them.
    """
    address = endpoint(url)
    sent = 0
    for service, rows in with_outer_spans([(service, table.to_pylist()) for service, table in tables]):
        for start in range(0, len(rows), AT_ONCE):
            some = rows[start : start + AT_ONCE]
            _post(address, encode(service, some), headers or {})
            sent += len(some)
    return sent


def with_outer_spans(services: Sequence[tuple[str, list[_Row]]]) -> Iterator[tuple[str, list[_Row]]]:
    """The rows of all services, those of each trace below one outermost span. A trace that has one already, such as the
    recording of an application, stays as it is."""
    for trace_id in dict.fromkeys(row["trace_id"] for _, rows in services for row in rows):
        kept = ((service, [row for row in rows if row["trace_id"] == trace_id]) for service, rows in services)
        own = [(service, rows) for service, rows in kept if rows]
        inside = {row["span_id"] for _, rows in own for row in rows}
        outermost = [row for _, rows in own for row in rows if row["parent"] not in inside]
        if len(outermost) == 1:
            yield from own
            continue
        callers = {row["parent"] for row in outermost}
        parent = callers.pop() if len(callers) == 1 else None
        names = list(dict.fromkeys(service for service, _ in own))
        if len(names) > 1:
            whole = _around(outermost, (trace_id,), _ALL, "trace", parent)
            parent = whole["span_id"]
            yield _ALL, [whole]
        for name in names:
            rows = [row for service, rows in own if service == name for row in rows]
            yield name, list(_below_levels(name, rows, inside, parent))


def _below_levels(service: str, rows: Sequence[_Row], inside: set[int], parent: int | None) -> Iterator[_Row]:
    """One span around all rows, below it one around the calls of each observed level, and the rows below these."""
    outermost = [row for row in rows if row["parent"] not in inside]
    model = _around(outermost, (rows[0]["trace_id"], service), service, "model in a runtime", parent)
    yield model
    levels: dict[str, int] = {}
    for observed in dict.fromkeys(row["observed"] for row in outermost):
        calls = [row for row in outermost if row["observed"] == observed]
        name = "whole requests" if observed == "none" else f"{observed} observed"
        level = _around(calls, (rows[0]["trace_id"], service, observed), name, "level", model["span_id"])
        levels[observed] = level["span_id"]
        yield level
    for row in rows:
        yield row if row["parent"] in inside else {**row, "parent": levels[row["observed"]]}


def _around(rows: Sequence[_Row], identity: Sequence[str], name: str, kind: str, parent: int | None) -> _Row:
    """A span from the first of these to the last. The same trace has the same one when it is sent again."""
    start, end = min(row["time"] for row in rows), max(row["time"] + row["duration"] for row in rows)
    number = int.from_bytes(hashlib.sha256("\n".join(identity).encode()).digest()[:8]) or 1
    return {
        **dict.fromkeys(rows[0]),
        "name": name,
        "kind": kind,
        "time": start,
        "duration": end - start,
        "synthetic": False,
        "trace_id": rows[0]["trace_id"],
        "span_id": number,
        "parent": parent,
    }


def endpoint(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ZoolensError(f"{url!r} is not an address of a collector.", hint="Write http://host:4318.")
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
    if row["repeat"] is not None:
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
            response = answer.read(1 << 20)
    except urllib.error.HTTPError as error:
        words = error.read(300).decode(errors="replace").strip()
        raise ZoolensError(f"The collector at {address} refused the spans: {error.code} {words}") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise ZoolensError(
            f"The collector at {address} cannot be reached: {reason}.",
            hint="The trace is stored: `zoolens trace show`.",
        ) from error
    refused = _refused(response, ExportTraceServiceResponse)
    if refused:
        raise ZoolensError(f"The collector at {address} took only some of the spans: {refused}")


def _refused(response: bytes, kind: Any) -> str:
    """Why a collector that answered in the affirmative left spans out; empty where it did not."""
    from google.protobuf.message import DecodeError

    try:
        partial = kind.FromString(response).partial_success
    except DecodeError:
        # Some answer with JSON, or with nothing.
        return ""
    return f"{partial.rejected_spans} were refused. {partial.error_message}" if partial.rejected_spans else ""
