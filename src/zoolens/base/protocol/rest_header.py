"""The JSON at the beginning of a body: which tensors there are, and where their values lie.

A client that sends binary tensors of the same shapes sends the same JSON again and again. So what was read from a short
one is kept, and reading it again is a look into a table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal

from zoolens.base.protocol import json_text
from zoolens.base.protocol.datatypes import Buffer, Layout
from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.base.protocol.json_tensors import tensor_from_json
from zoolens.base.protocol.limits import Limits, check_count, invalid
from zoolens.base.protocol.messages import Parameter, RequestedOutput, Tensor

MICROSECOND: Final = 1e-6
_KEPT_BYTES: Final = 2048  # longer ones have their tensors in the JSON, and differ each time
_KEPT: Final = 512

Side = Literal["inputs", "outputs"]


@dataclass(frozen=True)
class Described:
    """One tensor: `size` bytes behind the JSON, or `data` in it where `size` is None."""

    layout: Layout
    size: int | None
    data: Any = None


@dataclass(frozen=True)
class Header:
    """The parsed JSON header. It is shared by requests and must not be changed."""

    id: str
    model: str
    version: str
    parameters: Mapping[str, Parameter]
    tensors: tuple[Described, ...]
    outputs: tuple[RequestedOutput, ...]
    deadline: float | None
    binary: bool  # whether any tensor lies behind the JSON

    def read(self, body: Buffer, start: int, limits: Limits) -> dict[str, Tensor]:
        """The tensors. All of what lies behind the JSON, which ends at `start`, must be used up."""
        place, size, tensors = start, len(body), {}
        view = memoryview(body)
        for described in self.tensors:
            layout = described.layout
            if described.size is None:
                data = described.data
                tensors[layout.name] = tensor_from_json(layout.name, layout.datatype, layout.shape, data, limits)
                continue
            end = place + described.size
            if end > size:
                raise invalid(f"The body ends before the {described.size:,} bytes of tensor {layout.name!r} do.")
            tensors[layout.name] = layout.read(view[place:end], limits)
            place = end
        if place != size:
            raise invalid(f"The body has {size - place:,} bytes that belong to no tensor.")
        return tensors


def read_header(text: Buffer, side: Side, limits: Limits) -> Header:
    """The header of a request (`side` is inputs) or of an answer (outputs)."""
    if len(text) <= _KEPT_BYTES:
        return _kept_header(bytes(text), side, limits)
    return _header(text, side, limits)


def _header(text: Buffer, side: Side, limits: Limits) -> Header:
    data = json_text.parse_object(text, limits)
    parameters = json_text.parameters(data.get("parameters"), limits)
    tensors = tuple(_tensors(data.get(side), side, limits))
    return Header(
        id=json_text.text(data.get("id") or "", "The id", limits),
        model=json_text.text(data.get("model_name") or "", "The name of the model", limits),
        version=json_text.text(data.get("model_version") or "", "The version of the model", limits),
        parameters=parameters,
        tensors=tensors,
        outputs=_requested(data.get("outputs"), parameters, limits) if side == "inputs" else (),
        deadline=deadline_of(parameters) if side == "inputs" else None,
        binary=any(tensor.size is not None for tensor in tensors),
    )


_kept_header = lru_cache(_KEPT)(_header)


def deadline_of(parameters: Mapping[str, Parameter]) -> float | None:
    """Seconds until the deadline that the parameter `timeout` sets, in microseconds as Triton reads it; 0 is none."""
    timeout = parameters.get("timeout", 0)
    if isinstance(timeout, str) and timeout.isascii() and timeout.isdigit() and len(timeout) < len(str(1 << 62)):
        timeout = int(timeout)
    if isinstance(timeout, bool) or not isinstance(timeout, int) or timeout < 0:
        raise invalid("The parameter timeout must be a whole number of microseconds.")
    return min(timeout, 1 << 62) * MICROSECOND or None


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


def no_shared_memory() -> ServingError:
    """For calls that register a region of shared memory."""
    return ServingError(
        Refusal.UNSUPPORTED, "This server does not support shared memory.", hint="Send tensors as bytes."
    )


def refuse_shared_memory(name: str, parameters: Mapping[str, Parameter]) -> None:
    if "shared_memory_region" in parameters:
        raise ServingError(
            Refusal.UNSUPPORTED, f"Tensor {name!r} is in shared memory, which this server does not support."
        )


def _requested(items: Any, parameters: Mapping[str, Parameter], limits: Limits) -> tuple[RequestedOutput, ...]:
    usual = parameters.get("binary_data_output") is True
    outputs: dict[str, RequestedOutput] = {}
    for item in [] if items is None else _objects(items, "outputs", limits):
        name = _name(item, outputs, limits)
        outputs[name] = requested_output(name, json_text.parameters(item.get("parameters"), limits), usual)
    return tuple(outputs.values())


def _tensors(items: Any, side: Side, limits: Limits) -> Iterator[Described]:
    known: dict[str, None] = {}
    for item in _objects(items, side, limits):
        name = _name(item, known, limits)
        known[name] = None
        datatype = json_text.text(item.get("datatype"), f"The datatype of tensor {name!r}", limits)
        shape = json_text.integers(item.get("shape"), f"The shape of tensor {name!r}")
        parameters = json_text.parameters(item.get("parameters"), limits)
        refuse_shared_memory(name, parameters)
        size = _binary_size(name, parameters)
        if size is not None and "data" in item:
            raise invalid(f"Tensor {name!r} has data in the JSON and behind it.")
        yield Described(Layout.of(name, datatype, shape), size, item.get("data"))


def _binary_size(name: str, parameters: Mapping[str, Parameter]) -> int | None:
    size = parameters.get("binary_data_size")
    if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 0):
        raise invalid(f"The parameter binary_data_size of tensor {name!r} must be a whole number of bytes.")
    return size


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
