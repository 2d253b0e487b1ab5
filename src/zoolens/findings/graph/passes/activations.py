"""Activations that a source wrote out in arithmetic get their name.

An activation is a function of one number. The arithmetic that leads to a value is followed back to where a single
value remains, computed at a few points, and compared with the functions we have names for. So every form of
hard-swish or GELU is found without a pattern for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache, partial
from math import pi, sqrt
from typing import Any, Final

import numpy as np

from zoolens.findings.graph.ir.model import Array, Graph, Node
from zoolens.findings.graph.ir.rounded_numbers import as_bfloat16, as_float16
from zoolens.findings.graph.passes.editor import Editor, rewrite
from zoolens.findings.graph.reference.layers import NodeCall
from zoolens.findings.graph.reference.ops import OPERATIONS

_POINTS: Final = np.array(
    [-30, -8.3, -4.1, -3.3, -2.1, -1, -0.4, -0.1, 0, 0.1, 0.3, 1, 1.9, 2.7, 3.5, 5.2, 6.5, 9.4, 30.0]
)
_ZERO, _TENTH, _ONE, _MINUS_ONE = (int(np.where(point == _POINTS)[0][0]) for point in (0, 0.1, 1, -1))

_ROOTS: Final = ("mul", "div", "minimum", "maximum", "clip", "relu", "reciprocal", "log", "where")
_INNER: Final = frozenset(
    {"mul", "div", "add", "sub", "minimum", "maximum", "clip", "relu", "relu6", "sigmoid", "hard_sigmoid", "tanh",
     "softplus", "erf", "exp", "neg", "pow", "square", "log", "reciprocal", "silu", "compare", "where"}
)  # fmt: skip
_ROUNDING: Final = 3e-5  # of the constants that sources write
# Constants of activations that half precision rounds further than that.
_EXACT: Final = (sqrt(2), 1 / sqrt(2), sqrt(2 / pi), 0.044715, 1.702, 1 / 6, 1 / 3)
_LARGEST: Final = 12  # operations in one written-out activation
_STRAIGHT: Final = frozenset({"add", "sub", "mul", "neg"})  # with a number
_REMEMBERED: Final = 4096  # values whose curves are kept

_NAMED: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("relu", {}), ("relu6", {}), ("silu", {}), ("hard_swish", {}), ("hard_sigmoid", {}), ("gelu", {}),
    ("gelu", {"approximate": "tanh"}), ("gelu", {"approximate": "quick"}), ("mish", {}), ("sigmoid", {}),
    ("softplus", {}),
)  # fmt: skip


def name_activations(graph: Graph) -> Graph:
    return rewrite(graph, dict.fromkeys(_ROOTS, partial(_named, _Curves())))


_UNROUNDED: Final = {rounded(exact): exact for exact in _EXACT for rounded in (as_float16, as_bfloat16)}


def _exact(node: Node) -> Node:
    """The step with the constant that a file in half precision keeps in rounded form."""
    exact = _UNROUNDED.get(node.get("scalar"))
    return node if exact is None else node.with_attributes(scalar=exact)


def _value(node: Node, inputs: tuple[Array, ...]) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(OPERATIONS[node.op](NodeCall(node, inputs, {}, "")), np.float64)


def _at_points(op: str, attributes: dict[str, Any]) -> Array:
    return _value(Node("", op, ("",), (), attributes), (_POINTS,))


_TABLE: Final = np.stack([_at_points(op, attributes) for op, attributes in _NAMED])


@lru_cache(maxsize=_REMEMBERED)
def _function(op: str, attributes: tuple[tuple[str, Any], ...]) -> tuple[Array, tuple[str, dict[str, Any]] | None]:
    """The curve of one operator on one value, and the activation that it is. Networks use the same few all over."""
    curve = _at_points(op, dict(attributes))
    return curve, _known(curve)


class _Curves:
    """Values as functions of other values, at the points. A long chain of arithmetic asks for the same ones again."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, Array]] = {}  # value, source

    def of(self, steps: list[Node], source: str) -> Array:
        """The last of the steps as a function of the source."""
        values = {source: _POINTS}
        for step in steps:
            known = self._of(step.name)
            if source not in known:
                known[source] = _value(_exact(step), tuple(values[name] for name in step.inputs))
            values[step.name] = known[source]
        return values[steps[-1].name]

    def _of(self, name: str) -> dict[str, Array]:
        if name not in self._known:
            if len(self._known) >= _REMEMBERED:
                self._known.pop(next(iter(self._known)))
            self._known[name] = {}
        return self._known[name]

    def forget(self, name: str) -> None:
        """For a value that is computed in another way from now on."""
        self._known.pop(name, None)


