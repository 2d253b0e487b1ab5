"""Architecture and weights to TFLite: N × 28 × 28 in, N × 10 logits out, channels last inside."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from .architecture import INPUT_SHAPE, Architecture, Conv, Shape, Weights, walk

QUANTISATION = "TFLiteConverter, int8 activations and weights, per channel, float32 input and output"


def export(layers: Architecture, weights: Sequence[Weights], calibration: NDArray[np.float32] | None = None) -> bytes:
    """The model; with `calibration` images, its int8 form."""

    # The batch stays free, so an interpreter can resize the input to any batch size
    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None, *INPUT_SHAPE[:2]], tf.float32, name="input")])
    def network(images: Any) -> dict[str, Any]:
        start = tf.reshape(images, [-1, *INPUT_SHAPE])
        return {"logits": walk(layers, start, iter(weights), _TfOps())}

    converter = tf.lite.TFLiteConverter.from_concrete_functions([network.get_concrete_function()], tf.Module())
    if calibration is not None:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = lambda: _one_by_one(calibration)
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    return bytes(converter.convert())


def _one_by_one(images: NDArray[np.float32]) -> Iterator[list[NDArray[np.float32]]]:
    for image in images:
        yield [image[np.newaxis]]


class _TfOps:
    def conv(self, x: Any, layer: Conv, kernel: Any, bias: Any) -> Any:
        convolve = tf.nn.depthwise_conv2d if layer.depthwise else tf.nn.conv2d
        return convolve(x, tf.constant(kernel), [1, 1, 1, 1], layer.padding.upper()) + tf.constant(bias)

    def dense(self, x: Any, kernel: Any, bias: Any) -> Any:
        return tf.matmul(x, tf.constant(kernel)) + tf.constant(bias)

    def relu(self, x: Any) -> Any:
        return tf.nn.relu(x)

    def max_pool(self, x: Any) -> Any:
        return tf.nn.max_pool2d(x, 2, 2, "VALID")

    def global_average(self, x: Any) -> Any:
        return tf.reduce_mean(x, [1, 2])

    def flatten(self, x: Any, shape: Shape) -> Any:
        return tf.reshape(x, [-1, int(np.prod(shape))])

    def add(self, x: Any, y: Any) -> Any:
        return x + y
