"""Inference requests and answers as bodies of HTTP, in both directions: JSON, and binary tensors behind the JSON.

With the binary_tensor_data extension a body is JSON followed by the bytes of those tensors whose parameters say
`binary_data_size`, in their order; the header `Inference-Header-Content-Length` says where the JSON ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from zoolens.base.protocol import json_text
from zoolens.base.protocol.datatypes import Buffer, datatype_of, from_bytes, to_bytes
from zoolens.base.protocol.json_tensors import tensor_to_json
from zoolens.base.protocol.limits import DEFAULT, Limits, check_body, invalid
from zoolens.base.protocol.messages import (
    InferRequest,
    InferResponse,
    ModelMetadata,
    Parameter,
    RequestedOutput,
    Tensor,
)
from zoolens.base.protocol.rest_header import Header, Side, read_header

HEADER_LENGTH: Final = "Inference-Header-Content-Length"
_ALIGNMENT: Final = 16
_NONE: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True)
class Caller:
    """What a request's transport knows of who sent it; see `InferRequest`. `timeout` is in seconds."""

    timeout: float | None = None
    traceparent: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def deadline(self, own: float | None) -> float | None:
        """The earlier of the caller's deadline and that of the request itself."""
        if own is None or self.timeout is None:
            return self.timeout if own is None else own
        return min(own, self.timeout)


NOBODY: Final = Caller()


@dataclass(frozen=True)
class Body:
    """A body in the parts that are to be sent one behind the other; `header_length` is None where all of it is JSON."""

    parts: tuple[Buffer, ...]
    header_length: int | None = None

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def content(self) -> bytes:
        return b"".join(self.parts)

    @property
    def content_type(self) -> str:
        return "application/json" if self.header_length is None else "application/octet-stream"

    @property
    def headers(self) -> dict[str, str]:
        length = {} if self.header_length is None else {HEADER_LENGTH: str(self.header_length)}
        return {"Content-Type": self.content_type, **length}


def parse_header_length(value: str | None) -> int | None:
    """The value of the header `Inference-Header-Content-Length`."""
    if value is None:
        return None
    if not (value.isascii() and value.isdigit()) or len(value) > len(str(1 << 62)):
        raise invalid(f"The header {HEADER_LENGTH} must be an integer.")
    return int(value)


def encode_request(request: InferRequest, *, binary: bool = True) -> Body:
    """The body that asks for this inference. `binary`: the input tensors go as bytes behind the JSON."""
    data: dict[str, Any] = {"id": request.id} if request.id else {}
    if request.parameters:
        data["parameters"] = dict(request.parameters)
    tensors, blobs = _encode_tensors(request.inputs.items(), request.inputs if binary else ())
    data["inputs"] = tensors
    if request.outputs:
        data["outputs"] = [_requested_as_data(output) for output in request.outputs]
    return _body(data, blobs)


def decode_request(
    model: str,
    version: str,
    content: Buffer,
    header_length: int | None = None,
    limits: Limits = DEFAULT,
    caller: Caller = NOBODY,
) -> InferRequest:
    """The request in a body for this model. The parameter `timeout`, in microseconds, sets its deadline, too."""
    header, start = _split(content, header_length, "inputs", limits)
    return InferRequest(
        model,
        header.read(content, start, limits),
        version,
        header.id,
        header.outputs,
        header.parameters,
        caller.deadline(header.deadline),
        caller.traceparent,
        caller.headers,
    )


def raw_request(
    metadata: ModelMetadata, version: str, content: Buffer, limits: Limits = DEFAULT, caller: Caller = NOBODY
) -> InferRequest:
    """The request in a body without any JSON, which a header length of 0 announces: one row of the only input.

    Its outputs are wanted as binary data.
    """
    check_body(len(content), limits)
    if len(metadata.inputs) != 1:
        raise invalid(
            f"A body without JSON needs a model with one input; {metadata.name!r} has {len(metadata.inputs)}."
        )
    (tensor,) = metadata.inputs
    shape = tuple(1 if place == 0 and size == -1 else size for place, size in enumerate(tensor.shape))
    if -1 in shape:
        raise invalid(
            f"A body without JSON does not say the shape of input {tensor.name!r}, which has free dimensions."
        )
    inputs = {tensor.name: from_bytes(tensor.name, tensor.datatype, shape, content, limits)}
    return InferRequest(
        metadata.name,
        inputs,
        version,
        parameters={"binary_data_output": True},
        deadline=caller.deadline(None),
        traceparent=caller.traceparent,
        headers=caller.headers,
    )


