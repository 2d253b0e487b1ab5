"""The steps of a preprocessor_config.json, in which transformers keeps how images are prepared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeGuard

from zoolens.inventory.catalog.drafted import UNCHECKED
from zoolens.inventory.manifests.schema_steps import CenterCrop, Normalize, Resize, Step

_METHODS: Final = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "area"}  # Pillow's numbers
# What a plain number for the size means, by the class of the processor (transformers 5.22): both sides, or the shorter.
_SQUARE: Final = ("ViTImage", "ViTFeature", "DeiT", "Beit", "Segformer", "Swin")
_SHORTER: Final = ("Bit", "ChineseCLIP", "CLIP", "MobileNet", "MobileViT", "ViTHybrid")
_CROPPING: Final = "ConvNext"  # ResNet and RegNet use it too
_CROPPED_BELOW: Final = 384  # pixels; larger images are stretched
_USUAL_SHARE: Final = 224 / 256  # crop_pct
_OWN_RULES: Final = ("Levit", "PoolFormer")  # which enlarge the shorter side before they crop
_FLIPPING: Final = "MobileViT"  # gives BGR unless it is told otherwise
_RESCALED: Final = 1 / 255
_LARGEST: Final = 1 << 14
_FOLLOWED: Final = frozenset(
    {
        "do_resize", "size", "resample", "do_center_crop", "crop_size", "crop_pct", "do_rescale", "rescale_factor",
        "do_normalize", "image_mean", "image_std", "default_to_square", "do_flip_channel_order",
    }
)  # fmt: skip
# These change no pixel.
_BESIDE: Final = frozenset(
    {
        "image_processor_type", "feature_extractor_type", "processor_class", "do_convert_rgb", "data_format",
        "input_data_format", "device", "disable_grouping", "return_tensors", "_valid_processor_keys", "reduce_labels",
        "do_reduce_labels", "format", "annotation_format", "do_convert_annotations",
    }
)  # fmt: skip


def image_steps(
    settings: Any, size: tuple[int | None, int | None], said: list[str], stated: list[str]
) -> tuple[Step, ...] | None:
    """The steps, with what they rest on in `said` (guesses) and `stated`; None where there is nothing to read. `size`:
    height and width of the model's input."""
    if not isinstance(settings, dict) or not settings:
        return None
    guesses = len(said)
    steps: list[Step] = []
    if settings.get("do_resize", True):
        steps += _resizing(settings, size, said)
    if settings.get("do_center_crop"):
        steps += _cropping(settings.get("crop_size"), said)
    steps += _normalising(settings, said)
    _say_unfollowed(settings, said)
    if len(said) == guesses:
        stated.append("images are prepared as preprocessor_config.json says")
    return tuple(steps)


def _resizing(settings: Mapping[str, Any], size: tuple[int | None, int | None], said: list[str]) -> list[Step]:
    method = _method(settings.get("resample"), said)
    wanted, kind = settings.get("size"), _kind(settings)
    fixed = (size[0], size[1]) if size[0] and size[1] else None
    sides: tuple[int, int] | int | None = _sides(wanted)
    edge = wanted.get("shortest_edge") if isinstance(wanted, dict) else wanted
    if sides is None and _is_extent(edge):
        if kind.startswith(_CROPPING):
            return _resize_and_crop(edge, settings.get("crop_pct"), method, said)
        if not isinstance(wanted, dict) and _takes_squares(settings, kind, said):
            sides = (edge, edge)
        elif settings.get("do_center_crop"):
            sides = edge
            _say_other_edges(wanted, kind, said)
    if sides is None:
        if fixed is None:
            said.append(f"the size of images is open, and pictures are not resized ({UNCHECKED})")
            return []
        said.append(f"images are stretched to the {fixed[0]}×{fixed[1]} of the file ({UNCHECKED})")
        sides = fixed
    return [Resize(op="resize", size=sides, method=method)]  # type: ignore[arg-type]


def _kind(settings: Mapping[str, Any]) -> str:
    return str(settings.get("image_processor_type") or settings.get("feature_extractor_type") or "")


def _method(resample: Any, said: list[str]) -> str:
    if type(resample) is int and resample in _METHODS:
        return _METHODS[resample]
    said.append(f"images are resized with bilinear interpolation ({UNCHECKED}: resample is {str(resample)[:40]})")
    return "bilinear"


def _takes_squares(settings: Mapping[str, Any], kind: str, said: list[str]) -> bool:
    """Whether a plain number is the length of both sides."""
    declared = settings.get("default_to_square")
    if isinstance(declared, bool):
        return declared
    square = kind.startswith(_SQUARE)
    if not square and not kind.startswith((*_SHORTER, *_OWN_RULES)):
        said.append(f"the size in preprocessor_config.json is that of the shorter side ({UNCHECKED})")
    return square


def _say_other_edges(wanted: Any, kind: str, said: list[str]) -> None:
    if kind.startswith(_OWN_RULES):
        said.append(f"{kind[:60]} resizes images by a rule of its own, which is not followed ({UNCHECKED})")
    if isinstance(wanted, dict) and wanted.get("longest_edge"):
        said.append(f"the longer side of images has no limit ({UNCHECKED}: longest_edge is not followed)")


def _resize_and_crop(edge: int, share: Any, method: str, said: list[str]) -> list[Step]:
    """What ConvNextImageProcessor does: below 384 pixels the middle of a larger image, else all of it, stretched."""
    if edge >= _CROPPED_BELOW:
        return [Resize(op="resize", size=(edge, edge), method=method)]  # type: ignore[arg-type]
    if not isinstance(share, float | int) or not 0.1 < share <= 1:
        said.append(f"the middle {_USUAL_SHARE:g} of images go in ({UNCHECKED}: crop_pct is {str(share)[:40]})")
        share = _USUAL_SHARE
    larger = Resize(op="resize", size=int(edge / share), method=method)  # type: ignore[arg-type]
    return [larger, CenterCrop(op="center_crop", size=(edge, edge))]


def _cropping(wanted: Any, said: list[str]) -> list[Step]:
    crop = (wanted, wanted) if _is_extent(wanted) else _sides(wanted)
    if crop is None:
        said.append(f"images are not cropped ({UNCHECKED}: crop_size has no height and width)")
        return []
    return [CenterCrop(op="center_crop", size=crop)]


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


def _say_unfollowed(settings: Mapping[str, Any], said: list[str]) -> None:
    flips = settings.get("do_flip_channel_order")
    if flips or (flips is None and _kind(settings).startswith(_FLIPPING)):
        said.append(f"the processor turns RGB into BGR, which is not followed: set color: BGR ({UNCHECKED})")
    others = [name for name, value in settings.items() if value and name not in _FOLLOWED | _BESIDE]
    if others:
        listed = ", ".join(str(name)[:40] for name in others[:6])
        said.append(f"preprocessor_config.json also says {listed}, which is not followed ({UNCHECKED})")


def _is_extent(value: Any) -> TypeGuard[int]:
    return type(value) is int and 0 < value <= _LARGEST


def _sides(wanted: Any) -> tuple[int, int] | None:
    if not isinstance(wanted, dict):
        return None
    height, width = wanted.get("height"), wanted.get("width")
    return (height, width) if _is_extent(height) and _is_extent(width) else None


def _channels(numbers: Any) -> tuple[float, ...] | None:
    if not isinstance(numbers, list) or len(numbers) not in (1, 3):
        return None
    plain = [number for number in numbers if isinstance(number, int | float) and abs(number) < 1e6]
    return tuple(float(number) for number in plain) if len(plain) == len(numbers) else None
