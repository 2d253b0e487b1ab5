"""The steps of a manifest that turn a decoded image into an input, and an output into scores or vectors."""

from __future__ import annotations

from math import isfinite
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from zoolens.inventory.manifests.part import MAX_EXTENT, Part
from zoolens.inventory.manifests.schema_boxes import EncodedBoxes, Letterbox, ReadBoxes, Suppress
from zoolens.inventory.manifests.schema_masks import Masks, Threshold
from zoolens.inventory.manifests.schema_sound import LogMel, Mfcc, ScaleWaveform, Standardize
from zoolens.inventory.manifests.schema_texts import TextStep

# --- preprocessing: from a decoded image (uint8, height × width × channels, RGB or grey) to the input tensor


class Resize(Part):
    op: Literal["resize"]
    size: tuple[int, int] | int = Field(
        description="[height, width], or one number: the shorter side, keeping the aspect ratio."
    )
    method: Literal["nearest", "bilinear", "bicubic", "lanczos", "area"] = "bilinear"
    library: Literal["pil", "torchvision", "tensorflow", "opencv"] = Field(
        default="pil",
        description="Whose resizing semantics: they differ by up to several points of accuracy.",
    )
    antialias: bool | None = Field(
        default=None, description="Only torchvision and tensorflow can choose; PIL always does, OpenCV never."
    )

    @field_validator("size")
    @classmethod
    def _sane(cls, value: tuple[int, int] | int) -> tuple[int, int] | int:
        extents = (value,) if isinstance(value, int) else value
        if any(not 1 <= extent <= MAX_EXTENT for extent in extents):
            raise ValueError(f"a side must lie between 1 and {MAX_EXTENT}")
        return value


class ResizeHeight(Part):
    """Resize to one height, as readers of text lines want it: the width keeps the aspect ratio within limits.

    A narrower image is filled up on the right, a wider one is squeezed. Unless both limits are equal, images differ in
    width and are run one at a time."""

    op: Literal["resize_height"]
    height: int = Field(ge=1, le=MAX_EXTENT)
    width: tuple[int, int] = Field(description="The least and the largest width.")
    fill: float = Field(default=0, ge=0, le=255, description="Value of the pixels on the right.")
    method: Literal["nearest", "bilinear", "bicubic", "lanczos", "area"] = "bilinear"
    library: Literal["pil", "torchvision", "tensorflow", "opencv"] = Field(
        default="pil", description="Whose resizing semantics; PaddleOCR uses opencv."
    )

    @field_validator("width")
    @classmethod
    def _ordered(cls, value: tuple[int, int]) -> tuple[int, int]:
        if not 1 <= value[0] <= value[1] <= MAX_EXTENT:
            raise ValueError(f"width is the least and the largest one, between 1 and {MAX_EXTENT}")
        return value


class CenterCrop(Part):
    op: Literal["center_crop"]
    size: tuple[int, int] | None = None
    fraction: float | None = Field(default=None, gt=0, le=1, description="Share of each side that is kept.")

    @model_validator(mode="after")
    def _one_of(self) -> Self:
        if (self.size is None) == (self.fraction is None):
            raise ValueError("give either size or fraction")
        return self


class Normalize(Part):
    """value = (pixel × scale − mean) / std, per channel in the model's own colour order."""

    op: Literal["normalize"]
    scale: float = 1.0
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)

    @field_validator("std")
    @classmethod
    def _not_zero(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        if any(v == 0 for v in value):
            raise ValueError("std must not be 0")
        return value


Step = Annotated[
    Resize | ResizeHeight | CenterCrop | Letterbox | Normalize | ScaleWaveform | LogMel | Mfcc | Standardize,
    Field(discriminator="op"),
]


# --- postprocessing: from a raw output to scores of classes or to vectors


class Softmax(Part):
    op: Literal["softmax"]
    temperature: float = Field(default=1.0, gt=0)


class Select(Part):
    """Keep these output columns, in this order: reorders classes or drops some."""

    op: Literal["select"]
    indices: tuple[int, ...]


class DropLeading(Part):
    """Drop the first `count` outputs, such as the background class of 1001-class ImageNet models."""

    op: Literal["drop_leading"]
    count: int = Field(default=1, ge=1)


class Divide(Part):
    """Divide every score by a constant: percentages by 100. Comes first, before probabilities are checked."""

    op: Literal["divide"]
    by: float = Field(gt=0, allow_inf_nan=False)


class Pool(Part):
    """One vector a text, of an output with one for each token: their mean, the first or the last, without padding."""

    op: Literal["pool"]
    method: Literal["mean", "first", "last"] = "mean"


class L2Normalize(Part):
    """Scale each vector to length 1."""

    op: Literal["l2_normalize"]


class Linear(Part):
    """One number: the weighted sum of the output's numbers, and a constant. A target that was scaled for training gets
    its units back, and scores of classes become one quantity (positive less negative)."""

    op: Literal["linear"]
    weights: tuple[float, ...] = Field(min_length=1, max_length=MAX_EXTENT, description="One for each number.")
    bias: float = Field(default=0.0, allow_inf_nan=False)

    @field_validator("weights")
    @classmethod
    def _finite(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        if not all(isfinite(weight) for weight in value):
            raise ValueError("a weight is NaN or infinite")
        return value


BoxStep = EncodedBoxes | ReadBoxes | Suppress
OutputStep = Annotated[
    Softmax | Select | DropLeading | Divide | Pool | L2Normalize | Linear | BoxStep | Masks | Threshold | TextStep,
    Field(discriminator="op"),
]
