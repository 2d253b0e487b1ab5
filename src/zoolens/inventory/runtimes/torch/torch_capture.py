"""Values of tensors inside a torch model, copied while it runs: a later operator may overwrite them in place.

- A network of modules runs under a dispatch mode that sees each operator call with the module that makes it. Points are
  called as the importer of torch networks calls its nodes: by the module's path, with the operator where the module has
  parts of its own, and with #2, #3 … where the same name comes again.
- An exported program runs in an interpreter; points are its nodes.
- A TorchScript file runs as a copy of its graph that answers with more values; points are the values of that graph.
- A compiled network is compiled again, with the copies as further answers; points are the outputs of its modules.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cached_property
from typing import Any, Final

from zoolens.base.errors import ModelError
from zoolens.inventory.runtimes.observing import CapturePoint
from zoolens.inventory.runtimes.runtime import Tensor

Values = dict[str, Any]  # tensors by the name of their point

# Where the importer's vocabulary has another word for an operator that networks call without a module of its own.
_WORDS: Final[Mapping[str, str]] = {
    "cat": "concat",
    "concatenate": "concat",
    "view": "reshape",
    "unsqueeze": "reshape",
    "squeeze": "reshape",
    "permute": "transpose",
    "linear": "dense",
    "conv2d": "conv",
    "conv1d": "conv",
    "adaptive_avg_pool2d": "adaptive_avg_pool",
    "avg_pool2d": "avg_pool",
    "max_pool2d": "max_pool",
    "hardswish": "hard_swish",
    "hardsigmoid": "hard_sigmoid",
    "scaled_dot_product_attention": "attention",
}
# Take a tensor for its shape or type only: what they make does not depend on it.
_SHAPE_ONLY: Final = ("new_", "zeros_like", "ones_like", "full_like", "empty_like", "rand")
# Give the tensor that they take, where it has the type and the shape already: the importer makes no node of them.
_GIVING_BACK: Final = frozenset(
    {
        "contiguous", "detach", "alias", "clone", "lift_fresh", "positive", "real", "to", "_to_copy", "type_as",
        "float", "view", "reshape", "_unsafe_view", "unsqueeze", "squeeze", "flatten", "unflatten",
    }
)  # fmt: skip


class Observer(ABC):
    """Runs a model and copies values of tensors on the way. `kept`: the model makes these tensors anyway."""

    kept: bool = True

    @abstractmethod
    def run(self, tensors: Sequence[Any], wanted: frozenset[str] | None) -> tuple[Any, Values]:
        """The model's answer and the wanted values; None is all, as tensors that have shapes and no numbers."""


def capture_points(observer: Observer, example: Sequence[Any], larger: Sequence[Any]) -> tuple[CapturePoint, ...]:
    """The points of a model, by an example and one of a larger batch: dimensions that follow the batch are free."""
    first = last = observer.run(example, None)[1]
    # A model may fix its batch size.
    with suppress(Exception):
        last = observer.run(larger, None)[1]
    return tuple(
        CapturePoint(
            name,
            node=name,
            tensor="",
            kept=observer.kept,
            shape=_free_shape(value, last.get(name, value)),
            dtype=stored_dtype(value),
        )
        for name, value in first.items()
    )


def _free_shape(value: Any, other: Any) -> tuple[int | None, ...]:
    if value.dim() != other.dim():
        return tuple(None for _ in value.shape)
    return tuple(int(a) if a == b else None for a, b in zip(value.shape, other.shape, strict=True))


def stored_dtype(tensor: Any) -> str:
    """The type of the array that `to_array` makes of a tensor."""
    kind = str(tensor.dtype).removeprefix("torch.")
    return "float32" if kind == "bfloat16" or tensor.is_quantized or kind.startswith("float8") else kind


def to_array(tensor: Any) -> Tensor:
    """A tensor's values; those of types that numpy lacks, and of quantised ones, as float32."""
    plain = tensor.dequantize() if tensor.is_quantized else tensor
    plain = plain.float() if stored_dtype(tensor) != str(tensor.dtype).removeprefix("torch.") else plain
    array: Tensor = plain.detach().cpu().numpy().copy()
    return array


def _copied(tensor: Any, wanted: frozenset[str] | None) -> Any:
    return tensor.detach().clone() if wanted is not None else tensor.detach().to("meta")


class _Collected:
    """Copies of the wanted values, by name; the same name once more becomes name#2."""

    def __init__(self, wanted: frozenset[str] | None) -> None:
        self.values: Values = {}
        self._wanted = wanted
        self._calls: dict[str, int] = {}

    def unique(self, name: str) -> str:
        count = self._calls[name] = self._calls.get(name, 0) + 1
        return name if count == 1 else f"{name}#{count}"

    def add(self, name: str, tensor: Any) -> None:
        name = self.unique(name)
        if self._wanted is None or name in self._wanted:
            self.values[name] = _copied(tensor, self._wanted)


