"""Marks in kineto's timeline: the parts of a torch model say when they run, so that operators can be told by them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final

MARK: Final = "zoolens mark "  # how the name of a mark in the timeline begins


@dataclass
class Mark:
    """A part of a network while it ran once. `leaf`: it has no parts of its own."""

    path: str
    kind: str
    leaf: bool
    shapes: tuple[tuple[int, ...], ...] = ()
    precision: str | None = None


class Marks:
    """The parts of a network that ran, in the order in which they began, as marks in kineto's timeline."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._all: list[Mark] = []
        self._open: list[tuple[Mark, Any]] = []

    def enter(self, path: str, kind: str, *, leaf: bool) -> None:
        mark = Mark(path, kind, leaf)
        span = self._torch._C._profiler._RecordFunctionFast(f"{MARK}{len(self._all)}")
        self._all.append(mark)
        self._open.append((mark, span))
        span.__enter__()

    def leave(self, result: Any = None) -> None:
        mark, span = self._open.pop()
        span.__exit__(None, None, None)
        tensors = [value for value in _listed(result) if isinstance(value, self._torch.Tensor)]
        mark.shapes = tuple(tuple(int(extent) for extent in tensor.shape) for tensor in tensors)
        if tensors:
            mark.precision = str(tensors[0].dtype).removeprefix("torch.")

    @contextmanager
    def around(self, path: str, kind: str, *, leaf: bool) -> Iterator[None]:
        self.enter(path, kind, leaf=leaf)
        try:
            yield
        finally:
            self.leave()

    def of(self, name: str) -> Mark | None:
        """The mark that an event of this name is, if it is one."""
        number = name.removeprefix(MARK)
        if not name.startswith(MARK) or not number.isdigit() or int(number) >= len(self._all):
            return None
        return self._all[int(number)]


@contextmanager
def marked_modules(module: Any, marks: Marks) -> Iterator[None]:
    """While this is open, the modules below this one mark themselves when they run."""
    with ExitStack() as hooks:
        for path, part in module.named_modules():
            if not path:
                continue
            kind, leaf = type(part).__name__, not part._modules

            def before(_: Any, __: Any, path: str = path, kind: str = kind, leaf: bool = leaf) -> None:
                marks.enter(path, kind, leaf=leaf)

            def after(_: Any, __: Any, result: Any) -> None:
                marks.leave(result)

            hooks.callback(part.register_forward_pre_hook(before).remove)
            hooks.callback(part.register_forward_hook(after, always_call=True).remove)
        yield


def marked_program(torch: Any, program: Any, marks: Marks) -> Callable[..., Any]:
    """A call of an exported program that marks each of its nodes."""

    class Marking(torch.fx.Interpreter):  # type: ignore[misc]
        def run_node(self, node: Any) -> Any:
            if not node.op.startswith("call_"):
                return super().run_node(node)
            marks.enter(node.name, str(node.target), leaf=True)
            result = None
            try:
                result = super().run_node(node)
            finally:
                marks.leave(result)
            return result

    return Marking(program).run  # type: ignore[no-any-return]


def _listed(result: Any) -> list[Any]:
    if isinstance(result, dict):
        return list(result.values())
    return list(result) if isinstance(result, tuple | list) else [result]
