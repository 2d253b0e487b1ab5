"""Language models with past keys and values are read as networks of whole texts, which begin with none.

Their other inputs are then constants: caches of no tokens, a mask of ones, and positions from 0 on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from zoolens.base.errors import ModelError
from zoolens.findings.graph.cost.generation import CACHE_FACT
from zoolens.findings.graph.importers.constants import Constant, computed
from zoolens.findings.graph.importers.input_shapes import with_extents
from zoolens.findings.graph.ir.model import Shape
from zoolens.inventory.runtimes.onnx.decoder_form import DecoderForm, decoder_form
from zoolens.inventory.runtimes.onnx.onnx_file import OnnxGraph

MASKS_FACT: Final = "masks_of_ones"  # inputs that the graph does not have, because it takes them to be ones
_TOKENS: Final = 128  # of a text where no length is given, as of GGUF files


def with_empty_caches(
    file: OnnxGraph, name: str, extents: Mapping[str, Shape]
) -> tuple[OnnxGraph, dict[str, Constant], dict[str, Any]]:
    """The graph from tokens to logits, its other inputs as constants, and what the file says of its caches. Any other
    file stays as it is."""
    form = _form(file, name)
    if form is None:
        return file, {}, {}
    length = with_extents(form.tokens, extents).shape[1] or _TOKENS
    tokens = replace(form.tokens, shape=(1, length))
    ones = {spec.name: np.ones((1, length), spec.dtype) for spec in form.inputs}
    feeds = form.whole_texts({**ones, tokens.name: np.zeros((1, length), tokens.dtype)})
    constants = {name: computed(value, name) for name, value in feeds.items() if name != tokens.name}
    outputs = [spec for spec in file.outputs if spec.name not in form.presents]
    facts = {CACHE_FACT: np.dtype(form.pasts[0].dtype).itemsize, MASKS_FACT: [spec.name for spec in form.inputs[1:]]}
    return replace(file, inputs=[tokens], outputs=outputs), constants, facts


def _form(file: OnnxGraph, name: str) -> DecoderForm | None:
    try:
        return decoder_form(file.inputs, file.outputs, name)
    except ModelError:
        # What keeps a file from running keeps nobody from reading its graph.
        return None
