"""The axes of an image's shape: layout, crop or place on the canvas, and how and by whose rules it is resized."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

from zoolens.base.errors import ManifestError
from zoolens.findings.audit.doctor.variants import (
    PADDING_VALUE,
    Axis,
    AxisChoice,
    Change,
    NotSwept,
    axis_or_none,
    with_input,
)
from zoolens.inventory.datasets.dataset import Dataset
from zoolens.inventory.manifests.schema import MODALITIES, Input, Manifest
from zoolens.inventory.manifests.schema_boxes import Letterbox
from zoolens.inventory.manifests.schema_steps import CenterCrop, Normalize, Resize, Step
from zoolens.inventory.preprocess.resize import METHODS, check_resize
from zoolens.inventory.runtimes.runtime import TensorSpec, shape_text

LOOKED_AT: Final = 8  # images whose size is looked at
_FILLS: Final[tuple[float, ...]] = (0.0, 114.0, 128.0)  # of padding: black, Ultralytics' grey, the middle
_RATIOS: Final = (0.875, 0.95, 1.0)
_FRACTION: Final = 0.875
_SHAPELESS: Final = ("torch-state-dict", "torchscript", "mxnet")  # their files carry no input shape
_ANTIALIAS: Final = {"pil": True, "torchvision": True, "tensorflow": False, "opencv": False}  # where nothing is said
_LIBRARIES: Final = (
    ("pil", None), ("torchvision", True), ("torchvision", False), ("tensorflow", True), ("tensorflow", False),
    ("opencv", None),
)  # fmt: skip


def shape_axes(manifest: Manifest, dataset: Dataset, *, located: bool = False) -> list[Axis | NotSwept]:
    """`located`: answers are places in the image, so that all of it must be on the canvas."""
    declared = manifest.inputs[0]
    if declared.modality != "image":
        reason = f"the input is {MODALITIES[declared.modality]}, not an image."
        return [NotSwept("crop, resize method and library", reason)]
    if not located and any(isinstance(step, Letterbox) for step in declared.preprocess):
        return [NotSwept("crop, resize method and library", "the manifest fits whole images by letterbox.")]
    size = _input_size(declared)
    if size is None:
        return [NotSwept("crop, resize method and library", "the input's height and width are free.")]
    if _all_have(dataset, size):
        wanted = f"{size[0]}×{size[1]}"
        return [NotSwept("crop, resize method and library", f"the images are {wanted} already, as the input is.")]
    if located:
        framing = _canvas(manifest, size) or NotSwept("canvas", "the steps do not put one whole image onto it.")
    else:
        framing = _framing(manifest, size) or NotSwept("crop", "nothing else fits the input.")
    return [
        framing,
        _methods(manifest) or NotSwept("resize method", "the manifest resizes nothing."),
        _libraries(manifest) or NotSwept("resize library", "the manifest resizes nothing."),
    ]


def layout_axis(manifest: Manifest, tensor: TensorSpec, format_: str) -> Axis | NotSwept:
    declared = manifest.inputs[0]
    if declared.modality in ("text", "sound"):
        return NotSwept("layout", f"there is no other for {declared.modality}s.")
    if declared.modality == "array" or declared.layout not in ("NCHW", "NHWC"):
        return NotSwept("layout", f"there is no other for {declared.layout} inputs.")
    other = "NHWC" if declared.layout == "NCHW" else "NCHW"
    channels = 1 if declared.color == "gray" else 3
    shape = tensor.shape if len(tensor.shape) == 4 else declared.shape
    fits = {layout: shape[layout.index("C")] in (None, channels) for layout in ("NCHW", "NHWC")}
    if format_ not in _SHAPELESS and fits[declared.layout] and not fits[other]:
        return NotSwept("layout", f"it is settled by the file, whose input is {shape_text(shape)}.")
    moved = _permuted(declared) if format_ in _SHAPELESS or fits[declared.layout] else tuple(shape)
    return Axis("layout", declared.layout, (_laid_out(other, moved),))


def _laid_out(layout: str, shape: tuple[int | None, ...]) -> AxisChoice:
    return AxisChoice("layout", "layout", layout, lambda manifest: with_input(manifest, layout=layout, shape=shape))


def _permuted(declared: Input) -> tuple[int | None, ...]:
    n, a, b, c = declared.shape
    return (n, b, c, a) if declared.layout == "NCHW" else (n, c, a, b)


def _input_size(declared: Input) -> tuple[int, int] | None:
    """Height and width that the model gets: of the shape, or of the last step that fixes both."""
    if "H" in declared.layout:
        height, width = declared.shape[declared.layout.index("H")], declared.shape[declared.layout.index("W")]
        if height and width:
            return height, width
    fixed = [step.size for step in declared.preprocess if isinstance(step, Resize | CenterCrop | Letterbox)]
    return next((size for size in reversed(fixed) if isinstance(size, tuple)), None)


def _all_have(dataset: Dataset, size: tuple[int, int]) -> bool:
    indices = range(0, len(dataset), max(1, len(dataset) // LOOKED_AT))
    return all(dataset.read(index).value.shape[:2] == size for index in indices)


def _framing(manifest: Manifest, size: tuple[int, int]) -> Axis | None:
    choices = [_framed("whole image, squeezed", (_Sized(size),))]
    for ratio in _RATIOS:
        shorter = round(max(size) / ratio)
        name = f"{ratio:g} of the shorter side"
        choices.append(_framed(name, (_Sized(shorter), CenterCrop(op="center_crop", size=size))))
    central = CenterCrop(op="center_crop", fraction=_FRACTION)
    choices.append(_framed(f"central {_FRACTION:g}, squeezed", (central, _Sized(size))))
    return axis_or_none("framing", describe(manifest.inputs[0].preprocess), choices, manifest)


def _canvas(manifest: Manifest, size: tuple[int, int]) -> Axis | None:
    """The ways to put a whole image onto the model's canvas."""
    shaping = [step for step in manifest.inputs[0].preprocess if not isinstance(step, Normalize)]
    declared = shaping[0] if len(shaping) == 1 else None
    if not isinstance(declared, Resize | Letterbox):
        return None
    said = {"size": size, "method": declared.method, "library": declared.library}
    steps: list[Resize | Letterbox] = []
    if isinstance(declared, Letterbox) or declared.size != size:
        # What is stretched already differs at most in antialias, which is a matter of the library and another axis.
        steps.append(Resize.model_validate({"op": "resize", **said}))
    fills, rounding = _FILLS, None
    if isinstance(declared, Letterbox):
        fills, rounding = tuple(dict.fromkeys((declared.fill, *_FILLS))), declared.rounding
    for fit, fill in itertools.product(("letterbox", "top_left"), fills):
        placed = {"op": "letterbox", "fit": fit, "fill": fill, "rounding": rounding, **said}
        steps.append(Letterbox.model_validate(placed))
    choices = [AxisChoice("canvas", *_placed(declared, step), _placing(step)) for step in steps if step != declared]
    return axis_or_none("canvas", _place_words(declared), choices, manifest)


