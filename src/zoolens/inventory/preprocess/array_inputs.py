"""What every kind of input has in common, and inputs that are arrays of numbers already."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import DatasetError, ManifestError
from zoolens.inventory.manifests.schema import Input
from zoolens.inventory.manifests.schema_steps import Normalize
from zoolens.inventory.preprocess.letterbox import Framing, Size
from zoolens.inventory.preprocess.normalisation import affine, cast_to, quantised
from zoolens.inventory.runtimes.runtime import TensorSpec, shape_text

Array = NDArray[Any]


class Prepare(ABC):
    """A function from a decoded sample to one input without its batch axis."""

    uneven: bool = False  # inputs may differ in shape, and each is a batch of its own

    @abstractmethod
    def __call__(self, value: Array) -> Array: ...

    @abstractmethod
    def many(self, values: Array) -> Array | None:
        """Returns the inputs of stacked samples, or None if preparing them one by one is as fast."""

    def framing(self, size: Size) -> Framing:
        """Where an image of this height and width lies on the input; refused where the way back is lost."""
        raise ManifestError(
            "Boxes and masks lie in images, but the input is no image.", hint="Declare the input with modality: image."
        )

    def memo(self, value: Array) -> Any:
        """What reading an answer that lies in the sample needs to know: of an image, its place on the canvas."""
        return self.framing((value.shape[0], value.shape[1]))


class PrepareArray(Prepare):
    def __init__(self, spec: Input, tensor: TensorSpec) -> None:
        steps = [step for step in spec.preprocess if isinstance(step, Normalize)]
        if len(steps) != len(spec.preprocess):
            raise ManifestError(
                "An input of modality array can be normalised only, not resized or cropped.",
                hint="Remove those steps, or use modality: image.",
            )
        per_column = any(len(step.mean) > 1 or len(step.std) > 1 for step in steps)
        self._factor, self._offset = affine(steps, (spec.shape[-1] or 1) if per_column else 1)
        if tensor.quantised:
            self._factor, self._offset = quantised(tensor, self._factor, self._offset)
        self._untouched = bool((self._factor == 1).all() and (self._offset == 0).all())
        self._wanted = spec.shape[1:]
        self._dtype = number_type(tensor, flags=True)
        if self._dtype.kind == "b" and not self._untouched:
            raise ManifestError(f"Input {tensor.name!r} takes true and false, which no step can normalise.")
        self._name = tensor.name

    def __call__(self, value: Array) -> Array:
        result: Array = self.many(value[np.newaxis])[0]
        return result

    def many(self, values: Array) -> Array:
        refuse_text(values)
        if values.ndim == 1 and self._wanted in ((1,), (None,)):
            values = values[:, np.newaxis]  # a number is a row of one
        self._check_shape(values.shape[1:])
        real = values if self._untouched else values * self._factor + self._offset
        if real.dtype == self._dtype:
            return real
        if self._untouched and self._dtype.kind != "f":
            self._check_whole(real)
        return real != 0 if self._dtype.kind == "b" else cast_to(real, self._dtype)

    def _check_whole(self, values: Array) -> None:
        """Refuse numbers that an input of integers would change, as long as no declared step makes others."""
        limits = None if self._dtype.kind == "b" else np.iinfo(self._dtype)
        low, high = (0, 1) if limits is None else (limits.min, limits.max)
        whole = values.dtype.kind != "f" or values == np.rint(values)
        changed = ~((values >= low) & (values <= high) & whole)  # NaN is, too
        if changed.any():
            raise DatasetError(
                f"The sample holds {values[changed].flat[0]:.6g}, but the input {self._name} takes integers from "
                f"{low:,} to {high:,}.",
                hint=f"Write the data as {self._dtype}, or declare a normalize step that makes such numbers of them.",
            )

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        fits = len(shape) == len(self._wanted) and all(
            want is None or want == have for want, have in zip(self._wanted, shape, strict=True)
        )
        if not fits:
            raise DatasetError(
                f"The sample has shape {shape_text(shape)}, but the input takes {shape_text(self._wanted)}.",
                hint="Correct shape in the manifest, or prepare the data so.",
            )


def number_type(tensor: TensorSpec, *, flags: bool = False) -> np.dtype[Any]:
    """The type of an input's numbers; inputs of anything else are refused. `flags`: true and false are numbers too."""
    try:
        dtype = np.dtype(tensor.dtype)
    except TypeError as error:
        raise ManifestError(f"Input {tensor.name!r} is {tensor.dtype}, which numpy does not have.") from error
    if dtype.kind not in ("fiub" if flags else "fiu"):
        raise ManifestError(f"Input {tensor.name!r} is {tensor.dtype}; inputs are made as numbers only.")
    return dtype


def refuse_text(values: Array) -> None:
    if values.dtype == object:
        raise DatasetError(
            "The sample is a text, but the model takes numbers.",
            hint="Choose a model whose manifest declares modality: text, or another dataset.",
        )
