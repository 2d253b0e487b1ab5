"""Every aten operator that is known, to the function that says it in the vocabulary.

An operator that is not here is taken apart by torch itself where it is composite, and is `unknown` otherwise.
"""

from __future__ import annotations

from typing import Final

from zoolens.graph.importers.torch.activations import ACTIVATIONS
from zoolens.graph.importers.torch.arithmetic import ARITHMETIC
from zoolens.graph.importers.torch.arrangement import ARRANGEMENT
from zoolens.graph.importers.torch.layers import LAYERS
from zoolens.graph.importers.torch.trace import Lowering

LOWERINGS: Final[dict[str, Lowering]] = {**LAYERS, **ACTIVATIONS, **ARITHMETIC, **ARRANGEMENT}
