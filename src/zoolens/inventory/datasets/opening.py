"""From what a user writes to an open dataset: "demo", "kind:location?option=value", or a path."""

from __future__ import annotations

import difflib
import gzip
import inspect
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, urlencode

from zoolens.base import plugins
from zoolens.base.errors import DatasetError
from zoolens.base.safety.untrusted import open_regular
from zoolens.inventory.datasets.beir import CORPUS, QUERIES
from zoolens.inventory.datasets.cifar10 import RECORD
from zoolens.inventory.datasets.dataset import Dataset, OpenedAs
from zoolens.inventory.datasets.idx import find_idx_images
from zoolens.inventory.datasets.imagefolder import LABELS, images_under
from zoolens.inventory.datasets.images import SUFFIXES
from zoolens.inventory.datasets.kinds import BUILT_IN, kind_names, load_kind
from zoolens.inventory.datasets.mask_folder import IMAGES, MASKS
from zoolens.inventory.datasets.readbyplugin import ReadByPlugin
from zoolens.inventory.datasets.sound.decoding import SUFFIXES as SOUND_SUFFIXES
from zoolens.inventory.datasets.sound.soundfolder import sounds_under
from zoolens.inventory.datasets.subset import select
from zoolens.inventory.datasets.tagged import SUFFIXES as TAGGED_SUFFIXES
from zoolens.inventory.datasets.text_tables import SUFFIXES as TEXT_SUFFIXES

Data = str | Path | Dataset  # as users name it, or opened

# Files that only their name tells apart.
_BY_SUFFIX: Final = {
    ".json": "coco",
    ".tar": "webdataset",
    ".arrow": "saved",
    ".yaml": "yolo",
    ".yml": "yolo",
    **dict.fromkeys(SOUND_SUFFIXES, "sounds"),
    **dict.fromkeys(TAGGED_SUFFIXES, "tagged"),
    **dict.fromkeys(TEXT_SUFFIXES, "text"),
}
_SHARDS: Final = {
    ".parquet": "parquet",
    ".tar": "webdataset",
    ".arrow": "saved",
    "dataset_dict.json": "saved",
}  # kinds whose files lie side by side in a folder
_IDX_START: Final = b"\0\0\x08"
_GZIP_START: Final = b"\x1f\x8b"


def open_dataset(spec: str | Path, *, limit: int | None = None, seed: int | None = None, **options: str) -> Dataset:
    """The dataset a spec names, or `limit` samples of it. `options` are those of the kind, as after the "?"."""
    kind, location, written = parse_spec(str(spec))
    opener = load_kind(kind)
    arguments = {**written, **options}
    _check_options(kind, opener, location, arguments)
    try:
        Path(location).expanduser()
    except RuntimeError as error:
        raise DatasetError(f"{_short(location)} has no home folder.", hint="Write the path in full.") from error
    try:
        dataset: Dataset = opener(location, **arguments)
    except OSError as error:
        # A name too long, a folder that may not be entered: whatever the kind does not explain.
        raise DatasetError(f"The dataset {_short(spec)} cannot be read: {error.strerror or error}.") from error
    if len(dataset) == 0:
        dataset.close()
        raise DatasetError(f"The dataset {spec} is empty.", hint="A measurement needs at least one sample.")
    code = None if kind in BUILT_IN else plugins.code_of(plugins.DATASETS, kind)
    chosen = select(dataset if code is None else ReadByPlugin(dataset, code), limit, seed)
    chosen.opened_as = OpenedAs(_with_options(str(spec), options), limit, seed)
    return chosen


def _with_options(spec: str, options: Mapping[str, str]) -> str:
    if not options:
        return spec
    return f"{spec}{'&' if '?' in spec else '?'}{urlencode(options)}"


@dataclass(frozen=True)
class NamedData:
    """What a user says of a dataset. `data` is None where none is given; an empty name is an error on opening."""

    data: str | None = None
    limit: int | None = None
    seed: int | None = None


def named_data(data: Data | None, limit: int | None = None, seed: int | None = None) -> NamedData:
    """Returns what to open for a dataset that a user named, or opened already: workers open it again."""
    if not isinstance(data, Dataset):
        return NamedData(None if data is None else str(data), limit, seed)
    if data.opened_as is None:
        raise DatasetError(
            f"{data.name} was not opened by open_dataset, and cannot be opened again by the process that reads it.",
            hint="Name the dataset, or write a plug-in for its kind.",
        )
    if (limit, seed) == (None, None):
        return NamedData(data.opened_as.spec, data.opened_as.limit, data.opened_as.seed)
    if data.opened_as.limit is not None:
        raise DatasetError(
            f"{data.name} is a part of a dataset already.", hint="Give limit and seed to open_dataset alone."
        )
    return NamedData(data.opened_as.spec, limit, seed)


def whole_data(data: Data) -> str:
    """Returns the name of data of which no part can be chosen."""
    named = named_data(data)
    assert named.data is not None
    if named.limit is not None:
        raise DatasetError(f"{named.data} is needed as a whole, and {named.limit} samples of it were opened.")
    return named.data


def parse_spec(spec: str) -> tuple[str, str, dict[str, str]]:
    """Kind, location and options. A path that exists is never taken for anything else."""
    kinds = kind_names()
    if "\0" in spec:
        raise DatasetError(f"{_short(spec)} is not a name that a dataset can have: it holds a null character.")
    if not spec.strip():
        raise DatasetError("No dataset given.", hint=f"Give a path, or one of these kinds: {', '.join(kinds)}.")
    if _exists(spec):
        return detect(Path(spec).expanduser()), spec, {}
    place, _, query = spec.partition("?")
    options = _options(spec, query)
    kind, colon, location = place.partition(":")
    if kind in kinds:
        return kind, location, options
    if _exists(place):
        return detect(Path(place).expanduser()), place, options
    if colon and len(kind) > 1 and kind.replace("-", "").replace("_", "").isalnum():
        close = difflib.get_close_matches(kind, kinds, n=1)
        raise DatasetError(
            f"There is no dataset kind {_short(kind)}.",
            hint=f"Did you mean {close[0]}?" if close else f"Known: {', '.join(kinds)}.",
        )
    raise DatasetError(
        f"There is no dataset {_short(spec)}: no such path exists.",
        hint=f"Give a path, or kind:location with one of these kinds: {', '.join(kinds)}.",
    )


