"""A network while it is being drawn: each call adds a layer after the last one and works out its shape."""

from __future__ import annotations

import math
from typing import Any

from zoolens.training.crosstrain.training.network import Layer
from zoolens.training.pairs.semantics import Semantics


class Drawing:
    """Methods add a layer and return its name; `last` is the layer that the next one follows."""

    def __init__(self, semantics: Semantics, input_shape: tuple[int, int, int]) -> None:
        self.semantics = semantics
        self.conv_bias = bool(semantics.conv_bias)
        self._layers: dict[str, Layer] = {}
        self.last = ""
        self._add("input", "input", (), input_shape)

    @property
    def layers(self) -> tuple[Layer, ...]:
        return tuple(self._layers.values())

    def channels(self, name: str) -> int:
        return self._layers[name].shape[0]

    def conv(
        self,
        name: str,
        filters: int,
        kernel: int,
        stride: int = 1,
        *,
        bias: bool = True,
        padding: str | None = None,
        after: str | None = None,
    ) -> str:
        """`padding`: the semantics' where none is said; one pixel needs none."""
        source = after or self.last
        padding = "valid" if kernel == 1 else padding or str(self.semantics.padding)
        shape = (filters, *self._extents(source, kernel, stride, padding))
        settings = {"filters": filters, "kernel": kernel, "stride": stride, "padding": padding, "bias": bias}
        return self._add(name, "conv", (source,), shape, **settings)

    def norm(self, name: str) -> str:
        settings = {"momentum": self.semantics.norm_momentum, "epsilon": self.semantics.norm_epsilon}
        return self._add(name, "norm", (self.last,), self._shape(), **settings)

    def conv_norm(self, name: str, filters: int, kernel: int, stride: int = 1, *, after: str | None = None) -> str:
        self.conv(name, filters, kernel, stride, bias=self.conv_bias, after=after)
        return self.norm(f"{name}_norm")

    def dense(self, name: str, units: int) -> str:
        return self._add(name, "dense", (self.last,), (units,), units=units, bias=True)

    def relu(self, name: str) -> str:
        return self._add(name, "relu", (self.last,), self._shape())

    def pool(self, name: str, kind: str, kernel: int, stride: int, *, padded: bool = False) -> str:
        padding = str(self.semantics.padding) if padded else "valid"
        shape = (self._shape()[0], *self._extents(self.last, kernel, stride, padding))
        return self._add(name, kind, (self.last,), shape, kernel=kernel, stride=stride, padding=padding)

    def global_pool(self) -> str:
        return self._add("global_pool", "global_avg_pool", (self.last,), self._shape()[:1])

    def flatten(self) -> str:
        return self._add("flatten", "flatten", (self.last,), (math.prod(self._shape()),))

    def dropout(self, name: str) -> None:
        """No layer where nothing is dropped."""
        if self.semantics.dropout:
            self._add(name, "dropout", (self.last,), self._shape(), rate=self.semantics.dropout)

    def join(self, name: str, kind: str, *inputs: str) -> str:
        """`kind`: add or concat (over channels, in the order of the inputs)."""
        first = self._layers[inputs[0]].shape
        channels = sum(map(self.channels, inputs)) if kind == "concat" else first[0]
        return self._add(name, kind, inputs, (channels, *first[1:]))

    def _shape(self) -> tuple[int, ...]:
        return self._layers[self.last].shape

    def _extents(self, source: str, kernel: int, stride: int, padding: str) -> tuple[int, ...]:
        extents = self._layers[source].shape[1:]
        if padding == "same":
            return tuple(-(-extent // stride) for extent in extents)
        border = 2 * (kernel // 2) if padding == "symmetric" else 0
        return tuple((extent + border - kernel) // stride + 1 for extent in extents)

    def _add(self, name: str, kind: str, inputs: tuple[str, ...], shape: tuple[int, ...], **settings: Any) -> str:
        self._layers[name] = Layer(name, kind, inputs, shape, settings)
        self.last = name
        return name