def encode_response(response: InferResponse, request: InferRequest, as_json: Set[str] | None = None) -> Body:
    """The body of an answer; the request says which of its tensors are wanted as binary data. `as_json`: what
    `outputs_as_json` says, where that is known."""
    as_json = outputs_as_json(response, request) if as_json is None else as_json
    outputs = response.outputs.items()
    if not as_json:
        blobs = [to_bytes(tensor) for _, tensor in outputs]
        described = tuple(
            (name, datatype_of(tensor.dtype), tensor.shape, len(blob))
            for (name, tensor), blob in zip(outputs, blobs, strict=True)
        )
        about = (response.model, response.version, response.id, tuple(response.parameters.items()))
        header = _binary_header(*about, described, tuple(map(type, response.parameters.values())))
        return Body((header, *blobs), len(header)) if blobs else Body((header,))
    data = _response_data(response.model, response.version, response.id, response.parameters.items())
    data["outputs"], blobs = _encode_tensors(outputs, response.outputs.keys() - as_json)
    return _body(data, blobs)


def outputs_as_json(response: InferResponse, request: InferRequest) -> Set[str]:
    """The outputs that the client wants in the JSON, not behind it."""
    usual = request.parameters.get("binary_data_output") is True
    if usual and not request.outputs:
        return _NONE
    wanted = {output.name: output.binary for output in request.outputs}
    return {name for name in response.outputs if not wanted.get(name, usual)}


def decode_response(content: Buffer, header_length: int | None = None, limits: Limits = DEFAULT) -> InferResponse:
    """The answer in a body that a server sent."""
    header, start = _split(content, header_length, "outputs", limits)
    tensors = header.read(content, start, limits)
    return InferResponse(header.model, header.version, tensors, header.id, header.parameters)


# --- writing


def _encode_tensors(
    tensors: Iterable[tuple[str, Tensor]], binary: Iterable[str]
) -> tuple[list[dict[str, Any]], list[Buffer]]:
    described, blobs, as_binary = [], [], frozenset(binary)
    for name, tensor in tensors:
        item: dict[str, Any] = {"name": name, "datatype": datatype_of(tensor.dtype), "shape": list(tensor.shape)}
        if name in as_binary:
            blob = to_bytes(tensor)
            item["parameters"] = {"binary_data_size": len(blob)}
            blobs.append(blob)
        else:
            item["data"] = tensor_to_json(name, tensor)
        described.append(item)
    return described, blobs


def _requested_as_data(output: RequestedOutput) -> dict[str, Any]:
    parameters = {**output.parameters, "binary_data": output.binary}
    if output.classes:
        parameters["classification"] = output.classes
    return {"name": output.name, "parameters": parameters}


@lru_cache(512)
def _binary_header(
    model: str,
    version: str,
    request_id: str,
    parameters: tuple[tuple[str, Parameter], ...],
    described: tuple[tuple[str, str, tuple[int, ...], int], ...],
    _types: tuple[type, ...],  # True and 1 are equal, but written differently
) -> bytes:
    """The JSON of an answer whose tensors all lie behind it; the same for most answers of a model."""
    data = _response_data(model, version, request_id, parameters)
    data["outputs"] = [
        {"name": name, "datatype": datatype, "shape": list(shape), "parameters": {"binary_data_size": size}}
        for name, datatype, shape, size in described
    ]
    return _padded(json_text.dump(data))


def _response_data(
    model: str, version: str, request_id: str, parameters: Iterable[tuple[str, Parameter]]
) -> dict[str, Any]:
    data: dict[str, Any] = {"model_name": model, "model_version": version}
    if request_id:
        data["id"] = request_id
    if named := dict(parameters):
        data["parameters"] = named
    return data


def _body(data: dict[str, Any], blobs: list[Buffer]) -> Body:
    header = json_text.dump(data)
    if not blobs:
        return Body((header,))
    header = _padded(header)
    return Body((header, *blobs), len(header))


def _padded(header: bytes) -> bytes:
    """Pads the header with spaces, so that its reader can use the first tensor where it lies."""
    return header + b" " * (-len(header) % _ALIGNMENT)


def _split(content: Buffer, header_length: int | None, side: Side, limits: Limits) -> tuple[Header, int]:
    """What the JSON of a body says, and where it ends."""
    size = len(content)
    check_body(size, limits)
    if header_length is None:
        header = read_header(content, side, limits)
        if header.binary:
            raise invalid(f"A tensor is said to be binary, but the header {HEADER_LENGTH} is absent.")
        return header, size
    if not 0 <= header_length <= size:
        raise invalid(f"The header {HEADER_LENGTH} says {header_length:,}, but the body has {size:,} bytes.")
    return read_header(content[:header_length], side, limits), header_length
