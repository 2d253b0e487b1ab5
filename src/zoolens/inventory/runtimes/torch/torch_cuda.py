"""Torch on a CUDA device: moving inputs and answers, replaying a graph of kernels, lending precision, times and facts.

Flags of torch's CUDA libraries are one for the process. A session that needs others lends them to each of its calls.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, Final

from zoolens.base.errors import ModelError
from zoolens.inventory.runtimes.devices import DeviceTimes, device_index
from zoolens.inventory.runtimes.runtime import Tensor, Tensors

GRAPHS: Final = ("cuda-graphs", "bfloat16-cuda-graphs")  # the modes that record kernels
PIECE: Final = 1 << 23  # bytes that are copied to the device while the next ones are put into pinned memory
_ONE_THREAD: Final = 1 << 20  # bytes


def check_cuda(torch: Any, device: str) -> None:
    """ModelError where torch has no such device."""
    if not torch.cuda.is_available():
        build = "this build of torch has no CUDA" if torch.version.cuda is None else "it sees no NVIDIA GPU"
        raise ModelError(
            f"torch cannot run on {device} here: {build}.",
            hint="Run with --device cpu, or install torch for CUDA.",
        )
    if device_index(device) >= torch.cuda.device_count():
        raise ModelError(f"torch cannot run on {device}: this machine has {torch.cuda.device_count()} CUDA devices.")


class Transfers:
    """Moves inputs to a device and answers back through pinned memory, which torch keeps for later calls.

    Large inputs are moved on a stream of their own, so that those of one call travel while the call before computes.
    """

    def __init__(self, torch: Any, device: Any) -> None:
        self._torch, self._device = torch, device
        self._moving = torch.cuda.Stream(device)

    def moved(self, arrays: Sequence[Tensor], into: Sequence[Any] = ()) -> list[Any]:
        """Inputs on the device, of which the current stream makes use. `into`: the tensors that take them."""
        torch = self._torch
        if into or sum(array.nbytes for array in arrays) < PIECE:
            places = into or [self._empty(array, device=self._device) for array in arrays]
            return [self._filled(place, array) for place, array in zip(places, arrays, strict=True)]
        computing = torch.cuda.current_stream(self._device)
        with torch.cuda.stream(self._moving):
            tensors = [self._filled(self._empty(array, device=self._device), array) for array in arrays]
        computing.wait_stream(self._moving)
        for tensor in tensors:
            tensor.record_stream(computing)
        return tensors

    def begin_fetch(self, answers: Mapping[str, Any]) -> Callable[[], Tensors]:
        """Let the device send its answers when it has them; what is given back waits for them and copies them."""
        torch, fetched = self._torch, {}
        for name, answer in answers.items():
            fetched[name] = torch.empty(answer.shape, dtype=answer.dtype, pin_memory=True)
            fetched[name].copy_(answer, non_blocking=True)
        done = torch.cuda.Event()
        done.record()

        def arrays() -> Tensors:
            done.synchronize()
            return {name: tensor.numpy().copy() for name, tensor in fetched.items()}

        return arrays

    def _empty(self, array: Tensor, **where: Any) -> Any:
        return self._torch.empty(array.shape, dtype=getattr(self._torch, str(array.dtype)), **where)

    def _filled(self, place: Any, array: Tensor) -> Any:
        """Some rows are on their way while the next ones are put into pinned memory, by as many threads as torch has:
        with 16 of them 154 MB take a tenth of the time that one takes. torch uses pinned memory again as soon as what
        it holds has been copied."""
        for rows in _pieces(array):
            pinned = self._empty(array[rows], pin_memory=True)
            self._put(pinned, array[rows])
            place[rows].copy_(pinned, non_blocking=True)
        return place

    def _put(self, pinned: Any, array: Tensor) -> None:
        # torch warns of memory that it must not write to, and takes no negative strides. Its threads sleep while the
        # host waits for the device: to wake them takes longer than one thread takes for a few hundred kilobytes.
        if array.nbytes >= _ONE_THREAD and array.flags.writeable and array.flags.c_contiguous:
            pinned.copy_(self._torch.from_numpy(array))
        else:
            pinned.numpy()[...] = array


def _pieces(array: Tensor) -> list[Any]:
    """Rows that have about `PIECE` bytes together; all at once where there are no rows to tell apart."""
    if array.nbytes <= PIECE or not array.ndim:
        return [...]
    step = max(1, PIECE * len(array) // array.nbytes)
    return [slice(start, start + step) for start in range(0, len(array), step)]


class GraphedCall:
    """A module whose kernels are recorded once for each shape of inputs and then launched all at once (CUDA graph)."""

    def __init__(self, torch: Any, module: Any) -> None:
        self._torch, self._module = torch, module
        self._shapes: tuple[Any, ...] = ()
        self._inputs: list[Any] = []
        self._graph: Any = None
        self._answer: Any = None

    def __call__(self, *tensors: Any) -> Any:
        shapes = tuple((tuple(tensor.shape), tensor.dtype) for tensor in tensors)
        if shapes != self._shapes:
            self._record(tensors)
            self._shapes = shapes
        for kept, given in zip(self._inputs, tensors, strict=True):
            if kept is not given:
                kept.copy_(given, non_blocking=True)
        self._graph.replay()
        return self._answer

    def own_inputs(self, arrays: Sequence[Tensor]) -> Sequence[Any]:
        """The tensors that the graph reads, where small inputs of these shapes can be moved straight into them. Large
        ones are not: they are to travel while the graph still computes."""
        shapes = tuple((array.shape, getattr(self._torch, str(array.dtype))) for array in arrays)
        small = sum(array.nbytes for array in arrays) < PIECE
        return self._inputs if small and shapes == self._shapes else ()

    def _record(self, tensors: Sequence[Any]) -> None:
        torch = self._torch
        self._graph = self._answer = None
        self._inputs = [tensor.clone() for tensor in tensors]
        stream = torch.cuda.Stream(tensors[0].device)
        stream.wait_stream(torch.cuda.current_stream(tensors[0].device))
        with torch.cuda.stream(stream):
            for _ in range(3):  # libraries choose their kernels and make their workspaces before they are recorded
                self._module(*[tensor.clone() for tensor in self._inputs])
        torch.cuda.current_stream(tensors[0].device).wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with no_collection(), torch.cuda.graph(graph):
            # A module may write into what it is given: every call fills these anew.
            self._answer = self._module(*self._inputs)
        self._graph = graph


@contextmanager
def no_collection() -> Iterator[None]:
    """While this is open, Python looks for no objects that refer to themselves. To destroy the graph of an earlier
    session ends the recording of another one in an error, and torch 2.11 does not collect before it records."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


