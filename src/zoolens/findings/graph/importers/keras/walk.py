"""What the handlers of Keras layers and operations share: the values so far, and how a tensor becomes a parameter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from zoolens.findings.graph.ir.builder import Arrange, GraphBuilder
from zoolens.findings.graph.ir.model import Array, Parameter, Shape


@dataclass(frozen=True)
class Ref:
    """Stands in a call's arguments where a symbolic tensor stood: the name of the value in our graph."""

    name: str


@dataclass(frozen=True)
class KerasCall:
    """One call of a layer or operation: its arguments with `Ref`s, and the shapes of its outputs (batch 1)."""

    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    shapes: tuple[Shape, ...]
    source: str
    mask: str | None = None  # of the first tensor among the arguments, where Keras keeps one beside it

    @property
    def values(self) -> tuple[str, ...]:
        """Names of all tensors among the arguments, in order."""
        return tuple(_refs((self.args, list(self.kwargs.values()))))

    @property
    def value(self) -> str:
        return self.values[0]

    @property
    def shape(self) -> Shape:
        return self.shapes[0]

    def argument(self, position: int, keyword: str, default: Any = None) -> Any:
        if position < len(self.args):
            return self.args[position]
        return self.kwargs.get(keyword, default)


def _refs(tree: Any) -> list[str]:
    if isinstance(tree, Ref):
        return [tree.name]
    if isinstance(tree, list | tuple):
        return [name for item in tree for name in _refs(item)]
    if isinstance(tree, dict):
        return [name for item in tree.values() for name in _refs(item)]
    return []


@dataclass
class KerasWalk:
    """The graph under construction. `keys` names every variable once, also where two layers share a path; `leaves` are
    the variables that are values by themselves; `live`, where it is asked for, has the live tensor of every value that
    a call made, by name."""

    builder: GraphBuilder
    channels_last: bool = True
    keys: dict[int, str] = field(default_factory=dict)
    paths: set[str] = field(default_factory=set)
    leaves: dict[int, str] = field(default_factory=dict)
    variables: Sequence[Any] = ()  # of the whole model
    live: dict[str, Any] | None = None

    def shape(self, value: str) -> Shape:
        return self.builder.shapes[value]

    def add(self, op: str, call: KerasCall, *, shape: Sequence[int] | None = None, **options: Any) -> str:
        """One node of a call; `inputs` defaults to the call's tensors, `shape` to its first output's."""
        inputs = options.pop("inputs", None) or call.values
        extents = call.shape if shape is None else shape
        return self.builder.add(op, inputs, extents, source=call.source, **options)

    def unknown(self, call: KerasCall, name: str = "") -> str:
        """What no handler knows: its learned tensors are counted, its arithmetic is not, and both are said."""
        tensors = [self.parameter("value", variable) for variable in getattr(call.target, "weights", ())]
        return self.add("unknown", call, parameters=tensors, source_op=name or type(call.target).__name__)

    def parameter(self, role: str, variable: Any, arrange: Arrange | None = None, part: str = "") -> Parameter:
        """A Keras variable as a parameter; `arrange` turns its values into the shared layout. `part` names the part of
        it that `arrange` takes, where it takes only one."""
        shape = tuple(int(extent) for extent in variable.shape)
        key = f"{self._key(variable)}{part}"
        return self.builder.arranged_parameter(role, shape, key, lambda: self.values(variable), arrange)

    def learned_values(self, tree: Any, source: str) -> dict[int, str]:
        """Variables among the arguments of a call as values of their own, by the identity of the variable."""
        import keras

        variables = [item for item in keras.tree.flatten(tree) if isinstance(item, keras.Variable)]
        return {id(variable): self.learned_value(variable, source) for variable in variables}

    def learned_value(self, variable: Any, source: str) -> str:
        """A variable as a value of its own."""
        if id(variable) not in self.leaves:
            tensor = self.parameter("value", variable)
            self.leaves[id(variable)] = self.builder.leaf("parameter", tensor, source=source)
            if self.live is not None:
                self.live[self.leaves[id(variable)]] = variable.value
        return self.leaves[id(variable)]

    def values(self, variable: Any) -> Array:
        import keras

        return np.asarray(keras.ops.convert_to_numpy(variable.value), dtype=np.float32)

    def number(self, call: KerasCall, number: float) -> str:
        """A number as a value of its own."""
        return self.builder.add("constant", (), (), source=call.source, name=f"{call.source}.number", value=number)

    def given_array(self, array: Array, source: str) -> str:
        """An array that a call is given: a variable as it is or transposed, which Keras has computed already, or a
        constant."""
        for turned in (False, True) if array.ndim == 2 else (False,):
            wanted = array.T if turned else array
            variable = next((each for each in self.variables if self._is(each, wanted)), None)
            if variable is not None:
                value = self.learned_value(variable, source)
                shape = array.shape
                if turned:
                    return self.builder.add("transpose", (value,), shape, source=source, perm=(1, 0))
                return value
        plain = array if array.dtype.kind in "iub" else array.astype(np.float32)
        tensor = self.builder.parameter("value", plain.shape, f"{source}/constant", plain)
        return self.builder.leaf("constant", tensor, source=source, name=f"{source}.constant")

    def _is(self, variable: Any, wanted: Array) -> bool:
        fits = tuple(variable.shape) == wanted.shape and wanted.dtype.kind == "f" and wanted.size > 1
        return fits and bool(np.array_equal(self.values(variable), wanted))

    def optional(self, roles: dict[str, Any]) -> list[Parameter]:
        """Parameters of the variables that are there."""
        return [self.parameter(role, variable) for role, variable in roles.items() if variable is not None]

    def _key(self, variable: Any) -> str:
        known = self.keys.get(id(variable))
        if known is None:
            path = variable.path
            known = path if path not in self.paths else f"{path}#{len(self.keys)}"
            self.paths.add(path)
            self.keys[id(variable)] = known
        return known


Handler = Callable[[KerasWalk, KerasCall], str]  # adds the nodes of a call; the name of what it makes


def plain(op: str) -> Handler:
    """The handler of a layer or operation that is one node without settings."""
    return lambda walk, call: walk.add(op, call)


def concatenate(walk: KerasWalk, call: KerasCall) -> str:
    """Both the layer `Concatenate` and the operation have an `axis`."""
    return walk.add("concat", call, axis=positive(call.target.axis, len(call.shape)))


def axes_name(rank: int, channels_last: bool) -> str:
    """The meaning of the axes of a map with `rank` axes: NHWC, NCW, … or NC."""
    spatial = {2: "", 3: "W", 4: "HW", 5: "DHW"}.get(rank)
    if spatial is None:
        return ""
    return f"N{spatial}C" if channels_last else f"NC{spatial}"


def spatial(shape: Shape, channels_last: bool) -> Shape:
    return shape[1:-1] if channels_last else shape[2:]


def positive(axis: int, rank: int) -> int:
    return int(axis) % rank


def scalar_of(value: Any) -> float | None:
    """A number, or None where it is none or a tensor of several."""
    if value is None:
        return None
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return float(array.reshape(())) if array.size == 1 else None
