"""The steps of a manifest for detectors: how an image is fitted onto a canvas, and how tensors become boxes."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from zoolens.inventory.manifests.part import MAX_EXTENT, Part


class Letterbox(Part):
    """Fit the whole image onto a canvas of fixed size, with one scale for both axes, and fill the rest."""

    op: Literal["letterbox"]
    size: tuple[int, int] = Field(description="[height, width] of the canvas.")
    fit: Literal["letterbox", "top_left"] = Field(
        default="letterbox",
        description="letterbox: centred, sides rounded, as Ultralytics does; top_left: in the corner, sides truncated.",
    )
    fill: float = Field(default=114, ge=0, le=255, description="Value of the pixels around the image.")
    method: Literal["nearest", "bilinear", "bicubic", "lanczos", "area"] = "bilinear"
    library: Literal["pil", "torchvision", "tensorflow", "opencv"] = Field(
        default="pil", description="Whose resizing semantics; Ultralytics uses opencv."
    )

    @field_validator("size")
    @classmethod
    def _sane(cls, value: tuple[int, int]) -> tuple[int, int]:
        if any(not 1 <= extent <= MAX_EXTENT for extent in value):
            raise ValueError(f"a side must lie between 1 and {MAX_EXTENT}")
        return value
