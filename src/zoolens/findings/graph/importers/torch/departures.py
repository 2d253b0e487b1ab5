"""Modules in which numbers leave torch, as by numpy or by a decision, and so leave the trace.

What such a module answers looks like a constant, or like one of several structures. The module becomes one unknown
layer instead: of what it was given, with its own tensors.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

from zoolens.findings.graph.importers.torch.trace import TensorTrace, tensors_in

# Methods of a tensor that give its numbers to Python.
_LEAVING: Final = ("numpy", "tolist", "item", "__array__", "__bool__", "__float__", "__int__", "__index__")


class TorchDepartures:
    """Sees numbers that depend on an input leave torch, and in which module. The outermost one stays as it is, for a
    whole network that is unknown would say nothing; `in_network` says that they left torch there."""

    def __init__(self, trace: TensorTrace) -> None:
        self._trace = trace
        self._places: set[str] = set()  # paths of modules
        self.decisions: list[tuple[str, bool]] = []  # where code decided by numbers of an input, and how

    @property
    def in_network(self) -> bool:
        return "" in self._places

    @contextmanager
    def watched(self) -> Iterator[None]:
        import torch
        from torch.overrides import TorchFunctionMode

        methods = {getattr(torch.Tensor, name) for name in _LEAVING}
        trace = self._trace
        places = self._places
        decisions = self.decisions

        class Watching(TorchFunctionMode):  # type: ignore[misc]
            def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                if function in methods and trace.stack and trace.depends_on_input(args[0]):
                    path, has_children = trace.stack[-1]
                    if function is not torch.Tensor.__bool__ or not has_children:
                        places.add(path)
                    else:  # it chooses between layers, of which only those that run are seen
                        result = function(*args, **(kwargs or {}))
                        line, asserts = _line()
                        if not asserts:  # an assertion chooses between its network and an error
                            decisions.append((line, bool(result)))
                        return result
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


def _line() -> tuple[str, bool]:
    """The line of code that decides, which is none of torch's and none of ours, and whether it is an assertion."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        path = Path(frame.f_code.co_filename)
        if "torch" not in path.parts and path != Path(__file__):
            return f"{path.name}:{frame.f_lineno}", _asserts(frame)
        frame = frame.f_back
    return "its code", False


def _asserts(frame: FrameType) -> bool:
    line: int | None = None
    for instruction in dis.get_instructions(frame.f_code):
        line = instruction.starts_line if isinstance(instruction.starts_line, int) else line
        raises = instruction.opname == "LOAD_ASSERTION_ERROR" or instruction.argval == "AssertionError"
        if raises and line == frame.f_lineno:  # pytest writes assertions of tests as branches
            return True
    return False
