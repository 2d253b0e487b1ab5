"""What a user's function returned as data, sorted: arrays, something that can be iterated again, or a generator.

Known by what they can do, so that no framework is imported: a torch DataLoader, a tf.data.Dataset, a keras PyDataset, a
list of batches and a generator are all of them iterables of (inputs, targets).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from zoolens.base.errors import DatasetError


@dataclass(frozen=True)
class ArrayData:
    """All samples at once: they are shuffled and cut into batches here."""

    inputs: Any
    targets: Any


class BatchData:
    """Batches in the user's own order: each `epoch` is one pass over them."""

    def __init__(self, made: Any, again: Callable[[], Any]) -> None:
        """`again` makes the object anew: a generator that has ended cannot be iterated a second time."""
        self._made: Any = made
        self._again = again
        self._used = False
        self._going: Iterator[Any] | None = None

    def epoch(self, steps: int | None) -> Iterator[Any]:
        """The batches of the next epoch: a whole pass; with `steps`, as many as that, where the last epoch stopped. A
        pass that ends before is begun again."""
        if steps is None:
            return self._pass()
        return islice(self._continued(), steps)

    def _continued(self) -> Iterator[Any]:
        while True:
            if self._going is None:
                self._going = self._pass()
            given = False
            for batch in self._going:
                given = True
                yield batch
            self._going = None
            if not given:
                return

    def _pass(self) -> Iterator[Any]:
        if self._used and _is_spent(self._made):
            self._made = self._again()
        self._used = True
        if _is_sequence_of_keras(self._made):
            return _indexed(self._made)
        return iter(self._made)


Part = ArrayData | BatchData


@dataclass(frozen=True)
class DataSource:
    train: Part
    test: Part | None


def sorted_data(call: Callable[[], Any], *, held_out: bool = False) -> DataSource:
    """What `call` returns: the data, or the part to train on and the held-out part. `held_out`: it is a function that
    was named for the held-out part, and only one part is wanted."""
    made = call()
    parts = _parts(made)
    if held_out and len(parts) > 1:
        raise DatasetError(
            "The function of --test-data returned two parts.", hint="Let it return the held-out part alone."
        )
    sorted_parts = [_part(part, _calling_again(call, number)) for number, part in enumerate(parts)]
    return DataSource(sorted_parts[0], sorted_parts[1] if len(parts) > 1 else None)


def _calling_again(call: Callable[[], Any], number: int) -> Callable[[], Any]:
    return lambda: _parts(call())[number]


def _parts(made: Any) -> list[Any]:
    if isinstance(made, Mapping) and set(made) in ({"train"}, {"train", "test"}):
        return [made[name] for name in ("train", "test") if name in made]
    if isinstance(made, tuple) and len(made) == 2 and not any(_is_array(part) for part in made):
        return list(made)
    return [made]


def _part(part: Any, again: Callable[[], Any]) -> Part:
    if isinstance(part, tuple) and len(part) == 2 and _is_array(part[1]):
        return ArrayData(*part)
    if isinstance(part, str | bytes | Mapping) or not (hasattr(part, "__iter__") or hasattr(part, "__getitem__")):
        kind = type(part)
        raise DatasetError(
            f"The function returned an object of {kind.__module__}.{kind.__qualname__}, which gives no batches.",
            hint="Return a generator of (inputs, targets), two arrays, a DataLoader or a tf.data.Dataset; or a pair of "
            "these: the part to train on and the held-out part.",
        )
    if _is_array(part):
        raise DatasetError("The function returned inputs without targets.", hint="Return (inputs, targets).")
    return BatchData(part, again)


def inputs_and_targets(batch: Any, place: str) -> tuple[Any, Any]:
    """The two of a batch, which is a pair in every framework."""
    if isinstance(batch, tuple | list) and len(batch) == 2:
        return batch[0], batch[1]
    if isinstance(batch, tuple | list):
        what = f"{len(batch)} things"
    else:
        what = f"an object of {type(batch).__module__}.{type(batch).__qualname__}"
    raise DatasetError(
        f"{place.capitalize()} is {what}, not (inputs, targets).",
        hint="Give pairs; weights of samples are not supported, and dicts must be taken apart in your function.",
    )


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")


def _is_spent(made: Any) -> bool:
    """Whether it gives its batches only once, as generators do."""
    return hasattr(made, "__next__")


def _is_sequence_of_keras(made: Any) -> bool:
    return any(kind.__name__ in ("PyDataset", "Sequence") and "keras" in kind.__module__ for kind in type(made).__mro__)


def _indexed(made: Any) -> Iterator[Any]:
    yield from (made[number] for number in range(len(made)))
    made.on_epoch_end()
