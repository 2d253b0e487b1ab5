"""Writes a recorded stream, batch by batch: checks each one, keeps equal ones once, and writes the index at the end."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np

from zoolens.base.errors import DatasetError
from zoolens.base.paths import replaced_file
from zoolens.training.pairs.data.plain_arrays import plain_array
from zoolens.training.pairs.data.stream import (
    ALIGNMENT,
    ARRAYS,
    INDEX,
    ChannelOrder,
    RecordedInput,
    SampleBlock,
    StreamIndex,
)
from zoolens.training.pairs.data.target_facts import TargetFacts
from zoolens.training.pairs.networks.framework import Array
from zoolens.training.pairs.sides.network_sides import InputShape

LIMIT: Final = 8 << 30  # bytes of one recording
_REMEMBERED: Final = 1 << 20  # samples; of a longer stream, those that come later are not looked for


class BatchRecorder:
    """Use it in a `with`. `order`: the order of the channels that the user says; None: it is seen in the shapes."""

    def __init__(
        self, folder: Path, inputs: Sequence[InputShape], *, order: ChannelOrder | None = None, limit: int = LIMIT
    ) -> None:
        self.limit = limit
        self._folder, self._given, self._said = folder, inputs, order
        self._file = (folder / ARRAYS).open("wb")
        self.bytes = 0  # of the file
        self.given = 0  # bytes of all batches, also of those that came before
        self.notes: list[str] = []
        self._inputs: tuple[RecordedInput, ...] = ()
        self._targets = TargetFacts()
        self._blocks: list[SampleBlock] = []
        self._digests: dict[bytes, int] = {}
        self._strange: Counter[str] = Counter()
        self._first_strange = ""
        self._trained: set[bytes] = set()
        self._tested: Counter[bytes] = Counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._file.close()

    def add(self, inputs: Any, targets: Any, place: str, *, held_out: bool = False) -> int:
        """Check and write the samples of one batch; the number of its block. `place`: "batch 3 of epoch 1"."""
        arrays = self._checked_inputs(inputs, place)
        target = self._targets.checked(plain_array(targets, f"The targets of {place}"), place)
        if len(target) != len(arrays[0]):
            raise DatasetError(f"{place.capitalize()} has {len(arrays[0])} inputs and {len(target)} targets.")
        self._look(arrays, target, place)
        content = [np.ascontiguousarray(array) for array in (*arrays, target)]
        self.given += sum(array.nbytes for array in content)
        digest = _digest(content)
        self._remember(content[:-1], held_out, known=digest in self._digests)
        if digest not in self._digests:
            self._digests[digest] = len(self._blocks)
            self._blocks.append(SampleBlock(samples=len(target), offsets=tuple(map(self._written, content))))
        return self._digests[digest]

    def finish(self, source: str, code: str | None, *, passes: Sequence[Sequence[int]], test: Sequence[int],
               **settings: Any) -> StreamIndex:  # fmt: skip
        """Write the index: from now on the folder holds a recording. `settings` are fields of the index."""
        self._file.close()
        targets, notes = self._targets.summary()
        described = {
            "inputs": self._inputs,
            "targets": targets,
            "passes": tuple(map(tuple, passes)),
            "test": tuple(test),
            **settings,
        }
        index = StreamIndex(
            source=source,
            code=code,
            recorded=datetime.now(UTC).isoformat(timespec="seconds"),
            digest=self._replayed_digest(passes, test, settings),
            bytes=self.bytes,
            blocks=tuple(self._blocks),
            notes=(*self.notes, *notes, *self._strange_notes(), *self._overlap_notes()),
            **described,
        )
        with replaced_file(self._folder / INDEX) as file:
            file.write(index.model_dump_json().encode())
        return index

    def _remember(self, inputs: Sequence[Array], held_out: bool, *, known: bool) -> None:
        """Which samples were trained on and which are held out, to say whether some are both."""
        if (known and not held_out) or len(self._trained) > _REMEMBERED:
            return
        hashes = [hashlib.blake2b(row.tobytes(), digest_size=8).digest() for row in inputs[0]]
        if held_out:
            self._tested.update(hashes)
        else:
            self._trained.update(hashes)

    def _overlap_notes(self) -> list[str]:
        shared = sum(count for sample, count in self._tested.items() if sample in self._trained)
        if not shared:
            return []
        return [f"{shared} of the {self._tested.total()} held-out samples are trained on, too, byte for byte."]

    def _checked_inputs(self, inputs: Any, place: str) -> list[Array]:
        several = inputs if isinstance(inputs, tuple | list) and len(self._given) > 1 else (inputs,)
        if len(several) != len(self._given):
            raise DatasetError(
                f"{place.capitalize()} has {len(several)} inputs, and --input describes {len(self._given)}.",
                hint="Give ((first, second), targets) for networks with several inputs.",
            )
        arrays = [plain_array(array, f"The inputs of {place}") for array in several]
        if not self._inputs:
            self._inputs = tuple(
                self._recorded_input(array, given) for array, given in zip(arrays, self._given, strict=True)
            )
        arrays = [self._typed(array, given) for array, given in zip(arrays, self._inputs, strict=True)]
        for array, given in zip(arrays, self._inputs, strict=True):
            if array.shape[1:] != given.recorded_shape:
                raise DatasetError(
                    f"{place.capitalize()} has samples of {_shape(array.shape[1:])}; those before it have "
                    f"{_shape(given.recorded_shape)}.",
                    hint="All samples of a stream must have one shape.",
                )
            if len(array) != len(arrays[0]) or not len(array):
                raise DatasetError(f"{place.capitalize()} is empty, or its inputs differ in length.")
        return arrays

    def _recorded_input(self, array: Array, given: InputShape) -> RecordedInput:
        """Which order of channels the samples have; ambiguous ones are refused."""
        last = (*given.shape[1:], given.shape[0])
        sample = array.shape[1:]
        is_image = len(given.shape) == 3 and given.kind == "float"
        if not is_image:
            order: ChannelOrder | None = None
            fits = sample == given.shape
        else:
            if self._said is None and last == given.shape:
                raise DatasetError(
                    f"Samples of {_shape(given.shape)} may have their channels first or last.",
                    hint="Say which, with --data-order channels_first or channels_last.",
                )
            order = self._said or ("channels_last" if sample == last else "channels_first")
            fits = sample == (last if order == "channels_last" else given.shape)
        if not fits:
            raise _no_fit(array.shape, given, order if self._said else None)
        if order is not None:
            how = "as --data-order says" if self._said else f"as their shape {_shape(sample)} shows"
            self.notes.append(f"The channels of the data come {order.removeprefix('channels_')}, {how}.")
        return RecordedInput(shape=given.shape, kind="float" if given.kind == "float" else "int", order=order)

    def _typed(self, array: Array, given: RecordedInput) -> Array:
        if given.kind == "int":
            if array.dtype.kind == "f":
                raise DatasetError(
                    f"The data have {array.dtype} values, and --input says whole numbers.", hint="Change --input."
                )
            return array.astype(np.int64, copy=False)
        if array.dtype != np.float32:
            note = f"Inputs come as {array.dtype} and are recorded as float32"
            note += ", not scaled." if array.dtype.kind in "iub" else "."
            if note not in self.notes:
                self.notes.append(note)
        with np.errstate(over="ignore"):  # what becomes infinite is said
            return array.astype(np.float32, copy=False)

    def _look(self, arrays: Sequence[Array], target: Array, place: str) -> None:
        for what, array in [*(("inputs", array) for array in arrays), ("targets", target)]:
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                self._first_strange = self._first_strange or place
                self._strange[what] += 1

    def _strange_notes(self) -> list[str]:
        return [
            f"The {what} of {count} {'batch' if count == 1 else 'batches'} hold values that are NaN or infinite; the "
            f"first is {self._first_strange}."
            for what, count in self._strange.items()
        ]

    def _written(self, array: Array) -> int:
        offset = -(-self.bytes // ALIGNMENT) * ALIGNMENT
        if offset + array.nbytes > self.limit:
            raise DatasetError(
                f"The recording has more than {self.limit / (1 << 30):.3g} GiB.",
                hint="An endless stream needs --epoch-steps; else take fewer epochs or seeds, or raise --record-limit.",
            )
        try:
            self._file.write(b"\0" * (offset - self.bytes))
            self._file.write(array.data)
            self._file.flush()
        except OSError as error:
            raise DatasetError(
                f"The recording cannot be written to {self._folder}: {error.strerror or error}.",
                hint="Make room, or name a folder on another disk with --record.",
            ) from error
        self.bytes = offset + array.nbytes
        return offset

    def _replayed_digest(self, passes: Sequence[Sequence[int]], test: Sequence[int], settings: dict[str, Any]) -> str:
        names = [digest.hex() for digest in self._digests]  # in the order of their blocks
        free = ("epochs", "seeds") if settings["shuffled"] else ()  # any number of them can be replayed
        kept = {name: value for name, value in settings.items() if name not in free}
        content = [[[names[block] for block in blocks] for blocks in (*passes, test)], kept]
        shapes = [given.model_dump() for given in self._inputs]
        return hashlib.sha256(json.dumps([shapes, content], sort_keys=True).encode()).hexdigest()


def _digest(arrays: Sequence[Array]) -> bytes:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(array.data)
    return digest.digest()


def _no_fit(shape: tuple[int, ...], given: InputShape, order: str | None) -> DatasetError:
    if shape == given.shape or shape == (*given.shape[1:], given.shape[0]):
        return DatasetError(
            f"The stream gives single samples of {_shape(shape)}, not batches.",
            hint="Batch them: DataLoader(…, batch_size=32), dataset.batch(32), or an array with one more axis.",
        )
    order_words = f", with the {order.replace('_', ' ')}," if order else ""
    return DatasetError(
        f"The samples have {_shape(shape[1:])}; --input says{order_words} {_shape(given.shape)}.",
        hint="Change --input, or reshape the samples in your function; images need an axis for their channels.",
    )


def _shape(shape: Sequence[int]) -> str:
    return "×".join(map(str, shape)) or "one number"
