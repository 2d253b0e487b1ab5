"""What a model is fed for a sound: its windows one after the other, with constants and the state of the window before.

The answers to all windows become one answer to the sound, as the manifest declares under `sound: {windows: …}`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ManifestError, ModelError
from zoolens.inventory.manifests.schema_sound import Sound
from zoolens.inventory.preprocess.given_inputs import constant_values
from zoolens.inventory.preprocess.outputs import plain_numbers
from zoolens.inventory.runtimes.runtime import Session, TensorSpec, shape_text

Array = NDArray[Any]

_TOGETHER: Final = 32  # windows of a model without state that are run at once


class SoundFeeds:
    """Compiled once per model. A batch of sounds of one length has a row for each sound; of sounds that are cut, a
    single row with all windows."""

    def __init__(
        self, sound: Sound, source: TensorSpec, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
    ) -> None:
        known = {spec.name: spec for spec in inputs}
        _check_names(sound, source.name, known, {spec.name for spec in outputs})
        self.windowed = sound.windows is not None
        self._join = sound.windows.join if sound.windows is not None else None
        self._source = source
        self._constants = {name: constant_values(known[name], value) for name, value in sound.constants.items()}
        self._states = {name: _first_state(known[name], carried.shape) for name, carried in sound.carry.items()}
        self._carried = {name: carried.output for name, carried in sound.carry.items()}
        self._read = {spec.name: plain_numbers(spec) for spec in outputs if spec.name not in self._carried.values()}

    def first(self, batch: Array) -> dict[str, Array]:
        """What one call is fed with: the batch, or the first window of its only sound."""
        return {**self._given(batch[0, :1] if self.windowed else batch), **self._states}

    def answered(self, session: Session, batch: Array) -> dict[str, Array]:
        """The answers to the only sound of a batch by output, with a batch axis of one."""
        windows = batch[0]
        answers = list(self._with_state(session, windows) if self._carried else self._without_state(session, windows))
        return {name: self._joined(name, [answer[name] for answer in answers]) for name in self._read}

    def _given(self, windows: Array) -> dict[str, Array]:
        shape = self._source.shape
        # A file may have been exported without a batch axis.
        alone = len(shape) == windows.ndim - 1 and len(windows) == 1
        return {self._source.name: np.ascontiguousarray(windows[0] if alone else windows), **self._constants}

    def _without_state(self, session: Session, windows: Array) -> Iterator[Mapping[str, Array]]:
        free = len(self._source.shape) == windows.ndim and self._source.shape[0] is None
        step = min(_TOGETHER, session.largest_batch or _TOGETHER) if free else 1
        for begin in range(0, len(windows), step):
            part = windows[begin : begin + step]
            answer = session.predict(self._given(part))
            yield {name: self._rows(name, answer[name], len(part)) for name in self._read}

    def _with_state(self, session: Session, windows: Array) -> Iterator[Mapping[str, Array]]:
        states = dict(self._states)
        for place in range(len(windows)):
            answer = session.predict({**self._given(windows[place : place + 1]), **states})
            states = {name: self._next_state(name, answer[output]) for name, output in self._carried.items()}
            yield {name: self._rows(name, answer[name], 1) for name in self._read}

    def _next_state(self, name: str, state: Array) -> Array:
        first = self._states[name]
        if state.shape != first.shape:
            raise ModelError(
                f"The output {self._carried[name]} has shape {shape_text(state.shape)}, but the input {name}, which "
                f"takes it with the next window, has {shape_text(first.shape)}.",
                hint="Correct carry in the manifest.",
            )
        if state.dtype.kind != first.dtype.kind:
            raise ModelError(
                f"The output {self._carried[name]} is {state.dtype}, but the input {name}, which takes it with the "
                f"next window, is {first.dtype}.",
                hint="Correct carry in the manifest.",
            )
        if state.dtype.kind == "f" and not np.isfinite(state).all():
            # Later answers may be finite all the same: a sigmoid makes 1 of infinity.
            raise ModelError(
                f"The state {self._carried[name]} holds NaN or infinity, so that no later answer means anything.",
                hint="Check the scale of the samples (op: waveform) and what carry takes with the next window.",
            )
        return state.astype(first.dtype, copy=False)

    def _rows(self, name: str, answer: Array, windows: int) -> Array:
        """Windows × numbers, as real numbers."""
        rows = answer.reshape(1, -1) if windows == 1 else answer
        if len(rows) != windows:
            raise ModelError(f"The output {name} has {len(rows):,} rows for {windows} windows of a sound.")
        return self._read[name](rows).reshape(windows, -1)

    def _joined(self, name: str, rows: Sequence[Array]) -> Array:
        together = np.concatenate(rows)
        if self._join == "mean":
            return np.asarray(together.mean(axis=0, keepdims=True, dtype=np.float64), np.float32)
        return together.reshape(1, -1) if together.shape[1] == 1 else together[np.newaxis]


def _check_names(sound: Sound, source: str, inputs: Mapping[str, TensorSpec], outputs: set[str]) -> None:
    filled = {source, *sound.carry, *sound.constants}
    if unknown := sorted(filled - set(inputs)):
        raise ManifestError(f"The manifest fills the input {unknown[0]!r}, but the model has {', '.join(inputs)}.")
    if empty := sorted(set(inputs) - filled):
        raise ManifestError(
            f"The model has the inputs {', '.join(inputs)}, and nothing in the manifest fills {empty[0]!r}.",
            hint="Name it under sound: carry, of a state, or constants.",
        )
    if missing := sorted({carried.output for carried in sound.carry.values()} - outputs):
        raise ManifestError(f"The manifest carries the output {missing[0]!r}, but the model has {', '.join(outputs)}.")


def _first_state(spec: TensorSpec, declared: tuple[int, ...] | None) -> Array:
    fits = declared is None or (
        len(declared) == len(spec.shape)
        and all(own in (None, given) for own, given in zip(spec.shape, declared, strict=True))
    )
    if not fits:
        raise ManifestError(
            f"The input {spec.name} takes {shape_text(spec.shape)}, but carry declares {shape_text(declared or ())}."
        )
    shape = [extent for extent in declared or spec.shape if extent is not None]
    if len(shape) != len(declared or spec.shape):
        raise ManifestError(
            f"The file leaves dimensions of the state {spec.name} free: {shape_text(spec.shape)}.",
            hint="Declare its shape under carry.",
        )
    return np.zeros(shape, np.dtype(spec.dtype))
