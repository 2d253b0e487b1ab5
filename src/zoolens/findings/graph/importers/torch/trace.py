"""What is known of every tensor while a torch module runs, and the raw graph that grows from it.

A tensor that depends on an input is a *value*. One that depends on learned tensors only is *static*: an operator takes
it as its parameter (a standardised kernel, a viewed scale). Anything else is a constant and is not recorded until a
value meets it, so that a mask which takes thirty calls to make is one node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from zoolens.base.errors import ModelError
from zoolens.findings.graph.ir.builder import SMALL, GraphBuilder
from zoolens.findings.graph.ir.model import Array, Parameter, nested_tuples
from zoolens.findings.graph.ir.rotary_tables import MOST, matrix_shape
from zoolens.findings.graph.ir.vocabulary import OPAQUE

# Take a tensor for its shape, device or type only: what they make is a constant.
SHAPE_ONLY: Final = frozenset(
    {"new_zeros", "new_ones", "new_full", "new_empty", "zeros_like", "ones_like", "full_like", "empty_like"}
)


_PARTS: Final = frozenset({"slice", "select", "narrow"})


@dataclass(frozen=True)
class TensorPart:
    """A tensor that is a piece of another one, from `start` to `stop` on one axis; writing to it writes there."""

    whole: Any
    axis: int
    start: int
    stop: int


@dataclass
class TorchCall:
    """One operator call: what a lowering reads, and where it adds its nodes."""

    trace: TensorTrace
    op: str  # aten's name, without the _ of an in-place form
    arguments: Mapping[str, Any]  # by the name in the operator's schema, defaults filled in
    result: Any

    def __getitem__(self, name: str) -> Any:
        return self.arguments[name]

    def get(self, name: str, default: Any = None) -> Any:
        return self.arguments.get(name, default)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.result.shape)

    def value(self, name: str) -> str:
        return self.trace.value(self.arguments[name])

    def parameters(self, **roles: Any) -> tuple[Parameter, ...]:
        """One per role whose tensor is there."""
        return tuple(self.trace.parameter(role, tensor) for role, tensor in roles.items() if tensor is not None)

    def add(self, op: str, *inputs: str, shape: Sequence[int] | None = None, **rest: Any) -> str:
        extents = self.shape if shape is None else shape
        return self.trace.add(op, inputs, extents, **rest)

    def unknown(self, why: str = "") -> str:
        tensors = [self.trace.value(tensor) for tensor in tensors_in(self.arguments.values())]
        shape = next((tuple(tensor.shape) for tensor in tensors_in([self.result])), ())
        return self.trace.add("unknown", tensors, shape, source_op=f"aten.{self.op}{why}")


# Says a call in the vocabulary: the name of the node it is, or one for each result.
Lowering = Callable[[TorchCall], Any]


class TensorTrace:
    """What is known of every tensor met so far. Tensors are told apart by identity, so all are kept alive."""

    def __init__(
        self, module: Any, name: str, *, weights: bool = False, answers: dict[str, Array] | None = None
    ) -> None:
        """`answers`: where to put what the nodes answer that nobody here computes."""
        self.builder = GraphBuilder(name, keep_weights=weights)
        self._answers = answers
        self._opaque: set[str] = set()
        self.learned: dict[int, str] = {id(tensor): key for key, tensor in module.named_parameters()}
        self.buffers: dict[int, str] = {id(tensor): key for key, tensor in module.named_buffers()}
        # Single numbers that weights may change: with weights they are tensors of the graph, and no settings of it.
        held = module.state_dict(keep_vars=True) if weights else {}
        self._held = {id(tensor) for tensor in held.values() if _is_number(tensor)}
        self.paths: dict[int, str] = {id(part): path for path, part in module.named_modules()}
        self.stack: list[tuple[str, bool]] = []  # path of each module that is running, and whether it has children
        self._values: dict[int, str] = {}
        self._dependent: set[int] = set()  # on an input
        self._constants: dict[int, str] = {}
        self._static: dict[int, frozenset[int]] = {}  # to the learned tensors it was made from
        self._by_id: dict[int, Any] = {id(tensor): tensor for tensor in module.parameters()}
        self._parts: dict[int, TensorPart] = {}
        self._writes: dict[int, int] = {}  # by storage: how often it was written in place
        self._seen: dict[int, int] = {}  # by tensor: that number when the tensor was made
        self._before_write: dict[int, Array] = {}  # of static tensors that the call in hand writes into
        self._alive: list[Any] = []
        self._numbers: dict[int, Array] = {}  # of tensors without any, by storage, where they are known all the same
        self.tables: dict[str, Array] = {}  # numbers of constants of real numbers, by node

    # what lowerings ask

    def depends_on_input(self, tensor: Any) -> bool:
        return id(tensor) in self._dependent

    def is_static(self, tensor: Any) -> bool:
        return id(tensor) in self.learned or id(tensor) in self._static

    def value(self, tensor: Any) -> str:
        """The node that makes a tensor; made now if it is learned or constant."""
        self._refuse_stale(tensor)
        known = self._values.get(id(tensor)) or self._constants.get(id(tensor))
        if known is not None:
            return known
        self._alive.append(tensor)
        key = self._key(tensor)
        if id(tensor) not in self.learned:
            return self._constants.setdefault(id(tensor), self._constant(tensor, key))
        value = self.builder.parameter("value", tensor.shape, key, self._array(tensor))
        name = self.builder.leaf("parameter", value, name=key, source=key)
        return self._values.setdefault(id(tensor), name)

    def parameter(self, role: str, tensor: Any, shape: Sequence[int] | None = None, *, swap: bool = False) -> Parameter:
        """A learned (or constant) tensor as a parameter; `swap` exchanges its two axes."""
        self._refuse_stale(tensor)
        values = self._array(tensor)
        extents = tuple(tensor.shape) if shape is None else tuple(shape)
        if swap:
            extents = extents[::-1]
            values = None if values is None else np.ascontiguousarray(values.T)
        elif values is not None:
            values = values.reshape(extents)
        self._alive.append(tensor)
        return self.builder.parameter(role, extents, self._key(tensor), values)

    def number(self, operand: Any) -> float | int | None:
        """The number that an operand is, where it is one that is known."""
        if isinstance(operand, bool | int | float):
            return operand
        if operand is None or operand.numel() != 1 or operand.is_meta or id(operand) in self._held:
            return None
        if self.depends_on_input(operand) or self.is_static(operand):
            return None
        number: float | int = operand.item()
        return number

    def add(self, op: str, inputs: Sequence[str], shape: Sequence[int], **rest: Any) -> str:
        """Add a node under the name of the module that is running."""
        path, has_children = self.stack[-1] if self.stack else ("", True)
        name = ".".join(part for part in (path, op if has_children else "") if part)
        made = self.builder.add(op, inputs, shape, name=name, source=path, **rest)
        if op in OPAQUE:
            self._opaque.add(made)
        return made

    def named(self, tensor: Any, name: str, roots: frozenset[int] = frozenset()) -> None:
        """Notes that from now on this tensor is the value of that node, made from those learned tensors or else from
        inputs."""
        self._values[id(tensor)] = name
        if self._answers is not None and name in self._opaque:
            self._answers[name] = plain_array(tensor)  # now: it may be written in place later
        if roots:
            self._static[id(tensor)] = roots
        else:
            self._static.pop(id(tensor), None)
            self._dependent.add(id(tensor))
        self._seen[id(tensor)] = self._writes.get(_storage(tensor), 0)
        self._alive.append(tensor)

    def note_numbers(self, tensor: Any, values: Any) -> None:
        """Notes the numbers of a tensor that has none, and of views of all of it."""
        self._numbers[_storage(tensor)] = plain_array(values)
        self._alive.append(tensor)

    # recording

    def record(
        self,
        op: str,
        arguments: Mapping[str, Any],
        written: Sequence[Any],
        result: Any,
        lower: Callable[[TorchCall], Any],
    ) -> None:
        roots = self._roots(list(tensors_in(arguments.values())))
        if op in _PARTS:
            self._note_part(op, arguments, result)
        if roots is None or op in SHAPE_ONLY:  # of constants only: still a constant
            if written:
                self._constants.clear()  # what was shown of them may have changed
            return
        call = TorchCall(self, op, arguments, written[0] if written else result)
        made = lower(call)
        self._before_write.clear()
        for tensor in written:
            self._write(tensor, made, roots)
        names = [made] if isinstance(made, str) else list(made)
        for index, tensor in enumerate(tensors_in([call.result])):
            name = names[index] if index < len(names) else self._further_output(names[0], index, tensor)
            self.named(tensor, name, roots)

    def before_write(self, arguments: Mapping[str, Any], written: Sequence[Any]) -> None:
        """Show constants that values are about to be written into with the numbers that they have before."""
        if self._roots(list(tensors_in(arguments.values()))) is not None:
            for tensor in written:
                if self.is_static(tensor) and self.builder.keep_weights and not tensor.is_meta:
                    self._before_write[id(tensor)] = plain_array(tensor, exact=False)
                elif not self.depends_on_input(tensor) and not self.is_static(tensor):
                    self.value(tensor)

    def opaque_module(self, module: Any, given: Sequence[Any], answers: Sequence[Any]) -> None:
        """The answers of a module are from now on those of one unknown layer with the module's own tensors."""
        fed = [self.value(tensor) for tensor in given if self.depends_on_input(tensor)]
        if not fed or not answers:
            return
        kept = module.state_dict(keep_vars=True).values()
        learned = [self.parameter("value", tensor) for tensor in kept if tensor.is_floating_point()]
        kind = type(module).__name__
        first = self.add("unknown", fed, answers[0].shape, parameters=learned, source_op=kind)
        for index, tensor in enumerate(answers):
            self.named(tensor, first if index == 0 else self._further_output(first, index, tensor))

    def _note_part(self, op: str, arguments: Mapping[str, Any], result: Any) -> None:
        if arguments.get("step", 1) != 1:
            return
        whole = arguments["self"]
        axis = arguments["dim"] % whole.dim()
        start = arguments["index" if op == "select" else "start"]
        extent = whole.shape[axis]
        start = 0 if start is None else min(start + extent if start < 0 else start, extent)
        stop = start + (1 if op == "select" else result.shape[axis])
        self._parts[id(result)] = TensorPart(whole, axis, start, stop)
        self._alive.extend((whole, result))

    def _write(self, tensor: Any, name: str, roots: frozenset[int]) -> None:
        """A tensor got a new value in place: so did what it is a part of, and other views of it are out of date."""
        chain = []
        while (part := self._parts.get(id(tensor))) is not None:
            chain.append((part, self.value(part.whole)))
            tensor = part.whole
        self._writes[_storage(tensor)] = self._writes.get(_storage(tensor), 0) + 1
        for part, before in chain:
            name = self._replaced(part, before, name)
            self.named(part.whole, name, roots)

    def _replaced(self, part: TensorPart, before: str, name: str) -> str:
        """The whole with a new part: what is before it, the part, what is after it."""
        shape = list(part.whole.shape)
        axis = part.axis
        pieces = []
        for start, stop in ((0, part.start), (part.start, part.stop), (part.stop, shape[axis])):
            extents = [*shape[:axis], stop - start, *shape[axis + 1 :]]
            if start == part.start and stop == part.stop:
                pieces.append(self.add("reshape", (name,), extents))
            elif stop > start:
                pieces.append(self.add("slice", (before,), extents, axis=axis, start=start, stop=stop))
        if len(pieces) > 1:
            return self.add("concat", pieces, shape, axis=axis)
        return pieces[0]

    def _further_output(self, first: str, index: int, tensor: Any) -> str:
        return self.add("output_of", (first,), tuple(tensor.shape), index=index)

    def _roots(self, operands: Sequence[Any]) -> frozenset[int] | None:
        """The learned tensors that operands come from; empty if an input is among them, None if all are constant."""
        if any(self.depends_on_input(operand) for operand in operands):
            return frozenset()
        learned = {id(operand) for operand in operands if id(operand) in self.learned}
        return frozenset(learned.union(*(self._static.get(id(operand), ()) for operand in operands))) or None

    def _refuse_stale(self, tensor: Any) -> None:
        if self._writes and self._seen.get(id(tensor), 0) != self._writes.get(_storage(tensor), 0):
            place = self.stack[-1][0] if self.stack else ""
            raise ModelError(
                f"{self.builder.name} writes into part of a tensor in place and uses the whole afterwards"
                f"{f' (in {place})' if place else ''}: such a network cannot be read.",
                hint="Write it with torch.cat or torch.where instead.",
            )

    def _key(self, tensor: Any) -> str:
        known = self.learned.get(id(tensor)) or self.buffers.get(id(tensor))
        if known is not None:
            return known
        roots = [self._by_id[root] for root in self._static.get(id(tensor), ())]
        same_size = next((root for root in roots if root.numel() == tensor.numel()), None)
        if same_size is not None:
            key = self.learned[id(same_size)]
            return key if _storage(same_size) == _storage(tensor) else f"{key} (computed)"
        path = self.stack[-1][0] if self.stack else ""
        return f"{path}.constant{len(self._alive)}".lstrip(".")

    def _constant(self, tensor: Any, key: str) -> str:
        if not tensor.is_meta and tensor.numel() <= SMALL and id(tensor) not in self.buffers:
            shown = nested_tuples(tensor.tolist())
            return self.builder.add("constant", (), tensor.shape, name=key, source=key, value=shown)
        value = self.builder.parameter("value", tensor.shape, key, self._array(tensor, exact=True))
        name = self.builder.leaf("constant", value, name=key, source=key)
        if tensor.is_floating_point() and tensor.numel() <= MOST:
            self._keep_table(name, tensor)
        return name

    def _keep_table(self, name: str, tensor: Any) -> None:
        values = self._numbers.get(_storage(tensor)) if tensor.is_meta else plain_array(tensor)
        if values is not None and tensor.is_contiguous() and matrix_shape(tensor.shape) == matrix_shape(values.shape):
            self.tables[name] = values

    def _array(self, tensor: Any, *, exact: bool = False) -> Array | None:
        if not self.builder.keep_weights or tensor.is_meta:
            return None
        before = self._before_write.get(id(tensor))
        return before if before is not None else plain_array(tensor, exact=exact)


def plain_array(tensor: Any, *, exact: bool = True) -> Array:
    """A copy of a tensor's numbers in float32, or, where `exact`, whole numbers as they are."""
    plain = tensor.detach().cpu().resolve_conj()
    array: Array = (plain if exact and not plain.is_floating_point() else plain.float()).numpy().copy()
    return array


def _is_number(held: Any) -> bool:
    """Whether a part of a state_dict, which may be anything, is a tensor of one floating number."""
    return hasattr(held, "is_floating_point") and bool(held.is_floating_point()) and held.numel() == 1


def _storage(tensor: Any) -> int:
    pointer: int = tensor.untyped_storage()._cdata
    return pointer


def tensors_in(values: Any) -> Iterator[Any]:
    """Yields the tensors among these values, also inside lists, tuples and mappings, in order."""
    for value in values:
        if hasattr(value, "untyped_storage"):
            yield value
        elif isinstance(value, Mapping):
            yield from tensors_in(value.values())
        elif isinstance(value, list | tuple):
            yield from tensors_in(value)