def _placed(declared: Resize | Letterbox, step: Resize | Letterbox) -> tuple[str, str]:
    """The factor in which a step differs, and the step in words."""
    same = isinstance(declared, Letterbox) and isinstance(step, Letterbox) and declared.fit == step.fit
    return (PADDING_VALUE if same else "canvas"), _place_words(step)


def _place_words(step: Resize | Letterbox) -> str:
    if isinstance(step, Resize):
        return "stretched"
    place = "centred" if step.fit == "letterbox" else "at the top left"
    return f"letterbox {place}, padded with {step.fill:g}"


def _placing(step: Resize | Letterbox) -> Change:
    def change(manifest: Manifest) -> Manifest:
        steps = manifest.inputs[0].preprocess
        return with_input(manifest, preprocess=(step, *(one for one in steps if isinstance(one, Normalize))))

    return change


class _Sized:
    """A resize whose method and library are still to be filled in from the manifest."""

    def __init__(self, size: tuple[int, int] | int) -> None:
        self.size = size

    def step(self, like: Resize | None) -> Resize:
        return like.model_copy(update={"size": self.size}) if like else Resize(op="resize", size=self.size)


def _framed(name: str, frame: Sequence[_Sized | CenterCrop]) -> AxisChoice:
    def change(manifest: Manifest) -> Manifest:
        declared = manifest.inputs[0].preprocess
        like = next((step for step in declared if isinstance(step, Resize)), None)
        shaping = tuple(step.step(like) if isinstance(step, _Sized) else step for step in frame)
        return with_input(manifest, preprocess=(*shaping, *(s for s in declared if isinstance(s, Normalize))))

    return AxisChoice("framing", "crop", name, change)


