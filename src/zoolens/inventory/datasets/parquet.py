"""Parquet files: encoded images (as Hugging Face writes them) or arrays, read one row group at a time."""

from __future__ import annotations

import hashlib
import mmap
import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from zoolens.base.errors import DatasetError, first_line
from zoolens.base.safety.untrusted import open_regular, parse_json, size_of
from zoolens.inventory.datasets.arrays import check_samples
from zoolens.inventory.datasets.classes import are_whole, check_labels, choose_part, class_indices
from zoolens.inventory.datasets.column_truths import is_text
from zoolens.inventory.datasets.dataset import NO_LABELS, UNLABELLED, Sample
from zoolens.inventory.datasets.encoded_images import EncodedImages
from zoolens.inventory.datasets.parquetpages import check_footer, column_extent
from zoolens.inventory.manifests.digests import sha256_file

INPUTS: Final = ("image", "img", "images", "x", "data")
_LABELS: Final = ("label", "labels", "y", "class", "target", "fine_label")
MAX_ROW_GROUP: Final = 1 << 29
GROUPS_KEPT: Final = 3  # readers that go forward side by side need the current group and its neighbours


@dataclass(frozen=True)
class Columns:
    """The columns that are read: of inputs, of labels where there are any, and others that say what is right."""

    inputs: str
    labels: str | None = None
    others: tuple[str, ...] = ()


