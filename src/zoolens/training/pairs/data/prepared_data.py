"""The images a recipe names, as four plain arrays in the cache: made once, then mapped by every worker."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import DatasetError
from zoolens.base.paths import cache_dir, new_folder
from zoolens.base.store.records import DatasetRecord, fingerprint
from zoolens.inventory.datasets.dataset import Dataset
from zoolens.inventory.datasets.demo import open_demo
from zoolens.inventory.datasets.opening import open_dataset, parse_spec
from zoolens.inventory.datasets.subset import Subset
from zoolens.training.pairs.data.train_data import TrainData

MAX_BYTES: Final = 1 << 33
_FASHION: Final = Path("/usr/share/datasets/fashion-mnist")  # where Debian's dataset-fashion-mnist puts it
DEMO_TEST: Final = 500  # of the images that come with zoolens: tested on; the others are trained on
_CIFAR10: Final = Path("data/cifar10/train_subset.npz")
_ARRAYS: Final = ("train_x", "train_y", "test_x", "test_y")
_ABOUT: Final = "about.json"
_VERSION: Final = 1  # of the layout of the folder and of how limits choose


@dataclass(frozen=True)
class PreparedData:
    """`folder` has train_x.npy, train_y.npy, test_x.npy and test_y.npy."""

    folder: Path
    record: DatasetRecord

    @property
    def classes(self) -> int:
        return int(self.record.details["classes"])

    @property
    def input_shape(self) -> tuple[int, int, int]:
        """Channels, height, width."""
        height, width, channels = self.record.details["image"]
        return channels, height, width


class NamedData(Protocol):
    """What to train and test on; a recipe is one."""

    @property
    def dataset(self) -> str: ...
    @property
    def train_limit(self) -> int | None: ...
    @property
    def test_limit(self) -> int | None: ...


def prepared(named: NamedData) -> PreparedData:
    """`named.dataset`: "demo", "fashion-mnist", "cifar10-subset", "TRAIN|TEST" of any two datasets, or one that has
    both as its splits. Limits take the first samples of every class in turn, in the order of the dataset."""
    wanted = (named.dataset, named.train_limit, named.test_limit, cache_dir())
    data = _prepare(*wanted)
    if not (data.folder / _ABOUT).is_file():  # someone emptied the cache
        _prepare.cache_clear()
        data = _prepare(*wanted)
    return data


def load(folder: Path) -> TrainData:
    """The arrays of a prepared folder, mapped."""
    try:
        arrays = {name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in _ARRAYS}
    except (OSError, ValueError, EOFError) as error:
        raise DatasetError(
            f"The training data in {folder} cannot be read: {error}.", hint="Delete that folder: it is made anew."
        ) from error
    for part in ("train", "test"):
        images, labels = arrays[f"{part}_x"], arrays[f"{part}_y"]
        fits = images.dtype == np.uint8 and images.ndim == 4 and labels.dtype == np.int32 and labels.ndim == 1
        if not fits or not 0 < len(images) == len(labels) or labels.min() < 0:
            raise DatasetError(f"The {part} arrays in {folder} are not uint8 images N×H×W×C with int32 labels.")
    highest = max(int(arrays["train_y"].max()), int(arrays["test_y"].max()))
    return TrainData(**arrays, classes=max(_told_classes(folder), highest + 1))


@lru_cache(maxsize=32)
def _prepare(dataset: str, train_limit: int | None, test_limit: int | None, cache: Path) -> PreparedData:
    train, test = _splits(dataset)
    try:
        renumbered = _places_in_training(train, test)
        content = [_VERSION, train.fingerprint(), test.fingerprint(), train_limit, test_limit]
        key = fingerprint([*content, *([renumbered] if renumbered else [])])
        folder = cache / "crosstrain" / key[:32]
        about = _read_about(folder) or _make(folder, train, test, (train_limit, test_limit), renumbered)
    finally:
        train.close()
        test.close()
    name = dataset if train_limit is test_limit is None else f"{dataset} ({about['train']} + {about['test']})"
    return PreparedData(folder, DatasetRecord(key, name, about["test"], about))


def _splits(dataset: str) -> tuple[Dataset, Dataset]:
    if dataset == "demo":
        return _demo()
    if dataset == "fashion-mnist":
        return _fashion_mnist()
    if dataset == "cifar10-subset":
        return _cifar10_subset()
    train, bar, test = dataset.partition("|")
    if bar:
        return open_dataset(train.strip()), open_dataset(test.strip())
    if ":" not in dataset and not Path(dataset).expanduser().exists():
        raise DatasetError(
            f"There is no training data named {dataset!r}.",
            hint="Use demo, fashion-mnist, cifar10-subset, a folder with a train and a test split, or TRAIN|TEST.",
        )
    kind = parse_spec(dataset)[0]
    if kind not in ("idx", "cifar10"):
        raise DatasetError(
            f"{dataset} is one set of samples, and training needs a second one to test on.",
            hint="Name both, with | between them: TRAIN|TEST.",
        )
    return open_dataset(dataset, split="train"), open_dataset(dataset, split="test")


def _demo() -> tuple[Dataset, Dataset]:
    """The images that come with zoolens, in two parts that have nothing in common."""
    images = open_demo()
    order = np.arange(len(images), dtype=np.int64)
    return Subset(images, order[:-DEMO_TEST], "all but the last 500"), Subset(
        images, order[-DEMO_TEST:], "the last 500"
    )


def _fashion_mnist() -> tuple[Dataset, Dataset]:
    assets = os.environ.get("ZOOLENS_ASSETS")
    places = [_FASHION, *([Path(assets) / "data" / "fashion_mnist"] if assets else [])]
    for place in places:
        if any(place.glob("train-images*")):
            return open_dataset(f"idx:{place}?split=train"), open_dataset(f"idx:{place}?split=test")
    raise DatasetError(
        f"Fashion-MNIST is not on this machine: {_FASHION} has no training images.",
        hint="Use dataset: demo, the 2,000 images that come with zoolens. For all 70,000, install Debian's package "
        "dataset-fashion-mnist, or name a folder with the four files as idx:FOLDER.",
    )


def _cifar10_subset() -> tuple[Dataset, Dataset]:
    path = Path(os.environ.get("ZOOLENS_ASSETS", "")) / _CIFAR10
    if not path.is_file():
        raise DatasetError(
            "The CIFAR-10 subset belongs to the reference assets, which are not here.",
            hint="Set ZOOLENS_ASSETS to their folder, or name CIFAR-10's binary version as cifar10:FOLDER.",
        )
    return open_dataset(f"npz:{path}?x=x_train&y=y_train"), open_dataset(f"npz:{path}?x=x_test&y=y_test")


def _places_in_training(train: Dataset, test: Dataset) -> list[int]:
    """For each class of the test data its number in the training data, where both have names of classes and number them
    differently, as folders do of which one lacks a class; else nothing."""
    for part in (train, test):
        if unlabelled := int((part.labels() < 0).sum()):
            raise DatasetError(
                f"{part.name} has no class for {unlabelled:,} of its {len(part):,} samples, and training needs one for "
                "each.",
                hint="Name labelled data.",
            )
    if train.classes is None or test.classes is None or train.classes == test.classes:
        return []
    used = {test.classes[label] for label in np.unique(test.labels())}
    if lacking := sorted(used - set(train.classes)):
        raise DatasetError(
            f"{test.name} has the class {lacking[0]!r}, which {train.name} does not have to be trained on.",
            hint="The classes of both parts need the same names, which the option classes= can give them.",
        )
    places = [train.classes.index(name) if name in used else -1 for name in test.classes]
    return [] if all(place in (-1, number) for number, place in enumerate(places)) else places


def _make(
    folder: Path, train: Dataset, test: Dataset, limits: tuple[int | None, int | None], renumbered: list[int]
) -> dict[str, Any]:
    """`renumbered`: see `_places_in_training`."""
    train_x, train_y = _arrays(train, limits[0])
    test_x, test_y = _arrays(test, limits[1])
    if renumbered:
        test_y = np.array(renumbered, np.int32)[test_y]
    if train_x.shape[1:] != test_x.shape[1:]:
        raise DatasetError(
            f"The images of {train.name} and {test.name} differ in size: {train_x.shape[1:]} and {test_x.shape[1:]}.",
            hint="Training and test images must be alike.",
        )
    highest = (int(part.labels().max()) for part in ((train,) if renumbered else (train, test)))
    classes = max(len(train.classes or ()), *(label + 1 for label in highest))
    about = {"train": len(train_y), "test": len(test_y), "classes": classes, "image": list(train_x.shape[1:])}
    _write(folder, dict(zip(_ARRAYS, (train_x, train_y, test_x, test_y), strict=True)), about)
    return about


def _arrays(dataset: Dataset, limit: int | None) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    labels = dataset.labels()
    chosen = balanced(labels, limit)
    rows = dataset.read_rows(chosen)
    images = rows.values if rows is not None else _stacked(dataset, (dataset.read(int(i)).value for i in chosen))
    if images.dtype != np.uint8 or images.ndim != 4:
        raise DatasetError(f"{dataset.name} does not hold images of whole numbers from 0 to 255.")
    if images.nbytes > MAX_BYTES:
        raise DatasetError(f"{dataset.name} has more than {MAX_BYTES >> 30} GiB of pixels.", hint="Set a limit.")
    return np.ascontiguousarray(images), labels[chosen].astype(np.int32)


def balanced(labels: NDArray[Any], limit: int | None) -> NDArray[np.int64]:
    """Indices in order: the first sample of every class, then the second of every class, until there are enough."""
    if limit is None or limit >= len(labels):
        return np.arange(len(labels), dtype=np.int64)
    rank = np.empty(len(labels), np.int64)
    for label in np.unique(labels):
        own = np.flatnonzero(labels == label)
        rank[own] = np.arange(len(own))
    return np.sort(np.argsort(rank, kind="stable")[:limit]).astype(np.int64)


def _stacked(dataset: Dataset, values: Iterable[NDArray[Any]]) -> NDArray[Any]:
    images: list[NDArray[Any]] = []
    size = 0
    for value in values:
        if images and value.shape != images[0].shape:
            raise DatasetError(
                f"{dataset.name} has images of several sizes: {images[0].shape} and {value.shape}.",
                hint="Resize them first: a batch is one array.",
            )
        size += value.nbytes
        if size > MAX_BYTES:
            raise DatasetError(f"{dataset.name} has more than {MAX_BYTES >> 30} GiB of pixels.", hint="Set a limit.")
        images.append(value)
    return np.stack(images)


def _write(folder: Path, arrays: dict[str, NDArray[Any]], about: dict[str, Any]) -> None:
    """A folder appears whole; who comes second keeps the first one's."""
    try:
        with new_folder(folder) as building:
            for name, array in arrays.items():
                np.save(building / f"{name}.npy", array, allow_pickle=False)
            (building / _ABOUT).write_text(json.dumps(about), encoding="utf-8")
            if folder.is_dir() and _read_about(folder) is None:
                shutil.rmtree(folder)
    except OSError as error:
        if _read_about(folder) is None:
            raise _not_written(folder, arrays, error) from error


def _not_written(folder: Path, arrays: dict[str, NDArray[Any]], error: OSError) -> DatasetError:
    """numpy says of a full disk only how many bytes it could not write."""
    size = sum(array.nbytes for array in arrays.values()) / 1e6
    why = error.strerror or "the disk is full, or its limit is reached"
    return DatasetError(
        f"The training data ({size:.1f} MB) cannot be written to {folder.parent}: {why}.",
        hint="Make room there, or set a train_limit, or set ZOOLENS_HOME to a folder on another disk.",
    )


def _read_about(folder: Path) -> dict[str, Any] | None:
    """Reads the description of prepared data; None: it is not there, or damaged, and so to be made anew."""
    try:
        about = json.loads((folder / _ABOUT).read_text(encoding="utf-8"))
        complete = all((folder / f"{name}.npy").is_file() for name in _ARRAYS)
        sizes = {name: int(about[name]) for name in ("train", "test", "classes")}
        return {**sizes, "image": [int(extent) for extent in about["image"]]} if complete else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _told_classes(folder: Path) -> int:
    about = _read_about(folder)
    return about["classes"] if about else 0