def describe(steps: Sequence[Step]) -> str:
    """The geometry in words: "resize to 256, crop to 224×224"."""
    words = []
    for step in steps:
        if isinstance(step, Resize):
            words.append(f"resize to {_extent(step.size)}")
        elif isinstance(step, CenterCrop):
            words.append(f"crop to {_extent(step.size)}" if step.size else f"crop to {step.fraction:g} of each side")
    return ", ".join(words) or "no resize"


def _extent(size: tuple[int, int] | int) -> str:
    return str(size) if isinstance(size, int) else f"{size[0]}×{size[1]}"


def _methods(manifest: Manifest) -> Axis | None:
    declared = _resize_of(manifest)
    if declared is None:
        return None
    choices = [
        AxisChoice("resize method", "resize method", method, _resizing(method=method))
        for method in METHODS[declared.library]
        if _possible(method, declared.library, _antialias(declared))
    ]
    return axis_or_none("resize method", declared.method, choices, manifest)


def _libraries(manifest: Manifest) -> Axis | None:
    declared = _resize_of(manifest)
    if declared is None:
        return None
    before = _smooths(declared.library, _antialias(declared))
    choices = []
    for library, antialias in _LIBRARIES:
        smooths = _smooths(library, antialias)
        if isinstance(declared, Letterbox) and antialias not in (None, _ANTIALIAS[library]):
            # It resizes as each library does by itself.
            continue
        if (library, smooths) == (declared.library, before) or not _possible(declared.method, library, antialias):
            continue
        factor = "resize library" if smooths == before else "antialias"
        name = library if antialias is None else f"{library}, {'with' if antialias else 'without'} antialias"
        choices.append(AxisChoice("resize library", factor, name, _resizing(library=library, antialias=antialias)))
    words = f"{declared.library}{'' if before else ', without antialias'}"
    return axis_or_none("resize library", words, choices, manifest)


def _resize_of(manifest: Manifest) -> Resize | Letterbox | None:
    return next((step for step in manifest.inputs[0].preprocess if isinstance(step, Resize | Letterbox)), None)


def _antialias(step: Resize | Letterbox) -> bool | None:
    return step.antialias if isinstance(step, Resize) else None


def _smooths(library: str, antialias: bool | None) -> bool:
    return _ANTIALIAS[library] if antialias is None else antialias


def _possible(method: str, library: str, antialias: bool | None) -> bool:
    try:
        check_resize(method, library, antialias)
    except ManifestError:
        return False
    return True


def _resizing(**changes: str | bool | None) -> Change:
    def change(manifest: Manifest) -> Manifest:
        steps = tuple(
            step.model_copy(update=_fitting(step, changes)) if isinstance(step, Resize | Letterbox) else step
            for step in manifest.inputs[0].preprocess
        )
        return with_input(manifest, preprocess=steps)

    return change


def _fitting(step: Resize | Letterbox, changes: dict[str, str | bool | None]) -> dict[str, str | bool | None]:
    """The changes that a step has a word for: where the canvas is another one too, the step may be of either kind."""
    return {name: value for name, value in changes.items() if name in type(step).model_fields}
