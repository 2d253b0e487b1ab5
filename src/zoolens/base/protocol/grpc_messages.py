"""Protobuf messages of the protocol to plain ones and back, for servers and clients.

Tensors are sent as raw bytes, which every client reads; typed contents, which are slow, are understood as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.protocol import json_text
from zoolens.base.protocol.datatypes import Buffer, Layout, datatype_of, strings, to_bytes
from zoolens.base.protocol.limits import DEFAULT, Limits, check_count, invalid
from zoolens.base.protocol.messages import InferRequest, InferResponse, Parameter, Parameters, RequestedOutput, Tensor
from zoolens.base.protocol.protobuf import message
from zoolens.base.protocol.rest import NOBODY, Caller
from zoolens.base.protocol.rest_header import deadline_of, refuse_shared_memory, requested_output

_CONTENTS: Final = {
    "BOOL": "bool_contents", "INT8": "int_contents", "INT16": "int_contents", "INT32": "int_contents",
    "INT64": "int64_contents", "UINT8": "uint_contents", "UINT16": "uint_contents", "UINT32": "uint_contents",
    "UINT64": "uint64_contents", "FP32": "fp32_contents", "FP64": "fp64_contents", "BYTES": "bytes_contents",
}  # fmt: skip
_FIXED: Final = {"fp32_contents": "<f4", "fp64_contents": "<f8"}
_VARINTS: Final = {  # a negative number of 32 bits is written as one of 64
    "int_contents": np.int64, "int64_contents": np.int64, "uint_contents": np.uint64, "uint64_contents": np.uint64,
}  # fmt: skip


def request_to_protobuf(request: InferRequest) -> Any:
    """A ModelInferRequest with the tensors as raw bytes. The deadline is the call's, not the message's."""
    protobuf = message("ModelInferRequest")(model_name=request.model, model_version=request.version, id=request.id)
    _write_parameters(protobuf.parameters, request.parameters)
    _write_tensors(protobuf.inputs, protobuf.raw_input_contents, request.inputs)
    for output in request.outputs:
        item = protobuf.outputs.add(name=output.name)
        _write_parameters(item.parameters, output.parameters)
        if output.classes:
            item.parameters["classification"].int64_param = output.classes
    return protobuf


@dataclass(frozen=True)
class DescribedTensors:
    """The tensors of a message without their values. `typed`: one whose values stand with its description."""

    layouts: tuple[Layout, ...]
    typed: str | None

    def read(self, raw: Sequence[Buffer], limits: Limits, *, aligned: bool = True) -> dict[str, Tensor]:
        """The tensors whose values are these raw contents; for `aligned` see `Layout`."""
        if len(raw) != len(self.layouts):
            raise invalid(f"There are {len(self.layouts)} tensors, but raw contents for {len(raw)}.")
        if self.typed is not None:
            raise invalid(f"Tensor {self.typed!r} has raw and typed contents.")
        pairs = zip(self.layouts, raw, strict=True)
        return {layout.name: layout.read(values, limits, aligned=aligned) for layout, values in pairs}


@dataclass(frozen=True)
class RequestHead:
    """What a ModelInferRequest says besides the values of its tensors. It may be shared by many requests."""

    model: str
    version: str
    id: str
    outputs: tuple[RequestedOutput, ...]
    parameters: Parameters
    deadline: float | None

    def request(self, tensors: Mapping[str, Tensor], caller: Caller) -> InferRequest:
        return InferRequest(
            self.model,
            tensors,
            self.version,
            self.id,
            self.outputs,
            self.parameters,
            caller.deadline(self.deadline),
            caller.traceparent,
            caller.headers,
        )


def request_head(protobuf: Any, limits: Limits = DEFAULT) -> RequestHead:
    parameters = _read_parameters(protobuf.parameters, limits)
    return RequestHead(
        model=json_text.text(protobuf.model_name, "The name of the model", limits),
        version=json_text.text(protobuf.model_version, "The version of the model", limits),
        id=json_text.text(protobuf.id, "The id of a request", limits),
        outputs=_read_requested(protobuf.outputs, limits),
        parameters=parameters,
        deadline=deadline_of(parameters),
    )


def request_from_protobuf(protobuf: Any, limits: Limits = DEFAULT, caller: Caller = NOBODY) -> InferRequest:
    """The request in a ModelInferRequest. The parameter `timeout`, in microseconds, sets its deadline, too."""
    tensors = _read_tensors(protobuf.inputs, protobuf.raw_input_contents, limits)
    return request_head(protobuf, limits).request(tensors, caller)


def response_to_protobuf(response: InferResponse) -> Any:
    """A ModelInferResponse with the tensors as raw bytes."""
    protobuf = message("ModelInferResponse")(model_name=response.model, model_version=response.version, id=response.id)
    _write_parameters(protobuf.parameters, response.parameters)
    _write_tensors(protobuf.outputs, protobuf.raw_output_contents, response.outputs)
    return protobuf


def response_from_protobuf(protobuf: Any, limits: Limits = DEFAULT) -> InferResponse:
    """The answer in a ModelInferResponse."""
    return InferResponse(
        model=protobuf.model_name,
        version=protobuf.model_version,
        id=protobuf.id,
        outputs=_read_tensors(protobuf.outputs, protobuf.raw_output_contents, limits),
        parameters=_read_parameters(protobuf.parameters, limits),
    )


def _write_tensors(described: Any, raw: Any, tensors: Mapping[str, Tensor]) -> None:
    for name, tensor in tensors.items():
        described.add(name=name, datatype=datatype_of(tensor.dtype), shape=tensor.shape)
        raw.append(bytes(to_bytes(tensor)))


def _write_parameters(target: Any, parameters: Parameters) -> None:
    for name, value in parameters.items():
        if isinstance(value, bool):
            target[name].bool_param = value
        elif isinstance(value, int):
            field = "int64_param" if -(1 << 63) <= value < 1 << 63 else "uint64_param"
            setattr(target[name], field, value)
        elif isinstance(value, float):
            target[name].double_param = value
        else:
            target[name].string_param = value


def _read_parameters(source: Any, limits: Limits) -> dict[str, Parameter]:
    parameters: dict[str, Parameter] = {}
    for name, value in source.items():
        choice = value.WhichOneof("parameter_choice")
        if choice is None:
            raise invalid(f"Parameter {name[:100]!r} has no value.")
        parameters[name] = getattr(value, choice)
    return json_text.parameters(parameters, limits)


def _read_requested(items: Sequence[Any], limits: Limits) -> tuple[RequestedOutput, ...]:
    check_count(len(items), limits)
    outputs: dict[str, RequestedOutput] = {}
    for item in items:
        name = _name(item.name, outputs, limits)
        outputs[name] = requested_output(name, _read_parameters(item.parameters, limits))
    return tuple(outputs.values())


def described_tensors(items: Sequence[Any], limits: Limits = DEFAULT) -> DescribedTensors:
    check_count(len(items), limits)
    layouts: dict[str, Layout] = {}
    typed: str | None = None
    for item in items:
        name = _name(item.name, layouts, limits)
        if item.parameters:
            refuse_shared_memory(name, _read_parameters(item.parameters, limits))
        # MLServer sends empty contents beside raw ones.
        if typed is None and item.contents.ListFields():
            typed = name
        layouts[name] = Layout.of(name, item.datatype, tuple(item.shape))
    return DescribedTensors(tuple(layouts.values()), typed)


def _read_tensors(items: Sequence[Any], raw: Sequence[bytes], limits: Limits) -> dict[str, Tensor]:
    described = described_tensors(items, limits)
    if len(raw):
        return described.read(raw, limits)
    return {
        layout.name: _typed(layout, item.contents, limits)
        for layout, item in zip(described.layouts, items, strict=True)
    }


def _name(name: str, known: Iterable[str], limits: Limits) -> str:
    json_text.text(name, "The name of a tensor", limits)
    if name in known:
        raise invalid(f"Tensor {name!r} is named twice.")
    return name


def _typed(layout: Layout, contents: Any, limits: Limits) -> Tensor:
    name, datatype, shape, count, dtype = layout.name, layout.datatype, layout.shape, layout.count, layout.dtype
    field = _CONTENTS.get(datatype)
    if field is None:
        raise invalid(f"Tensor {name!r} of type {datatype} must be sent as raw contents.")
    others = sorted({kind.name for kind, _ in contents.ListFields()} - {field})
    if others:
        raise invalid(f"Tensor {name!r} of type {datatype} has its values in {others[0]} instead of {field}.")
    values = getattr(contents, field)
    if len(values) != count:
        raise invalid(f"Tensor {name!r} of shape {list(shape)} has {count:,} elements, but {len(values):,} were sent.")
    most = limits.strings if datatype == "BYTES" else limits.json_values
    if count > most:
        raise invalid(
            f"Tensor {name!r} has {count:,} typed elements; at most {most:,} are accepted. Send raw contents."
        )
    if datatype == "BYTES":
        return strings(list(values), shape)
    tensor = _packed_values(contents, field, count)
    if dtype.kind in "iu" and count and not np.iinfo(dtype).min <= tensor.min() <= tensor.max() <= np.iinfo(dtype).max:
        raise invalid(f"Tensor {name!r} holds a number beyond the range of {datatype}.")
    return tensor.astype(dtype, copy=False).reshape(shape)


def _packed_values(contents: Any, field: str, count: int) -> Tensor:
    """The values of the only field that is set, read from its bytes: one by one they take a microsecond each."""
    if not count:
        return np.empty(0, np.uint8)
    contents.DiscardUnknownFields()
    content = contents.SerializeToString()
    payload = content[1 + len(_varint_bytes(content, 1)) :]  # behind the field's tag and its length
    if field in _FIXED:
        return np.frombuffer(payload, _FIXED[field])
    values = _varints(payload)
    return values.astype(bool) if field == "bool_contents" else values.view(_VARINTS[field])


def _varint_bytes(content: bytes, place: int) -> bytes:
    end = place
    while content[end] & 0x80:
        end += 1
    return content[place : end + 1]


def _varints(payload: bytes) -> NDArray[np.uint64]:
    """Numbers in groups of seven bits, the lowest first; the highest bit of a byte says that another one follows."""
    groups = np.frombuffer(payload, np.uint8)
    ends = np.flatnonzero(groups < 0x80) + 1
    starts = np.concatenate(([0], ends[:-1]))
    if len(starts) == len(groups):
        return groups.astype(np.uint64)
    places = np.arange(len(groups)) - np.repeat(starts, ends - starts)
    shifted = (groups & 0x7F).astype(np.uint64) << (7 * places).astype(np.uint64)
    return np.bitwise_or.reduceat(shifted, starts)
