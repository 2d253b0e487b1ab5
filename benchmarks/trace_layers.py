"""Where the time of one network goes in seven runtimes: do the layers that a framework tells sum to the model's time?

    python benchmarks/trace_layers.py [--batch 8] [--threads 1] [--runtime litert]… [--level layer] [--repeats 30]

One network, with seeded weights, is written as ONNX, TFLite, TorchScript, a frozen TensorFlow graph and an exported
JAX program: five convolutions with ReLU, the mean over all pixels and a dense layer, on gray images of 64 × 64. It is
traced as `zoolens trace` does it, each runtime in a process of its own, into a store that is thrown away.

The table has the time of the model without a profiler, the sum of its layers, and that sum as a share of the model.
Where the share is not within 5 %, the sentence that `zoolens trace` prints about the rest stands below the table. The
last columns say what observing each level adds to a call. A figure with * is of disturbed repetitions: other processes
took the cores away. Run it on an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import zoolens
from zoolens.base.present.figures import figure
from zoolens.findings.tracing.report import sentences
from zoolens.findings.tracing.spans import Level
from zoolens.findings.tracing.stored import SUMS_UP, Trace
from zoolens.findings.tracing.trace_layers import Timing

SIDE, CLASSES = 64, 10
CHANNELS, STRIDES = (1, 32, 64, 64, 128, 128), (1, 2, 1, 2, 1)
RUNTIMES = ("onnxruntime", "openvino", "opencv", "litert", "torch", "tensorflow", "jax")
MANIFEST = """zoolens: 1
name: six-layers
version: 1.0.0
description: Five convolutions and a dense layer with seeded weights, for timing.
license: Apache-2.0
framework: {name: numpy}
inputs:
- {name: image, shape: [null, 64, 64], layout: NHW, color: gray, preprocess: [{op: normalize, scale: 0.0039}]}
outputs:
- {labels: [a, b, c, d, e, f, g, h, i, j]}
assets:
"""


def weights() -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray]:
    """Kernels as out × in × 3 × 3, their biases, and the dense matrix."""
    random = np.random.default_rng(0)
    pairs = list(zip(CHANNELS[1:], CHANNELS[:-1], strict=True))
    kernels = [random.normal(0, (2 / (9 * low)) ** 0.5, (high, low, 3, 3)).astype(np.float32) for high, low in pairs]
    biases = [random.normal(0, 0.1, high).astype(np.float32) for high, _ in pairs]
    return kernels, biases, random.normal(0, 0.1, (CHANNELS[-1], CLASSES)).astype(np.float32)


def write_onnx(path: Path) -> None:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    kernels, biases, dense = weights()
    shape = np.array([-1, 1, SIDE, SIDE], np.int64)
    named = {"shape": shape, "dense": dense} | {f"kernel_{i}": kernel for i, kernel in enumerate(kernels)}
    named |= {f"bias_{i}": bias for i, bias in enumerate(biases)}
    nodes, last = [helper.make_node("Reshape", ["image", "shape"], ["pixels"], "reshape")], "pixels"
    for i, stride in enumerate(STRIDES):
        inputs = [last, f"kernel_{i}", f"bias_{i}"]
        nodes.append(helper.make_node("Conv", inputs, [f"conv_{i}"], f"conv_{i}", strides=[stride, stride]))
        nodes.append(helper.make_node("Relu", [f"conv_{i}"], [f"relu_{i}"], f"relu_{i}"))
        last = f"relu_{i}"
    nodes.append(helper.make_node("GlobalAveragePool", [last], ["means"], "mean"))
    nodes.append(helper.make_node("Flatten", ["means"], ["flat"], "flatten"))
    nodes.append(helper.make_node("Gemm", ["flat", "dense"], ["logits"], "dense"))
    graph = helper.make_graph(
        nodes,
        "six-layers",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", SIDE, SIDE])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", CLASSES])],
        [numpy_helper.from_array(value, name) for name, value in named.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))


def write_torchscript(path: Path) -> None:
    import torch

    kernels, biases, dense = weights()
    parts: list[Any] = [torch.nn.Unflatten(1, (1, SIDE))]
    for kernel, bias, stride in zip(kernels, biases, STRIDES, strict=True):
        convolution = torch.nn.Conv2d(kernel.shape[1], kernel.shape[0], 3, stride)
        convolution.load_state_dict({"weight": torch.tensor(kernel), "bias": torch.tensor(bias)})
        parts += [convolution, torch.nn.ReLU()]
    last = torch.nn.Linear(*dense.shape, bias=False)
    last.load_state_dict({"weight": torch.tensor(dense.T.copy())})
    network = torch.nn.Sequential(*parts, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), last).eval()
    torch.jit.save(torch.jit.trace(network, torch.zeros(2, SIDE, SIDE)), str(path))


def tensorflow_function() -> Any:
    import tensorflow as tf

    kernels, biases, dense = weights()

    def network(image: Any) -> Any:
        values = tf.expand_dims(image, -1)
        for kernel, bias, stride in zip(kernels, biases, STRIDES, strict=True):
            convolved = tf.nn.conv2d(values, kernel.transpose(2, 3, 1, 0), stride, "VALID")
            values = tf.nn.relu(tf.nn.bias_add(convolved, bias))
        return tf.identity(tf.reduce_mean(values, [1, 2]) @ dense, "logits")

    return tf.function(network).get_concrete_function(tf.TensorSpec((None, SIDE, SIDE), tf.float32, "image"))


def write_frozen(path: Path) -> None:
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    frozen = convert_variables_to_constants_v2(tensorflow_function())
    path.write_bytes(frozen.graph.as_graph_def().SerializeToString())


def write_tflite(path: Path) -> None:
    import tensorflow as tf

    path.write_bytes(tf.lite.TFLiteConverter.from_concrete_functions([tensorflow_function()]).convert())


def write_jax(path: Path) -> None:
    import jax
    from jax import export

    kernels, biases, dense = weights()

    def network(image: Any) -> Any:
        values = image[..., None]
        for kernel, bias, stride in zip(kernels, biases, STRIDES, strict=True):
            layout = ("NHWC", "HWIO", "NHWC")
            inputs = values, kernel.transpose(2, 3, 1, 0), (stride, stride), "VALID"
            values = jax.nn.relu(jax.lax.conv_general_dilated(*inputs, dimension_numbers=layout) + bias)
        return values.mean(axis=(1, 2)) @ dense

    example = jax.ShapeDtypeStruct((export.symbolic_shape("batch")[0], SIDE, SIDE), np.float32)
    path.write_bytes(export.export(jax.jit(network), platforms=["cpu"])(example).serialize())


WRITERS = {
    "onnx": ("model.onnx", write_onnx),
    "tflite": ("model.tflite", write_tflite),
    "torchscript": ("model.pt", write_torchscript),
    "tf-frozen": ("model.pb", write_frozen),
    "jax-export": ("model.jax", write_jax),
}


def write_network(folder: Path) -> Path:
    """The network in every format whose framework is installed; returns its manifest."""
    text = MANIFEST
    for kind, (name, write) in WRITERS.items():
        try:
            write(folder / name)
        except ImportError as error:
            print(f"No {kind}: {error}")
            continue
        text += f"- {{format: {kind}, files: [{{location: {name}}}]}}\n"
    manifest = folder / "six-layers.yaml"
    manifest.write_text(text)
    return manifest


def table(traces: Sequence[Trace]) -> Iterator[str]:
    heads = (
        "runtime",
        "model",
        "profiled call",
        "layers, sum",
        "share of it",
        "layers",
        "observing layers",
        "library",
        "system",
    )
    rows = [heads] + [row(trace) for trace in traces]
    widths = [max(len(line[place]) for line in rows) for place in range(len(heads))]
    for line in rows:
        yield "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
    for trace in traces:
        if trace.covered is None or abs(trace.covered - 1) > SUMS_UP or trace.missing:
            yield f"\n{trace.stack}: {' '.join(sentences(trace))}"


def row(trace: Trace) -> tuple[str, ...]:
    overheads = {overhead.level: f"{100 * overhead.share:+.0f} %" for overhead in trace.overheads}
    return (
        trace.stack,
        words(trace.unlayered),
        words(trace.layer.calls if trace.layer else None),
        words(trace.layer.total if trace.layer else None),
        "" if trace.covered is None else f"{100 * trace.covered:.1f} %",
        str(len(trace.layers)),
        *(overheads.get(level, "") for level in (Level.LAYER, Level.LIBRARY, Level.SYSTEM)),
    )


def words(timing: Timing | None) -> str:
    return "" if timing is None else figure(timing.median, "s") + ("*" if timing.disturbed else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--runtime", action="append")
    parser.add_argument("--level", default="system", choices=[str(level) for level in Level])
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--details", action="store_true", help="print every layer")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="zoolens-trace-") as folder:
        manifest = write_network(Path(folder))
        traces: list[Trace] = []
        for runtime in chosen.runtime or RUNTIMES:
            try:
                traces += zoolens.trace(
                    manifest,
                    runtimes=runtime,
                    level=chosen.level,
                    batch=chosen.batch,
                    repeats=chosen.repeats,
                    seconds=chosen.seconds,
                    threads=chosen.threads,
                    store=Path(folder) / "store",
                )
            except zoolens.ZoolensError as error:
                print(f"{runtime}: {error}")
    print("\n".join(table(traces)))
    if chosen.details:
        from zoolens.base.present.terminal import print_table
        from zoolens.findings.tracing.report import layers_table

        for trace in traces:
            print(f"\n{trace.title}")
            shown = layers_table(trace, None)
            print_table(shown.columns, shown.rows)


if __name__ == "__main__":
    main()
