"""What a file or a store asks for, and only the user may grant: shown, and done only when the user agrees.

Whoever can reach the user says so with `asking`; the command line does. Where nobody can be asked, the answer is no,
and the error says what would have to be granted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from zoolens.base.errors import ZoolensError

Ask = Callable[[str], bool]  # given what is asked for, as a sentence; whether the user agrees

_lock = threading.Lock()
_askers: list[Ask] = []


class NotGranted(ZoolensError):
    """Something that an untrusted file asks for and the user has not agreed to."""


def require(wish: str) -> None:
    """Return where the user agrees to `wish`, a sentence such as "The manifest asks to install …"; else NotGranted."""
    with _lock:  # one question at a time
        if _askers and _askers[-1](wish):
            return
    raise NotGranted(wish, hint="If you want that, answer yes on a terminal, or give --yes: `zoolens --yes COMMAND …`.")


@contextmanager
def asking(ask: Ask) -> Iterator[None]:
    """Let `ask` answer for the user, for all threads of this process."""
    _askers.append(ask)
    try:
        yield
    finally:
        _askers.remove(ask)
