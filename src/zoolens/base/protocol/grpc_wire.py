"""Requests and answers as the bytes that gRPC carries, without parsing what was parsed before and without copies.

A client sends the same names, types and shapes again and again, and then the raw contents of its tensors. What stands
before them is parsed by protobuf once and kept; the raw contents are used where they lie. Whatever is written in
another order, or has its values elsewhere, is parsed by protobuf as a whole.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from zoolens.base.protocol.datatypes import Buffer, datatype_of, to_bytes
from zoolens.base.protocol.grpc_messages import (
    DescribedTensors,
    RequestHead,
    described_tensors,
    request_from_protobuf,
    request_head,
    response_to_protobuf,
)
from zoolens.base.protocol.limits import DEFAULT, Limits, invalid
from zoolens.base.protocol.messages import InferRequest, InferResponse, Parameter
from zoolens.base.protocol.protobuf import message
from zoolens.base.protocol.rest import NOBODY, Caller

_KEPT_BYTES: Final = 2048
_KEPT: Final = 512
_BYTES_FIELD: Final = 2  # how protobuf marks a field that has its length before it
_RAW_INPUT: Final = 7 << 3 | _BYTES_FIELD  # the mark of ModelInferRequest.raw_input_contents
_RAW_OUTPUT: Final = 6 << 3 | _BYTES_FIELD  # of ModelInferResponse.raw_output_contents
_INFER_RESPONSE: Final = 2 << 3 | _BYTES_FIELD  # of ModelStreamInferResponse.infer_response
_MOST_LENGTH_BYTES: Final = 5


def parse(kind: Any, content: bytes) -> Any:
    """The message of this class that the bytes are; ServingError where they are something else."""
    from google.protobuf.message import DecodeError

    try:
        return kind.FromString(content)
    except DecodeError:
        raise invalid(f"The message is not a {kind.DESCRIPTOR.name} of the protocol.") from None


def decode_request(content: bytes, limits: Limits = DEFAULT, caller: Caller = NOBODY) -> InferRequest:
    """The request in a serialised ModelInferRequest."""
    parts = split(content)
    if parts is None:
        return request_from_protobuf(parse(message("ModelInferRequest"), content), limits, caller)
    beginning, raw = parts
    head, tensors = (_kept_head if len(beginning) <= _KEPT_BYTES else _head)(beginning, limits)
    return head.request(tensors.read(raw, limits, aligned=False), caller)


def split(content: bytes) -> tuple[bytes, list[memoryview]] | None:
    """What stands before the raw contents of a ModelInferRequest, and these; None where it has none, or something else
    stands behind them. All fields that the message has carry their length, and its names have one byte."""
    size = len(content)
    before = _beginnings.get(size)
    if before is not None and content.startswith(before):
        # What a message of this length began with: one tensor behind it is the rest.
        length, place = _length(content, len(before) + 1)
        if content[len(before)] == _RAW_INPUT and 0 <= length == size - place:
            return before, [memoryview(content)[place:]]
    parts = _split(content)
    if parts is not None and len(parts[1]) == 1 and len(parts[0]) <= _KEPT_BYTES:
        if len(_beginnings) >= _KEPT:
            _beginnings.clear()
        _beginnings[size] = parts[0]
    return parts


_beginnings: dict[int, bytes] = {}  # of messages with one tensor, by the length of the whole


def _split(content: bytes) -> tuple[bytes, list[memoryview]] | None:
    view, size, place = memoryview(content), len(content), 0
    beginning, raw = size, list[memoryview]()
    while place < size:
        mark = content[place]
        if mark == _RAW_INPUT:
            beginning = min(beginning, place)
        elif raw or mark & 0x87 != _BYTES_FIELD:
            return None
        length, place = _length(content, place + 1)
        end = place + length
        if length < 0 or end > size:
            return None
        if mark == _RAW_INPUT:
            raw.append(view[place:end])
        place = end
    return (content[:beginning], raw) if raw else None


def _length(content: bytes, place: int) -> tuple[int, int]:
    """The number at this place, in groups of seven bits, and the place behind it; -1 where there is none."""
    length = 0
    for shift, byte in enumerate(content[place : place + _MOST_LENGTH_BYTES]):
        length |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return length, place + shift + 1
    return -1, place


def _head(beginning: bytes, limits: Limits) -> tuple[RequestHead, DescribedTensors]:
    protobuf = parse(message("ModelInferRequest"), beginning)
    return request_head(protobuf, limits), described_tensors(protobuf.inputs, limits)


_kept_head = lru_cache(_KEPT)(_head)


def encode_response(response: InferResponse) -> bytes:
    """A serialised ModelInferResponse with the tensors as raw contents."""
    return b"".join(response_parts(response))


def response_parts(response: InferResponse) -> list[Buffer]:
    """A serialised ModelInferResponse in parts that follow each other; its tensors are not copied."""
    blobs = [to_bytes(tensor) for tensor in response.outputs.values()]
    described = tuple((name, datatype_of(tensor.dtype), tensor.shape) for name, tensor in response.outputs.items())
    parameters = tuple(response.parameters.items())
    types = tuple(map(type, response.parameters.values()))
    parts: list[Buffer] = [_beginning(response.model, response.version, response.id, parameters, described, types)]
    for blob in blobs:
        parts += (_marked(_RAW_OUTPUT, len(blob)), blob)
    return parts


def encode_streamed(response: InferResponse) -> bytes:
    """A serialised ModelStreamInferResponse with this answer."""
    content = encode_response(response)
    return _marked(_INFER_RESPONSE, len(content)) + content


@lru_cache(_KEPT)
def _beginning(
    model: str,
    version: str,
    request_id: str,
    parameters: tuple[tuple[str, Parameter], ...],
    described: tuple[tuple[str, str, tuple[int, ...]], ...],
    _types: tuple[type, ...],  # True and 1 are equal, but written differently
) -> bytes:
    """An answer without the values of its tensors; the same for most answers of a model."""
    protobuf = response_to_protobuf(InferResponse(model, version, {}, request_id, dict(parameters)))
    for name, datatype, shape in described:
        protobuf.outputs.add(name=name, datatype=datatype, shape=shape)
    serialised: bytes = protobuf.SerializeToString()
    return serialised


def _marked(mark: int, length: int) -> bytes:
    """What protobuf writes before the bytes of a field."""
    written = bytearray((mark,))
    while length >= 0x80:
        written.append(length & 0x7F | 0x80)
        length >>= 7
    written.append(length)
    return bytes(written)
