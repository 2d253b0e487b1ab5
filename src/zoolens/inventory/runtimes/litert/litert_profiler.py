"""Times of operators from LiteRT's C library, which its Python package brings but does not show.

A compiled model of the same file is run with the library's profiler on. The C interface changes between versions, so
that only versions are called with which this was tried; `VERSIONS` names them. XNNPACK, to which most operators are
delegated, times its own operators and does not report which of the file's each one computes: `litert_partitions` does.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from ctypes import (
    Array,
    byref,
    c_bool,
    c_char,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
    cast,
)
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from zoolens.base.errors import ModelError, UnsupportedAbility
from zoolens.inventory.runtimes.litert.tflite_file import TfliteGraph
from zoolens.inventory.runtimes.runtime import Tensor
from zoolens.inventory.runtimes.timing.process_wide import quiet_stderr

VERSIONS: Final = ("2.3.",)
_CPU, _WRITE = 1, 1  # a set of accelerators, a way of locking a buffer
_TYPE_BYTES: Final = 256  # more than a tensor's type takes
_RANK_WORD, _FIRST_EXTENT_WORD = 1, 2  # of a tensor's type, in words of 32 bits
_RANK_BITS: Final = 0x7F  # the bit above them says whether there are strides
_LAST_EVENT: Final = b"Buffer sync"  # ends a run
_RUN: Final = b"Invoke"  # a run of the interpreter
_SPAN, _OPERATOR, _DELEGATED = 1, 2, 8  # kinds of events

_Destructor = ctypes.CFUNCTYPE(None, c_void_p)
_keeps = _Destructor(lambda _: None)  # what an option points to is ours


class _Event(ctypes.Structure):
    _fields_ = (
        ("tag", c_char_p),
        ("kind", c_int),
        ("start_us", c_uint64),
        ("elapsed_us", c_uint64),
        ("memory", c_int64 * 6),
        ("index", c_uint64),
        ("subgraph", c_uint64),
        ("source", c_int),
    )


class _Layout(ctypes.Structure):
    _fields_ = (("rank", c_uint32), ("extents", c_int32 * 8), ("strides", c_uint32 * 8))


@dataclass(frozen=True)
class OperatorEvent:
    """An operator that ran."""

    tag: str
    nanoseconds: int
    delegated: bool  # whether XNNPACK ran it
    # Its place in a partition if it was delegated, else in the file's main graph; None in another graph.
    index: int | None
    inner: bool = False  # whether it is in a subgraph that an operator before it runs, such as the body of a loop


class FileInput(NamedTuple):
    """An input of the file: the place of its tensor, and the shape of what it is given."""

    tensor: int
    shape: tuple[int, ...]


def check_version(version: str | None) -> None:
    """UnsupportedAbility unless this version's C interface is known."""
    if version is None or not version.startswith(VERSIONS):
        known = " and ".join(f"{prefix}x" for prefix in VERSIONS)
        reason = f"the C interface of its profiler is known for versions {known} only, and this is {version}"
        raise UnsupportedAbility("litert", "profile operators", reason)


def check_outputs(graph: TfliteGraph) -> None:
    """UnsupportedAbility where the size of an output is known only after a run. The C library is given memory for it
    before, and ended the process with such models (2.3)."""
    custom = next((operator.custom for operator in graph.operators if operator.custom), None)
    unknown = any(not graph.tensors[index].shape or any(graph.tensors[index].free[1:]) for index in graph.outputs)
    if custom is not None or unknown:
        what = f"the operator {custom[:60]}" if custom else "an output of no fixed shape"
        reason = f"this model has {what}, with which LiteRT's C library fails"
        raise UnsupportedAbility("litert", "profile operators", reason)


