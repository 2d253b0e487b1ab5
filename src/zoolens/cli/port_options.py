"""What the commands of `zoolens port` share: exit codes, and what --map says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from zoolens.errors import ZoolensError

DIFFERENT, TROUBLE = 1, 2  # as diff(1) has it


def pairs_of(chosen: tuple[str, ...]) -> dict[str, str]:
    """What --map says: tensors of A to tensors of B."""
    pairs = {}
    for text in chosen:
        a, sign, b = text.partition("=")
        if not (a and sign and b):
            raise ZoolensError(f"{text[:80]!r} maps nothing.", hint="Write --map name_in_A=name_in_B.")
        pairs[a] = b
    return pairs


@contextmanager
def trouble() -> Iterator[None]:
    """Whatever cannot be built, read or trained exits with 2."""
    try:
        yield
    except ZoolensError as error:
        error.exit_code = TROUBLE
        raise
