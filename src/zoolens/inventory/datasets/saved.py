"""Folders that Hugging Face's datasets library saved (save_to_disk), and Arrow files: encoded images or arrays.

The files are mapped and read a record batch at a time. Names of classes come from the features that the library leaves
in the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from zoolens.base.errors import DatasetError, first_line
from zoolens.base.safety.untrusted import is_file, parse_json, read_bytes
from zoolens.inventory.datasets.arrays import check_samples
from zoolens.inventory.datasets.arrow_columns import ColumnOptions, open_columns
from zoolens.inventory.datasets.arrow_file import ArrowFile
from zoolens.inventory.datasets.column_truths import is_text
from zoolens.inventory.datasets.dataset import Dataset
from zoolens.inventory.datasets.parquet import Parquet, holds_bytes, is_list

STATE: Final = "state.json"
SPLITS: Final = "dataset_dict.json"
_MAX_JSON: Final = 1 << 24
_SHARD: Final = re.compile(r"(.*-)\d{5}-of-(\d{5})\.arrow")


class Saved(Parquet):
    """Shards of Arrow instead of Parquet."""

    @staticmethod
    def _reader(path: Path, columns: tuple[str, ...]) -> Any:
        found = open_arrow(path)
        lacking = next((name for name in columns if name not in found.schema_arrow.names), None)
        if lacking is not None:
            raise DatasetError(f"{path} has no column {lacking!r}, which the first shard has.")
        for name in columns:
            _check_held(found.schema_arrow.field(name).type, name, path)
        return found

    @staticmethod
    def _rows(reader: Any, group: int) -> int:
        return int(reader.rows(group))

    def _check_size(self, shard: int, row_group: int) -> None:
        """Nothing is unpacked: a batch takes no memory but the pages of the file that are looked at."""

    def _label_values(self, name: str) -> Any:
        check_samples(self.name, int(self._starts[-1]))
        try:
            column = pa.concat_tables([reader.read([name]) for reader in self._readers]).column(name)
            column.validate(full=True)
            for count in _list_extents(column.chunks):
                check_samples(self.name, count)
            return column.cast(pa.string()).dictionary_encode() if is_text(column.type) else column
        except (pa.ArrowException, OSError, ValueError, KeyError) as error:
            raise DatasetError(
                f"The labels of {self.name} cannot be read: {first_line(error).rstrip('.')}.",
                hint="A file is damaged, or the shards do not belong together.",
            ) from error


def _check_held(kind: Any, column: str, path: Path) -> None:
    """Refuses values that take no room in the file, such as nulls in a list: a few bytes could stand for billions."""
    fields = [field.type for field in kind] if pa.types.is_struct(kind) else [kind]
    for field in fields:
        inner = field
        while is_list(inner) and getattr(inner, "list_size", 1) > 0:
            inner = inner.value_type
        sized = pa.types.is_primitive(inner) or is_text(inner) or holds_bytes(inner)
        if not sized and not (inner == field and pa.types.is_null(field)):
            raise DatasetError(
                f"The column {column} of {path} holds {str(kind)[:80]}, which is not read.",
                hint="Write it as numbers, texts, bytes or lists of them.",
            )


def _list_extents(chunks: Sequence[Any]) -> Iterator[int]:
    """How many values there are in each level of nested lists."""
    while chunks and is_list(chunks[0].type):
        chunks = [chunk.values for chunk in chunks]
        yield sum(map(len, chunks))


def open_saved(
    location: str,
    *,
    x: str | None = None,
    y: str | None = None,
    truth: str | None = None,
    split: str | None = None,
    classes: str | None = None,
    gray: str = "rgb",
) -> Dataset:
    """A folder that save_to_disk wrote, or an .arrow file. x, y: names of the columns; y=none for data without labels.
    truth: KIND:COLUMN instead of labels, as for Parquet. split: which part of a folder that has several. classes: a
    file with class names, or the names with commas between them. gray: "rgb" or "keep".
    """
    place = Path(location).expanduser()
    folder = _split(place, split)
    files = _files(folder)
    first = open_arrow(files[0])
    schema = first.schema_arrow
    first.close()
    name = place.stem if folder == place else f"{place.stem} {folder.name}"
    return open_columns(Saved, files, name, schema, ColumnOptions(x, y, truth, classes, gray))


def open_arrow(path: Path) -> ArrowFile:
    try:
        return ArrowFile(path)
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        reason = getattr(error, "strerror", None) or first_line(error).rstrip(".")
        raise DatasetError(f"{path} cannot be read as Arrow: {reason}.", hint="Save the dataset again.") from error


def _split(place: Path, split: str | None) -> Path:
    if not is_file(place / SPLITS):
        if split is not None:
            raise DatasetError(f"{place} has no splits: there is no {SPLITS} in it.", hint="Leave split= out.")
        return place
    splits = _json(place / SPLITS).get("splits")
    if not isinstance(splits, list) or not all(isinstance(name, str) for name in splits) or not splits:
        raise DatasetError(f"{place / SPLITS} lists no splits.", hint="Save the dataset again.")
    chosen = splits[0] if split is None and len(splits) == 1 else split
    if chosen not in splits:
        raise DatasetError(f"{place} has the splits {', '.join(splits)[:200]}.", hint="Say which: split=NAME.")
    return place / _plain(str(chosen), place / SPLITS)


def _files(place: Path) -> list[Path]:
    """The shards in the order of state.json. Without one, several files must be parts of one: a cache folder may also
    hold those of other splits."""
    if not place.is_dir():
        return [place]
    if is_file(place / STATE):
        return _listed(place)
    files = sorted(place.glob("*.arrow"))
    if not files:
        raise DatasetError(f"{place} holds no {STATE} and no .arrow files.", hint="Give a folder of save_to_disk.")
    parts = [_SHARD.fullmatch(path.name) for path in files]
    together = {part.groups() for part in parts if part is not None}
    whole = None not in parts and len(together) == 1 and int(next(iter(together))[1]) == len(files)
    if len(files) > 1 and not whole:
        names = ", ".join(path.name for path in files[:4])
        raise DatasetError(f"{place} has {len(files)} .arrow files and no {STATE}: {names}.", hint="Name one of them.")
    return files


def _listed(place: Path) -> list[Path]:
    state = _json(place / STATE)
    if state.get("_indices_data_files") or state.get("_indices_files"):
        raise DatasetError(
            f"{place} was saved with a list of chosen rows, which is not read.",
            hint="Save it again with dataset.flatten_indices().save_to_disk(…).",
        )
    listed = state.get("_data_files")
    names = [one.get("filename") if isinstance(one, dict) else None for one in listed] if listed else []
    if not names or not all(isinstance(name, str) for name in names):
        raise DatasetError(f"{place / STATE} lists no files.", hint="Save the dataset again.")
    return [place / _plain(str(name), place / STATE) for name in names]


def _plain(name: str, where: Path) -> str:
    if "/" in name or "\\" in name or "\0" in name or name in ("", ".", ".."):
        raise DatasetError(f"{where} names {name[:80]!r}, which leads out of the folder.", hint="Save it again.")
    return name


def _json(path: Path) -> dict[str, Any]:
    try:
        content = parse_json(read_bytes(path, _MAX_JSON))
    except (OSError, ValueError) as error:
        raise DatasetError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from error
    if not isinstance(content, dict):
        raise DatasetError(f"{path} is not a JSON object.", hint="Save the dataset again.")
    return content