class ProfiledModel:
    """A compiled model with a profiler. Close it: nothing in it is released otherwise."""

    def __init__(
        self, library: Path, model: Path, threads: int | None, inputs: Sequence[FileInput], outputs: Sequence[int]
    ) -> None:
        """`inputs` and `outputs`: which tensors of the file they are. A signature may have them in another order."""
        self._destroyers: list[tuple[str, c_void_p]] = []
        self._texts: list[Array[c_char]] = []
        try:
            self._library = ctypes.CDLL(str(library))
            with quiet_stderr():  # it announces its accelerators
                self._open(model, threads, inputs, outputs)
        except (OSError, AttributeError) as error:
            self.close()
            raise UnsupportedAbility("litert", "profile operators", f"its C library cannot be used: {error}") from error
        except BaseException:
            self.close()
            raise

    def _open(self, model: Path, threads: int | None, inputs: Sequence[FileInput], outputs: Sequence[int]) -> None:
        environment = self._made("Environment", c_int(0), None)
        self._environment = environment
        file = self._made("ModelFromFile", environment, c_char_p(bytes(model)), destroys="Model")
        options = self._made("Options")
        self._call("SetOptionsHardwareAccelerators", options, c_int(_CPU))
        self._add_option(options, "runtime_options_string", "enable_profiling = true\n")
        if threads is not None:
            self._add_option(options, "xnnpack", f"num_threads = {threads}\n")
        self._compiled = self._made("CompiledModel", environment, file, options)
        self._profiler = c_void_p()
        self._call("CompiledModelGetProfiler", self._compiled, byref(self._profiler))
        self._signature = c_void_p()
        self._call("GetModelSignature", file, c_size_t(0), byref(self._signature))
        given = self._places("Input", [each.tensor for each in inputs])
        wanted = self._places("Output", outputs)
        resized = self._resize({place: each.shape for place, each in zip(given, inputs, strict=True)})
        made = (
            self._resized_outputs(len(wanted)) if resized else [self._declared("Output", i) for i in range(len(wanted))]
        )
        own = {place: self._buffer("Input", place, each.shape) for place, each in zip(given, inputs, strict=True)}
        theirs = [self._buffer("Output", place, shape) for place, shape in enumerate(made)]
        # As the signature has them, for the library, and as the file has them, for whoever calls us.
        self._signed = [own[place] for place in sorted(own)], theirs
        self._inputs, self._outputs = [own[place] for place in given], [theirs[place] for place in wanted]

    def _places(self, side: str, indices: Sequence[int]) -> list[int]:
        """Where in the signature each of these tensors of the file is."""
        places: dict[int, int] = {}
        for place in range(self._count(side)):
            index = c_uint32()
            self._call("GetTensorIndex", self._tensor(side, place), byref(index))
            places[index.value] = place
        if sorted(places) != sorted(indices):
            reason = f"its C library sees other {side.lower()}s of this model than the file's main graph has"
            raise UnsupportedAbility("litert", "profile operators", reason)
        return [places[index] for index in indices]

    def _resize(self, shapes: Mapping[int, Sequence[int]]) -> bool:
        """Prepare inputs for other shapes than the file declares; whether there was one."""
        resized = False
        for place, shape in shapes.items():
            if list(shape) != self._declared("Input", place):
                resized, resize = True, "CompiledModelResizeInputTensorNonStrict"
                extents, rank = (c_int * len(shape))(*shape), c_size_t(len(shape))
                self._call(resize, self._compiled, c_size_t(0), c_size_t(place), extents, rank)
        return resized

    def _resized_outputs(self, count: int) -> list[list[int]]:
        layouts = (_Layout * max(1, count))()
        read = "GetCompiledModelOutputTensorLayouts"
        self._call(read, self._compiled, c_size_t(0), c_size_t(count), layouts, c_bool(True))
        return [list(layout.extents[: layout.rank & _RANK_BITS]) for layout in list(layouts)[:count]]

    def _count(self, side: str) -> int:
        count = c_size_t()
        self._call(f"GetNumSignature{side}s", self._signature, byref(count))
        return count.value

    def _tensor(self, side: str, place: int) -> c_void_p:
        tensor = c_void_p()
        self._call(f"GetSignature{side}TensorByIndex", self._signature, c_size_t(place), byref(tensor))
        return tensor

    def _type(self, side: str, place: int) -> Array[c_int32]:
        kind = (c_int32 * (_TYPE_BYTES // 4))()
        self._call("GetRankedTensorType", self._tensor(side, place), kind)
        return kind

    def _declared(self, side: str, place: int) -> list[int]:
        kind = self._type(side, place)
        return list(kind[_FIRST_EXTENT_WORD : _FIRST_EXTENT_WORD + (kind[_RANK_WORD] & _RANK_BITS)])

    def _buffer(self, side: str, place: int, shape: Sequence[int]) -> c_void_p:
        kind = self._type(side, place)
        kind[_FIRST_EXTENT_WORD : _FIRST_EXTENT_WORD + len(shape)] = list(shape)
        needs = c_void_p()
        wanted = f"GetCompiledModel{side}BufferRequirements"
        self._call(wanted, self._compiled, c_size_t(0), c_size_t(place), byref(needs))
        made = "ManagedTensorBufferFromRequirements"
        return self._made(made, self._environment, kind, needs, destroys="TensorBuffer")

    def fill(self, values: Sequence[Tensor]) -> None:
        for buffer, value in zip(self._inputs, values, strict=True):
            with self._locked(buffer) as (address, size):
                content = value.tobytes()
                if len(content) != size:
                    raise ModelError(f"LiteRT's C library wants {size} bytes for an input that has {len(content)}.")
                ctypes.memmove(address, content, size)

    def answers(self) -> list[bytes]:
        result = []
        for buffer in self._outputs:
            with self._locked(buffer) as (address, size):
                result.append(ctypes.string_at(address, size))
        return result

    def run(self) -> None:
        inputs, outputs = ((c_void_p * len(side))(*side) for side in self._signed)
        counts = c_size_t(len(inputs)), c_size_t(len(outputs))
        self._call("RunCompiledModel", self._compiled, c_size_t(0), counts[0], inputs, counts[1], outputs)

    def start(self) -> None:
        self._call("ResetProfiler", self._profiler)
        self._call("StartProfiler", self._profiler)

    def stop(self) -> tuple[list[OperatorEvent], int | None]:
        """The operators that ran since `start`, in their order, and the nanoseconds of the interpreter's own run,
        around which buffers are handed over; None where that is not told."""
        self._call("StopProfiler", self._profiler)
        count = c_int()
        self._call("GetNumProfilerEvents", self._profiler, byref(count))
        events = (_Event * max(1, count.value))()
        self._call("GetProfilerEvents", self._profiler, count, events)
        read = list(events)[: count.value]
        if not any(_LAST_EVENT in (event.tag or b"") for event in read[-3:]):
            raise ModelError("LiteRT's profiler does not hold all operators of this model: its record is cut off.")
        runs = [int(event.elapsed_us) * 1000 for event in read if event.kind == _SPAN and event.tag == _RUN]
        operators = [_operator(event) for event in read if event.kind in (_OPERATOR, _DELEGATED)]
        return operators, runs[0] if len(runs) == 1 else None

    def close(self) -> None:
        """Release everything, the last made first. Calling it twice is fine."""
        if not self._destroyers:
            return
        with quiet_stderr():
            while self._destroyers:
                name, handle = self._destroyers.pop()
                destroy = getattr(self._library, f"LiteRtDestroy{name}")
                destroy.restype = None
                destroy(handle)

    def _add_option(self, options: c_void_p, identifier: str, text: str) -> None:
        content = ctypes.create_string_buffer(text.encode())
        # The library reads it when the model is compiled.
        self._texts.append(content)
        option = c_void_p()
        arguments = c_char_p(identifier.encode()), cast(content, c_void_p), _keeps, byref(option)
        self._call("CreateOpaqueOptions", *arguments)
        self._call("AddOpaqueOptions", options, option)  # which owns it from now on

    def _made(self, name: str, *arguments: Any, destroys: str | None = None) -> c_void_p:
        handle = c_void_p()
        self._call(f"Create{name}", *arguments, byref(handle))
        self._destroyers.append((destroys or name, handle))
        return handle

    @contextmanager
    def _locked(self, buffer: c_void_p) -> Iterator[tuple[int, int]]:
        address, size = c_void_p(), c_size_t()
        self._call("GetTensorBufferPackedSize", buffer, byref(size))
        self._call("LockTensorBuffer", buffer, byref(address), c_int(_WRITE))
        try:
            yield address.value or 0, size.value
        finally:
            self._call("UnlockTensorBuffer", buffer)

    def _call(self, name: str, *arguments: Any) -> None:
        function = getattr(self._library, f"LiteRt{name}")
        function.restype = c_int
        status = function(*arguments)
        if status != 0:
            raise ModelError(f"LiteRT's C library cannot profile this model: {name} answered with status {status}.")


def _operator(event: Any) -> OperatorEvent:
    delegated = event.kind == _DELEGATED
    inner = event.subgraph != 0
    index = int(event.index) if delegated or not inner else None
    return OperatorEvent(
        (event.tag or b"").decode(errors="replace"), int(event.elapsed_us) * 1000, delegated, index, inner
    )
