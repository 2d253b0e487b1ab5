"""How much one message may ask of its reader: both sides check what they read against these limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

from zoolens.base.protocol.errors import Refusal, ServingError

_MOST_ELEMENTS: Final = 1 << 48  # numpy counts bytes in 63 bits; no type has more than 16 of them for an element
_MOST_DIMENSIONS: Final = 32  # what every supported numpy can hold


@dataclass(frozen=True, eq=False)  # what was read under some limits is kept by them: by identity, which is quick
class Limits:
    """`body_bytes` also limits what a compressed body unpacks to. `json_values` counts numbers, strings, lists and
    objects: a value may take thirty times as much memory as it has characters. `strings` counts the elements of
    BYTES tensors, each of which is a Python object."""

    body_bytes: int = 64 << 20
    tensor_bytes: int = 64 << 20
    tensors: int = 256
    json_values: int = 1 << 22
    strings: int = 1 << 20
    text_bytes: int = 4096  # a name, an identifier or a parameter's value


DEFAULT: Final = Limits()


def invalid(message: str) -> ServingError:
    return ServingError(Refusal.INVALID, message)


def check_body(size: int, limits: Limits) -> None:
    if size > limits.body_bytes:
        raise ServingError(
            Refusal.TOO_LARGE, f"The body has {size:,} bytes; at most {limits.body_bytes:,} are accepted."
        )


def check_count(count: int, limits: Limits) -> None:
    if count > limits.tensors:
        raise invalid(f"There are {count:,} tensors; at most {limits.tensors:,} are accepted.")


def element_count(name: str, shape: Sequence[int]) -> int:
    """The elements of a tensor of this shape; ServingError where no tensor can have it."""
    if len(shape) > _MOST_DIMENSIONS:
        raise invalid(f"Tensor {name!r} has {len(shape)} dimensions; at most {_MOST_DIMENSIONS} are accepted.")
    if any(size < 0 for size in shape):
        raise invalid(f"The shape of tensor {name!r} has a negative dimension: {list(shape)}.")
    # Also where another dimension is 0: numpy refuses it.
    if prod(size or 1 for size in shape) > _MOST_ELEMENTS:
        raise invalid(f"The shape of tensor {name!r} has too many elements.")
    return prod(shape)