class ModuleObserver(Observer):
    """A network of modules, run operator by operator as always."""

    def __init__(self, torch: Any, module: Any) -> None:
        self._torch, self._module = torch, module

    def run(self, tensors: Sequence[Any], wanted: frozenset[str] | None) -> tuple[Any, Values]:
        collected = _Collected(wanted)
        # Path of each module that runs, and whether it has parts.
        running: list[tuple[str, bool]] = []
        with ExitStack() as stack:
            for path, part in self._module.named_modules():
                if path:
                    stack.enter_context(_noting(part, path, running))
            stack.enter_context(self._mode(collected, running, tensors))
            answer = self._module(*tensors)
        return answer, collected.values

    def _mode(self, collected: _Collected, running: list[tuple[str, bool]], inputs: Sequence[Any]) -> Any:
        torch = self._torch
        from torch.utils._python_dispatch import TorchDispatchMode
        from torch.utils.weak import WeakIdKeyDictionary

        # Tensors that depend on an input, as long as they live.
        dependent = WeakIdKeyDictionary()
        for tensor in inputs:
            dependent[tensor] = True

        class Noting(TorchDispatchMode):  # type: ignore[misc]
            def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                result = function(*args, **(kwargs or {}))
                name = function._schema.name.partition("::")[2]
                operands = list(tensors_in(torch, [args, kwargs or {}]))
                if any(operand in dependent for operand in operands) and not name.startswith(_SHAPE_ONLY):
                    results = list(tensors_in(torch, [result]))
                    for tensor in results:
                        dependent[tensor] = True
                    if results and not _gives_back(name, operands[0], results[0]):
                        collected.add(_point_name(name, running), results[0])
                return result

        return Noting()


def _gives_back(operator: str, taken: Any, result: Any) -> bool:
    return operator in _GIVING_BACK and taken.dtype == result.dtype and taken.shape == result.shape


class _noting:  # noqa: N801 - a context manager
    def __init__(self, module: Any, path: str, running: list[tuple[str, bool]]) -> None:
        self._module = module
        self._entry = path, bool(module._modules)
        self._running = running

    def __enter__(self) -> None:
        self._hooks = (
            self._module.register_forward_pre_hook(lambda *_: self._running.append(self._entry)),
            self._module.register_forward_hook(self._leave, always_call=True),
        )

    def _leave(self, *_: Any) -> None:
        self._running.pop()

    def __exit__(self, *_: object) -> None:
        for hook in self._hooks:
            hook.remove()


def _point_name(operator: str, running: list[tuple[str, bool]]) -> str:
    path, has_parts = running[-1] if running else ("", True)
    if not has_parts:
        return path
    word = operator.removesuffix("_")
    name = _WORDS.get(word, word)
    return f"{path}.{name}" if path else name


class ProgramObserver(Observer):
    """A program of torch.export, run node by node."""

    def __init__(self, torch: Any, program: Any) -> None:
        self._torch, self._program = torch, program

    def run(self, tensors: Sequence[Any], wanted: frozenset[str] | None) -> tuple[Any, Values]:
        torch: Any = self._torch
        collected = _Collected(wanted)

        class Noting(torch.fx.Interpreter):  # type: ignore[misc]
            def run_node(self, node: Any) -> Any:
                result = super().run_node(node)
                if node.op.startswith("call_"):
                    tensor = next(tensors_in(torch, [result]), None)
                    if tensor is not None:
                        collected.add(node.name, tensor)
                return result

        return Noting(self._program).run(*tensors), collected.values


class ScriptObserver(Observer):
    """A TorchScript module, as a copy of its graph, with all modules inlined, that answers with more values.

    `kept` is False, since torch may fuse other operators when it is asked for more values.
    """

    kept = False

    def __init__(self, torch: Any, module: Any) -> None:
        self._torch, self._module = torch, module
        self._graph = module.inlined_graph
        self._tapped: tuple[tuple[str, ...], Callable[..., Any]] | None = None

    def run(self, tensors: Sequence[Any], wanted: frozenset[str] | None) -> tuple[Any, Values]:
        names = tuple(name for name, _ in self.operators if wanted is None or name in wanted)
        if self._tapped is None or self._tapped[0] != names:
            self._tapped = names, self._function(names)
        *answers, values = self._tapped[1](self._module, *tensors)
        answer = answers[0] if len(answers) == 1 else tuple(answers)
        copies = {name: _copied(value, wanted) for name, value in zip(names, values, strict=True)}
        return answer, copies

    @cached_property
    def operators(self) -> tuple[tuple[str, str], ...]:
        """Name and kind of each operator, in the order of the graph. One that reads weights is called by the module
        that holds them, and any other by its kind."""
        collected = _Collected(None)
        return tuple(
            (collected.unique(_module_of(node) or _short(node.kind())), node.kind())
            for node in self._tensor_nodes(self._graph)
        )

    def _tensor_nodes(self, graph: Any) -> Iterator[Any]:
        """Nodes of the outermost block that make one tensor; what loops and branches compute inside is not read."""
        for node in graph.nodes():
            if node.kind().startswith("prim::") or node.outputsSize() != 1:
                continue
            if isinstance(node.output().type(), self._torch._C.TensorType):
                yield node

    def _function(self, names: tuple[str, ...]) -> Callable[..., Any]:
        graph = self._graph.copy()
        nodes = dict(zip((name for name, _ in self.operators), self._tensor_nodes(graph), strict=True))
        copies = []
        for name in names:
            none = graph.create("prim::Constant")
            none.output().setType(self._torch._C.NoneType.get())
            none.insertAfter(nodes[name])
            copy = graph.create("aten::clone", [nodes[name].output(), none.output()])
            copy.insertAfter(none)
            copies.append(copy.output())
        values = graph.create("prim::ListConstruct", copies)
        values.output().setType(self._torch._C.ListType.ofTensors())
        graph.appendNode(values)
        graph.registerOutput(values.output())
        graph.makeMultiOutputIntoTuple()
        return self._torch._C._create_function_from_graph("observed", graph)  # type: ignore[no-any-return]


