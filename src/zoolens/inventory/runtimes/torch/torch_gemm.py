"""Matrix products in torch, to see how fast this machine can multiply in each precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

PRECISIONS: Final = ("float32", "bfloat16", "float16", "int8")


def product(precision: str, size: int) -> Callable[[], Any]:
    """A call that multiplies two square matrices; whatever torch raises where it cannot."""
    import torch

    random = torch.Generator().manual_seed(0)
    if precision == "int8":
        a, b = (torch.randint(-100, 100, (size, size), generator=random).to(torch.int8) for _ in range(2))
        return lambda: torch._int_mm(a, b)
    kind = getattr(torch, precision)
    x, y = (torch.randn(size, size, generator=random).to(kind) for _ in range(2))
    return lambda: torch.mm(x, y)


def set_threads(count: int) -> None:
    import torch

    torch.set_num_threads(count)