def absolute_spec(spec: str) -> str:
    """Returns a name of the dataset that is valid in any working directory."""
    kind, location, options = parse_spec(spec)
    path = Path(location).expanduser()
    place = str(path.resolve()) if location and path.exists() else location
    query = f"?{urlencode(options)}" if options else ""
    return f"{kind}:{place}{query}" if place or query else kind


def detect(path: Path) -> str:
    """Returns the kind of the dataset at a path, from its files."""
    kind = _kind_of_folder(path) if path.is_dir() else _kind_of_file(path)
    if kind is None and path.suffix.lower() in SUFFIXES and path.is_file():
        raise DatasetError(f"{path} is one picture, and no dataset.", hint="Name the folder of the pictures.")
    if kind is None:
        raise DatasetError(
            f"The kind of dataset in {path} is not recognised.",
            hint=f"Say it as kind:location with one of {', '.join(kind_names())}; "
            f"a folder of images needs class sub-folders or a {LABELS}.",
        )
    return kind


def _kind_of_folder(folder: Path) -> str | None:
    try:
        names = sorted(path.name for path in folder.iterdir())
    except OSError as error:
        raise DatasetError(f"{folder} cannot be read: {error.strerror}.", hint="Check its permissions.") from error
    if not names:
        raise DatasetError(f"The folder {folder} is empty.", hint="Put data into it, or name another.")
    if LABELS in names:
        sounds = next(images_under(folder), None) is None and next(sounds_under(folder), None) is not None
        return "sounds" if sounds else "imagefolder"
    if (kind := kind_by_annotations(folder, names)) is not None:
        return kind
    if all((folder / name).is_dir() for name in (IMAGES, MASKS)):
        return "masks"
    if find_idx_images(folder):
        return "idx"
    if any(name.startswith(("test_batch", "data_batch")) for name in names):
        return "cifar10"
    for suffix, kind in _SHARDS.items():
        if any(name.endswith(suffix) for name in names):
            return kind
    subfolders = (folder / name for name in names if (folder / name).is_dir() and not name.startswith("."))
    if any(next(images_under(path), None) for path in subfolders):
        return "imagefolder"
    if any(Path(name).suffix.lower() in SUFFIXES for name in names):
        return "imagefolder"  # without labels
    if next(sounds_under(folder), None):
        return "sounds"
    return "parquet" if next(folder.rglob("*.parquet"), None) else None


def kind_by_annotations(folder: Path, names: Sequence[str]) -> str | None:
    """Folders with files of annotations, which their sub-folders alone would make folders of classes."""
    if {CORPUS, QUERIES} <= set(names):
        return "beir"
    if "_annotations.coco.json" in names or any((folder / "annotations").glob("instances_*.json")):
        return "coco"
    if "Annotations" in names and any(name in names for name in ("JPEGImages", "ImageSets")):
        return "voc"
    if "data.yaml" in names or {"images", "labels"} <= set(names):
        return "yolo"
    return None


def _kind_of_file(path: Path) -> str | None:
    # A device or a pipe: reading it may never end.
    if not path.is_file():
        return None
    try:
        with open_regular(path) as file:
            start = file.read(4)
            if packed := start.startswith(_GZIP_START):
                file.seek(0)
                with gzip.open(file) as unpacked:
                    start = unpacked.read(4)
        if packed:
            if path.name.endswith(".bin.gz"):
                return "cifar10"
        elif path.suffix == ".bin" and path.stat().st_size % RECORD == 0:
            return "cifar10"
    except (OSError, EOFError, zlib.error) as error:
        raise DatasetError(f"{path} cannot be read: {error}.", hint="Is the file complete?") from error
    if start == b"PAR1":
        return "parquet"
    if start.startswith(_IDX_START):
        return "idx"
    if zipfile.is_zipfile(path):
        return "npz"
    return _BY_SUFFIX.get(path.suffix.lower())


def _short(spec: str | Path) -> str:
    return repr(str(spec)[:200])


def _exists(place: str) -> bool:
    try:
        return Path(place).expanduser().exists()
    except (OSError, ValueError, RuntimeError):
        # A name too long, a null byte, a user without home.
        return False


def _options(spec: str, query: str) -> dict[str, str]:
    try:
        return dict(parse_qsl(query, strict_parsing=True, keep_blank_values=True)) if query else {}
    except ValueError as error:
        raise DatasetError(
            f"The options in {_short(spec)} are not written as ?name=value&name=value.",
            hint="Check what follows the '?'.",
        ) from error


def _check_options(kind: str, opener: Callable[..., Dataset], location: str, options: dict[str, str]) -> None:
    signature = inspect.signature(opener)
    try:
        signature.bind(location, **options)
    except TypeError as error:
        known = [name for name, p in signature.parameters.items() if p.kind is inspect.Parameter.KEYWORD_ONLY]
        unknown = sorted(set(options) - set(known))
        raise DatasetError(
            f"Datasets of the kind {kind} have no option {unknown[0]!r}." if unknown else f"{kind}: {error}.",
            hint=f"They have {', '.join(known) or 'none'}.",
        ) from error
