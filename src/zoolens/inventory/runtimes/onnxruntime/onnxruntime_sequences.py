"""Sequences that a language model in ONNX continues, with the keys and values of earlier tokens kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import UnsupportedAbility
from zoolens.inventory.runtimes.onnx.decoder_form import LOGITS, DecoderForm
from zoolens.inventory.runtimes.runtime import shape_text
from zoolens.inventory.runtimes.sequences import Array, Ids, Sequences, largest_difference, log_probabilities

_PIECE: Final = 512  # tokens at once: the network answers the whole vocabulary for each of them
_TRIED: Final = (3, 2, 1)  # tokens of each call with which it is tried whether the cache changes the answer
_EXACT: Final = 1e-3  # nats; of float32
_COARSE: Final = 0.25  # total variation; of a network that rounds activations, which depends on how tokens are grouped
_SEQUENCE: Final = 2  # the axis of caches along which tokens lie


@dataclass(frozen=True)
class _Caches:
    """Keys and values of so many tokens, as ONNX Runtime holds them."""

    tokens: int
    values: Sequence[Any]


class CachedSequences:
    """`exact`: nothing in the network is rounded to fewer bits than float32 has."""

    def __init__(self, ort: Any, session: Any, form: DecoderForm, name: str, *, exact: bool) -> None:
        self._make = ort.OrtValue.ortvalue_from_numpy
        self._session, self._form, self._is_exact = session, form, exact
        self._sequences = Sequences(name, form.vocabulary, None)
        self._caches = _Caches(0, ())
        # Those before the last call: ONNX Runtime cuts nothing off, so that going back takes a copy otherwise.
        self._before = self._caches
        self._tried = False

    def extend(self, tokens: NDArray[np.integer[Any]], kept: int | None) -> Array:
        whole, stays = self._sequences.continued(tokens, kept)
        if not self._tried:
            self._try()
            self._tried = True
        caches = self._beginning(stays, len(whole))
        # Those of an earlier call would be a third copy, and after an error none count.
        self._caches = self._before = _Caches(0, ())
        rows, count = whole.shape
        step = max(1, _PIECE // rows)
        for place in range(caches.tokens, count, step):
            before = caches
            logits, caches = self._continued(whole[:, place : place + step], before)
        self._caches, self._before, self._sequences.tokens = caches, before, whole
        return log_probabilities(logits[:, -1])

    def _beginning(self, stays: int, rows: int) -> _Caches:
        """Keys and values of at most so many tokens of the sequences."""
        if self._caches.tokens <= stays:
            kept = self._caches
        elif self._before.tokens == stays:
            kept = self._before
        else:
            kept = _Caches(stays, [self._make(_cut(value.numpy(), stays)) for value in self._caches.values])
        return kept if kept.tokens else self._empty(rows)

    def _empty(self, rows: int) -> _Caches:
        return _Caches(0, [self._make(cache) for cache in self._form.empty_caches(rows)])

    def _continued(self, tokens: Ids, before: _Caches) -> tuple[Array, _Caches]:
        """The logits of new tokens, and the caches with these in them."""
        form, whole = self._form, before.tokens + tokens.shape[1]
        given = form.feeds(tokens, np.ones((len(tokens), whole), np.int64), before.tokens)
        feeds = {name: self._make(np.ascontiguousarray(value)) for name, value in given.items()}
        feeds |= {spec.name: value for spec, value in zip(form.pasts, before.values, strict=True)}
        logits, *caches = self._session.run_with_ort_values([LOGITS, *form.presents], feeds)
        form.check_logits(logits.shape(), tokens)
        wanted = [(len(tokens), spec.shape[1], whole, spec.shape[3]) for spec in form.pasts]
        for name, value, shape in zip(form.presents, caches, wanted, strict=True):
            if tuple(value.shape()) != shape:
                found = shape_text(value.shape())
                raise _unable(f"its output {name} is {found} after {whole:,} tokens, not {shape_text(shape)}")
        return logits.numpy().astype(np.float32, copy=False), _Caches(whole, caches)

    def _try(self) -> None:
        """A network that makes nothing of its caches, or whose mask is wrong behind some, answers otherwise."""
        ids = np.arange(sum(_TRIED), dtype=np.int32)[np.newaxis] % self._form.vocabulary
        whole = log_probabilities(self._continued(ids, self._empty(1))[0][0])
        parts = log_probabilities(np.concatenate(list(self._in_parts(ids))))
        if self._is_exact:
            difference, most, unit = largest_difference(parts, whole), _EXACT, "nats from"
        else:
            variation = np.abs(np.exp(parts) - np.exp(whole)).sum(axis=1) / 2
            difference, most, unit = variation.max(), _COARSE, "in total variation from"
        if not difference <= most:
            raise _unable(f"its answers with a cache are up to {difference:.2g} {unit} those without")

    def _in_parts(self, ids: Ids) -> Iterator[Array]:
        caches, place = self._empty(1), 0
        for count in _TRIED:
            logits, caches = self._continued(ids[:, place : place + count], caches)
            place += count
            yield logits[0]


def _cut(cache: NDArray[np.floating[Any]], tokens: int) -> NDArray[np.floating[Any]]:
    return np.ascontiguousarray(cache[:, :, :tokens])


def _unable(reason: str) -> UnsupportedAbility:
    return UnsupportedAbility("onnxruntime", "continue a sequence with this model", reason)
