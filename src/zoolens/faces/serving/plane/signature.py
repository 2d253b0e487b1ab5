"""What an endpoint takes and gives, and whether a request fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from zoolens.base.protocol.datatypes import datatype_of
from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.base.protocol.messages import InferRequest, TensorMetadata
from zoolens.inventory.runtimes.runtime import TensorSpec

_BESIDE_NUMPY: Final = {"string": "BYTES", "bfloat16": "BF16"}
_REMEMBERED: Final = 256  # combinations of shapes

BatchKey = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class ModelSignature:
    """`batched`: the first dimension of every input and output counts rows, and rows of several requests may share a
    call. Otherwise each request is a call of its own, in its own shape."""

    inputs: tuple[TensorMetadata, ...]
    outputs: tuple[TensorMetadata, ...]
    batched: bool
    max_batch: int

    _fitting: dict[Any, tuple[int, BatchKey]] = field(default_factory=dict, compare=False, repr=False)

    def check(self, request: InferRequest) -> tuple[int, BatchKey]:
        """How many rows a request has, and the key that requests of one batch share. A ServingError where the request
        does not fit. Shapes that fit are remembered."""
        shapes = tuple([(name, array.dtype, array.shape) for name, array in request.inputs.items()])
        known = self._fitting.get(shapes)
        if known is None:
            known = self._check(request)
            if len(self._fitting) >= _REMEMBERED:
                self._fitting.clear()
            self._fitting[shapes] = known
        if request.outputs:
            self._check_outputs(request)
        return known

    def _check(self, request: InferRequest) -> tuple[int, BatchKey]:
        given = request.inputs
        key = []
        rows = -1
        for spec in self.inputs:
            array = given.get(spec.name)
            if array is None:
                raise _missing(self, request)
            datatype = datatype_of(array.dtype)
            if datatype != spec.datatype:
                raise ServingError(
                    Refusal.INVALID,
                    f"Input '{spec.name}' of model '{request.model}' has datatype {datatype}, "
                    f"but the model expects {spec.datatype}.",
                )
            shape = array.shape
            if len(shape) != len(spec.shape) or any(
                wanted not in (-1, extent) for wanted, extent in zip(spec.shape, shape, strict=True)
            ):
                raise ServingError(
                    Refusal.INVALID,
                    f"Input '{spec.name}' of model '{request.model}' has shape {_text(shape)}, "
                    f"but the model expects {_text(spec.shape)}.",
                )
            if self.batched:
                if rows < 0:
                    rows = shape[0]
                elif shape[0] != rows:
                    raise ServingError(
                        Refusal.INVALID,
                        f"The inputs of model '{request.model}' must have the same number of rows: "
                        f"'{spec.name}' has {shape[0]}, '{self.inputs[0].name}' has {rows}.",
                    )
                key.append(shape[1:])
            else:
                key.append(shape)
        if len(given) != len(self.inputs):
            raise _unexpected(self, request)
        if self.batched:
            self._check_rows(rows, request)
        return (rows if self.batched else 1), tuple(key)

    def _check_rows(self, rows: int, request: InferRequest) -> None:
        if rows < 1:
            raise ServingError(Refusal.INVALID, f"A request to model '{request.model}' must have at least one row.")
        if rows > self.max_batch:
            raise ServingError(
                Refusal.INVALID,
                f"The request has {rows} rows, but model '{request.model}' takes at most {self.max_batch} at a time.",
                hint="Send them in several requests.",
            )

    def _check_outputs(self, request: InferRequest) -> None:
        known = {spec.name: spec for spec in self.outputs}
        asked: set[str] = set()
        for output in request.outputs:
            if output.name not in known:
                raise ServingError(
                    Refusal.INVALID,
                    f"Model '{request.model}' has no output '{output.name}'; it has {_names(self.outputs)}.",
                )
            if output.name in asked:
                raise ServingError(Refusal.INVALID, f"Output '{output.name}' was requested twice.")
            if output.classes > 0 and known[output.name].datatype == "BYTES":
                raise ServingError(
                    Refusal.INVALID, f"Output '{output.name}' holds no scores, of which the largest could be given."
                )
            asked.add(output.name)


def tensor_metadata(specs: Sequence[TensorSpec], batched: bool) -> tuple[TensorMetadata, ...]:
    """The tensors of a session, in the words of the protocol. `batched`: the first dimension is free in any case."""
    described = []
    for spec in specs:
        shape = [-1 if extent is None else extent for extent in spec.shape]
        if batched and shape:
            shape[0] = -1
        described.append(TensorMetadata(spec.name, _datatype(spec.dtype), tuple(shape)))
    return tuple(described)


def _datatype(dtype: str) -> str:
    return _BESIDE_NUMPY.get(dtype) or datatype_of(np.dtype(dtype))


def _missing(signature: ModelSignature, request: InferRequest) -> ServingError:
    missing = [spec.name for spec in signature.inputs if spec.name not in request.inputs]
    return ServingError(
        Refusal.INVALID,
        f"Model '{request.model}' expects the inputs {_names(signature.inputs)}; "
        f"{', '.join(repr(name) for name in missing)} {'is' if len(missing) == 1 else 'are'} missing.",
    )


def _unexpected(signature: ModelSignature, request: InferRequest) -> ServingError:
    known = {spec.name for spec in signature.inputs}
    unknown = [name for name in request.inputs if name not in known]
    return ServingError(
        Refusal.INVALID,
        f"Model '{request.model}' has no input {', '.join(repr(name) for name in unknown)}; "
        f"it has {_names(signature.inputs)}.",
    )


def _names(specs: Sequence[TensorMetadata]) -> str:
    return ", ".join(f"'{spec.name}'" for spec in specs)


def _text(shape: Sequence[int]) -> str:
    return f"[{','.join(map(str, shape))}]"
