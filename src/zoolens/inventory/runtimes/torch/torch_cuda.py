"""Torch on a CUDA device: moving inputs there, replaying a graph of kernels, lending precision, times and facts.

Flags of torch's CUDA libraries are one for the process. A session that needs others lends them to each of its calls.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

from zoolens.base.errors import ModelError
from zoolens.inventory.runtimes.devices import DeviceTimes, device_index
from zoolens.inventory.runtimes.runtime import Tensor


def check_cuda(torch: Any, device: str) -> None:
    """ModelError where torch has no such device."""
    if not torch.cuda.is_available():
        build = "this build of torch has no CUDA" if torch.version.cuda is None else "it sees no NVIDIA GPU"
        raise ModelError(
            f"torch cannot run on {device} here: {build}.", hint="Run with --device cpu, or install torch for CUDA."
        )
    if device_index(device) >= torch.cuda.device_count():
        raise ModelError(f"torch cannot run on {device}: this machine has {torch.cuda.device_count()} CUDA devices.")


class Staging:
    """Pinned memory from which inputs are moved to a device at full speed; kept for the last shapes."""

    def __init__(self, torch: Any, device: Any) -> None:
        self._torch, self._device = torch, device
        self._pinned: dict[int, Any] = {}

    def moved(self, arrays: Sequence[Tensor]) -> list[Any]:
        return [self._moved(place, array) for place, array in enumerate(arrays)]

    def _moved(self, place: int, array: Tensor) -> Any:
        pinned = self._pinned.get(place)
        kind = getattr(self._torch, str(array.dtype))
        if pinned is None or tuple(pinned.shape) != array.shape or pinned.dtype != kind:
            pinned = self._pinned[place] = self._torch.empty(array.shape, dtype=kind, pin_memory=True)
        pinned.numpy()[...] = array
        return pinned.to(self._device, non_blocking=True)


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
            kept.copy_(given)
        self._graph.replay()
        return self._answer

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
        with torch.cuda.graph(graph):
            # A module may write into what it is given: it gets a copy, which is part of the graph.
            self._answer = self._module(*[tensor.clone() for tensor in self._inputs])
        self._graph = graph


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
    torch: Any, device: Any, staging: Staging, call: Callable[..., Any], arrays: Sequence[Tensor]
) -> DeviceTimes:
    """One call: moving inputs, computing and moving answers by events on the device, launching by the host's clock."""
    events = [torch.cuda.Event(enable_timing=True) for _ in range(4)]
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    started = time.perf_counter_ns()
    events[0].record()
    tensors = staging.moved(arrays)
    events[1].record()
    launching = time.perf_counter_ns()
    answers = call(*tensors)
    launched = time.perf_counter_ns()
    events[2].record()
    for answer in answers:
        answer.to("cpu")
    events[3].record()
    torch.cuda.synchronize(device)
    ended = time.perf_counter_ns()
    inputs, compute, outputs = (round(before.elapsed_time(after) * 1e6) for before, after in pairwise(events))
    peak = int(torch.cuda.max_memory_allocated(device))
    return DeviceTimes(ended - started, launched - launching, inputs, compute, outputs, peak, events=True)
