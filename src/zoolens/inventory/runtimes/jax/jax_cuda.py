"""JAX on a CUDA device: moving inputs there, and launching a program as one CUDA graph."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from zoolens.inventory.runtimes.runtime import Tensor

LARGE: Final = 1 << 24  # bytes from which an array is moved in pieces
PIECES: Final = 16  # XLA puts each array into pinned memory with one thread: 154 MB take 26 ms at once, and 5 in pieces
# What XLA records into graphs by default, and convolutions: without those a ResNet-50 is some hundred launches.
_RECORDED: Final = "FUSION,CUBLAS,CUBLASLT,CUDNN,CUSTOM_CALL,DYNAMIC_SLICE_FUSION,CONVOLUTION"
_FLAG: Final = "xla_gpu_enable_command_buffer"


def graph_options(jax: Any) -> dict[str, str]:
    """Options of `jax.jit` by which a program is launched as few CUDA graphs, with the kernels that it has anyway.
    Whoever sets the flag in the environment decides, and older releases of XLA do not know all names."""
    told = _FLAG in os.environ.get("XLA_FLAGS", "")
    old = tuple(map(int, jax.__version__.split(".")[:2])) < (0, 10)
    return {} if told or old else {_FLAG: _RECORDED}


class Mover:
    """Moves arrays to a device, large ones in pieces. Without a device they go to the default one, and may be used
    beside arrays on any other; with one, JAX compiles again for whatever they are used in."""

    def __init__(self, jax: Any, device: Any = None) -> None:
        self._jax, self._device = jax, device
        self._concatenated = jax.jit(lambda *pieces: jax.numpy.concatenate(pieces))

    def moved(self, array: Tensor) -> Any:
        return self.joined(self.begun(array))

    def begun(self, array: Tensor) -> list[Any]:
        """Pieces that are on their way. To join them is a computation, for which whatever is launched later waits."""
        cut = array.nbytes >= LARGE and len(array) >= PIECES
        pieces = np.array_split(array, PIECES) if cut else [array]
        return [self._jax.device_put(piece, self._device) for piece in pieces]

    def joined(self, pieces: Sequence[Any]) -> Any:
        return self._concatenated(*pieces) if len(pieces) > 1 else pieces[0]
