"""Exit codes of commands that compare, as diff(1) has them; `Outcome.exit_code` has that of each verdict."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from zoolens.base.errors import ZoolensError

DIFFERENT: Final = 1
TROUBLE: Final = 2


@contextmanager
def trouble() -> Iterator[None]:
    """Whatever cannot be built, read, trained or written exits with 2: 1 would say that two things differ."""
    try:
        yield
    except ZoolensError as error:
        error.exit_code = TROUBLE
        raise
