"""Parquet files: encoded images (as Hugging Face writes them), arrays or texts, with labels or other truths of rows.

`open_columns` does the same for Arrow files, which saved.py finds.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from zoolens.base.errors import DatasetError
from zoolens.inventory.datasets.classes import NAMES, class_names
from zoolens.inventory.datasets.column_truths import (
    DeclaredTruth,
    Table,
    declared_truth,
    is_text,
    is_words,
    judged,
    tagged_words,
    text_inputs,
)
from zoolens.inventory.datasets.dataset import NO_LABELS, Dataset
from zoolens.inventory.datasets.encoded_images import keeps_gray
from zoolens.inventory.datasets.parquet import INPUTS, Columns, Parquet, choose_columns, parquet_schema
from zoolens.inventory.datasets.text_dataset import TextDataset

_TEXTS: Final = ("text", "sentence", "content", "tokens")  # names of inputs where there is no image and no array


@dataclass(frozen=True)
class ColumnOptions:
    """What a user chose: see `open_parquet`."""

    x: str | None = None
    y: str | None = None
    truth: str | None = None
    classes: str | None = None
    gray: str = "rgb"


def open_parquet(
    location: str,
    *,
    x: str | None = None,
    y: str | None = None,
    truth: str | None = None,
    classes: str | None = None,
    gray: str = "rgb",
) -> Dataset:
    """A file, or a folder whose .parquet files are shards. x, y: names of the columns; y=none for data without labels,
    which is also what a file without any column of numbers or texts beside the inputs holds. x=A,B: pairs of texts.

    truth: instead of labels, KIND:COLUMN, such as value:rating. Kinds are value (numbers; several columns with commas),
    similarity (of pairs), labels (columns of 0 and 1, or a list of those that apply), text (a true text) and tags (of
    the words in x).

    classes: a file with class names, or the names with commas between them. gray: "rgb" or "keep".
    """
    place = Path(location).expanduser()
    files = sorted(place.rglob("*.parquet")) if place.is_dir() else [place]
    if not files:
        raise DatasetError(f"{place} holds no .parquet files.", hint="Give a .parquet file or a folder of them.")
    options = ColumnOptions(x, y, truth, classes, gray)
    return open_columns(Parquet, files, place.stem, parquet_schema(files[0]), options)


def open_columns(kind: type[Parquet], files: list[Path], name: str, schema: Any, options: ColumnOptions) -> Dataset:
    """The dataset that some columns of files make up."""
    keep_gray = keeps_gray(options.gray)
    declared = declared_truth(options.truth, schema.names, str(files[0]))
    if declared is not None and options.y not in (None, NO_LABELS):
        raise DatasetError("Give either y or truth: a sample is judged in one way.")
    inputs = _inputs(options.x, schema)
    first, labels = choose_columns(
        inputs[0] if inputs else options.x, NO_LABELS if declared is not None else options.y, schema, files[0]
    )
    inputs = inputs or (first,)
    others = (*inputs[1:], *(declared.columns if declared is not None else ()))
    names = class_names(options.classes, files[0].parent, NAMES)
    source = kind(files, name=name, columns=Columns(first, labels, others), classes=names, gray=keep_gray)
    table = Table(name, source.column, source.names_of)
    held = schema.field(first).type
    if _is_language(held):
        try:
            return _texts(source, table, inputs, declared, names)
        finally:
            source.close()
    if len(inputs) > 1:
        source.close()
        raise DatasetError(f"x={options.x!r} names several columns, but only texts come in pairs.")
    return source if declared is None else judged(source, table, declared, names)


def _inputs(x: str | None, schema: Any) -> tuple[str, ...] | None:
    """Columns of inputs where x names several, or where it names none and texts have a usual name."""
    if x is not None:
        return tuple(x.split(",")) if "," in x and x not in schema.names else None
    images = any(not _is_language(field.type) for field in schema if field.name in INPUTS)
    usual = next((name for name in _TEXTS if name in schema.names), None)
    return (usual,) if usual is not None and not images and _is_language(schema.field(usual).type) else None


def _is_language(kind: Any) -> bool:
    return is_text(kind) or is_words(kind)


def _texts(
    source: Parquet,
    table: Table,
    inputs: tuple[str, ...],
    declared: DeclaredTruth | None,
    classes: tuple[str, ...] | None,
) -> Dataset:
    """Texts are held in memory, as those of tables are."""
    if declared is not None and declared.kind == "tags":
        return tagged_words(table, inputs[0], declared.columns[0], classes)
    values = text_inputs(table, inputs)
    if declared is not None:
        return judged(TextDataset(values, name=table.name), table, declared, classes)
    return TextDataset(
        values,
        source.labels().tolist(),
        name=table.name,
        classes=source.classes,
        alphabetical=source.alphabetical,
    )
