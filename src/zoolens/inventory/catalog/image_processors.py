"""The steps of a preprocessor_config.json, in which transformers keeps how images are prepared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from zoolens.inventory.catalog.drafted import UNCHECKED
from zoolens.inventory.manifests.schema_steps import CenterCrop, Normalize, Resize, Step

_METHODS: Final = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "area"}  # Pillow's numbers
_SQUARE: Final = ("ViT", "DeiT", "Beit", "Segformer", "Swin")  # processors that take one number for both sides
_RESCALED: Final = 1 / 255
_LARGEST: Final = 1 << 14


def image_steps(
    settings: Any, size: tuple[int | None, int | None], said: list[str], stated: list[str]
) -> tuple[Step, ...] | None:
    """The steps, with what they rest on in `said` (guesses) and `stated`; None where there is nothing to read. `size`:
    height and width of the model's input."""
    if not isinstance(settings, dict) or not settings:
        return None
    steps: list[Step] = []
    if settings.get("do_resize", True):
        steps += _resizing(settings, size, said)
    if settings.get("do_center_crop") and (crop := _sides(settings.get("crop_size"))) is not None:
        steps.append(CenterCrop(op="center_crop", size=crop))
    steps += _normalising(settings, said)
    stated.append("images are prepared as preprocessor_config.json says")
    return tuple(steps)


def _resizing(settings: Mapping[str, Any], size: tuple[int | None, int | None], said: list[str]) -> list[Step]:
    method = _METHODS.get(settings.get("resample", 2), "bilinear")
    wanted = settings.get("size")
    fixed = (size[0], size[1]) if size[0] and size[1] else None
    kind = str(settings.get("image_processor_type") or settings.get("feature_extractor_type") or "")
    sides: tuple[int, int] | int | None = _sides(wanted)
    shortest = wanted.get("shortest_edge") if isinstance(wanted, dict) else wanted
    if sides is None and isinstance(shortest, int) and 0 < shortest <= _LARGEST:
        crops = bool(settings.get("do_center_crop"))
        if kind.startswith(_SQUARE) and not crops:
            sides = (shortest, shortest)
        elif crops:
            sides = shortest
    if sides is None:
        if fixed is None:
            said.append(f"the size of images is open, and pictures are not resized ({UNCHECKED})")
            return []
        said.append(f"images are stretched to the {fixed[0]}×{fixed[1]} of the file ({UNCHECKED})")
        sides = fixed
    return [Resize(op="resize", size=sides, method=method)]  # type: ignore[arg-type]


def _normalising(settings: Mapping[str, Any], said: list[str]) -> list[Step]:
    scale = settings.get("rescale_factor", _RESCALED) if settings.get("do_rescale", True) else 1.0
    mean, deviation = _channels(settings.get("image_mean")), _channels(settings.get("image_std"))
    if not isinstance(scale, int | float) or isinstance(scale, bool) or not 0 < scale < 1e6:
        said.append(f"pixels are divided by 255 ({UNCHECKED}: rescale_factor is no number)")
        scale = _RESCALED
    if not settings.get("do_normalize", True):
        return [Normalize(op="normalize", scale=scale)]
    if mean is None or deviation is None or 0 in deviation:
        said.append(f"no mean and deviation are subtracted ({UNCHECKED})")
        return [Normalize(op="normalize", scale=scale)]
    return [Normalize(op="normalize", scale=scale, mean=mean, std=deviation)]


def _sides(wanted: Any) -> tuple[int, int] | None:
    if not isinstance(wanted, dict):
        return None
    height, width = wanted.get("height"), wanted.get("width")
    if type(height) is int and type(width) is int and 0 < height <= _LARGEST and 0 < width <= _LARGEST:
        return height, width
    return None


def _channels(numbers: Any) -> tuple[float, ...] | None:
    if not isinstance(numbers, list) or len(numbers) not in (1, 3):
        return None
    plain = [number for number in numbers if isinstance(number, int | float) and abs(number) < 1e6]
    return tuple(float(number) for number in plain) if len(plain) == len(numbers) else None
