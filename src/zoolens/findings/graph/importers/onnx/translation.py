"""One ONNX node while it is translated."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from zoolens.base.errors import ModelError
from zoolens.findings.graph.importers import translation
from zoolens.findings.graph.importers.constants import Constant
from zoolens.findings.graph.ir.file_operators import FileOperator
from zoolens.findings.graph.ir.model import Node, Shape, check_shape
from zoolens.findings.graph.ir.vocabulary import GRAPH_INSIDE, HOLDING_GRAPHS
from zoolens.findings.graph.reference.spatial import RESIZES
from zoolens.inventory.runtimes.onnx.onnx_file import OnnxFunction, OnnxNode, OnnxTensor
from zoolens.inventory.runtimes.onnx.onnx_values import array, attributes
from zoolens.inventory.runtimes.runtime import TensorSpec

SPATIAL_AXES: Final = {3: "NCW", 4: "NCHW", 5: "NCDHW"}


@dataclass(frozen=True)
class Scope:
    """The names that a function, a branch or a step of a loop has for itself, and what they are in the whole graph."""

    prefix: str
    names: Mapping[str, str]


@dataclass
class OnnxTranslation(translation.Translation):
    folder: Path = Path()
    opset: int = 9
    computed: int = 0  # numbers that constants were computed to
    specs: dict[str, TensorSpec] = field(default_factory=dict)  # shapes that the file gives
    original: bool = True  # whether it is read at the image size for which they hold
    given: dict[str, Shape] = field(default_factory=dict)  # shapes of tensors that whoever asks has seen
    operators: dict[str, FileOperator] = field(default_factory=dict)  # by the node that stands for them
    functions: Mapping[tuple[str, str], OnnxFunction] = field(default_factory=dict)  # by domain and name
    channels: Mapping[str, int] = field(default_factory=dict)  # of values in blocked layouts, where the file names them
    costless: frozenset[str] = frozenset()  # operators that are known to multiply no matrices
    translate: Callable[[OnnxNode], None] = field(default=lambda node: None, repr=False)
    output_shapes: Callable[[OnnxCall], Sequence[Shape]] = field(default=lambda call: (), repr=False)
    scaled_early: set[str] = field(default_factory=set)  # dequantised tensors that were real numbers all the way
    zero_points: dict[str, int] = field(default_factory=dict)  # of values that are quantised
    unscaled: set[str] = field(default_factory=set)  # products of whole numbers whose scale has not come yet
    scopes: tuple[Scope, ...] = ()  # from the outermost to the one that is being read
    depth: int = 0  # of functions, branches and loops
    inlined: int = 0  # nodes that come from them

    def constant(self, tensor: OnnxTensor, name: str) -> Constant:
        check_shape(tensor.shape, name, self.builder.name)
        return Constant(tensor.shape, tensor.dtype, name, lambda: array(tensor, self.folder))

    def scoped_name(self, name: str) -> str:
        """What a name of the graph that is being read is called in the whole."""
        return next((scope.names[name] for scope in reversed(self.scopes) if name in scope.names), name)

    def scoped(self, node: OnnxNode) -> OnnxNode:
        if not self.scopes:
            return node
        inputs, outputs = (tuple(map(self.scoped_name, names)) for names in (node.inputs, node.outputs))
        name = f"{self.scopes[-1].prefix}{node.name}" if node.name else ""
        return replace(node, inputs=inputs, outputs=outputs, name=name)


def _is_opaque(node: Node) -> bool:
    strange = node.op == "resize" and node.get("coordinates") not in (None, *RESIZES)
    return strange or node.op in ("unknown", "recurrent")


class OnnxCall(translation.OperatorCall):
    state: OnnxTranslation

    def __init__(self, node: OnnxNode, state: OnnxTranslation) -> None:
        self.node, self.state = node, state
        self.kind = node.op if node.domain in ("", "ai.onnx") else f"{node.domain}:{node.op}"
        self.inputs = node.inputs
        self.outputs = node.outputs
        self.source = node.name or (node.outputs[0] if node.outputs else node.op)
        self.attributes: dict[str, Any] = attributes(node)

    @property
    def opset(self) -> int:
        return self.state.opset

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute of the type of its default, or None; ModelError where the file has another type there."""
        value = self.attributes.get(name, default)
        wanted = (int, float) if isinstance(default, float) else type(default)
        if value is not None and default is not None and not isinstance(value, wanted):
            raise ModelError(f"The attribute {name!r} of {self.source[:60]!r} is not what {self.kind[:40]} takes.")
        return value

    def integers(self, name: str) -> list[int] | None:
        value = self.attributes.get(name)
        if value is not None and not (isinstance(value, list) and all(isinstance(item, int) for item in value)):
            raise ModelError(f"The attribute {name!r} of {self.source[:60]!r} is not a list of whole numbers.")
        return value

    def declared(self, output: int) -> Shape | None:
        given = self.state.given.get(self.outputs[output]) if output < len(self.outputs) else None
        if given is not None:
            return given
        spec = self.state.specs.get(self.outputs[output]) if output < len(self.outputs) else None
        if spec is None or not self.state.original or not spec.shape or None in spec.shape[1:]:
            return None
        batch = spec.shape[:1] in ((None,), (self.state.batch,))
        return tuple(1 if batch and axis == 0 else extent or 1 for axis, extent in enumerate(spec.shape))

    def keep_operator(self) -> None:
        """Keeps the operator as the file has it, where the vocabulary has no word for it; those with graphs of their
        own, and those whose attributes are tensors, are left."""
        made = self.state.values.get(next(filter(None, self.outputs), ""))
        if not isinstance(made, str) or self.node.has_subgraph or made in self.state.operators:
            return
        node = self.state.node(made)
        plain = all(isinstance(value, str | int | float | list) for value in self.attributes.values())
        if node.source != self.source or not _is_opaque(node) or not plain:
            return
        domain = "" if self.node.domain in ("", "ai.onnx") else self.node.domain
        slots: list[Any] = []
        live: list[str] = []
        for position in range(len(self.inputs)):
            value = None if node.op == "recurrent" and self.is_usual_start(position) else self.given(position)
            if isinstance(value, str):
                slots.append(len(live))
                live.append(value)
            else:
                slots.append(None if value is None else value.load())
        while slots and slots[-1] is None:
            slots.pop()
        count = len(self.outputs)
        self.state.operators[made] = FileOperator(
            self.node.op, domain, self.opset, count, tuple(live), self.attributes, tuple(slots)
        )

    def is_usual_start(self, position: int) -> bool:
        """Whether an input of a recurrent layer says what holds without it: lengths of all steps, states of zeros."""
        value = self.given(position) if position in (4, 5, 6) else None
        if not isinstance(value, Constant) or not value.is_small:
            return False
        if position > 4:
            return not value.values().any()
        steps = self.shape(0)[1 if self.get("layout", 0) else 0]
        return bool((value.values() == steps).all())

    def unknown(self, why: str = "", *known: Shape, macs: int | None = None) -> None:
        inside = self.node.has_subgraph and self.kind not in HOLDING_GRAPHS
        super().unknown(GRAPH_INSIDE if inside else why, *known, macs=macs)

    def derived(self) -> Sequence[Shape]:
        return self.state.output_shapes(self)

    def known_macs(self) -> int | None:
        return 0 if self.kind in self.state.costless else None

    def fed(self, first: str) -> OnnxCall:
        """This operator with another first input. Its output has a name of its own."""
        given = f"{self.outputs[0]}:given"
        answer = f"{self.outputs[0]}:made"
        self.state.values[given] = first
        node = replace(self.node, inputs=(given, *self.inputs[1:]), outputs=(answer,), name=self.source)
        return OnnxCall(node, self.state)
