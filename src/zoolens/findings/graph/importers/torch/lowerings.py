"""Every aten operator that is known, to the function that says it in the vocabulary.

An operator that is not here is taken apart by torch itself where it is composite, and is `unknown` otherwise.
"""

from __future__ import annotations

from typing import Final

from zoolens.findings.graph.importers.torch.arithmetic import ARITHMETIC
from zoolens.findings.graph.importers.torch.torch_activations import ACTIVATIONS
from zoolens.findings.graph.importers.torch.torch_arrangement import ARRANGEMENT
from zoolens.findings.graph.importers.torch.torch_layers import LAYERS
from zoolens.findings.graph.importers.torch.trace import Lowering

LOWERINGS: Final[dict[str, Lowering]] = {**LAYERS, **ACTIVATIONS, **ARITHMETIC, **ARRANGEMENT}
