"""One tiny network, written in every format zoolens runs: a test subject whose right answers are known.

A 3×3 convolution (3 → 4), ReLU, the mean over all pixels and a dense layer (4 → 5), with fixed weights, on 8×8
images. `reference` computes it in numpy; every maker writes the same function, so runtimes can be held against it
and against each other. Makers import their framework when called: a plug-in author needs only their own.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import shutil
import struct
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoolens.inventory.runtimes.runtime import ModelFiles, TensorSpec

Array = NDArray[np.float32]

CHANNELS, SIDE, FILTERS, CLASSES = 3, 8, 4, 5
PARAMETERS = FILTERS * CHANNELS * 9 + FILTERS + CLASSES * FILTERS + CLASSES

_random = np.random.default_rng(20)
KERNEL: Array = _random.normal(0, 0.4, (FILTERS, CHANNELS, 3, 3)).astype(np.float32)
KERNEL_BIAS: Array = _random.normal(0, 0.4, FILTERS).astype(np.float32)
DENSE: Array = _random.normal(0, 1, (CLASSES, FILTERS)).astype(np.float32)
DENSE_BIAS: Array = _random.normal(0, 1, CLASSES).astype(np.float32)


def images(count: int, *, layout: str = "NCHW", seed: int = 0) -> Array:
    """Random images in [0, 1)."""
    values = np.random.default_rng(seed).random((count, CHANNELS, SIDE, SIDE), dtype=np.float32)
    return values if layout == "NCHW" else np.ascontiguousarray(values.transpose(0, 2, 3, 1))


def reference(batch: Array) -> Array:
    """What every maker's model answers for NCHW images (valid padding, stride 1)."""
    windows = np.lib.stride_tricks.sliding_window_view(batch, (3, 3), axis=(2, 3))
    features = np.einsum("nchwij,fcij->nfhw", windows, KERNEL) + KERNEL_BIAS[None, :, None, None]
    answer: Array = (np.maximum(features, 0).mean(axis=(2, 3)) @ DENSE.T + DENSE_BIAS).astype(np.float32)
    return answer


def declared(batch: int | None = None, *, name: str = "image") -> tuple[TensorSpec, ...]:
    """The input as a manifest would declare it, for formats that carry no shapes."""
    return (TensorSpec(name, (batch, CHANNELS, SIDE, SIDE), "float32"),)


# --- fake


def fake(folder: Path, **settings: Any) -> ModelFiles:
    path = folder / "tiny.json"
    path.write_text(json.dumps({"classes": CLASSES, "input": [None, CHANNELS, SIDE, SIDE], **settings}))
    return ModelFiles("fake", {"model": path})


# --- ONNX and what reads it


def onnx(folder: Path, *, batch: int | None = None) -> ModelFiles:
    import onnx as library
    from onnx import TensorProto, helper, numpy_helper

    extent: int | str = "batch" if batch is None else batch
    nodes = [
        helper.make_node("Conv", ["image", "kernel", "kernel_bias"], ["features"]),
        helper.make_node("Relu", ["features"], ["rectified"]),
        helper.make_node("GlobalAveragePool", ["rectified"], ["means"]),
        helper.make_node("Flatten", ["means"], ["flat"]),
        helper.make_node("Gemm", ["flat", "dense", "dense_bias"], ["logits"], transB=1),
    ]
    weights = {"kernel": KERNEL, "kernel_bias": KERNEL_BIAS, "dense": DENSE, "dense_bias": DENSE_BIAS}
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [extent, CHANNELS, SIDE, SIDE])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [extent, CLASSES])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = folder / "tiny.onnx"
    library.save(model, str(path))
    return ModelFiles("onnx", {"model": path})


def openvino_ir(folder: Path, *, batch: int | None = None) -> ModelFiles:
    import openvino

    source = onnx(folder, batch=batch)
    path = folder / "tiny.xml"
    openvino.save_model(openvino.Core().read_model(source.path()), path, compress_to_fp16=False)
    return ModelFiles("openvino-ir", {"model": path, "weights": path.with_suffix(".bin")})


# --- Caffe: the text graph, and the weights in protobuf wire format, written by hand since Caffe itself is history


def caffe(folder: Path, *, batch: int = 1) -> ModelFiles:
    graph, weights = folder / "tiny.prototxt", folder / "tiny.caffemodel"
    graph.write_text(_PROTOTXT % (batch, CHANNELS, SIDE, SIDE, FILTERS, CLASSES))
    layers = [
        _message(100, _text(1, name) + _text(2, kind) + b"".join(_message(7, _blob(blob)) for blob in blobs))
        for name, kind, blobs in (
            ("conv", "Convolution", (KERNEL, KERNEL_BIAS)),
            ("logits", "InnerProduct", (DENSE, DENSE_BIAS)),
        )
    ]
    weights.write_bytes(_text(1, "tiny") + b"".join(layers))
    return ModelFiles("caffe", {"model": graph, "weights": weights})


