"""Matrix products and copies on a CUDA device in torch, to see how fast it can multiply and move in each precision.

Times are by events on the device, of many calls in a row. Short ones are handed over as one graph, since handing over a
single short copy takes longer than copying. Long ones are handed over one by one, since a graph may copy a gigabyte
more slowly (seen on an H200: 2.8 instead of 4.2 TB/s). The shortest of several repetitions counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, cast

from zoolens.inventory.runtimes.torch.torch_cuda import check_cuda

PRECISIONS: Final = ("float64", "float32", "tf32", "bfloat16", "float16", "int8")
PRODUCT_SIZES: Final = (2048, 4096, 8192)
COPY_SIZES: Final = tuple(1 << power for power in (23, 25, 27, 29, 31))  # bytes of source and target together
ROUND: Final = 0.01  # seconds of one repetition, about: so many calls are handed over as one graph
MOST_CALLS: Final = 1000  # of one graph
SECONDS: Final = 0.4  # for each size and precision
SLOWEST: Final = 2.0  # seconds that one product of the next size may take
FEWEST: Final = 5  # repetitions
LONG: Final = 2e-4  # seconds of a call that keeps the device busy while the next one is handed over


def describe(device: str) -> dict[str, Any]:
    """Name and version; ZoolensError where torch cannot use the device."""
    import torch

    check_cuda(torch, device)
    return {"device": torch.cuda.get_device_name(device), "version": str(torch.__version__)}


def products(device: str) -> Iterator[dict[str, Any]]:
    """Yields the operations per second of the fastest square product in each precision, or why it is unknown."""
    import torch

    for precision in PRECISIONS:
        about = {"library": "torch", "version": str(torch.__version__), "precision": precision}
        best = 0.0
        try:
            for size in PRODUCT_SIZES:
                operations = 2 * size**3
                if best and operations / best > SLOWEST:
                    break
                with _tf32(precision == "tf32"):
                    best = max(best, operations / _shortest(_product(device, precision, size), device))
        except Exception as error:
            # A precision that the library or the device does not have.
            words = str(error).splitlines()[0][:200] if str(error) else ""
            yield {**about, "reason": f"{type(error).__name__}: {words}"}
        else:
            yield {**about, "per_second": best, "clean": True}


def copies(device: str) -> Iterator[dict[str, Any]]:
    """Bytes read and written in a second by copies on the device, by the bytes of source and target together."""
    import torch

    free, _ = torch.cuda.mem_get_info(device)
    for size in COPY_SIZES:
        if size > free // 2:
            return
        source = torch.ones(size // 2, dtype=torch.uint8, device=device)
        target = torch.empty_like(source)
        seconds = _shortest(lambda source=source, target=target: target.copy_(source), device)  # type: ignore[misc]
        yield {"bytes": size, "per_second": size / seconds, "clean": True}
        del source, target


def _product(device: str, precision: str, size: int) -> Callable[[], Any]:
    import torch

    random = torch.Generator(device).manual_seed(0)
    if precision == "int8":
        a, b = (
            torch.randint(-100, 100, (size, size), generator=random, device=device).to(torch.int8) for _ in range(2)
        )
        # Only with the second one in columns it is quick.
        return lambda: torch._int_mm(a, b.t())
    kind = torch.float32 if precision == "tf32" else getattr(torch, precision)
    x, y = (torch.randn(size, size, generator=random, device=device).to(kind) for _ in range(2))
    out = torch.empty_like(x)
    return lambda: torch.mm(x, y, out=out)


@contextmanager
def _tf32(allowed: bool) -> Iterator[None]:
    import torch

    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = allowed
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def _shortest(call: Callable[[], Any], device: str) -> float:
    """Seconds of one call, from the quickest repetition of several calls."""
    import torch

    with torch.cuda.device(device):
        # What the call works on was made on another stream.
        torch.cuda.synchronize()
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(3):  # libraries choose their kernels and allocate what they need
                call()
            alone = _timed(call)
        rounds = max(1, min(MOST_CALLS, int(ROUND / max(alone, 1e-9))))
        repetition = _one_by_one(call, rounds) if alone > LONG else _graph(call, rounds, stream)
        until, times = time.perf_counter() + SECONDS, [_timed(repetition)]
        while time.perf_counter() < until or len(times) < FEWEST:
            times.append(_timed(repetition))
    return min(times) / rounds


def _one_by_one(call: Callable[[], Any], rounds: int) -> Callable[[], None]:
    def repetition() -> None:
        for _ in range(rounds):
            call()

    return repetition


def _graph(call: Callable[[], Any], rounds: int, stream: Any) -> Callable[[], None]:
    import torch

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(rounds):
            call()
    return cast(Callable[[], None], graph.replay)


def _timed(call: Callable[[], Any]) -> float:
    """Seconds by events on the device."""
    import torch

    begun, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begun.record()
    call()
    ended.record()
    ended.synchronize()
    return float(begun.elapsed_time(ended)) / 1e3
