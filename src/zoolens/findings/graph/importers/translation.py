"""The state of one import of a file, and what every operator of it needs to become nodes.

Importers of files derive from both: `Translation` knows which tensors are made and how, `Call` is one operator with
its inputs at hand.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import prod
from typing import Any, Final

import numpy as np

from zoolens.base.errors import ModelError
from zoolens.findings.graph.importers.constants import MOST, Constant, Tensor, computed
from zoolens.findings.graph.ir.builder import SMALL, GraphBuilder
from zoolens.findings.graph.ir.mask_values import certainly_hides
from zoolens.findings.graph.ir.model import Array, Graph, Node, Parameter, Shape, Value, check_shape
from zoolens.findings.graph.ir.shapes import filled, output_shape
from zoolens.findings.graph.ir.vocabulary import COMPUTED_SHAPE, HOLDING_GRAPHS, UNKNOWN_SHAPE
from zoolens.findings.graph.reference.interpreter import run

# Their real numbers are factors, what a loop begins with, or the anchors of boxes: nobody learned them.
_UNLEARNED: Final = HOLDING_GRAPHS | {"Resize", "Upsample", "custom:TFLite_Detection_PostProcess"}


class Dynamic(Exception):
    """A setting of an operator is computed while the network runs: its shape cannot be known."""


class Shapeless(Exception):
    """An operator works on a value whose shape nobody knows, so that it cannot be read either."""


@dataclass
class Translation:
    builder: GraphBuilder
    uses: Counter[str]  # how often each tensor of the file is used
    batch: int | None = None  # the file's own fixed batch size, where it is not 1
    values: dict[str, Tensor] = field(default_factory=dict)
    live: dict[str, str] = field(default_factory=dict)  # constants that were needed as nodes
    tops: dict[str, float] = field(default_factory=dict)  # ReLUs that quantising implies, and where it cuts them
    tables: dict[str, Constant] = field(default_factory=dict)  # of real numbers that nobody learned, by node
    shapeless: set[str] = field(default_factory=set)  # nodes of unknown operators whose shape is unknown too

    def shape(self, name: str) -> Shape:
        """The shape of a node's value; Shapeless where it is not known."""
        if name in self.shapeless:
            raise Shapeless
        return self.builder.shapes[name]

    def add(self, op: str, inputs: Iterable[str], shape: Shape, **details: Any) -> str:
        check_shape(shape, details.get("source") or op, self.builder.name)
        return self.builder.add(op, inputs, shape, **details)

    def node(self, name: str) -> Node:
        return self.builder.node(name)

    def value(self, key: str) -> str:
        """A tensor of the file as a node."""
        tensor = self.values[key]
        return tensor if isinstance(tensor, str) else self.materialised(tensor)

    def makers(self, label: Callable[[str], str] = str) -> dict[str, str]:
        """The node that makes each tensor of the file, by name. Of several tensors that one node stands for it is the
        last: the earlier ones may lack what was joined to the node since, such as a bias."""
        last = {node: key for key, node in self.values.items() if isinstance(node, str)}
        return {label(key): node for node, key in last.items()}

    def materialised(self, constant: Constant) -> str:
        """A constant as a node: learned if it is of real numbers, else a plain constant."""
        if constant.key not in self.live:
            name = self.live[constant.key] = self._leaf(constant)
            if constant.is_float and not constant.learned and SMALL < constant.size <= MOST:
                self.tables[name] = constant
        return self.live[constant.key]

    def _leaf(self, constant: Constant) -> str:
        if mask := constant.mask:
            kept = (self.parameter("value", constant),)
            weak = None if certainly_hides(constant.load()) else True
            return self.add("constant", (), constant.shape, source=constant.key, parameters=kept, mask=mask, weak=weak)
        if constant.size > SMALL or constant.is_learned:
            parameter = self.parameter("value", constant)
            op = "parameter" if constant.is_learned else "constant"
            return self.builder.leaf(op, parameter, source=constant.key)
        return self.builder.small_constant(_of_its_shape(constant.values(), constant), source=constant.key)

    def of_weights(self, name: str) -> Constant | None:
        """A node's value as a constant, if it depends on no input; its numbers are computed when they are needed."""
        needed: dict[str, Node] = {}
        waiting = [name]
        while waiting:
            node = self.node(waiting.pop())
            if node.op in ("input", "unknown", "output_of", "recurrent"):
                return None
            if node.name not in needed:
                needed[node.name] = node
                waiting.extend(node.inputs)
        parts = tuple(node for node in self.builder.nodes if node.name in needed)

        def load() -> Array:
            return run(Graph(name, parts, (name,), self.builder.weights), {})[name]

        return Constant(self.builder.shapes[name], "float32", name, load)

    def parameter(self, role: str, constant: Constant) -> Parameter:
        values = _of_its_shape(_as_float(constant), constant) if self.builder.keep_weights else None
        return self.builder.parameter(role, constant.shape, constant.key, values)

    def reshaped(self, shape: Shape, target: Sequence[int], *, zero_copies: bool = False) -> Shape:
        """What a reshape to `target` makes of a shape. A file made for a batch of 10 may say 10; here it is 1."""
        if self.batch is not None and target and target[0] == self.batch and shape[:1] == (1,):
            target = [1, *target[1:]]
        return filled(target, shape, zero_copies=zero_copies)


