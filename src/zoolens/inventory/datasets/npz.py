"""Arrays in .npz files.

Arrays that numpy.savez stored plainly are mapped: no more of them is in memory than is being read. Those of
numpy.savez_compressed can only be unpacked whole, which is done up to a limit. Pickled objects are refused.
"""

from __future__ import annotations

import math
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import DatasetError
from zoolens.base.safety.untrusted import data_offset, open_archive, open_entry
from zoolens.inventory.datasets.arrays import MAX_UNPACKED, ArrayDataset, ValueDataset
from zoolens.inventory.datasets.classes import are_whole, check_labels, choose_part, class_indices, class_names
from zoolens.inventory.datasets.dataset import NO_LABELS, UNLABELLED, Dataset
from zoolens.inventory.datasets.judged_samples import JudgedSamples, true_texts
from zoolens.inventory.datasets.several_labels import SeveralLabels, checked_present
from zoolens.inventory.runtimes.runtime import shape_text

_INPUTS: Final = ("x", "images", "data", "x_test", "test_images", "arr_0")
_MAX_HEADER: Final = 1 << 14  # bytes; numpy reads no more than 10,000
_KINDS: Final = "biufcSU"  # of numpy's types: numbers and texts
_LABELS: Final = ("y", "labels", "label", "targets", "y_test", "test_labels", "arr_1")


def open_npz(
    location: str,
    *,
    x: str | None = None,
    y: str | None = None,
    value: str | None = None,
    present: str | None = None,
    layout: str = "auto",
    classes: str | None = None,
) -> Dataset:
    """x, y: names of the arrays (else the usual ones: x/images/data and y/labels, or x_test and y_test). Without labels
    the data are unlabelled, and so are data opened with y=none. Several names for x, with commas between them, are
    for a model with several inputs of these names.

    value: the array of true numbers, one or several for each sample, for task: regression; or of true texts, for task:
    text-recognition. There are no labels then.
    present: the array of 0 and 1, samples × labels (−1: nobody said), for task: multilabel.
    layout: NCHW, NHWC, or auto: uint8 arrays whose second axis is 1 or 3 and whose last is not are NCHW.
    classes: a file with class names, or the names with commas between them.
    """
    path = Path(location).expanduser()
    try:
        with open_archive(path) as archive:
            members = {name.removesuffix(".npy"): name for name in archive.namelist() if name.endswith(".npy")}

            def read(option: str, given: str | None, usual: tuple[str, ...]) -> NDArray[Any]:
                chosen = choose_part("array", option, given, usual, sorted(members), path)
                return _read(path, archive, members[chosen])

            several = x.split(",") if x is not None and "," in x else None
            if several is None:
                values = read("x", x, _INPUTS)
            else:
                values = _records({name: read("x", name, _INPUTS) for name in several}, path)
            unlabelled = y == NO_LABELS and NO_LABELS not in members
            labelled = not unlabelled and (y is not None or any(name in members for name in _LABELS))
            if value is not None:
                truth = read("value", value, ())
            elif present is not None:
                truth = read("present", present, ())
            else:
                truth = read("y", y, _LABELS) if labelled else np.full(len(values), UNLABELLED)
    # RuntimeError and NotImplementedError: zipfile's for encryption and for what it does not know
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError, ValueError, OverflowError, RuntimeError) as error:
        raise DatasetError(
            f"{path} cannot be read as .npz: {getattr(error, 'strerror', None) or error}.",
            hint="Write it with numpy.savez.",
        ) from error
    if several is None:
        values = _channels_last(values, layout)
    if sum(option is not None for option in (value, present, None if y == NO_LABELS else y)) > 1:
        raise DatasetError("Give one of y, value and present: a sample is judged in one way.")
    if value is not None:
        if truth.dtype.kind == "U":
            return _with_texts(values, truth, path)
        return ValueDataset(values, truth, name=path.stem)
    names = class_names(classes, path.parent)
    if present is not None:
        plain = ArrayDataset(values, np.full(len(values), UNLABELLED), name=path.stem)
        return SeveralLabels(plain, checked_present(truth, str(path)), names)
    labels, known = _as_labels(truth, names, path)
    dataset = ArrayDataset(values, labels, name=path.stem, classes=known)
    dataset.alphabetical = names is None and known is not None
    check_labels(dataset.name, dataset.labels().tolist(), dataset.classes)
    return dataset


def _with_texts(values: NDArray[Any], texts: NDArray[Any], path: Path) -> Dataset:
    if texts.shape != (len(values),):
        raise DatasetError(f"The true texts in {path} have the shape {texts.shape}, not one for each sample.")
    plain = ArrayDataset(values, np.full(len(values), UNLABELLED), name=path.stem)
    return JudgedSamples(plain, true_texts(texts.tolist(), str(path)))