def _named(curves: _Curves, node: Node, editor: Editor) -> Node | str:
    """A function with a name of its own, wherever it starts, comes before one that needs constants."""
    drawn: list[tuple[str, Array]] = []
    for source, steps in _functions_of_one(node, editor):
        if any(map(_bends, steps)):
            if len(steps) == 1 and node.inputs == (source,):
                curve, activation = _function(node.op, tuple(_exact(node).attributes.items()))
            else:
                curve = curves.of(steps, source)
                activation = _known(curve)
            drawn.append((source, curve))
            if activation is not None:
                return _renamed(node, source, activation, curves)
    for source, values in reversed(drawn):
        activation = _fitted(values)
        if activation is not None:
            return _renamed(node, source, activation, curves)
    return node


def named_function(function: Callable[[Array], Array]) -> tuple[str, dict[str, Any]] | None:
    """The activation that a function of numbers is, found by computing it at the points; None where it is none of ours,
    or where one number's result depends on the others. A function that changes nothing is "identity"."""
    values, turned = (np.asarray(function(points), np.float64) for points in (_POINTS, _POINTS[::-1]))
    if values.shape != _POINTS.shape or not np.allclose(turned[::-1], values, rtol=_ROUNDING, equal_nan=True):
        return None
    if bool(_alike(values, _POINTS)):
        return "identity", {}
    return _known(values) or _fitted(values)


def _bends(step: Node) -> bool:
    """Whether more than a straight line can come of it: no activation is one."""
    return step.op not in _STRAIGHT or len(step.inputs) > 1


def _renamed(node: Node, source: str, activation: tuple[str, dict[str, Any]], curves: _Curves) -> Node:
    op, attributes = activation
    if op == node.op and node.inputs == (source,):
        return node
    curves.forget(node.name)
    return replace(node, op=op, inputs=(source,), attributes=dict(attributes))


def _functions_of_one(node: Node, editor: Editor) -> Iterator[tuple[str, list[Node]]]:
    """Each value that the node is a function of alone, nearest first, with the steps from there."""
    steps = [node]
    frontier = set(node.inputs)
    while frontier and len(steps) <= _LARGEST:
        if len(frontier) == 1:
            (source,) = frontier
            if editor.maker(source).shape == node.shape:
                yield source, steps[::-1]
        latest = max(frontier, key=lambda name: editor.position[name])
        inner = editor.maker(latest)
        if inner.op not in _INNER or inner.shape != node.shape:
            return
        frontier.discard(latest)
        frontier.update(inner.inputs)
        steps.append(inner)


def _known(values: Array) -> tuple[str, dict[str, Any]] | None:
    (matches,) = np.nonzero(_alike(values, _TABLE))
    if not len(matches):
        return None
    op, attributes = _NAMED[matches[0]]
    return op, dict(attributes)


def _fitted(values: Array) -> tuple[str, dict[str, Any]] | None:
    for activation in _fits(values):
        if _alike(values, _at_points(*activation)):
            return activation
    return None


def _fits(values: Array) -> Iterator[tuple[str, dict[str, Any]]]:
    """Activations with constants of their own, which a few points determine."""
    if not np.isfinite(values).all():
        return
    slope = float(-values[_MINUS_ONE])
    if 0 < slope < 1:
        yield "leaky_relu", {"alpha": _rounded(slope)}
    low = _rounded(float(values.min()))
    high = _rounded(float(values.max()))
    if low < high < _POINTS[-1]:
        yield "clip", {"low": low, "high": high}
        alpha = float(values[_TENTH] - values[_ZERO]) / 0.1
        beta = float(values[_ZERO])
        yield "hard_sigmoid", {"alpha": _rounded(alpha), "beta": _rounded(beta)}


def _rounded(number: float) -> float:
    """Constants pass through float32: 0.2 and not 0.20000000298."""
    return float(f"{number:.6g}")


def _alike(a: Array, b: Array) -> Array:
    """Which rows of b are like a. Constants may be rounded (a sixth to 0.16667), but a small floor, max(x, 1e-12), must
    not pass for max(x, 0)."""
    error = np.abs(a - b)
    tolerance = _ROUNDING * np.abs(b)
    near: Array = (error <= tolerance + 1e-6).all(-1)
    near_zero: Array = error[..., _ZERO] <= tolerance[..., _ZERO]
    return np.logical_and(near, near_zero)