class damage_at:  # noqa: N801 - used as a function
    """Files are not trusted: what does not fit together at one operator becomes one sentence that names it."""

    def __init__(self, call: OperatorCall) -> None:
        self._call = call

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: object) -> bool:
        if error is None:
            return False
        call = self._call
        if isinstance(error, Dynamic):
            call.unknown(COMPUTED_SHAPE)
            return True
        if isinstance(error, Shapeless):
            call.unknown(UNKNOWN_SHAPE)
            return True
        if isinstance(error, _DAMAGE):
            raise ModelError(
                f"The graph is damaged at {call.source[:60]!r} ({call.kind[:40]}).", hint="Fetch it again."
            ) from error
        return False


_DAMAGE: Final = (ValueError, IndexError, KeyError, TypeError, ArithmeticError, struct.error)


def _of_its_shape(values: Array, constant: Constant) -> Array:
    if values.shape != constant.shape:
        raise ModelError(f"The values of {constant.key[:60]!r} do not have its shape.")
    return values


def _as_float(constant: Constant) -> Array:
    values = constant.load()
    if values.dtype in (np.float32, np.int64, np.bool_):
        return values
    return values.astype(np.float32)


def _may_be_learned(constant: Constant) -> bool:
    """Whether a constant is learned, or a matrix of bytes, as the weights of a quantised operator are."""
    return constant.is_learned or (constant.dtype in ("int8", "uint8") and len(constant.shape) > 1)


