"""Answers of a network that are kept while variants are tried: those that only read them otherwise run it once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final

import numpy as np

from zoolens.inventory.runtimes.runtime import Session, Tensor, Tensors

KEPT_BYTES: Final = 1 << 28  # of answers
_Key = tuple[Hashable, bytes]


class RememberedAnswers:
    """What a network answered to which batch of prepared inputs, as long as there is room."""

    def __init__(self, room: int = KEPT_BYTES) -> None:
        self._room = room
        self._known: dict[_Key, Tensors] = {}

    def begin_predict(
        self, session: Session, which: Hashable, batches: Sequence[Mapping[str, Tensor]]
    ) -> Callable[[], list[Tensors]]:
        """Hand over batches to a session, except those that were answered before; what is given back waits for all.
        `which`: tells sessions apart that answer the same batch otherwise."""
        keys = [_key(which, feeds) for feeds in batches]
        new = [place for place, key in enumerate(keys) if key not in self._known]
        wait = session.begin_predict([batches[place] for place in new]) if new else list

        def answers() -> list[Tensors]:
            fresh = dict(zip(new, wait(), strict=True))
            for place, answer in fresh.items():
                self._keep(keys[place], answer)
            return [fresh[place] if place in fresh else dict(self._known[key]) for place, key in enumerate(keys)]

        return answers

    def _keep(self, key: _Key, answer: Tensors) -> None:
        size = sum(tensor.nbytes for tensor in answer.values())
        if size > self._room:
            return
        self._room -= size
        kept = {name: np.array(tensor) for name, tensor in answer.items()}
        for tensor in kept.values():
            # Whoever reads them must not change what the next variant sees.
            tensor.flags.writeable = False
        self._known[key] = kept


def _key(which: Hashable, feeds: Mapping[str, Tensor]) -> _Key:
    digest = hashlib.sha256()
    for name in sorted(feeds):
        digest.update(f"{name} {feeds[name].dtype} {feeds[name].shape} ".encode())
        digest.update(feeds[name].tobytes())
    return which, digest.digest()