class Parquet(EncodedImages):
    """One file or several shards in the order of their names. Holds the labels and a few row groups."""

    def __init__(
        self,
        files: list[Path],
        *,
        name: str,
        columns: Columns,
        classes: tuple[str, ...] | None,
        gray: bool,
    ) -> None:
        super().__init__(keep_gray=gray)
        self.name = name
        self._files = files
        self._inputs = inputs = columns.inputs
        self._label_column = columns.labels
        read = (inputs, *filter(None, [columns.labels]), *columns.others)
        self._readers = [self._reader(path, read) for path in files]
        self.encoded = _holds_images(self._readers[0].schema_arrow.field(inputs).type)
        self._groups: list[tuple[int, int]] = []
        sizes = [0]
        for shard, reader in enumerate(self._readers):
            for group in range(reader.num_row_groups):
                self._groups.append((shard, group))
                sizes.append(self._rows(reader, group))
        self._starts = np.cumsum(sizes)
        self._labels, self.classes = self._read_labels(classes)
        self._kept: OrderedDict[int, Any] = OrderedDict()
        self._lock = threading.Lock()
        check_labels(name, self._labels.tolist(), self.classes)

    @staticmethod
    def _reader(path: Path, columns: tuple[str, ...]) -> Any:
        return _open(path, columns)

    @staticmethod
    def _rows(reader: Any, group: int) -> int:
        return int(reader.metadata.row_group(group).num_rows)

    def __len__(self) -> int:
        return len(self._labels)

    def read(self, index: int) -> Sample:
        label = int(self._labels[index])
        group = int(np.searchsorted(self._starts, index, side="right")) - 1
        value = self._group(group)[int(index - self._starts[group])]
        return Sample(str(index), self._value(value, index), label)

    def labels(self) -> NDArray[np.int64]:
        return self._labels

    def column(self, name: str) -> Any:
        """All rows of a column of texts, numbers or lists, within the limits of labels."""
        return self._label_values(name)

    def names_of(self, column: str) -> tuple[str, ...] | None:
        """The names that the file has for the numbers in a column."""
        return _hugging_face_names(self._readers[0], column)

    def fingerprint(self) -> str:
        mode = "gray" if self._keep_gray else "rgb"
        digest = hashlib.sha256(f"{self._inputs} {self._label_column or NO_LABELS} {mode};".encode())
        for path in self._files:
            digest.update(f"{sha256_file(path)};".encode())
        digest.update(self._labels.astype("<i8").tobytes())
        return digest.hexdigest()

    def close(self) -> None:
        with self._lock:
            self._kept.clear()
            for reader in self._readers:
                reader.close()

    def _group(self, group: int) -> Any:
        """The inputs of one row group; readers share the few that are kept."""
        with self._lock:
            if group in self._kept:
                self._kept.move_to_end(group)
                return self._kept[group]
            shard, row_group = self._groups[group]
            try:
                self._check_size(shard, row_group)
                column = self._readers[shard].read_row_group(row_group, columns=[self._inputs]).column(self._inputs)
                _check_column(column, int(self._starts[group + 1] - self._starts[group]))
            except (pa.ArrowException, OSError, ValueError, KeyError) as error:
                raise DatasetError(
                    f"{self._files[shard]} cannot be read at row group {row_group}: {first_line(error).rstrip('.')}.",
                    hint="It is truncated or damaged: fetch it again.",
                ) from error
            while len(self._kept) >= GROUPS_KEPT:
                self._kept.popitem(last=False)
            self._kept[group] = column
            return column

    def _check_size(self, shard: int, row_group: int) -> None:
        """The pages are asked, not the footer: a run of equal values takes no room in the file."""
        size = sum(
            max(unpacked, values * width)
            for values, unpacked, width in _extents(self._files[shard], self._readers[shard], row_group, self._inputs)
        )
        if size > MAX_ROW_GROUP:
            raise DatasetError(
                f"{self._files[shard]} has a row group of {size:,} bytes, more than the {MAX_ROW_GROUP:,} "
                "that are held in memory at once.",
                hint="Write it again with a smaller row_group_size, such as 1000.",
            )

    def _value(self, value: Any, index: int) -> NDArray[Any]:
        name = f"Row {index} of {self.name}"
        if pa.types.is_struct(value.type):
            value = value["bytes"] if value.type.get_field_index("bytes") >= 0 else value
        if not value.is_valid:
            raise DatasetError(f"{name} has no {self._inputs}.", hint="Remove the row, or embed the image's bytes.")
        if holds_bytes(value.type):
            return self._pixels(value.as_py(), name)
        return _array(value)

    def _read_labels(self, classes: tuple[str, ...] | None) -> tuple[NDArray[np.int64], tuple[str, ...] | None]:
        if self._label_column is None:
            check_samples(self.name, int(self._starts[-1]))
            return np.full(int(self._starts[-1]), UNLABELLED), classes
        column = self._label_values(self._label_column)
        if len(column) and column.null_count == len(column):  # as a published test split has them
            return np.full(len(column), UNLABELLED), classes
        if column.null_count:
            raise DatasetError(f"Dataset {self.name} has rows without a label.", hint="Remove those rows.")
        column = _whole_numbers(column)
        if pa.types.is_integer(column.type):
            names = classes or _hugging_face_names(self._readers[0], self._label_column)
            return column.to_numpy().astype(np.int64), names
        if not (pa.types.is_dictionary(column.type) and pa.types.is_string(column.type.value_type)):
            raise DatasetError(
                f"The column {self._label_column} holds {column.type}, not an integer or a word for each row.",
                hint=f"Name another column with y=…, or none of them: y={NO_LABELS}.",
            )
        words = [chunk.dictionary.to_pylist() for chunk in column.chunks]  # each once, however many rows have it
        used = [np.asarray(chunk.indices.to_numpy(zero_copy_only=False), np.int64) for chunk in column.chunks]
        labels = {all_[number] for all_, places in zip(words, used, strict=True) for number in np.unique(places)}
        index, names = class_indices(sorted(labels), classes, self.name)
        self.alphabetical = classes is None and names is not None
        parts = [
            np.array([index.get(word, -1) for word in all_], np.int64)[places] if len(places) else places
            for all_, places in zip(words, used, strict=True)
        ]
        return np.concatenate(parts) if parts else np.zeros(0, np.int64), names

    def _every_group(self) -> Iterator[tuple[Any, int]]:
        return ((self._readers[shard], group) for shard, group in self._groups)

    def _label_values(self, name: str) -> Any:
        """Returns the label column of all shards, after their page headers were checked for decompression bombs."""
        values = 0
        for path, reader in zip(self._files, self._readers, strict=True):
            for group in range(reader.num_row_groups):
                for counted, unpacked, _ in _extents(path, reader, group, name):
                    values += counted
                    if unpacked > MAX_ROW_GROUP:
                        raise DatasetError(
                            f"{path} has labels of more than {MAX_ROW_GROUP:,} bytes in a row group.",
                            hint="Write it again with a smaller row_group_size, such as 1000.",
                        )
                check_samples(self.name, values)
        try:
            if is_list(self._readers[0].schema_arrow.field(name).type):
                # pyarrow 26 cannot read lists of texts behind numbers of several row groups at once.
                groups = [reader.read_row_group(group, [name]) for reader, group in self._every_group()]
                return pa.chunked_array([chunk for group in groups for chunk in group.column(name).chunks])
            tables = [reader.read(columns=[name], use_threads=False) for reader in self._readers]
            return pa.concat_tables(tables, promote_options="default").column(name)
        except (pa.ArrowException, OSError, ValueError, KeyError) as error:
            raise DatasetError(
                f"The labels of {self.name} cannot be read: {first_line(error).rstrip('.')}.",
                hint="A file is damaged, or the shards do not belong together.",
            ) from error


def parquet_schema(path: Path) -> Any:
    """The names and types of a file's columns."""
    return _open(path).schema_arrow


