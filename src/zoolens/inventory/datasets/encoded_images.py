"""Datasets of encoded images: which library decodes them, and whether grey ones keep their single channel."""

from __future__ import annotations

from copy import copy

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import DatasetError
from zoolens.inventory.datasets.dataset import Dataset
from zoolens.inventory.datasets.decoders.decoder import load_decoder
from zoolens.inventory.datasets.images import Decode, decode_image
from zoolens.inventory.manifests.schema import DEFAULT_DECODER


def keeps_gray(gray: str) -> bool:
    """What the option `gray` of a dataset says: "keep", or "rgb", which makes grey images RGB."""
    if gray not in ("rgb", "keep"):
        raise DatasetError(f"The option gray is 'rgb' or 'keep', not {gray!r}.")
    return gray == "keep"


class EncodedImages(Dataset):
    """A dataset whose samples may be encoded images; `encoded` says whether they are."""

    def __init__(self, *, keep_gray: bool) -> None:
        self._keep_gray = keep_gray
        self._decoder: str = DEFAULT_DECODER
        self._decode: Decode | None = None

    def decoded_with(self, decoder: str) -> Dataset:
        if decoder == self._decoder or not self.encoded:
            return self
        other = copy(self)  # with the same open files
        other._decoder, other._decode = decoder, load_decoder(decoder)
        return other

    def _pixels(self, source: str | bytes, name: str) -> NDArray[np.uint8]:
        return decode_image(source, name, keep_gray=self._keep_gray, decode=self._decode)
