"""A paper's layer description as a canonical graph, so that papers and zoos are compared by one engine.

The description is a list. A string is one layer: its op, its figures, then settings.

    conv 64 7 stride=2      64 kernels of 7×7 (1x7 for oblong ones); then its norm and activation, unless none
    conv 1280 1 grows=1     a width multiplier below 1 does not touch it (fixed=1: none does)
    dw 3 stride=2           depthwise: as many kernels as it is given channels
    max_pool 3 stride=2     avg_pool likewise; ceil=1 lets the last window overlap the edge
    dense 4096 · lrn · bn · relu · flatten · global_avg_pool · softmax …

`pad` is "same" (half the kernel on both sides), "valid", or a number. A mapping is a construction of several layers:

    {repeat: 3, of: […]}
    {residual: […], shortcut: identity | projection | fitting | […], then: […]}
    {branches: [[…], […]]}                      put together along the channels
    {dense_block: 6, of: […]}                   each layer sees all before it
    {inverted: 6, width: 24, stride: 2, kernel: 3, gate: 0.25}
    {gate: 24, squeeze: relu, scale: sigmoid}   squeeze-and-excitation with so many hidden units
    {use: block, …}                             a named piece of the file, its $parameters filled in
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from zoolens.base.errors import ManifestError
from zoolens.findings.audit.papers.paper_schema import Paper
from zoolens.findings.graph.ir.builder import GraphBuilder
from zoolens.findings.graph.ir.model import Graph, Parameter, Shape, Value
from zoolens.findings.graph.ir.shapes import output_shape
from zoolens.findings.graph.ir.sliding_windows import ceil_pads
from zoolens.findings.graph.passes.canonical import canonical

_PARAMETER: Final = re.compile(r"\$(\w+)")
CLASSES: Final = 1000
_NORM_ROLES: Final = ("scale", "shift", "mean", "variance")
_LESS_THAN_ROUNDED: Final = 0.9  # rounding a width down may not take away more than a tenth of it


def compile_paper(paper: Paper, *, size: int | None = None, width: float = 1.0, classes: int | None = None) -> Graph:
    """The network the paper describes; `size`, `width` and `classes` instead of those it gives."""
    site = _Site(paper, width, classes)
    side = size or paper.input
    given = site.builder.add("input", (), (1, 3, side, side), name="input", axes="NCHW")
    end = site.run(given, paper.layers)
    name = paper.name if width == 1.0 else f"{paper.name}, width {width:g}"
    facts = {"library": "paper", "name": paper.architecture, "source": paper.citation.link, "width": width}
    return canonical(replace(site.builder.finish([end], facts), name=name))


class _Site:
    """Where a graph is being built: `run` takes a value and a description, and returns the value at its end."""

    def __init__(self, paper: Paper, width: float, classes: int | None) -> None:
        self.paper = paper
        self.width = width
        self.classes = classes
        self.builder = GraphBuilder(paper.name)
        self.scope: list[Mapping[str, Any]] = [paper.parameters]

    def run(self, value: str, items: Sequence[Any]) -> str:
        for item in items:
            value = self._item(value, item)
        return value

    def _item(self, value: str, item: Any) -> str:
        if isinstance(item, str):
            return self._layer(value, self._filled(item))
        kind = next(iter(item))
        build: Callable[[str, Mapping[str, Any]], str] | None = getattr(self, f"_{kind}", None)
        if kind not in CONSTRUCTIONS or build is None:
            raise ManifestError(f"The paper specification {self.paper.architecture} has an unknown block {kind!r}.")
        return build(value, item)

    def _filled(self, text: Any) -> Any:
        """Replace every $name in a text by its value; a text that is only one name becomes the value itself."""
        if not isinstance(text, str) or "$" not in text:
            return text
        whole = _PARAMETER.fullmatch(text)
        return (
            self._look_up(whole[1])
            if whole
            else _PARAMETER.sub(lambda parameter: str(self._look_up(parameter[1])), text)
        )

    def _look_up(self, name: str) -> Any:
        for known in reversed(self.scope):
            if name in known:
                return known[name]
        raise ManifestError(f"The paper specification {self.paper.architecture} does not say what ${name} is.")

    def channels(self, value: str) -> int:
        return self.builder.shapes[value][1]

    # -- constructions

    def _repeat(self, value: str, item: Mapping[str, Any]) -> str:
        for _ in range(int(self._filled(item["repeat"]))):
            value = self.run(value, item["of"])
        return value

    def _use(self, value: str, item: Mapping[str, Any]) -> str:
        self.scope.append({key: self._filled(given) for key, given in item.items() if key != "use"})
        value = self.run(value, self.paper.blocks[item["use"]])
        self.scope.pop()
        return value

    def _residual(self, value: str, item: Mapping[str, Any]) -> str:
        main = self.run(value, item["residual"])
        beside = self._shortcut(value, main, self._filled(item.get("shortcut", "identity")))
        return self.run(self._add(main, beside), item.get("then", ()))

    def _shortcut(self, value: str, main: str, kind: Any) -> str:
        if not isinstance(kind, str):
            return self.run(value, kind)
        before, after = self.builder.shapes[value], self.builder.shapes[main]
        if kind == "identity" or (kind == "fitting" and before == after):
            return value
        stride = -(-before[2] // after[2])
        return self._conv(value, after[1], (1, 1), {"stride": str(stride), "act": "none", "fixed": "1"})

    def _branches(self, value: str, item: Mapping[str, Any]) -> str:
        return self._concat([self.run(value, branch) for branch in item["branches"]])

    def _dense_block(self, value: str, item: Mapping[str, Any]) -> str:
        values = [value]
        for _ in range(int(self._filled(item["dense_block"]))):
            values.append(self.run(self._concat(values), item["of"]))
        return self._concat(values)

    def _inverted(self, value: str, item: Mapping[str, Any]) -> str:
        chosen = {key: self._filled(given) for key, given in item.items()}
        stride, kernel, width = chosen.get("stride", 1), chosen.get("kernel", 3), self.scaled(chosen["width"])
        act = chosen.get("act", self.paper.defaults.get("act", "none"))
        given, inner = value, round(self.channels(value) * chosen["inverted"])
        inner = chosen.get("inner", inner)
        if inner != self.channels(value):
            value = self._conv(value, inner, (1, 1), {"act": act, "fixed": "1"})
        value = self._layer(value, f"dw {kernel} stride={stride} act={act}")
        if chosen.get("gate"):
            hidden = chosen.get("hidden") or round(self.channels(given) * chosen["gate"])
            value = self._gate(value, {**chosen, "gate": hidden})
        value = self._conv(value, width, (1, 1), {"act": "none", "fixed": "1"})
        same = self.builder.shapes[value] == self.builder.shapes[given]
        return self._add(value, given) if same else value

    def _gate(self, value: str, item: Mapping[str, Any]) -> str:
        squeezed = self._node("global_avg_pool", [value])
        hidden = self._dense(squeezed, int(item["gate"]))
        hidden = self._node(item.get("squeeze", "relu"), [hidden])
        scale = self._node(item.get("scale", "sigmoid"), [self._dense(hidden, self.channels(value))])
        spread = self.builder.add("reshape", [scale], (1, self.channels(value), 1, 1))
        return self._node("mul", [value, spread])

    # -- layers

    def _layer(self, value: str, text: str) -> str:
        op, *words = text.split()
        figures = [word for word in words if "=" not in word]
        settings = dict(word.split("=", 1) for word in words if "=" in word)
        if op == "conv":
            if figures[0] == "classes":
                return self._conv(value, self.classes or CLASSES, _window(figures[1]), {"fixed": "1", **settings})
            return self._conv(value, int(figures[0]), _window(figures[1]), settings)
        if op == "dw":
            depthwise = {"groups": str(self.channels(value)), "fixed": "1", **settings}
            return self._conv(value, self.channels(value), _window(figures[0]), depthwise)
        if op in ("max_pool", "avg_pool"):
            return self._pool(op, value, _window(figures[0]), settings)
        if op == "dense":
            last = figures[0] == "classes"
            return self._dense(value, (self.classes or CLASSES) if last else int(figures[0]))
        if op == "bn":
            return self._node("batch_norm", [value], self._norm(self.channels(value), ""))
        numbers: dict[str, Any] = {key: _number(number) for key, number in settings.items()}
        return self._node(op, [value], **({"axis": 1} if op == "softmax" else numbers))

    def _conv(self, value: str, width: int, kernel: Shape, settings: Mapping[str, str]) -> str:
        chosen = {**self.paper.defaults, **settings}
        kept = "fixed" in chosen or ("grows" in chosen and self.width < 1)
        width = width if kept else self.scaled(width)
        groups = int(chosen.get("groups", 1))
        weights = [Parameter("kernel", (width, self.channels(value) // groups, *kernel))]
        normed = chosen.get("norm", "none") == "batch"
        weights += [Parameter("bias", (width,))] if chosen.get("bias", "no") == "yes" else []
        weights += self._norm(width, "norm_") if normed else []
        made = self._node(
            "conv",
            [value],
            weights,
            kernel=kernel,
            stride=_pair(chosen.get("stride", "1")),
            pads=_pads(chosen.get("pad", "same"), kernel),
            groups=groups,
            norm="batch" if normed else None,
        )
        activation = chosen.get("act", "none")
        return made if activation == "none" else self._node(activation, [made])

    def _pool(self, op: str, value: str, kernel: Shape, settings: Mapping[str, str]) -> str:
        stride, pads = _pair(settings.get("stride", "1")), _pads(settings.get("pad", "valid"), kernel)
        if settings.get("ceil"):
            pads = ceil_pads(self.builder.shapes[value][2:], kernel, stride, (1, 1), pads)
        return self._node(op, [value], kernel=kernel, stride=stride, pads=pads)

    def _dense(self, value: str, width: int) -> str:
        given = self.builder.shapes[value][-1]
        return self._node("dense", [value], [Parameter("kernel", (width, given)), Parameter("bias", (width,))])

    def _norm(self, width: int, prefix: str) -> list[Parameter]:
        return [Parameter(f"{prefix}{role}", (width,)) for role in _NORM_ROLES]

    def _add(self, main: str, beside: str) -> str:
        return self._node("add", [main, beside])

    def _concat(self, values: Sequence[str]) -> str:
        return self._node("concat", values, axis=1) if len(values) > 1 else values[0]

    def _node(self, op: str, inputs: Sequence[str], parameters: Sequence[Parameter] = (), **attributes: Value) -> str:
        known: dict[str, Any] = {key: value for key, value in attributes.items() if value is not None}
        shape = output_shape(op, [self.builder.shapes[name] for name in inputs], known, parameters)
        return self.builder.add(op, inputs, shape, parameters=parameters, **known)

    def scaled(self, width: int) -> int:
        """A width under the multiplier: rounded to the divisor, but never to less than nine tenths."""
        if self.width == 1.0:
            return width
        divisor = self.paper.widths.divisor if self.paper.widths else 1
        exact = width * self.width
        rounded = max(divisor, int(exact + divisor / 2) // divisor * divisor)
        return rounded + divisor if rounded < _LESS_THAN_ROUNDED * exact else rounded


CONSTRUCTIONS: Final = frozenset({"repeat", "use", "residual", "branches", "dense_block", "inverted", "gate"})


def _window(text: str) -> Shape:
    first, _, second = text.partition("x")
    return (int(first), int(second or first))


def _pair(text: str) -> Shape:
    return (int(text), int(text))


def _pads(text: str, kernel: Shape) -> Shape:
    if text == "valid":
        return (0, 0, 0, 0)
    if text == "same":
        half = tuple((extent - 1) // 2 for extent in kernel)
        return (*half, *half)
    return (int(text),) * 4


def _number(text: str) -> int | float:
    return int(text) if text.isdecimal() else float(text)
