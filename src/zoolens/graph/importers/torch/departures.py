"""Modules in which numbers leave torch, as by numpy or by a decision, and so leave the trace.

What such a module answers looks like a constant, or like one of several structures. The module becomes one unknown
layer instead: of what it was given, with its own tensors.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from zoolens.graph.importers.torch.trace import TensorTrace, tensors_in

# Methods of a tensor that give its numbers to Python.
_LEAVING: Final = ("numpy", "tolist", "item", "__array__", "__bool__", "__float__", "__int__", "__index__")


class TorchDepartures:
    """Sees numbers that depend on an input leave torch, and in which module. The outermost one stays as it is, for a
    whole network that is unknown would say nothing; `in_network` says that they left torch there."""

    def __init__(self, trace: TensorTrace) -> None:
        self._trace = trace
        self._places: set[str] = set()  # paths of modules

    @property
    def in_network(self) -> bool:
        return "" in self._places

    @contextmanager
    def watched(self) -> Iterator[None]:
        import torch
        from torch.overrides import TorchFunctionMode

        methods = {getattr(torch.Tensor, name) for name in _LEAVING}
        trace, places = self._trace, self._places

        class Watching(TorchFunctionMode):  # type: ignore[misc]
            def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                if function in methods and trace.stack and trace.depends_on_input(args[0]):
                    path, has_children = trace.stack[-1]
                    if function is not torch.Tensor.__bool__ or not has_children:  # a check of numbers hides no layers
                        places.add(path)
                return function(*args, **(kwargs or {}))

        with Watching():
            yield

    def leave(self, module: Any, given: Any, answer: Any) -> None:
        """A module has answered: from now on its answer is that of an unknown layer, if numbers left torch in it."""
        path = self._trace.stack[-1][0]
        if not path or path not in self._places:
            return
        from torch.utils._python_dispatch import _disable_current_modes

        with _disable_current_modes():
            self._trace.opaque_module(module, list(tensors_in(given)), list(tensors_in([answer])))
