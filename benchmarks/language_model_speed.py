"""Are tokens per second those that llama.cpp counts itself?

    python benchmarks/language_model_speed.py MODEL.gguf [--context 128] [--calls 20] [--threads 1]

The calls that `zoolens eval` times (a prompt read from nothing, a token written behind a kept context) are made here,
with llama.cpp's own counters on (`llama_perf_context`), which see the same calls from inside. The exit status is
1 where they differ by more than 5 % in the median call.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from zoolens.inventory.runtimes.llamacpp.llama_library import ContextParameters, llama_library
from zoolens.inventory.runtimes.llamacpp.llamacpp_runtime import LlamaCpp
from zoolens.inventory.runtimes.runtime import ModelFiles, Options

MOST = 0.05
_FLAGS = 3  # the word of `ContextParameters.later` behind three pointers: bytes that are flags
_OFF = 2  # the byte of it that switches the counters off


class Counters(ctypes.Structure):
    """llama_perf_context_data."""

    _fields_ = (
        ("start_ms", ctypes.c_double),
        ("load_ms", ctypes.c_double),
        ("prompt_ms", ctypes.c_double),
        ("writing_ms", ctypes.c_double),
        ("prompt_tokens", ctypes.c_int32),
        ("written_tokens", ctypes.c_int32),
        ("reused", ctypes.c_int32),
    )


def counting(library: Any) -> None:
    """Switch the counters on in every context that the library makes from now on."""
    made = library.context_parameters

    def changed(*given: Any, **named: Any) -> ContextParameters:
        parameters = made(*given, **named)
        word = int(parameters.later[_FLAGS])
        if word >> 8 * _OFF & 0xFF != 1:
            sys.exit("The flags of this llama.cpp lie elsewhere.")
        parameters.later[_FLAGS] = word & ~(0xFF << 8 * _OFF)
        return parameters

    library.context_parameters = changed
    library.llama_perf_context.restype = Counters
    library.llama_perf_context.argtypes = [ctypes.c_void_p]
    library.llama_perf_context_reset.argtypes = [ctypes.c_void_p]


@dataclass(frozen=True)
class Way:
    name: str
    call: Callable[[], object]
    tokens: int  # of one call
    counted: Callable[[Counters], tuple[float, int]]  # milliseconds and tokens of llama.cpp


def both(library: Any, context: Any, way: Way) -> tuple[float, float]:
    """Seconds of one call, by our clock and by llama.cpp's."""
    library.llama_perf_context_reset(context)
    started = time.perf_counter()
    way.call()
    seconds = time.perf_counter() - started
    milliseconds, tokens = way.counted(library.llama_perf_context(context))
    if tokens != way.tokens:
        sys.exit(f"llama.cpp counted {tokens} tokens of {way.tokens}.")
    return seconds, milliseconds / 1e3


def told(way: Way, pairs: list[tuple[float, float]]) -> bool:
    """Whether the two differ by too much. Medians over calls: another process may take the core within any."""
    ours, theirs = (way.tokens / median(side) for side in zip(*pairs, strict=True))
    ratio = median(inside / whole for whole, inside in pairs)
    print(f"{way.name:8} {ours:9.1f} tokens/s, llama.cpp counts {theirs:9.1f}, median ratio of a call {ratio:.3f}")
    return abs(ratio - 1) > MOST


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--context", type=int, default=128)
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    chosen = parser.parse_args()
    library = llama_library()
    counting(library)
    files = ModelFiles("gguf", {"model": chosen.model})
    failed = False
    with LlamaCpp().open(files, Options(threads=chosen.threads)) as session:
        # The layout of its context is llama.cpp's own business; its counters need the pointer.
        prompt = np.random.default_rng(0).integers(0, session.outputs[0].shape[2], (1, chosen.context))
        session.extend(prompt, 0)
        context = session._context
        ways = (
            Way("prompt", lambda: session.extend(prompt, 0), chosen.context, lambda c: (c.prompt_ms, c.prompt_tokens)),
            Way(
                "writing",
                lambda: session.extend(prompt[:, -1:], chosen.context - 1),
                1,
                lambda c: (c.writing_ms, c.written_tokens),
            ),
        )
        for way in ways:
            way.call()
            failed |= told(way, [both(library, context, way) for _ in range(chosen.calls)])
    sys.exit(int(failed))


if __name__ == "__main__":
    main()