_PROTOTXT = """name: "tiny"
input: "image"
input_shape { dim: %d dim: %d dim: %d dim: %d }
layer { name: "conv" type: "Convolution" bottom: "image" top: "conv"
        convolution_param { num_output: %d kernel_size: 3 } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "pool" type: "Pooling" bottom: "conv" top: "pool" pooling_param { pool: AVE global_pooling: true } }
layer { name: "logits" type: "InnerProduct" bottom: "pool" top: "logits" inner_product_param { num_output: %d } }
"""


def _varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def _message(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _text(number: int, value: str) -> bytes:
    return _message(number, value.encode())


def _blob(value: Array) -> bytes:
    extents = _message(1, b"".join(_varint(extent) for extent in value.shape))
    return _message(7, extents) + _message(5, struct.pack(f"<{value.size}f", *value.ravel().tolist()))


# --- torch


def torch_module() -> Any:
    import torch

    class Tiny(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(CHANNELS, FILTERS, 3)
            self.dense = torch.nn.Linear(FILTERS, CLASSES)

        def forward(self, image: Any) -> Any:
            return self.dense(torch.relu(self.conv(image)).mean(dim=(2, 3)))

    module = Tiny().eval()
    module.load_state_dict(
        {
            "conv.weight": torch.tensor(KERNEL),
            "conv.bias": torch.tensor(KERNEL_BIAS),
            "dense.weight": torch.tensor(DENSE),
            "dense.bias": torch.tensor(DENSE_BIAS),
        }
    )
    return module


TORCH_SOURCE = f"""
import torch

def build():
    layers = torch.nn.Sequential()
    layers.add_module("conv", torch.nn.Conv2d({CHANNELS}, {FILTERS}, 3))
    layers.add_module("relu", torch.nn.ReLU())
    layers.add_module("pool", torch.nn.AdaptiveAvgPool2d(1))
    layers.add_module("flat", torch.nn.Flatten())
    layers.add_module("dense", torch.nn.Linear({FILTERS}, {CLASSES}))
    return layers
"""


def torchscript(folder: Path) -> ModelFiles:
    import torch

    path = folder / "tiny.pt"
    torch.jit.save(torch.jit.trace(torch_module(), torch.zeros(1, CHANNELS, SIDE, SIDE)), str(path))
    return ModelFiles("torchscript", {"model": path}, inputs=declared())


def torch_export(folder: Path) -> ModelFiles:
    import torch

    path = folder / "tiny.pt2"
    example = (torch.zeros(2, CHANNELS, SIDE, SIDE),)
    shapes = {"image": {0: torch.export.Dim("batch")}}
    torch.export.save(torch.export.export(torch_module(), example, dynamic_shapes=shapes), str(path))
    return ModelFiles("torch-export", {"model": path}, inputs=declared())


def torch_state_dict(folder: Path) -> ModelFiles:
    import torch

    path = folder / "tiny.pth"
    torch.save(torch_module().state_dict(), str(path))
    architecture = {"library": "code", "source": TORCH_SOURCE, "allowed": True}
    return ModelFiles("torch-state-dict", {"model": path}, architecture=architecture, inputs=declared())


# --- TensorFlow, Keras, LiteRT


def keras_model(*, batch: int | None = None, library: Any = None) -> Any:
    """NHWC, as TensorFlow has it on the CPU. `library`: keras (default) or tf_keras."""
    if library is None:
        os.environ.setdefault("KERAS_BACKEND", "tensorflow")
        library = importlib.import_module("keras")
    layers = library.layers
    image = library.Input((SIDE, SIDE, CHANNELS), batch_size=batch, name="image")
    features = layers.Conv2D(FILTERS, 3, activation="relu", name="conv")(image)
    means = layers.GlobalAveragePooling2D(name="pool")(features)
    model = library.Model(image, layers.Dense(CLASSES, name="logits")(means), name="tiny")
    model.get_layer("conv").set_weights([KERNEL.transpose(2, 3, 1, 0), KERNEL_BIAS])
    model.get_layer("logits").set_weights([DENSE.T, DENSE_BIAS])
    return model


def keras(folder: Path) -> ModelFiles:
    path = folder / "tiny.keras"
    keras_model().save(str(path))
    return ModelFiles("keras", {"model": path})


def keras_h5(folder: Path) -> ModelFiles:
    import tf_keras

    path = folder / "tiny.h5"
    keras_model(library=tf_keras).save(str(path), save_format="h5")
    return ModelFiles("keras-h5", {"model": path})


def _tensorflow_module() -> Any:
    import tensorflow as tf

    class Tiny(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.kernel, self.kernel_bias = tf.Variable(KERNEL.transpose(2, 3, 1, 0)), tf.Variable(KERNEL_BIAS)
            self.dense, self.dense_bias = tf.Variable(DENSE.T), tf.Variable(DENSE_BIAS)

        def __call__(self, image: Any) -> Any:
            features = tf.nn.relu(tf.nn.conv2d(image, self.kernel, 1, "VALID") + self.kernel_bias)
            return {"logits": tf.reduce_mean(features, [1, 2]) @ self.dense + self.dense_bias}

    return Tiny()


def _tensorflow_function(module: Any, batch: int | None) -> Any:
    import tensorflow as tf

    spec = tf.TensorSpec((batch, SIDE, SIDE, CHANNELS), tf.float32, "image")
    return tf.function(module.__call__).get_concrete_function(spec)


def tf_savedmodel(folder: Path, *, batch: int | None = None) -> ModelFiles:
    import tensorflow as tf

    path, module = folder / "tiny_saved", _tensorflow_module()
    tf.saved_model.save(module, str(path), signatures={"serving_default": _tensorflow_function(module, batch)})
    return ModelFiles("tf-savedmodel", {"model": path})


def tf_frozen(folder: Path, *, batch: int | None = None) -> ModelFiles:
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    module = _tensorflow_module()
    frozen = convert_variables_to_constants_v2(_tensorflow_function(module, batch))
    path = folder / "tiny.pb"
    path.write_bytes(frozen.graph.as_graph_def().SerializeToString())
    return ModelFiles("tf-frozen", {"model": path})


def tflite(folder: Path, *, batch: int = 1, int8: bool = False) -> ModelFiles:
    import tensorflow as tf

    module = _tensorflow_module()
    converter = tf.lite.TFLiteConverter.from_concrete_functions([_tensorflow_function(module, batch)], module)
    if int8:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = lambda: ([images(batch, layout="NHWC", seed=i)] for i in range(20))
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        converter.inference_input_type = converter.inference_output_type = tf.int8
    path = folder / "tiny.tflite"
    path.write_bytes(converter.convert())
    return ModelFiles("tflite", {"model": path})


# --- JAX


def jax_export(folder: Path, *, batch: int | None = None) -> ModelFiles:
    import jax
    from jax import export

    def tiny(image: Any) -> Any:
        features = jax.lax.conv_general_dilated(image, KERNEL, (1, 1), "VALID") + KERNEL_BIAS[None, :, None, None]
        return jax.nn.relu(features).mean(axis=(2, 3)) @ DENSE.T + DENSE_BIAS

    extent = export.symbolic_shape("batch")[0] if batch is None else batch
    example = jax.ShapeDtypeStruct((extent, CHANNELS, SIDE, SIDE), np.float32)
    path = folder / "tiny.jax"
    path.write_bytes(export.export(jax.jit(tiny), platforms=["cpu"])(example).serialize())
    return ModelFiles("jax-export", {"model": path})


# --- once per process


def cached(maker: Callable[..., ModelFiles], folder: Path, **settings: Any) -> ModelFiles:
    """What `maker(folder, **settings)` would write, made once per process and copied: some converters take seconds."""
    made = _made(maker, tuple(sorted(settings.items())))
    files = {}
    for role, path in made.files.items():
        files[role] = folder / path.name
        if path.is_dir():
            shutil.copytree(path, files[role])
        else:
            shutil.copyfile(path, files[role])
    return replace(made, files=files)


@cache
def _made(maker: Callable[..., ModelFiles], settings: tuple[tuple[str, Any], ...]) -> ModelFiles:
    folder = Path(tempfile.mkdtemp(prefix="zoolens-models-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return maker(folder, **dict(settings))


# --- damage


def files_of(model: ModelFiles) -> Iterable[tuple[str, tuple[Path, ...]]]:
    """The files behind each role; a directory format has all of its files behind "model"."""
    for role, path in model.files.items():
        if path.is_dir():
            inside = [file for file in path.rglob("*") if file.is_file()]
            yield role, tuple(sorted(inside))
        else:
            yield role, (path,)


def damage(paths: Iterable[Path], how: str) -> None:
    """Spoil files in place: "truncated" to half their bytes, "garbage" of their size, or "empty"."""
    for path in paths:
        content = path.read_bytes()
        spoiled: Mapping[str, bytes] = {
            "truncated": content[: len(content) // 2],
            "garbage": np.random.default_rng(1).bytes(max(len(content), 64)),
            "empty": b"",
        }
        path.write_bytes(spoiled[how])
