"""Inference requests and answers as bodies of HTTP, in both directions: JSON, and binary tensors behind the JSON.

With the binary_tensor_data extension a body is JSON followed by the bytes of those tensors whose parameters say
`binary_data_size`, in their order; the header `Inference-Header-Content-Length` says where the JSON ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from zoolens.protocol import json_text
from zoolens.protocol.datatypes import Buffer, datatype_of, from_bytes, to_bytes
from zoolens.protocol.errors import Refusal, ServingError
from zoolens.protocol.json_tensors import tensor_from_json, tensor_to_json
from zoolens.protocol.limits import DEFAULT, Limits, check_body, check_count, invalid
from zoolens.protocol.messages import (
    InferRequest,
    InferResponse,
    ModelMetadata,
    Parameter,
    RequestedOutput,
    Tensor,
)

HEADER_LENGTH: Final = "Inference-Header-Content-Length"
MICROSECOND: Final = 1e-6
_ALIGNMENT: Final = 16


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
        raise invalid(f"The header {HEADER_LENGTH} must be a whole number.")
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
    model: str, version: str, content: Buffer, header_length: int | None = None, limits: Limits = DEFAULT
) -> InferRequest:
    """The request in a body for this model. The parameter `timeout`, in microseconds, becomes its deadline."""
    data, blobs = _split(content, header_length, limits)
    parameters = json_text.parameters(data.get("parameters"), limits)
    return InferRequest(
        model=model,
        version=version,
        id=json_text.text(data.get("id") or "", "The id of a request", limits),
        inputs=_decode_tensors(data.get("inputs"), "inputs", blobs, limits),
        outputs=_decode_requested(data.get("outputs"), parameters, limits),
        parameters=parameters,
        deadline=deadline_of(parameters),
    )


def raw_request(metadata: ModelMetadata, version: str, content: Buffer, limits: Limits = DEFAULT) -> InferRequest:
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
    return InferRequest(metadata.name, inputs, version=version, parameters={"binary_data_output": True})


def deadline_of(parameters: Mapping[str, Parameter]) -> float | None:
    """Seconds until the deadline that the parameter `timeout` sets, in microseconds as Triton reads it; 0 is none."""
    timeout = parameters.get("timeout", 0)
    if isinstance(timeout, str) and timeout.isascii() and timeout.isdigit() and len(timeout) < len(str(1 << 62)):
        timeout = int(timeout)
    if isinstance(timeout, bool) or not isinstance(timeout, int) or timeout < 0:
        raise invalid("The parameter timeout must be a whole number of microseconds.")
    return min(timeout, 1 << 62) * MICROSECOND or None


def encode_response(response: InferResponse, request: InferRequest) -> Body:
    """The body of an answer; the request says which of its tensors are wanted as binary data."""
    data: dict[str, Any] = {"model_name": response.model, "model_version": response.version}
    if response.id:
        data["id"] = response.id
    if response.parameters:
        data["parameters"] = dict(response.parameters)
    requested = {output.name: output.binary for output in request.outputs}
    usual = request.parameters.get("binary_data_output") is True
    binary = [name for name in response.outputs if requested.get(name, usual)]
    data["outputs"], blobs = _encode_tensors(response.outputs.items(), binary)
    return _body(data, blobs)


def decode_response(content: Buffer, header_length: int | None = None, limits: Limits = DEFAULT) -> InferResponse:
    """The answer in a body that a server sent."""
    data, blobs = _split(content, header_length, limits)
    return InferResponse(
        model=json_text.text(data.get("model_name") or "", "The name of the model", limits),
        version=json_text.text(data.get("model_version") or "", "The version of the model", limits),
        id=json_text.text(data.get("id") or "", "The id of an answer", limits),
        outputs=_decode_tensors(data.get("outputs"), "outputs", blobs, limits),
        parameters=json_text.parameters(data.get("parameters"), limits),
    )


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


def _body(data: dict[str, Any], blobs: list[Buffer]) -> Body:
    header = json_text.dump(data)
    if not blobs:
        return Body((header,))
    header += b" " * (-len(header) % _ALIGNMENT)  # the reader can then use the first tensor where it lies
    return Body((header, *blobs), len(header))


# --- reading


class _Blobs:
    """What lies behind the JSON, handed out in order; all of it must be used up."""

    def __init__(self, content: memoryview, expected: bool) -> None:
        self._content, self._place, self._expected = content, 0, expected

    def take(self, name: str, size: Parameter) -> memoryview:
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise invalid(f"The parameter binary_data_size of tensor {name!r} must be a whole number of bytes.")
        if not self._expected:
            raise invalid(f"Tensor {name!r} is said to be binary, but the header {HEADER_LENGTH} is absent.")
        end = self._place + size
        if end > len(self._content):
            raise invalid(f"The body ends before the {size:,} bytes of tensor {name!r} do.")
        blob = self._content[self._place : end]
        self._place = end
        return blob

    def finish(self) -> None:
        if self._place != len(self._content):
            raise invalid(f"The body has {len(self._content) - self._place:,} bytes that belong to no tensor.")


def _split(content: Buffer, header_length: int | None, limits: Limits) -> tuple[dict[str, Any], _Blobs]:
    view = memoryview(content)
    check_body(len(view), limits)
    if header_length is not None and not 0 <= header_length <= len(view):
        raise invalid(f"The header {HEADER_LENGTH} says {header_length:,}, but the body has {len(view):,} bytes.")
    end = len(view) if header_length is None else header_length
    return json_text.parse_object(view[:end], limits), _Blobs(view[end:], header_length is not None)


def _decode_tensors(items: Any, what: str, blobs: _Blobs, limits: Limits) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {}
    for item in _objects(items, what, limits):
        name = _name(item, tensors, limits)
        tensors[name] = _decode_tensor(name, item, blobs, limits)
    blobs.finish()
    return tensors


def _decode_tensor(name: str, item: dict[str, Any], blobs: _Blobs, limits: Limits) -> Tensor:
    datatype = json_text.text(item.get("datatype"), f"The datatype of tensor {name!r}", limits)
    shape = json_text.integers(item.get("shape"), f"The shape of tensor {name!r}")
    parameters = json_text.parameters(item.get("parameters"), limits)
    refuse_shared_memory(name, parameters)
    size = parameters.get("binary_data_size")
    if size is None:
        return tensor_from_json(name, datatype, shape, item.get("data"), limits)
    if "data" in item:
        raise invalid(f"Tensor {name!r} has data in the JSON and behind it.")
    return from_bytes(name, datatype, shape, blobs.take(name, size), limits)


def _decode_requested(items: Any, parameters: Mapping[str, Parameter], limits: Limits) -> tuple[RequestedOutput, ...]:
    usual = parameters.get("binary_data_output") is True
    outputs: dict[str, RequestedOutput] = {}
    for item in [] if items is None else _objects(items, "outputs", limits):
        name = _name(item, outputs, limits)
        outputs[name] = requested_output(name, json_text.parameters(item.get("parameters"), limits), usual)
    return tuple(outputs.values())


def requested_output(name: str, parameters: Mapping[str, Parameter], binary: bool = False) -> RequestedOutput:
    """An output that a client names, with what its parameters say. `binary`: as the request says for all of them."""
    refuse_shared_memory(name, parameters)
    classes = parameters.get("classification", 0)
    if isinstance(classes, bool) or not isinstance(classes, int) or not 0 <= classes < 1 << 31:
        raise invalid(f"The parameter classification of output {name!r} must be a whole number of classes.")
    as_binary = parameters.get("binary_data", binary)
    if not isinstance(as_binary, bool):
        raise invalid(f"The parameter binary_data of output {name!r} must be true or false.")
    rest = {key: value for key, value in parameters.items() if key not in ("classification", "binary_data")}
    return RequestedOutput(name, classes, as_binary, rest)


def refuse_shared_memory(name: str, parameters: Mapping[str, Parameter]) -> None:
    if "shared_memory_region" in parameters:
        raise ServingError(
            Refusal.UNSUPPORTED, f"Tensor {name!r} is said to lie in shared memory, which this server does not support."
        )


def _objects(items: Any, what: str, limits: Limits) -> list[dict[str, Any]]:
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise invalid(f"The field {what!r} must be a list of objects.")
    check_count(len(items), limits)
    return items


def _name(item: dict[str, Any], known: Mapping[str, Any], limits: Limits) -> str:
    name = json_text.text(item.get("name"), "The name of a tensor", limits)
    if name in known:
        raise invalid(f"Tensor {name!r} is named twice.")
    return name
