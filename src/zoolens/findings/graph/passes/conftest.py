"""A pencil for drawing small raw graphs with weights, in either layout."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from zoolens.findings.graph.ir.builder import GraphBuilder


class Sketch:
    def __init__(self, axes="NCHW", seed=0):
        self.axes = axes
        self.builder = GraphBuilder("sketch", keep_weights=True)
        self.random = np.random.default_rng(seed)

    def graph(self, *outputs):
        return self.builder.finish(outputs)

    # shapes
    def shape(self, x):
        return self.builder.shapes[x]

    def sizes(self, x):
        """Channels, height and width."""
        return tuple(self.shape(x)[self.axes.index(name)] for name in "CHW")

    def map(self, c, h, w):
        return tuple({"N": 1, "C": c, "H": h, "W": w}[name] for name in self.axes)

    # leaves
    def input(self, c, h, w):
        return self.builder.add("input", (), self.map(c, h, w), axes=self.axes, name="x")

    def tensor(self, role, *shape, low=None):
        values = self.random.standard_normal(shape) if low is None else self.random.uniform(low, low + 1, shape)
        return self.builder.parameter(role, shape, f"w{len(self.builder.weights)}", values)

    def learned(self, *shape, low=None):
        return self.builder.add("parameter", (), shape, parameters=[self.tensor("value", *shape, low=low)])

    # layers
    def conv(self, x, out, k=1, stride=1, pads=(0, 0, 0, 0), groups=1, bias=False):
        c, h, w = self.sizes(x)
        learned = [self.tensor("kernel", out, c // groups, k, k)] + ([self.tensor("bias", out)] if bias else [])
        shape = self.map(out, (h + pads[0] + pads[2] - k) // stride + 1, (w + pads[1] + pads[3] - k) // stride + 1)
        return self.builder.add(
            "conv", (x,), shape, axes=self.axes, parameters=learned, kernel=(k, k), stride=(stride,) * 2, pads=pads,
            groups=groups,
        )  # fmt: skip

    def norm(self, x, epsilon=1e-3):
        c = self.sizes(x)[0]
        learned = [self.tensor(role, c) for role in ("scale", "shift", "mean")] + [self.tensor("variance", c, low=0.5)]
        return self.builder.add("batch_norm", (x,), self.shape(x), axes=self.axes, parameters=learned, epsilon=epsilon)

    def norm_written_out(self, x, epsilon=1e-3):
        """As TensorFlow writes it: x·m + (shift - mean·m), m = rsqrt(variance + epsilon)·scale."""
        c = self.sizes(x)[0]
        aligned = (c,) if self.axes == "NHWC" else (c, 1, 1)
        scale, shift, mean, variance = (self.learned(*aligned, low=0.5) for _ in range(4))
        root = self.one("rsqrt", self.one("add", variance, scalar=epsilon))
        m = self.two("mul", root, scale)
        return self.two("add", self.two("mul", x, m), self.two("sub", shift, self.two("mul", mean, m)))

    def dense(self, x, out):
        shape = (*self.shape(x)[:-1], out)
        return self.builder.add("dense", (x,), shape, parameters=[self.tensor("kernel", out, self.shape(x)[-1])])

    def one(self, op, x, **attributes):
        return self.builder.add(op, (x,), self.shape(x), **attributes)

    def two(self, op, a, b):
        return self.builder.add(op, (a, b), np.broadcast_shapes(self.shape(a), self.shape(b)))

    def pool(self, op, x, k, stride, pads=(0, 0, 0, 0), **attributes):
        c, h, w = self.sizes(x)
        shape = self.map(c, (h + pads[0] + pads[2] - k) // stride + 1, (w + pads[1] + pads[3] - k) // stride + 1)
        window = {"kernel": (k, k), "stride": (stride,) * 2, "pads": pads}
        return self.builder.add(op, (x,), shape, axes=self.axes, **window, **attributes)

    def mean(self, x, keep=False):
        places = tuple(self.axes.index(name) for name in "HW")
        c = self.sizes(x)[0]
        return self.builder.add("mean", (x,), self.map(c, 1, 1) if keep else (1, c), axes=places, keep=keep)

    # arrangement
    def pad(self, x, top, left, bottom, right, value=0.0):
        c, h, w = self.sizes(x)
        begin, end = {"H": top, "W": left}, {"H": bottom, "W": right}
        pads = tuple(begin.get(name, 0) for name in self.axes) + tuple(end.get(name, 0) for name in self.axes)
        return self.builder.add("pad", (x,), self.map(c, h + top + bottom, w + left + right), pads=pads, value=value)

    def reshape(self, x, *shape):
        return self.builder.add("reshape", (x,), shape)

    def flat(self, x):
        return self.builder.add("flatten", (x,), (1, prod(self.shape(x))))

    def transpose(self, x, *perm):
        return self.builder.add("transpose", (x,), [self.shape(x)[axis] for axis in perm], perm=perm)

    def concat(self, *parts):
        c = sum(self.sizes(part)[0] for part in parts)
        axis = self.axes.index("C")
        return self.builder.add("concat", parts, self.map(c, *self.sizes(parts[0])[1:]), axis=axis)

    def shuffle(self, x, groups):
        c, h, w = self.sizes(x)
        if self.axes == "NCHW":
            turned = self.transpose(self.reshape(x, 1, groups, c // groups, h, w), 0, 2, 1, 3, 4)
        else:
            turned = self.transpose(self.reshape(x, 1, h, w, groups, c // groups), 0, 1, 2, 4, 3)
        return self.reshape(turned, *self.shape(x))

    def other_layout(self, x):
        """Go on in the other layout, through a transpose."""
        first = self.axes == "NCHW"
        self.axes = "NHWC" if first else "NCHW"
        return self.transpose(x, *((0, 2, 3, 1) if first else (0, 3, 1, 2)))


@pytest.fixture
def drawing():
    return Sketch