@contextmanager
def lent_float32(torch: Any, *, forced: bool) -> Iterator[None]:
    """While this is open, float32 numbers are multiplied as such and not rounded to TF32; where `forced`."""
    if not forced:
        yield
        return
    flags = torch.backends.cuda.matmul, torch.backends.cudnn
    before = [flag.allow_tf32 for flag in flags]
    for flag in flags:
        flag.allow_tf32 = False
    try:
        yield
    finally:
        for flag, value in zip(flags, before, strict=True):
            flag.allow_tf32 = value


def uses_tf32(torch: Any) -> bool:
    """Whether convolutions or products of float32 matrices may be computed in TF32 on this machine's device."""
    capable = torch.cuda.get_device_capability()[0] >= 8
    return capable and bool(torch.backends.cuda.matmul.allow_tf32 or torch.backends.cudnn.allow_tf32)


def cuda_facts(torch: Any, device: Any, *, forced: bool) -> dict[str, str]:
    """What decides how a CUDA device computes, as far as torch knows it."""
    properties = torch.cuda.get_device_properties(device)
    allowed = "no" if forced else None
    return {
        "device": str(properties.name),
        "compute_capability": f"{properties.major}.{properties.minor}",
        "device_memory": str(properties.total_memory),
        "cuda": str(torch.version.cuda),
        "cudnn": str(torch.backends.cudnn.version()),
        "cudnn_benchmark": _yes(torch.backends.cudnn.benchmark),
        "cudnn_deterministic": _yes(torch.backends.cudnn.deterministic),
        "tf32_matmul": allowed or _yes(torch.backends.cuda.matmul.allow_tf32),
        "tf32_convolution": allowed or _yes(torch.backends.cudnn.allow_tf32),
    }


def _yes(flag: Any) -> str:
    return "yes" if flag else "no"


def timed_call(
    torch: Any,
    device: Any,
    moved: Callable[[], Sequence[Any]],
    call: Callable[..., Any],
    fetch: Callable[[Any], Callable[[], Tensors]],
) -> DeviceTimes:
    """One call: moving inputs, computing and moving answers by events on the device, launching by the host's clock."""
    events = [torch.cuda.Event(enable_timing=True) for _ in range(4)]
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    started = time.perf_counter_ns()
    events[0].record()
    tensors = moved()
    events[1].record()
    launching = time.perf_counter_ns()
    answers = call(*tensors)
    launched = time.perf_counter_ns()
    events[2].record()
    fetched = fetch(answers)
    events[3].record()
    fetched()
    ended = time.perf_counter_ns()
    inputs, compute, outputs = (round(before.elapsed_time(after) * 1e6) for before, after in pairwise(events))
    peak = int(torch.cuda.max_memory_allocated(device))
    return DeviceTimes(
        ended - started,
        launched - launching,
        inputs,
        compute,
        outputs,
        peak,
        events=True,
    )
