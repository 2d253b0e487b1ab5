"""Other forms of a network that compute the same, for two networks that differ as they are written.

Each form is applied to both sides. Where they are nearer to each other in it, what differed before came from how they
are written, and the verdict says in which form they were compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from zoolens.findings.graph.importers.onnx.empty_caches import MASKS_FACT
from zoolens.findings.graph.ir.model import Graph
from zoolens.findings.graph.passes.attention_settings import keep_few_heads, set_causal, share_tables
from zoolens.findings.graph.passes.folded_norms import folded_scales
from zoolens.findings.graph.passes.grouped_convolutions import join_grouped_convolutions
from zoolens.findings.graph.passes.leading_constants import fold_leading_constants
from zoolens.findings.graph.passes.packed_layers import split_packed_layers
from zoolens.findings.graph.passes.separate_tensors import separate_tensors
from zoolens.findings.graph.passes.sunk_reshapes import sink_reshapes

Form = Callable[[Graph, Graph], tuple[Graph, Graph]]
Forms = tuple[tuple[str, Form], ...]  # what the verdict says of a form, and the form


def _each(form: Callable[[Graph], Graph]) -> Form:
    return lambda a, b: (form(a), form(b))


def left_aside(a: Graph, b: Graph) -> tuple[str, ...]:
    """What the verdict says that was not compared, because no graph shows it."""
    if MASKS_FACT not in a.facts and MASKS_FACT not in b.facts:
        return ()
    return ("texts from their beginning on are compared, not how past keys and values are used",)


def _leading_constants(a: Graph, b: Graph) -> tuple[Graph, Graph]:
    """Where both scale as many inputs, neither side has folded a constant, and other numbers are a difference."""
    folded = fold_leading_constants(a), fold_leading_constants(b)
    if len(a) - len(folded[0]) == len(b) - len(folded[1]):
        return (a, b)
    return folded


FORMS: Final[Forms] = (
    # Some libraries have one layer for queries, keys and values, others three.
    ("layers that are packed into one (such as q, k and v) are compared one by one", _each(split_packed_layers)),
    # Optimisers store equal initializers once, such as the zeros of many biases.
    ("equal tensors that are stored once are compared as one for each layer", _each(separate_tensors)),
    # AlexNet was split over two GPUs in this way.
    ("convolutions over parts of a value are compared as one with groups", _each(join_grouped_convolutions)),
    # A dense layer over rows is one over tokens: onnxsim writes XCiT so.
    ("reshapes are compared behind the layers that they do not concern", _each(sink_reshapes)),
    # GGUF files and torch have a setting where exports to ONNX add numbers to scores. A window that is longer than the
    # text hides nothing of it and is not seen.
    ("masks that are causal for texts of this length are compared as attention's setting", _each(set_causal)),
    (
        "keys and values that several heads of queries share are compared as they are before they are repeated",
        _each(keep_few_heads),
    ),
    ("equal tables of rotary positions are compared as one for all layers", _each(share_tables)),
    # onnxsim does this to NF-ResNet.
    ("constants that inputs of layers are scaled by are compared as part of their weights", _leading_constants),
    ("scales and shifts behind layers are compared as part of their weights", _each(folded_scales)),
)
