"""What columns of an Arrow table say is right of each row: the option truth=KIND:COLUMN of Parquet and Arrow files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zoolens.base.errors import DatasetError
from zoolens.inventory.datasets.dataset import Dataset
from zoolens.inventory.datasets.judged_samples import JudgedSamples, true_texts
from zoolens.inventory.datasets.several_labels import SeveralLabels, checked_present
from zoolens.inventory.datasets.tagged import Tagged, tagged_dataset
from zoolens.inventory.datasets.text_dataset import TextPair, Truths, Value, Words
from zoolens.inventory.datasets.truth import Truth

KINDS: Final = ("value", "similarity", "labels", "text", "tags")
MAX_TEXTS: Final = 1 << 28  # characters of all texts, which are held in memory
_SEPARATOR: Final = ":"


@dataclass(frozen=True)
class DeclaredTruth:
    """Which columns say what is right, and in which way."""

    kind: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """A table of which columns are read by name. `names`: the names of classes that the file has for a column."""

    name: str
    column: Callable[[str], Any]
    names: Callable[[str], tuple[str, ...] | None]


def declared_truth(option: str | None, known: Sequence[str], where: str) -> DeclaredTruth | None:
    """What the option truth means; None: it was not given."""
    if option is None:
        return None
    kind, sign, columns = option.partition(_SEPARATOR)
    if kind not in KINDS or not sign or not columns:
        raise DatasetError(
            f"The option truth={option[:80]!r} is not a kind and its columns.",
            hint=f"Such as truth=value:rating; kinds are {', '.join(KINDS)}.",
        )
    chosen = tuple(columns.split(","))
    missing = next((name for name in chosen if name not in known), None)
    if missing is not None:
        raise DatasetError(f"{where} has no column {missing[:80]!r}.", hint=f"It has {', '.join(known)[:200]}.")
    if len(chosen) > 1 and kind not in ("value", "labels"):
        raise DatasetError(f"A truth of kind {kind} is one column, not {len(chosen)}.")
    return DeclaredTruth(kind, chosen)


def judged(parent: Dataset, table: Table, declared: DeclaredTruth, classes: tuple[str, ...] | None) -> Dataset:
    """A dataset of images, arrays or texts with the truths of some columns."""
    if declared.kind == "labels":
        present, names = _labels(table, declared.columns, classes)
        return SeveralLabels(parent, present, names)
    if declared.kind == "text":
        return JudgedSamples(parent, true_texts(texts_of(table, declared.columns[0], empty=True), table.name))
    if declared.kind == "tags":
        raise DatasetError("Tags are of words: name the column of a text's words with x=….")
    numbers = np.stack([_numbers(table, column) for column in declared.columns], axis=1)
    if declared.kind == "similarity" and not _are_pairs(parent):
        raise DatasetError(
            f"similarity says how alike two texts are, but a sample of {table.name} is no pair of texts.",
            hint="Name both columns: x=A,B.",
        )
    rows = numbers.reshape(len(numbers), -1)
    return JudgedSamples(parent, Truths(declared.kind, [Truth(declared.kind, {declared.kind: row}) for row in rows]))


def _are_pairs(dataset: Dataset) -> bool:
    value = dataset.read(0).value if len(dataset) else None
    return value is not None and value.dtype == object and isinstance(value.item(), TextPair)


def is_text(kind: Any) -> bool:
    """Whether a column of this type holds a text in each row; equal ones may be behind numbers."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_words(kind: Any) -> bool:
    """Whether a column of this type holds a list of texts in each row."""
    return bool((pa.types.is_list(kind) or pa.types.is_large_list(kind)) and is_text(kind.value_type))


# --- texts as inputs


def text_inputs(table: Table, columns: Sequence[str]) -> list[Value]:
    """The texts of one column, or the pairs of two."""
    if len(columns) == 1:
        return list(_no_gaps(texts_of(table, columns[0]), table.name, columns[0]))
    if len(columns) != 2:
        raise DatasetError(f"A sample is one text or a pair, but x names {len(columns)} columns.", hint="Name two.")
    first, second = (_no_gaps(texts_of(table, column), table.name, column) for column in columns)
    return [TextPair(*both) for both in zip(first, second, strict=True)]


def word_inputs(table: Table, column: str) -> list[Words]:
    """The words of each text, of a column of lists."""
    rows = _lists(table, column)
    if odd := next((row for row in rows if not all(isinstance(word, str) for word in row)), None):
        raise DatasetError(f"The column {column} of {table.name} has {str(odd)[:60]}, which are no words.")
    return [Words(tuple(row)) for row in rows]


def texts_of(table: Table, column: str, *, empty: bool = False) -> list[str | None]:
    """The texts of a column; None where there is none. `empty`: a column without any text is allowed."""
    found = table.column(column)
    if not (is_text(found.type) or (empty and pa.types.is_null(found.type))):
        raise DatasetError(f"The column {column} of {table.name} holds {found.type}, not texts.")
    _check_length(found.chunks, table.name, column)
    return [text for chunk in found.chunks for text in _unpacked(chunk).to_pylist()]


def _check_length(arrays: Sequence[Any], name: str, column: str) -> None:
    """Refuses texts that are too long together; a dictionary may hold one text for millions of rows."""
    if sum(map(_characters, arrays)) > MAX_TEXTS:
        raise DatasetError(
            f"The texts in {column} of {name} have more than {MAX_TEXTS:,} bytes together.",
            hint="Write a part of them into a file of its own.",
        )


