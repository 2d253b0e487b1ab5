"""The inside of a TensorFlow model: times of its operators, and values of tensors between them.

Both are read by the names of the graph after all calls of functions are inlined, as TensorFlow runs it. Of Keras models
the names of layers are known, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from zoolens.base.errors import ModelError
from zoolens.inventory.runtimes.observing import CapturePoint, OperatorTime, Profile
from zoolens.inventory.runtimes.runtime import Tensor
from zoolens.inventory.runtimes.timing.calls import ObservedCall, observed_calls
from zoolens.inventory.runtimes.timing.process_wide import quiet_stderr

_CALL: Final = "zoolens call"
# Operators that only call others, which show their own times.
_CALLERS: Final = frozenset(
    {"PartitionedCall", "StatefulPartitionedCall", "While", "StatelessWhile", "If", "StatelessIf"}
)
# What only passes a tensor on; it takes a fraction of a microsecond.
_PASSING: Final = frozenset(
    {"_Arg", "_DeviceArg", "_Retval", "_DeviceRetval", "Const", "Identity", "IdentityN", "NoOp", "Placeholder"}
)
_NOTHING_COMPUTED: Final = frozenset(
    {"Const", "Placeholder", "Identity", "IdentityN", "NoOp", "ReadVariableOp", "Assert"} | _CALLERS
)
_DERIVED: Final = (  # what TensorFlow's optimiser puts around the name of an operator
    re.compile(r"ArithmeticOptimizer/AddOpsRewrite_(Leaf_\d+_)?"),
    re.compile(r"/(Mul|Add|Sub|Rsqrt)$"),
    re.compile(r"_\d+$"),
)
_ACTIVATIONS: Final = frozenset(
    {"Relu", "Relu6", "Elu", "Selu", "LeakyRelu", "Sigmoid", "Softmax", "Tanh", "Softplus", "Softsign"}
)


class _Everything:
    """The number 3: the profiler tells every operator. At its usual level, 2, it leaves out those that it has come to
    take for cheap, after some hundred calls: of a small network all of them.

    TensorFlow 2.21 reads a Python int here as a truth value and refuses that, but takes what can only be an index.
    """

    def __index__(self) -> int:
        return 3

    __int__ = __index__


@dataclass(frozen=True)
class _Event:
    name: str
    kind: str
    start: int  # nanoseconds, by the profiler's own clock
    duration: int
    thread: int


def recorded_profiles(tf: Any, call: Callable[[], object], repeats: int, graph: InlinedGraph | None) -> list[Profile]:
    """Runs `repeats` times under TensorFlow's profiler; `graph`, if given, says which operators were fused."""
    from tensorflow.python.profiler.internal import _pywrap_profiler
    from tensorflow.tsl.profiler.protobuf import trace_events_pb2

    def marked() -> None:
        with tf.profiler.experimental.Trace(_CALL):
            call()

    session = _pywrap_profiler.ProfilerSession()
    with quiet_stderr():  # it says that it starts and stops
        session.start("", {"host_tracer_level": _Everything()})
    try:
        # The profiler and TensorFlow's threads prepare themselves.
        marked()
        calls = observed_calls(marked, repeats)
    finally:
        with quiet_stderr():
            recorded = session.stop()
    trace = trace_events_pb2.Trace()
    trace.ParseFromString(recorded)
    marks = sorted(event.timestamp_ps for event in trace.trace_events if event.name == _CALL)[1:]
    if len(marks) != repeats:
        raise ModelError(
            "The profile of TensorFlow is cut off: it lacks some of the calls.", hint="Ask for fewer repeats."
        )
    events = sorted(_events(trace), key=lambda event: event.start)
    return [
        Profile(
            observed.start, observed.duration, tuple(_within(events, mark // 1000, observed, graph)), observed.delay
        )
        for mark, observed in zip(marks, calls, strict=True)
    ]


def _events(trace: Any) -> Iterator[_Event]:
    """Operators, which alone have a long name, "node:Kind"."""
    for event in trace.trace_events:
        name, _, kind = event.args.get("long_name", "").rpartition(":")
        if name and kind not in _CALLERS | _PASSING:
            thread = int(event.resource_id)
            yield _Event(name, kind, event.timestamp_ps // 1000, event.duration_ps // 1000, thread)


def _within(
    events: list[_Event], mark: int, observed: ObservedCall, graph: InlinedGraph | None
) -> Iterator[OperatorTime]:
    """The operators of one call, by the clock of the call: the mark was set when it began."""
    own = [event for event in events if mark <= event.start < mark + observed.duration]
    ran = frozenset(graph.known_name(event.name) for event in own) if graph else frozenset()
    names: dict[str, int] = {}
    for event in own:
        # In a loop an operator runs several times.
        count = names[event.name] = names.get(event.name, 0) + 1
        yield OperatorTime(
            event.name if count == 1 else f"{event.name}#{count}",
            event.kind,
            event.duration,
            observed.start + event.start - mark,
            nodes=graph.nodes_of(event.name, event.kind, ran) if graph else (event.name,),
            thread=event.thread,
        )


class InlinedGraph:
    """A model's graph with all functions inlined and all weights as constants, and how its operators are called."""

    def __init__(self, tf: Any, function: Any, layers: Iterable[str]) -> None:
        from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

        self._tf = tf
        with quiet_stderr():
            self._frozen = convert_variables_to_constants_v2(function, lower_control_flow=False)
        self._layers = frozenset(layers)
        self._dependent = self._dependent_on_inputs()
        self._operators = {operator.name: operator for operator in self._computing()}
        self._nodes = self._layer_nodes() if self._layers else {name: name for name in self._operators}
        self._tapped: tuple[tuple[str, ...], Any] | None = None

    def nodes_of(self, name: str, kind: str, ran: Set[str]) -> tuple[str, ...]:
        """What an operator that ran computes: several nodes where TensorFlow made one operator of them. `ran`: the
        `known_name` of everything that ran."""
        parts = self._fused(self.known_name(name), kind, ran)
        nodes = [self._node_of(part) for part in parts]
        return tuple(dict.fromkeys(node for node in nodes if node))

    def _node_of(self, name: str) -> str:
        """The node that an operator belongs to. All operators in the scope of a Keras layer compute that layer, also
        those that compute something of its weights alone and those that read them."""
        return self._nodes.get(name) or (self._layer_of(name) or "" if self._layers else "")

    def known_name(self, name: str) -> str:
        """The operator of the graph that one which ran stands for. One that an output is called by too gets a number
        when it runs. What TensorFlow makes of an operator, such as the product and the sum that a normalisation
        becomes, has its name around or behind it."""
        known = name
        for pattern in _DERIVED:
            if known not in self._operators:
                known = pattern.sub("", known)
        return known if known in self._operators else name

    def _fused(self, name: str, kind: str, ran: Set[str]) -> list[str]:
        """A fused operator bears the name of the last one that it computes, and a kind with an underscore. The others
        are those before it that did not run by themselves: of a sum of two convolutions, one of them did. So it is
        with a convolution or a product whose name is that of a normalisation, which was multiplied into its weights."""
        renamed = name in self._operators and kind != self._operators[name].type
        if not renamed or not kind.startswith(("_", "Conv", "DepthwiseConv", "MatMul")):
            return [name]
        parts, waiting = {name}, [self._operators[name]]
        while waiting:
            before = {tensor.op.name: tensor.op for tensor in waiting.pop().inputs}
            found = [before[part] for part in before.keys() - ran - parts if part in self._dependent]
            parts.update(operator.name for operator in found)
            waiting += found
        return [part for part in self._operators if part in parts]

    def points(self, ran: frozenset[str]) -> tuple[CapturePoint, ...]:
        """Tensors that can be read. `ran`: names of the operators that run when nothing is read."""
        made_anyway = {self.known_name(name) for name in ran}
        return tuple(
            CapturePoint(
                name,
                node=self._nodes.get(name, ""),
                tensor=operator.outputs[0].name,
                kept=name in made_anyway,
                shape=tuple(operator.outputs[0].shape.as_list()),
                dtype=_plain_type(operator.outputs[0].dtype.name),
            )
            for name, operator in self._operators.items()
        )

    def run(self, tensors: Sequence[Any], names: Sequence[str]) -> tuple[list[Tensor], list[Tensor]]:
        """Answers in the order of the function's outputs, and the values of the operators with these names."""
        wanted = tuple(names)
        if self._tapped is None or self._tapped[0] != wanted:
            fetched = [*self._frozen.outputs, *(self._operators[name].outputs[0] for name in wanted)]
            self._tapped = wanted, self._frozen.prune(self._frozen.inputs, fetched)
        values = [_array(value) for value in self._tapped[1](*tensors)]
        count = len(self._frozen.outputs)
        return values[:count], values[count:]

    @property
    def input_names(self) -> list[str]:
        return [tensor.op.name for tensor in self._frozen.inputs]

    def _dependent_on_inputs(self) -> frozenset[str]:
        """Names of the operators that every call computes. The graph lists operators after their inputs."""
        inputs = {tensor.op.name for tensor in self._frozen.inputs}
        dependent = set(inputs)
        for operator in self._frozen.graph.get_operations():
            if any(tensor.op.name in dependent for tensor in operator.inputs):
                dependent.add(operator.name)
        return frozenset(dependent - inputs)

    def _computing(self) -> Iterator[Any]:
        """Operators that depend on an input and make a tensor of numbers, in an order in which they can run."""
        for operator in self._frozen.graph.get_operations():
            if operator.name not in self._dependent or operator.type in _NOTHING_COMPUTED or not operator.outputs:
                continue
            made = operator.outputs[0]
            if made.shape.rank is not None and (made.dtype.is_floating or made.dtype.is_integer or made.dtype.is_bool):
                yield operator

    def _layer_nodes(self) -> dict[str, str]:
        """Operators to nodes of the graph that is imported from a Keras model: a layer's last operator before an
        activation has the layer's name, and the activation is called layer#2."""
        by_layer: dict[str, list[Any]] = {}
        for name, operator in self._operators.items():
            if (layer := self._layer_of(name)) is not None:
                by_layer.setdefault(layer, []).append(operator)
        nodes: dict[str, str] = {}
        for layer, operators in by_layer.items():
            *others, last = operators
            if others and last.type in _ACTIVATIONS:
                nodes |= {others[-1].name: layer, last.name: f"{layer}#2"}
            else:
                nodes[last.name] = layer
        return nodes

    def _layer_of(self, name: str) -> str | None:
        """The innermost layer in whose scope an operator lies; TensorFlow adds _1 to a scope that was there before."""
        for part in reversed(name.split("/")[:-1]):
            for layer in (part, re.sub(r"_\d+$", "", part)):
                if layer in self._layers:
                    return layer
        return None


def _plain_type(name: str) -> str:
    return "float32" if name == "bfloat16" or name.startswith("float8") else name


def _array(value: Any) -> Tensor:
    array: Tensor = np.array(value)
    return array if array.dtype.kind in "biufc" else array.astype(np.float32)


def ordered(feeds: Mapping[str, Any], specs: Sequence[str], wanted: Sequence[str]) -> list[Any]:
    """Feeds in the order of the graph's own inputs, whose names may lack the :0 of ours."""
    by_name = {name.split(":")[0]: feeds[name] for name in specs}
    if set(by_name) == set(wanted):
        return [by_name[name] for name in wanted]
    return [feeds[name] for name in specs]
