"""The axis of the image decoder: which library turned files into pixels."""

from __future__ import annotations

import numpy as np

from zoolens.base.errors import ZoolensError
from zoolens.findings.audit.doctor.variants import Axis, AxisChoice, NotSwept, with_input
from zoolens.inventory.datasets.dataset import Dataset
from zoolens.inventory.datasets.decoders.decoder import DECODERS, is_installed
from zoolens.inventory.manifests.schema import MODALITIES, Manifest


def decoder_axis(manifest: Manifest, dataset: Dataset) -> list[Axis | NotSwept]:
    """The decoders that make other pixels of these images, and why others are not tried."""
    if manifest.inputs[0].modality != "image":
        return [NotSwept("decoder", f"the input is {MODALITIES[manifest.inputs[0].modality]}, not an image.")]
    if not dataset.encoded:
        return [NotSwept("decoder", "the dataset is decoded already, so that there is nothing to decode.")]
    declared = manifest.inputs[0].decoder
    choices: list[AxisChoice] = []
    left_out: list[Axis | NotSwept] = []
    for decoder in DECODERS:
        if decoder != declared:
            reason = _why_not(dataset, declared, decoder)
            if reason:
                left_out.append(NotSwept(f"decoder {decoder}", reason))
            else:
                choices.append(_choice(decoder))
    return [*([Axis("decoder", declared, tuple(choices))] if choices else []), *left_out]


def _choice(decoder: str) -> AxisChoice:
    return AxisChoice("decoder", "decoder", decoder, lambda manifest: with_input(manifest, decoder=decoder))


def _why_not(dataset: Dataset, declared: str, decoder: str) -> str | None:
    if not is_installed(decoder):
        return "it is not installed."
    try:
        dataset.decoded_with(decoder)
    except ZoolensError as error:
        return str(error)
    if _same_pixels(dataset, declared, decoder):
        return f"it gives the very pixels of {declared}, in all {len(dataset):,} images looked at."
    return None


def _same_pixels(dataset: Dataset, declared: str, decoder: str) -> bool:
    """Whether both decoders give the same pixels. If one cannot read an image they are not the same."""
    try:
        base, other = dataset.decoded_with(declared), dataset.decoded_with(decoder)
        return all(np.array_equal(base.read(i).value, other.read(i).value) for i in range(len(base)))
    except ZoolensError:
        return False