def _records(arrays: dict[str, NDArray[Any]], path: Path) -> NDArray[Any]:
    """One record a sample, with a field for each array."""
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{name} has {length:,}" for name, length in lengths.items())
        raise DatasetError(f"The arrays in {path} have different numbers of samples: {counts}.")
    if sum(array.nbytes for array in arrays.values()) > MAX_UNPACKED:
        raise DatasetError(
            f"The inputs in {path} take more than {MAX_UNPACKED:,} bytes together, which are held in memory.",
            hint="Write a part of them into a file of its own.",
        )
    fields = [(name, array.dtype, array.shape[1:]) for name, array in arrays.items()]
    records = np.empty(next(iter(lengths.values())), np.dtype(fields))
    for name, array in arrays.items():
        records[name] = array
    return records


def _read(path: Path, archive: zipfile.ZipFile, member: str) -> NDArray[Any]:
    info = archive.getinfo(member)
    with open_entry(archive, info) as stream:
        shape, fortran, dtype, header = _npy_header(stream, f"{member} in {path}")
        size = dtype.itemsize * math.prod(shape)
        if min(shape, default=0) < 0 or size != info.file_size - header:
            raise DatasetError(f"{member} in {path} does not hold what its header says.", hint="Write the file again.")
        if info.compress_type == zipfile.ZIP_STORED:
            return _map(archive, info, header, shape, fortran, dtype)
        if size > MAX_UNPACKED:
            raise DatasetError(
                f"{member} in {path} unpacks to {size:,} bytes; compressed arrays must be held in memory whole, "
                f"and more than {MAX_UNPACKED:,} are not.",
                hint="Write it with numpy.savez, uncompressed: then it is read in place.",
            )
        data = stream.read(size)
    if len(data) != size:
        raise DatasetError(f"{member} in {path} is truncated.", hint="Write the file again.")
    return np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")


class _Start:
    """The start of an array: numpy reads a header as long as it says it is, and only then finds it too long."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def read(self, size: int) -> bytes:
        # Packed a thousand times, a header of 4 GB fits into a file of 4 MB.
        if size > _MAX_HEADER:
            raise ValueError("its header is too long")
        return self._stream.read(size)


def _npy_header(stream: IO[bytes], where: str) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    try:
        start = cast(IO[bytes], _Start(stream))
        version = np.lib.format.read_magic(start)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(start)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:  # numpy evaluates a Python text
        raise DatasetError(f"{where} is not a numpy array.", hint="Write it with numpy.savez.") from error
    if dtype.hasobject:
        raise DatasetError(
            f"{where} holds pickled Python objects, which can run code when they are opened.",
            hint="Store plain numbers: one array of one shape for all samples.",
        )
    if dtype.kind not in _KINDS or not shape:
        raise DatasetError(
            f"{where} is {f'an array of {dtype.name} values' if shape else 'a single number'}.",
            hint="Store numbers, in an array whose first axis counts the samples.",
        )
    return shape, fortran, dtype, stream.tell()


def _map(
    archive: zipfile.ZipFile,
    info: zipfile.ZipInfo,
    header: int,
    shape: tuple[int, ...],
    fortran: bool,
    dtype: np.dtype[Any],
) -> NDArray[Any]:
    offset = data_offset(archive, info) + header
    if 0 in shape or not dtype.itemsize:
        return np.zeros(shape, dtype)
    order: Any = "F" if fortran else "C"
    file: Any = archive.fp
    return np.asarray(np.memmap(file, dtype, mode="r", offset=offset, shape=shape, order=order))


def _channels_last(values: NDArray[Any], layout: str) -> NDArray[Any]:
    layout = layout.upper()
    if layout not in ("AUTO", "NCHW", "NHWC"):
        raise DatasetError(f"The option layout is auto, NCHW or NHWC, not {layout!r}.")
    if values.ndim == 3 and values.dtype == np.uint8 and layout == "AUTO":
        return values[..., np.newaxis]  # grey images
    if layout != "AUTO" and values.ndim != 4:
        raise DatasetError(f"Layout {layout} has 4 axes but the array has {values.ndim}.", hint="Leave layout out.")
    planar = values.ndim == 4 and values.shape[1] in (1, 3) and values.shape[3] not in (1, 3)
    if layout == "NCHW" or (layout == "AUTO" and values.dtype == np.uint8 and planar):
        return values.transpose(0, 2, 3, 1)
    return values


def _as_labels(
    truth: NDArray[Any], names: tuple[str, ...] | None, path: Path
) -> tuple[NDArray[Any], tuple[str, ...] | None]:
    """The number of each sample's class, and the names of the classes where they are known."""
    if truth.ndim == 2 and truth.shape[1] == 1:
        truth = truth[:, 0]
    if truth.ndim == 1 and truth.dtype.kind == "U":
        indices, known = class_indices(sorted(set(truth.tolist())), names, str(path))
        return np.array([indices[word] for word in truth.tolist()], np.int64), known
    whole = truth.dtype.kind in "biu" or (truth.dtype.kind == "f" and are_whole(truth))
    if truth.ndim != 1 or not whole:
        raise DatasetError(
            f"The labels in {path} are {truth.dtype}, {shape_text(truth.shape)}: not one integer or word for each "
            "sample.",
            hint="One-hot labels become numbers with argmax(axis=1)."
            if truth.ndim == 2
            else f"Where they are quantities, say so, --data 'npz:FILE?value=y', or leave them out, y={NO_LABELS}.",
        )
    return truth.astype(np.int64), names
