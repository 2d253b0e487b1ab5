"""What a client and a server of the Open Inference Protocol V2 say to each other, whichever transport carries it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

Parameter = bool | int | float | str
Parameters = Mapping[str, Parameter]
Tensor = NDArray[Any]  # BYTES elements are numpy objects (bytes), as in the protocol's own clients


@dataclass(frozen=True)
class RequestedOutput:
    """An output that the client wants. `classes`: instead of the tensor, its largest values as "value:index:label"."""

    name: str
    classes: int = 0
    binary: bool = False  # REST only: in the body behind the JSON
    parameters: Parameters = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InferRequest:
    """One inference. `outputs` empty: all of them. `version` empty: the newest one. `deadline`: seconds that the client
    is willing to wait, from the moment at which the server has received the request."""

    model: str
    inputs: Mapping[str, Tensor]
    version: str = ""
    id: str = ""
    outputs: tuple[RequestedOutput, ...] = ()
    parameters: Parameters = field(default_factory=dict)
    deadline: float | None = None
    traceparent: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)  # in small letters: for splitting traffic by header


@dataclass(frozen=True, slots=True)
class InferResponse:
    """The answer. `parameters` say among other things which model answered (see `serving`)."""

    model: str
    version: str
    outputs: Mapping[str, Tensor]
    id: str = ""
    parameters: Parameters = field(default_factory=dict)


@dataclass(frozen=True)
class TensorMetadata:
    """`datatype` is the protocol's name (FP32); -1 in `shape` is a free dimension."""

    name: str
    datatype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class ModelMetadata:
    name: str
    versions: tuple[str, ...]
    platform: str
    inputs: tuple[TensorMetadata, ...]
    outputs: tuple[TensorMetadata, ...]


@dataclass(frozen=True)
class ServerMetadata:
    name: str
    version: str
    extensions: tuple[str, ...]


@dataclass(frozen=True)
class RepositoryEntry:
    """`state` is READY, LOADING, UNLOADING or UNAVAILABLE; `reason` says why a model is unavailable."""

    name: str
    version: str
    state: str
    reason: str = ""


@dataclass(frozen=True)
class Duration:
    """How often something happened, and the nanoseconds that it took in all."""

    count: int = 0
    ns: int = 0


@dataclass(frozen=True)
class BatchStatistics:
    size: int
    compute_input: Duration
    compute_infer: Duration
    compute_output: Duration


@dataclass(frozen=True)
class ModelStatistics:
    """The statistics extension. `inference_count` counts inputs, `execution_count` calls of the model."""

    name: str
    version: str
    last_inference_ms: int  # of the Unix epoch; 0: none yet
    inference_count: int
    execution_count: int
    success: Duration
    fail: Duration
    queue: Duration
    compute_input: Duration
    compute_infer: Duration
    compute_output: Duration
    batches: tuple[BatchStatistics, ...] = ()
