"""Ports of a network from one framework to another: are they the same, can the weights move, do they train alike?

The public names are imported on first use, as those of `zoolens` are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zoolens.base.public.lazy_names import public_names

if TYPE_CHECKING:
    from zoolens.training.pairs.data.opening import DataChoice as DataChoice
    from zoolens.training.pairs.data.recording import record as record
    from zoolens.training.port.port_check import check as check
    from zoolens.training.port.scaffolds.scaffolding import scaffold as scaffold
    from zoolens.training.port.training.paired import train as train
    from zoolens.training.port.weights import move_weights as move_weights

_WHERE = {
    "check": "zoolens.training.port.port_check:check",
    "record": "zoolens.training.pairs.data.recording:record",
    "move_weights": "zoolens.training.port.weights:move_weights",
    "scaffold": "zoolens.training.port.scaffolds.scaffolding:scaffold",
    "train": "zoolens.training.port.training.paired:train",
    "DataChoice": "zoolens.training.pairs.data.opening:DataChoice",
}

# To a type checker a module with a `__getattr__` has every name, and one with this `__all__` none for `import *`.
if not TYPE_CHECKING:
    __all__ = [*_WHERE]
    __getattr__, __dir__ = public_names(__name__, _WHERE)