def _characters(texts: Any) -> int:
    if not pa.types.is_dictionary(texts.type):
        return int(texts.nbytes)
    lengths = np.array([len(text or "") for text in texts.dictionary.to_pylist()], np.int64)
    places = texts.indices.drop_null().to_numpy(zero_copy_only=False).astype(np.int64)
    return int(lengths[places].sum()) if len(lengths) else 0


def _unpacked(texts: Any) -> Any:
    """Texts without a dictionary: to_pylist is thirty times as fast on 200,000 of them."""
    return texts.dictionary_decode() if pa.types.is_dictionary(texts.type) else texts


def _no_gaps(texts: Sequence[str | None], name: str, column: str) -> list[str]:
    if None in texts:
        raise DatasetError(f"Row {texts.index(None)} of {name} has no text in {column}.", hint="Complete or remove it.")
    return [text for text in texts if text is not None]


# --- numbers and labels


def _numbers(table: Table, column: str) -> NDArray[np.float64]:
    found = table.column(column)
    kind = found.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        rows = _lists(table, column)
        if len({len(row) for row in rows}) > 1:
            raise DatasetError(f"The column {column} of {table.name} has lists of different lengths.")
        return _finite(np.array(rows, np.float64) if _all_numbers(rows) else None, table, column)
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)) or found.null_count:
        return _finite(None, table, column)
    return _finite(found.to_numpy().astype(np.float64), table, column)


def _all_numbers(rows: Sequence[Sequence[Any]]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for row in rows for value in row)


def _finite(numbers: NDArray[np.float64] | None, table: Table, column: str) -> NDArray[np.float64]:
    if numbers is None or not np.isfinite(numbers).all():
        raise DatasetError(
            f"The column {column} of {table.name} has a row without a number, or with NaN or infinity.",
            hint="Complete the rows, or remove them.",
        )
    return numbers


def _lists(table: Table, column: str) -> list[list[Any]]:
    held = table.column(column)
    found = _word_lists(held, table.name, column) if is_words(held.type) else held.to_pylist()
    odd = next((place for place, row in enumerate(found) if not isinstance(row, list)), None)
    if odd is not None:
        raise DatasetError(f"Row {odd} of {table.name} has no list in {column}.", hint="Complete or remove it.")
    return list(found)


def _word_lists(column: Any, name: str, which: str) -> list[list[Any] | None]:
    """The lists of a column; None where there is none."""
    flat = [chunk.flatten() for chunk in column.chunks]
    _check_length(flat, name, which)
    found: list[list[Any] | None] = []
    for chunk, inner in zip(column.chunks, flat, strict=True):
        words = iter(_unpacked(inner).to_pylist())
        lengths = pc.list_value_length(chunk).to_pylist()
        found += [None if length is None else list(islice(words, length)) for length in lengths]
    return found


def _labels(
    table: Table, columns: Sequence[str], classes: tuple[str, ...] | None
) -> tuple[NDArray[np.int8], tuple[str, ...] | None]:
    """Which labels apply: columns of 0 and 1, one for each label; or one column with a list of those that do."""
    if len(columns) > 1:
        rows = [table.column(column).to_pylist() for column in columns]
        flags = np.array([[-1 if flag is None else flag for flag in row] for row in rows], object).T
        return checked_present(_plain_flags(flags, table.name), table.name), classes or tuple(columns)
    (column,) = columns
    held = table.column(column)
    found = _word_lists(held, table.name, column) if is_words(held.type) else held.to_pylist()
    names = classes or table.names(column)
    if names is None:
        words = {label for row in found for label in row or () if isinstance(label, str)}
        names = tuple(sorted(words)) if words else None
    if names is None:
        raise DatasetError(
            f"The column {column} of {table.name} has numbers of labels, and nothing says how many labels there are.",
            hint="Name them: classes=…; or give a column of 0 and 1 for each label.",
        )
    numbers = {name: place for place, name in enumerate(names)}
    present = np.zeros((len(found), len(names)), np.int8)
    for place, row in enumerate(found):
        if row is None:
            present[place] = -1
            continue
        for label in row if isinstance(row, list) else [row]:
            present[place, _number(label, numbers, f"Row {place} of {table.name}")] = 1
    return present, names


def _plain_flags(flags: NDArray[Any], name: str) -> NDArray[np.float64]:
    try:
        return flags.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise DatasetError(f"A column of labels in {name} has other values than 0 and 1.") from error


def _number(label: Any, numbers: Mapping[str, int], where: str) -> int:
    number = numbers.get(label) if isinstance(label, str) else label
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < len(numbers):
        raise DatasetError(f"{where} has the label {str(label)[:60]!r}, which is none of {len(numbers)}.")
    return number


def tagged_words(table: Table, words: str, tags: str, classes: tuple[str, ...] | None) -> Dataset:
    """Texts that were split into words, with a tag for each: its name, such as B-PER, or its number in `classes`."""
    names = classes or table.names(tags)
    rows = zip(word_inputs(table, words), _lists(table, tags), strict=True)
    found = [
        Tagged(f"row {place} of {table.name}", text.parts, [_tag(tag, names, table.name) for tag in own])
        for place, (text, own) in enumerate(rows)
    ]
    return tagged_dataset(found, table.name)


def _tag(tag: Any, names: tuple[str, ...] | None, where: str) -> Any:
    if isinstance(tag, int) and not isinstance(tag, bool):
        if names is None or not 0 <= tag < len(names):
            raise DatasetError(
                f"{where} has the number {tag} for a tag, and nothing says which tag that is.",
                hint="Name the tags in the order of their numbers: classes=O,B-PER,….",
            )
        return names[tag]
    return tag
