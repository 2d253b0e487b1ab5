"""Small networks drawn by hand, with every choice that zoos disagree on as an argument."""

from __future__ import annotations

from zoolens.findings.graph.ir.builder import GraphBuilder


class Sketch:
    def __init__(self, name="sketch", size=64, channels=3):
        self.build = GraphBuilder(name)
        self.last = self.build.add("input", [], (1, channels, size, size))

    def shape(self, value=None):
        return self.build.shapes[value or self.last]

    def conv(self, width, k=3, s=1, *, of=None, bias=False, norm=True, epsilon=1e-5, groups=1, pads=None, act="relu"):
        of = of or self.last
        _, inputs, extent, _ = self.shape(of)
        pads = (k // 2,) * 4 if pads is None else pads
        extent = (extent + pads[0] + pads[2] - k) // s + 1
        parameters = [self.build.parameter("kernel", (width, inputs // groups, k, k), "")]
        if bias:
            parameters.append(self.build.parameter("bias", (width,), ""))
        settings = {"norm": "batch", "epsilon": epsilon} if norm else {}
        if norm:
            roles = ("norm_scale", "norm_shift", "norm_mean", "norm_variance")
            parameters += [self.build.parameter(role, (width,), "") for role in roles]
        self.last = self.build.add(
            "conv", [of], (1, width, extent, extent), parameters=parameters, kernel=(k, k), stride=(s, s), pads=pads,
            groups=groups, name="conv", **settings,
        )  # fmt: skip
        return self.add(act) if act else self.last

    def add(self, op, *inputs, shape=None, **attributes):
        inputs = inputs or (self.last,)
        self.last = self.build.add(op, inputs, shape or self.shape(inputs[0]), name=op, **attributes)
        return self.last

    def pool(self, k=3, s=2, p=1, op="max_pool", of=None):
        of = of or self.last
        n, c, extent, _ = self.shape(of)
        extent = (extent + 2 * p - k) // s + 1
        return self.add(op, of, shape=(n, c, extent, extent), kernel=(k, k), stride=(s, s), pads=(p,) * 4)

    def norm(self, of=None):
        of = of or self.last
        parameters = [self.build.parameter(role, (self.shape(of)[1],), "") for role in ("scale", "shift", "mean")]
        self.last = self.build.add("batch_norm", [of], self.shape(of), parameters=parameters, epsilon=1e-5)
        return self.last

    def concat(self, *inputs):
        n, _, *spatial = self.shape(inputs[0])
        return self.add("concat", *inputs, shape=(n, sum(self.shape(one)[1] for one in inputs), *spatial), axis=1)

    def head(self, classes=10, softmax=False):
        n, c = self.shape()[:2]
        self.add("global_avg_pool", shape=(n, c))
        return self.dense(classes, softmax=softmax)

    def dense(self, width, softmax=False):
        kernel = self.build.parameter("kernel", (width, self.shape()[1]), "")
        bias = self.build.parameter("bias", (width,), "")
        self.last = self.build.add("dense", [self.last], (1, width), parameters=[kernel, bias], name="dense")
        if softmax:
            self.add("softmax", axis=1)
        return self.last

    def finish(self):
        return self.build.finish([self.last])


def resnet(counts=(3, 4, 6, 3), *, strided="3x3", size=224, width=16, softmax=False, without=(), **choices):
    """Bottleneck ResNet v1; `strided`: the convolution that strides, 3x3 or 1x1; `without`: blocks with no shortcut."""
    net = Sketch("resnet", size)
    net.conv(width, 7, 2, pads=(3,) * 4, **choices)
    net.pool()
    for stage, count in enumerate(counts):
        for block in range(count):
            entry, inner = net.last, width * 2**stage
            step = 2 if stage and not block else 1
            net.conv(inner, 1, step if strided == "1x1" else 1, **choices)
            net.conv(inner, 3, step if strided == "3x3" else 1, **choices)
            main = net.conv(4 * inner, 1, act=None, **choices)
            if (stage, block) not in without:
                shortcut = entry if block else net.conv(4 * inner, 1, step, of=entry, act=None, **choices)
                net.add("add", main, shortcut)
            net.add("relu")
    net.head(1000, softmax)
    return net.finish()


def resnet_v2(counts=(3, 4, 6, 3), *, pooled_shortcuts=False, size=224, width=16):
    """Pre-activation; the stride in the first block of a stage, or in the last with max-pools on the shortcuts."""
    net = Sketch("resnet_v2", size)
    net.conv(width, 7, 2, pads=(3,) * 4, norm=False, act=None)
    net.pool()
    for stage, count in enumerate(counts):
        for block in range(count):
            entry, inner = net.last, width * 2**stage
            last = block == count - 1 and stage < len(counts) - 1
            step = 2 if (last if pooled_shortcuts else stage and not block) else 1
            net.norm()
            before = net.add("relu")
            net.conv(inner, 1)
            net.conv(inner, 3, step)
            main = net.conv(4 * inner, 1, norm=False, act=None)
            shortcut = entry
            if not block:
                shortcut = net.conv(4 * inner, 1, step, of=before, norm=False, act=None)
            elif step > 1:
                shortcut = net.pool(1, 2, 0, of=entry)
            net.add("add", main, shortcut)
    net.norm()
    net.add("relu")
    net.head(1000)
    return net.finish()


def alexnet(kernels=(96, 256, 384, 384, 256), *, lrn=True, groups=2, classes=1000):
    net = Sketch("alexnet", 224)
    for number, width in enumerate(kernels):
        k, s, p = ((11, 4, 2), (5, 1, 2))[number] if number < 2 else (3, 1, 1)
        split = groups if number in (1, 3, 4) else 1
        net.conv(width, k, s, pads=(p,) * 4, norm=False, bias=True, groups=split)
        if number < 2 and lrn:
            net.add("lrn", size=5, alpha=1e-4, beta=0.75, bias=1.0)
        if number in (0, 1, 4):
            net.pool(3, 2, 0)
    n, c, h, w = net.shape()
    net.add("flatten", shape=(n, c * h * w))
    for width in (4096, 4096):
        net.dense(width)
        net.add("relu")
    net.dense(classes)
    return net.finish()


def squeezenet(version="1.0"):
    net = Sketch("squeezenet", 224)
    plan = {"1.0": ((96, 7), {0, 3, 7}), "1.1": ((64, 3), {0, 2, 4})}[version]
    net.conv(plan[0][0], plan[0][1], 2, pads=(0,) * 4, norm=False, bias=True)
    net.pool(3, 2, 0)
    for number, squeeze in enumerate((16, 16, 32, 32, 48, 48, 64, 64), 1):
        entry = net.conv(squeeze, 1, norm=False, bias=True)
        left = net.conv(4 * squeeze, 1, of=entry, norm=False, bias=True)
        right = net.conv(4 * squeeze, 3, of=entry, norm=False, bias=True)
        net.concat(left, right)
        if number in plan[1]:
            net.pool(3, 2, 0)
    net.conv(1000, 1, norm=False, bias=True)
    net.add("global_avg_pool", shape=(1, 1000))
    return net.finish()


def mobilenet(*, epsilon=1e-5, side="both", width=16):
    """A few inverted residuals; `side`: where stride-2 padding lies."""
    net = Sketch("mobilenet", 64)
    pads = {2: (1, 1, 1, 1) if side == "both" else (0, 0, 1, 1), 1: (1, 1, 1, 1)}
    net.conv(width, 3, 2, pads=pads[2], epsilon=epsilon, act="relu6")
    for stage, step in enumerate((1, 2, 1, 2, 1)):
        entry, out = net.last, width if stage < 3 else 2 * width
        inner = net.shape()[1] * (6 if stage else 1)
        if stage:
            net.conv(inner, 1, epsilon=epsilon, act="relu6")
        net.conv(inner, 3, step, pads=pads[step], groups=inner, epsilon=epsilon, act="relu6")
        net.conv(out, 1, epsilon=epsilon, act=None)
        if step == 1 and net.shape() == net.shape(entry):
            net.add("add", net.last, entry)
    net.conv(80, 1, epsilon=epsilon, act="relu6")
    net.head(10)
    return net.finish()


def densenet(layers=(3, 4), growth=8):
    net = Sketch("densenet", 64)
    net.conv(16, 7, 2, pads=(3,) * 4)
    net.pool()
    for stage, count in enumerate(layers):
        values = [net.last]
        for _ in range(count):
            if len(values) > 1:
                net.concat(*values)
            net.norm(values[0] if len(values) == 1 else net.last)
            net.add("relu")
            net.conv(4 * growth, 1)
            values.append(net.conv(growth, 3, norm=False, act=None))
        net.concat(*values)
        net.norm()
        net.add("relu")
        if stage < len(layers) - 1:
            net.conv(net.shape()[1] // 2, 1, norm=False, act=None)
            net.pool(2, 2, 0, "avg_pool")
    net.head(10)
    return net.finish()
