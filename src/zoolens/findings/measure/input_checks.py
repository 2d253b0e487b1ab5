"""What may be wrong with the inputs themselves: looked up in a few samples, spread over the data.

Image files are decoded to whole numbers from 0 to 255. Arrays may hold anything: pixels between 0 and 1 that a manifest
scales by 1/255 once more are nearly black, and the model answers all the same. A photograph may say in its EXIF data
how it is to be turned, which not every decoder does. Numbers that were quantised for a model beforehand look like any
others.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from zoolens.base.errors import DatasetError
from zoolens.inventory.datasets.dataset import Dataset
from zoolens.inventory.datasets.decoders.decoder import TURNING
from zoolens.inventory.datasets.images import FORMATS
from zoolens.inventory.datasets.sound.waveform import from_record
from zoolens.inventory.manifests.schema import Input
from zoolens.inventory.manifests.schema_steps import Normalize
from zoolens.inventory.runtimes.runtime import TensorSpec

QUANTISED_DATA: Final = "quantised_data"  # in run.resolved: what `taken_for_real` says
COPIES: Final = "copies"  # in run.resolved: what `said_of_copies` says
_COMPARED: Final = 1000  # inputs with equal answers that are read again
_LOOKED_AT: Final = 16  # samples, spread over the data
_ORIENTATION: Final = 0x0112  # the EXIF tag; 1 means that nothing is to be done
_BRIGHTEST: Final = 255
_UNIT_RANGE: Final = (0.9, 2.1)  # what scales for bytes make of 255: 1/255, 1/256, 1/127.5 and 1/128
_BYTE_DEVIATIONS: Final = (20, 260)  # standard deviations of bytes that are not scaled: 57.4, 127.5, 255


def pixel_doubt(spec: Input, dataset: Dataset) -> str | None:
    """What is wrong with the pixels of these data for this input; None: nothing, or it cannot be known. Other steps
    than those made for bytes may well be made for pixels of 16 bits."""
    if spec.modality != "image" or dataset.encoded or not len(dataset) or not _made_for_bytes(spec):
        return None
    read = _field_reader(spec, dataset)
    kind = read(0).dtype
    if kind.kind not in "fiu" or kind == np.uint8:
        return None
    values = [read(place) for place in _places(dataset)]
    low, high = min(float(value.min()) for value in values), max(float(value.max()) for value in values)
    # A little above 255 is what some ways to resize leave.
    if high > 2 * _BRIGHTEST:
        return (
            f"pixels of the dataset are {kind.name} numbers up to {high:,.5g}, but the manifest prepares numbers from "
            "0 to 255: its accuracy is wrong. Write them as uint8, or declare the scale of these pixels"
        )
    if abs(low) <= 1 and 0 < high <= 1:
        return (
            f"pixels of the dataset are {kind.name} numbers between {low:.3g} and {high:.3g}, but the manifest "
            "prepares numbers from 0 to 255, so that the model sees next to nothing: its accuracy is wrong. Write "
            "them as uint8, or leave the scale out of the manifest"
        )
    return None


def _field_reader(spec: Input, dataset: Dataset) -> Callable[[int], NDArray[Any]]:
    """Reads what a sample has for an input: of data for several inputs, the field of its name."""
    fields = dataset.read(0).value.dtype.names or ()
    if spec.name in fields:
        return lambda place: np.asarray(dataset.read(place).value[spec.name])
    return lambda place: dataset.read(place).value


def _made_for_bytes(spec: Input) -> bool:
    """Whether the step that normalises pixels is one for numbers from 0 to 255."""
    step = next((step for step in spec.preprocess if isinstance(step, Normalize)), None)
    if step is None:
        return False
    if step.scale == 1:
        return _BYTE_DEVIATIONS[0] <= max(step.std) <= _BYTE_DEVIATIONS[1]
    return _UNIT_RANGE[0] <= _BRIGHTEST * step.scale <= _UNIT_RANGE[1]


def taken_for_real(spec: Input, tensor: TensorSpec, dataset: Dataset) -> str | None:
    """What to say of arrays that have the type of a quantised input already: they are quantised all the same."""
    if spec.modality != "array" or spec.preprocess or not tensor.quantised or not len(dataset):
        return None
    kind, scale, zero = dataset.read(0).value.dtype, float(tensor.scale or 1), tensor.zero_point or 0
    if kind != np.dtype(tensor.dtype) or (scale, zero) == (1, 0):
        return None
    return (
        f"the dataset is {kind.name} like its quantised input, and was taken for real numbers, which are then "
        f"quantised; where they are quantised already, declare preprocess: [{{op: normalize, scale: {scale:.9g}, "
        f"mean: [{scale * zero:.9g}]}}]"
    )


def turned_pictures(spec: Input, dataset: Dataset) -> str | None:
    """What to say where pictures are to be turned by their EXIF data and the declared decoder does not turn them."""
    if spec.modality != "image" or spec.decoder in TURNING or not dataset.encoded or not len(dataset):
        return None
    places = _places(dataset)
    turned = sum(_is_turned(dataset.read_encoded(place)) for place in places)
    if not turned:
        return None
    are = "is" if turned == 1 else "are"
    return (
        f"{turned} of {len(places)} pictures looked at {are} to be turned by their EXIF data, which decoder: "
        f"{spec.decoder} does not do; decoder: opencv does"
    )


def resampled_sounds(spec: Input, dataset: Dataset) -> str | None:
    """What to say where sounds have another rate than the model was trained with: they are resampled, as declared."""
    if spec.sound is None or spec.sound.resample is None or not len(dataset):
        return None
    places = _places(dataset)
    rates = [from_record(dataset.read(place).value).rate for place in places]
    others = sorted({rate for rate in rates if rate != spec.sound.rate})
    if not others:
        return None
    changed = sum(rate != spec.sound.rate for rate in rates)
    listed = ", ".join(f"{rate:,}" for rate in others)
    return (
        f"{changed} of {len(places)} sounds looked at {'has' if changed == 1 else 'have'} {listed} samples a second, "
        f"and {'is' if changed == 1 else 'are'} resampled to {spec.sound.rate:,} as {spec.sound.resample} does"
    )


def refuse_not_finite(inputs: Sequence[tuple[Sequence[str], NDArray[Any]]]) -> None:
    """Name the first input that holds NaN: then the data are to blame for what the model answers, not the model.
    `inputs`: batches as they are fed, each with the names of its samples."""
    for names, batch in inputs:
        if batch.dtype.kind != "f":
            continue
        finite = np.isfinite(batch.reshape(len(batch), -1)).all(axis=1)
        if not finite.all():
            raise DatasetError(
                f"Input {names[int(finite.argmin())]} holds NaN or infinity, so that no answer to it means anything.",
                hint="Remove it from the data, or write a number in its place.",
            )


def inputs_differ(dataset: Dataset) -> bool:
    """Whether any two of the samples looked at are not the same."""
    values = [dataset.read(place).value for place in _places(dataset)]
    return len({_content(value) for value in values}) > 1


def said_of_copies(dataset: Dataset, digests: NDArray[np.uint64]) -> str | None:
    """What to say of data in which an input occurs more than once. Copies are answered with the same bits, so that only
    inputs with such answers are read again and compared."""
    _, groups, counts = np.unique(digests, return_inverse=True, return_counts=True)
    alike = np.flatnonzero(counts[groups] > 1)
    looked_at = alike[np.argsort(groups[alike], kind="stable")][:_COMPARED]
    copies = len(looked_at) - _count_different(dataset, looked_at.tolist())
    if not copies:
        return None
    least, most = ("at least ", "at most ") if len(looked_at) < len(alike) else ("", "")
    are = "is a copy of another" if copies == 1 else "are copies of others"
    return (
        f"{least}{copies:,} of {len(dataset):,} inputs {are}: intervals and bounds count each as an input of its own "
        f"and are too narrow (different inputs: {most}{len(dataset) - copies:,})"
    )


def _count_different(dataset: Dataset, places: Sequence[int]) -> int:
    """How many different inputs lie at these places. Of files with equal bytes only one is decoded."""
    contents, files = set(), set()
    for place in places:
        encoded = dataset.read_encoded(place)
        if encoded is not None:
            digest = hashlib.sha256(encoded).digest()
            if digest in files:
                continue
            files.add(digest)
        contents.add(_content(dataset.read(place).value))
    return len(contents)


def _content(value: NDArray[Any]) -> str | tuple[str, tuple[int, ...], bytes]:
    return str(value) if value.dtype == object else (value.dtype.str, value.shape, value.tobytes())


def _is_turned(encoded: bytes | None) -> bool:
    if encoded is None:
        return False
    try:
        with Image.open(io.BytesIO(encoded), formats=FORMATS) as image:
            return bool(image.getexif().get(_ORIENTATION, 1) != 1)
    except (OSError, SyntaxError, ValueError, EOFError, IndexError, TypeError):  # who decodes it says what is wrong
        return False


def _places(dataset: Dataset) -> Sequence[int]:
    places: list[int] = np.unique(np.linspace(0, len(dataset) - 1, _LOOKED_AT).astype(int)).tolist()
    return places
