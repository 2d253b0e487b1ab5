"""Which family of operators a layer belongs to, whichever framework names it.

`FusedConv`, `aten::_convolution` and `_FusedConv2D` are convolutions. This is for layers of which nobody tells which
operators of the file they compute. A convolution that is fused with its activation is a convolution.
"""

from __future__ import annotations

import re
from typing import Final

# The first that fits counts: a convolution may have "relu" or "add" in its name, an average pooling "mean".
_FAMILIES: Final = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("convolution", r"conv(?!ert)"),
        ("matrix product", r"gemm|matmul|fully.?connected|inner.?product|\blinear|\bdense\b|\bdot\b|\b(add|b)?mm$"),
        ("attention", r"attention"),
        ("normalisation", r"batch_?norm|layer_?norm|group_?norm|instance_?norm|rms_?norm|\bmvn\b|\blrn\b"),
        ("softmax", r"softmax"),
        ("pooling or mean", r"pool|mean"),
        ("activation", r"relu|sigmoid|tanh|gelu|silu|swish|elu\b|clip|clamp|erf|softplus|mish"),
        ("change of type", r"convert|cast|quantize"),
        (
            "change of shape",
            r"reshape|flatten|transpose|squeeze|permute|expand|\bview\b|reorder|slice|shuffle|copy|identity",
        ),
        ("concatenation", r"concat|\bcat\b"),
        ("addition", r"(^|:|_|linear)add(v2|_)?\b|\bsum\b|eltwise"),
    )
)  # fmt: skip


def family(kind: str) -> str:
    """The sort of operator; the framework's own name where it is none of those known."""
    lowered = kind.lower()
    return next((name for name, pattern in _FAMILIES if pattern.search(lowered)), kind)


def only_moves(kind: str) -> bool:
    """Whether operators of this kind bring values into another layout, shape or type, and compute nothing."""
    return family(kind) in ("change of type", "change of shape")
