"""The steps of a manifest that say how an output becomes a mask of classes, or a set of labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from zoolens.inventory.manifests.part import Part


class Masks(Part):
    """How a tensor becomes one class for each pixel of the image."""

    op: Literal["masks"]
    layout: Literal["NHW", "NCHW", "NHWC"] = Field(
        default="NHW",
        description="NHW: numbers of classes. NCHW and NHWC: a score for each class, of which the highest counts; a "
        "single one is the score of class 1 against class 0.",
    )
    resize: Literal["nearest", "bilinear"] | None = Field(
        default=None,
        description="How the map returns to the image's size. bilinear, the default for scores: they are interpolated "
        "before the highest is taken, as torchvision and transformers do. nearest: each pixel takes the class at its "
        "centre, the only way for numbers of classes.",
    )
    drop: tuple[int, ...] = Field(
        default=(), description="Classes that are never answered: their scores are left out. Others keep their numbers."
    )

    @model_validator(mode="after")
    def _blendable(self) -> Self:
        if self.layout == "NHW" and self.resize == "bilinear":
            raise ValueError("numbers of classes cannot be interpolated: say resize: nearest, or the layout of scores")
        if self.layout == "NHW" and self.drop:
            raise ValueError("drop leaves out scores, but layout NHW has numbers of classes")
        return self

    @field_validator("drop")
    @classmethod
    def _counted_from_0(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if any(number < 0 for number in value):
            raise ValueError("classes count from 0")
        return value


class Threshold(Part):
    """From which probability on a label counts as answered, or a frame as speech."""

    op: Literal["threshold"]
    above: float = Field(default=0.5, gt=0, lt=1, description="Labels with a higher probability are answered.")


def check_mask_steps(task: str, steps: Sequence[Part]) -> None:
    """Refuses steps that another task has, and a second one of a kind."""
    for kind, tasks in ((Masks, ("segmentation",)), (Threshold, ("multilabel", "voice-activity"))):
        given = sum(isinstance(step, kind) for step in steps)
        name = kind.__name__.lower()
        if given and task not in tasks:
            raise ValueError(f"{name} is for task: {' or '.join(tasks)}, not for task: {task}")
        if given > 1:
            raise ValueError(f"there is one step {name} at most")