class OperatorCall:
    """One operator while it is translated. `inputs` and `outputs` are keys of `state.values`; "" is left out."""

    state: Translation
    kind: str  # what the format calls the operator
    source: str  # what the file calls it
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def label(self, output: int) -> str | None:
        """How a node that makes this output is called."""
        return self.outputs[output] if output < len(self.outputs) else None

    # --- inputs

    def given(self, position: int) -> Tensor | None:
        """An input; None where it is left out."""
        if not 0 <= position < len(self.inputs) or not self.inputs[position]:
            return None
        return self.state.values[self.inputs[position]]

    def needed(self, position: int) -> Tensor:
        value = self.given(position)
        if value is None:
            raise ModelError(f"{self.source[:60]!r} ({self.kind[:40]}) lacks its input {position + 1}.")
        return value

    def live(self, position: int) -> str:
        """An input as a node."""
        value = self.needed(position)
        return value if isinstance(value, str) else self.state.materialised(value)

    def constant(self, position: int) -> Constant | None:
        value = self.given(position)
        return value if isinstance(value, Constant) else None

    def is_computed(self, *positions: int) -> bool:
        """Whether one of these inputs is given and is no constant."""
        return any(isinstance(self.given(position), str) for position in positions)

    def learned(self, position: int) -> Constant | None:
        """A constant input, or one that is computed from weights alone, such as a standardised kernel."""
        value = self.given(position)
        return self.state.of_weights(value) if isinstance(value, str) else value

    def setting(self, position: int) -> Array | None:
        """The values of an input that must be known; None where it is left out, Dynamic where it is computed."""
        value = self.given(position)
        if isinstance(value, str):
            raise Dynamic
        return None if value is None else value.values()

    def whole(self, position: int) -> list[int] | None:
        value = self.setting(position)
        if value is None:
            return None
        return [int(number) for number in value.ravel()]

    def shape(self, position: int) -> Shape:
        value = self.needed(position)
        return self.state.shape(value) if isinstance(value, str) else value.shape

    def axis(self, value: int, rank: int) -> int:
        if not -rank <= value < rank:
            raise ModelError(f"{self.source[:60]!r} works on axis {value} of a value with {rank} axes.")
        return value % rank

    # --- outputs

    def learned_layer(self, kernel: Constant, bias: Constant | None) -> list[Parameter]:
        """The parameters of a layer with a kernel and, where there is one, a bias."""
        roles = {"kernel": kernel, "bias": bias}
        return [self.state.parameter(role, values) for role, values in roles.items() if values is not None]

    def add(
        self,
        op: str,
        inputs: Sequence[str],
        *,
        shape: Shape | None = None,
        parameters: Sequence[Parameter] = (),
        axes: str | tuple[int, ...] = "",
        output: int = 0,
        **settings: Value,
    ) -> str:
        """A further node for this call, named after one of its outputs; its shape is worked out unless given."""
        known = {key: value for key, value in settings.items() if value is not None}
        if shape is None:
            shapes = [self.state.shape(name) for name in inputs]
            layout = axes if isinstance(axes, str) else ""
            shape = self._worked_out(op, shapes, {**known, "axes": axes}, parameters, layout)
        details: dict[str, Any] = {"source": self.source, "parameters": parameters, "axes": axes}
        return self.state.add(op, inputs, shape, name=self.label(output), **details, **known)

    def _worked_out(self, op: str, shapes: Sequence[Shape], *rest: Any) -> Shape:
        try:
            return output_shape(op, shapes, *rest)
        except ModelError as error:
            raise ModelError(f"At {self.source[:60]!r} ({self.kind[:40]}): {error.message}") from error

    def answer(self, *values: Tensor) -> None:
        """What the outputs are, in order; those that are left out are known to nobody."""
        for name, value in zip(self.outputs, values, strict=False):
            if name:
                self.state.values[name] = value

    def emit(self, op: str, inputs: Sequence[str], **details: Any) -> None:
        self.answer(self.add(op, inputs, **details))

    def rearrange(self, target: Shape) -> None:
        """Answer with the first input in another shape."""
        shape = self.shape(0)
        flat = len(shape) > 1 and target == (shape[0], prod(shape[1:]))
        self.emit("flatten" if flat else "reshape", (self.live(0),), shape=target)

    def cut(self, value: str, cuts: Iterable[tuple[int, int, int, int]]) -> str:
        """A value cut along axes: (axis, start, stop, step). Cuts that take everything are left out. A negative step
        is a gather of places in the opposite order, as importers read a flip."""
        for axis, start, stop, step in cuts:
            if step < 0:
                value = self.add("gather", (value,), axis=axis, indices=tuple(range(start, stop, step)))
            elif (start, step) != (0, 1) or stop < self.state.shape(value)[axis]:
                wide = step if step > 1 else None
                value = self.add("slice", (value,), axis=axis, start=start, stop=stop, step=wide)
        return value

    def split(self, value: str, axis: int, sizes: Sequence[int]) -> None:
        """Answer each output with its part of a value; ModelError where the parts are not the whole."""
        extent = self.state.shape(value)[axis]
        if len(sizes) != len(self.outputs) or sum(sizes) != extent or min(sizes) < 0:
            raise ModelError(f"{self.source[:60]!r} splits {extent:,} into {len(sizes)} parts that do not add up.")
        stops = list(accumulate(sizes))
        spans = enumerate(zip(stops, sizes, strict=True))
        parts = [
            self.add("slice", (value,), output=output, axis=axis, start=stop - size, stop=stop)
            for output, (stop, size) in spans
        ]
        self.answer(*parts)

    def embed(self, table: Constant, indices: int) -> None:
        """Answer with the rows of a learned table that the input at the position `indices` chooses."""
        self.emit("embedding", (self.live(indices),), parameters=(self.state.parameter("table", table),))

    def fold(self, values: Array) -> None:
        self.answer(computed(np.asarray(values), self.outputs[0]))

    def unknown(self, why: str = "", *known: Shape, macs: int | None = None) -> None:
        """An operator without a place in the vocabulary: named, with the `known` shapes of its outputs, or none. Its
        learned tensors are counted, its arithmetic only where `macs` tells it."""
        values = [self.state.values.get(name) for name in self.inputs]
        inputs = [value for value in values if isinstance(value, str)]
        tensors = [value for value in values if isinstance(value, Constant) and _may_be_learned(value)]
        learned = [self.state.parameter("value", value) for value in tensors if self.kind not in _UNLEARNED]
        named = f"{self.kind} {why}".strip()[:120]
        shapes = self._shapes(known)
        macs = self.known_macs() if macs is None else macs
        first = self._nameless("unknown", inputs, shapes[0], source_op=named, parameters=learned, macs=macs)
        further = [
            self._nameless("output_of", (first,), shape, output=i, index=i) for i, shape in enumerate(shapes) if i
        ]
        self.answer(first, *further)

    def _nameless(self, op: str, inputs: Sequence[str], shape: Shape | None, **details: Any) -> str:
        if shape is not None:
            return self.add(op, inputs, shape=shape, **details)
        name = self.add(op, inputs, shape=(), extents="unknown", **details)
        self.state.shapeless.add(name)
        return name

    def _shapes(self, known: Sequence[Shape]) -> list[Shape | None]:
        """The shape of every output: as it follows from the inputs, else as the file gives it, else None."""
        try:
            derived = list(known or self.derived())
        except (Dynamic, Shapeless):
            derived = []
        count = max(len(self.outputs), 1)
        return [derived[i] if i < len(derived) else self.declared(i) for i in range(count)]

    def known_macs(self) -> int | None:
        """The multiply-accumulates of an operator without a place in the vocabulary, where its name tells them."""
        return None

    def check_answered(self) -> None:
        """An output that someone uses and that no rule made, such as the statistics of a norm, is unknown."""
        for place, name in enumerate(self.outputs):
            if name and name not in self.state.values and self.state.uses[name]:
                named = f"further output of {self.kind}"[:120]
                self.state.values[name] = self._nameless("unknown", (), self.declared(place), source_op=named, macs=0)

    def declared(self, output: int) -> Shape | None:
        """The shape that the file gives to an output, where it does."""
        raise NotImplementedError

    def derived(self) -> Sequence[Shape]:
        """The shapes of the outputs of an operator without a place in the vocabulary, where a rule tells them."""
        return ()


def unary(op: str) -> Callable[[OperatorCall], None]:
    """Translates an operator on one value that has no attributes."""
    return lambda call: call.emit(op, (call.live(0),))


def comparison(kind: str) -> Callable[[OperatorCall], None]:
    """Translates a comparison of two values; `kind` is "<", "==" and so on, as in the vocabulary."""

    def translate(call: OperatorCall) -> None:
        inputs = [call.live(position) for position in range(len(call.inputs))]
        call.emit("compare", inputs, kind=kind)

    return translate