def choose_columns(x: str | None, y: str | None, schema: Any, path: Path) -> tuple[str, str | None]:
    """The columns of inputs and of labels, as the user names them or else by their usual names."""
    inputs = choose_part("column", "x", x, INPUTS, schema.names, path)
    return inputs, _choose_labels(y, inputs, schema, path)


def _choose_labels(given: str | None, inputs: str, schema: Any, path: Path) -> str | None:
    others = [field for field in schema if field.name != inputs]
    if given is None and not any(field.name in _LABELS or _may_be_label(field.type) for field in others):
        return None
    if given == NO_LABELS and NO_LABELS not in schema.names:
        return None
    unlabelled = f", or write y={NO_LABELS} where there are no labels."
    return choose_part("column", "y", given, _LABELS, schema.names, path, unlabelled)


def _whole_numbers(column: Any) -> Any:
    """Labels that are yes and no, or integers with a point (as pandas writes a column that once had a gap), as
    integers; other columns as they are."""
    if pa.types.is_boolean(column.type):
        return column.cast(pa.int64())
    if not pa.types.is_floating(column.type):
        return column
    values = column.to_numpy()
    return pa.chunked_array([values.astype(np.int64)]) if are_whole(values) else column


def _may_be_label(kind: Any) -> bool:
    whole = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_integer(whole)) or is_text(kind)


def _open(path: Path, columns: tuple[str, ...] = ()) -> Any:
    """A reader that keeps texts and images of `columns` behind numbers: equal ones are in memory once."""
    try:
        size_of(path)
        reader = pq.ParquetFile(path)
        with open_regular(path) as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            check_footer(reader.schema, content)
        packed = [leaf.path for _, leaf in _leaves(reader, columns) if leaf.physical_type == "BYTE_ARRAY"]
        return pq.ParquetFile(path, read_dictionary=packed) if packed else reader
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise DatasetError(
            f"{path} cannot be read as Parquet: {first_line(error).rstrip('.')}.", hint="Is the file complete?"
        ) from error


def _leaves(reader: Any, columns: tuple[str, ...]) -> list[tuple[int, Any]]:
    """The stored columns that make up the named ones, which may be structs and lists, with their places."""
    leaves = []
    for place in range(len(reader.schema)):
        leaf = reader.schema.column(place)
        if leaf.path.partition(".")[0] in columns:
            leaves.append((place, leaf))
    return leaves


def _extents(path: Path, reader: Any, group: int, column: str) -> list[tuple[int, int, int]]:
    """Values, unpacked bytes and bytes a value of what is stored of one column in a row group."""
    try:
        with open_regular(path) as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            metadata = reader.metadata.row_group(group)
            width = _width(reader.schema_arrow.field(column).type)
            return [(*column_extent(metadata, place, content), width) for place, _ in _leaves(reader, (column,))]
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        raise DatasetError(
            f"{path} is damaged at row group {group}: {first_line(error).rstrip('.')}.", hint="Fetch it again."
        ) from error


def _check_column(column: Any, rows: int) -> None:
    """Raises ValueError if a column of a damaged file cannot be parsed."""
    # Texts behind numbers that their dictionary does not have.
    column.validate(full=True)
    if len(column) != rows:
        raise ValueError("its number of rows differs from the footer's")


def _width(kind: Any) -> int:
    """Bytes that a value takes in memory, whatever its pages need; texts and images are numbers here."""
    while is_list(kind):
        kind = kind.value_type
    return max(1, kind.bit_width // 8) if pa.types.is_primitive(kind) else 4


def is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _holds_images(kind: Any) -> bool:
    return bool(pa.types.is_struct(kind) or holds_bytes(kind))


def holds_bytes(kind: Any) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _hugging_face_names(reader: Any, column: str) -> tuple[str, ...] | None:
    """Class names as the `datasets` library leaves them in the file's metadata."""
    try:
        metadata = parse_json((reader.schema_arrow.metadata or {})[b"huggingface"])
        feature = metadata["info"]["features"][column]
        # A list of classes has its feature inside.
        names = feature.get("feature", feature)["names"]
    except (KeyError, ValueError, TypeError, AttributeError):
        return None
    return tuple(map(str, names)) if isinstance(names, list) else None


def _array(value: Any) -> NDArray[Any]:
    """A (nested) list as an array, in the type of its innermost values."""
    kind = value.type
    while is_list(kind):
        kind = kind.value_type
    try:
        return np.asarray(value.as_py(), dtype=kind.to_pandas_dtype())
    except (ValueError, TypeError, NotImplementedError) as error:
        raise DatasetError(
            f"A value of type {value.type} is neither an image nor a regular array.",
            hint="Store encoded image bytes, or lists of one length.",
        ) from error