def _short(kind: str) -> str:
    return kind.rpartition("::")[2].removesuffix("_")


def _module_of(node: Any) -> str:
    """The path of the module whose weights an operator reads first, or nothing."""
    paths = (_path(value) for value in node.inputs())
    return next((".".join(path[:-1]) for path in paths if len(path) > 1), "")


def _path(value: Any) -> list[str]:
    """The names of the attributes that lead from the whole module to a value, or nothing for a computed one."""
    path: list[str] = []
    while value.node().kind() == "prim::GetAttr":
        path.insert(0, value.node().s("name"))
        value = next(value.node().inputs())
    return path


class CompiledObserver(Observer):
    """A network that torch.compile compiles again for each set of wanted values, with these as further answers."""

    kept = False

    def __init__(self, torch: Any, module: Any) -> None:
        self._torch, self._module = torch, module
        self._tapped: tuple[frozenset[str], Any] | None = None

    def run(self, tensors: Sequence[Any], wanted: frozenset[str] | None) -> tuple[Any, Values]:
        if wanted is None:
            answer, values = _tapped_module(self._torch, self._module, None)(*tensors)
            shapes = {name: value.to("meta") for name, value in values.items()}
            return answer, shapes | self._answers(answer, None)
        if self._tapped is None or self._tapped[0] != wanted:
            module = _tapped_module(self._torch, self._module, wanted)
            self._tapped = wanted, self._torch.compile(module)
        answer, values = self._tapped[1](*tensors)
        copies = {name: value.clone() for name, value in values.items()}
        return answer, copies | self._answers(answer, wanted)

    def _answers(self, answer: Any, wanted: frozenset[str] | None) -> Values:
        """Returns the outputs themselves as points: an operator outside all modules may have computed them."""
        points = {}
        for place, value in enumerate(tensors_in(self._torch, [answer])):
            name = f"output{place}"
            if wanted is None or name in wanted:
                points[name] = _copied(value, wanted)
        return points


def _tapped_module(torch: Any, module: Any, wanted: frozenset[str] | None) -> Any:
    """A module that also answers with copies of the outputs of its parts."""

    class Tapped(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.whole = module

        def forward(self, *tensors: Any) -> Any:
            collected: dict[str, Any] = {}
            calls: dict[str, int] = {}
            handles = []
            for path, part in self.whole.named_modules():
                if path:
                    handles.append(part.register_forward_hook(_collecting(torch, path, collected, calls, wanted)))
            try:
                return self.whole(*tensors), collected
            finally:
                for handle in handles:
                    handle.remove()

    return Tapped()


def _collecting(
    torch: Any, path: str, collected: dict[str, Any], calls: dict[str, int], wanted: frozenset[str] | None
) -> Callable[..., None]:
    def note(_: Any, __: Any, result: Any) -> None:
        if isinstance(result, torch.Tensor):
            count = calls[path] = calls.get(path, 0) + 1
            name = path if count == 1 else f"{path}#{count}"
            if wanted is None or name in wanted:
                collected[name] = result.clone()

    return note


def observer_of(torch: Any, module: Any, *, compiled: bool) -> Observer:
    if isinstance(module, torch.jit.ScriptModule):
        return ScriptObserver(torch, module)
    if isinstance(module, torch.fx.GraphModule):
        if compiled:
            raise ModelError(
                "The values inside a compiled exported program cannot be read.", hint="Use the mode eager for it."
            )
        return ProgramObserver(torch, module)
    return CompiledObserver(torch, module) if compiled else ModuleObserver(torch, module)


def tensors_in(torch: Any, values: Any) -> Iterator[Any]:
    for value in values.values() if isinstance(values, Mapping) else values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, Mapping | list | tuple):
            yield from tensors_in(torch, value)
