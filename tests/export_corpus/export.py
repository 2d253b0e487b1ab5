"""Writes one network of the corpus with its exporters, in a process of its own: `python export.py LIBRARY NAME SIZE
FOLDER EXPORTER…`. Each leaves FOLDER/LIBRARY-NAME-EXPORTER.onnx, or .error with the reason why it cannot."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from pathlib import Path


def main(library, name, size, folder, *exporters):
    warnings.simplefilter("ignore")
    module = (keras_module if library == "keras" else torch_module)(library, name, int(size))
    for exporter in exporters:
        target = Path(folder) / f"{library}-{name}-{exporter}.onnx"
        partial = target.with_suffix(".partial")
        try:
            EXPORTERS[exporter](module, int(size), partial)
            check(partial)
        except Exception:
            target.with_suffix(".error").write_text(traceback.format_exc())
        else:
            partial.rename(target)


def check(path):
    """Refuse what is no ONNX file, such as one with an operator that is TensorFlow's alone."""
    import onnx

    try:
        onnx.checker.check_model(str(path))
    except onnx.checker.ValidationError as error:
        raise ValueError(f"what it wrote is not valid ONNX: {str(error).strip().splitlines()[0]}") from error


def torch_module(library, name, size):
    import torch

    from zoolens.findings.graph.importers.importer import Request
    from zoolens.findings.graph.importers.torch.modules import built, plan_timm, plan_torchvision

    plan_of = plan_timm if library == "timm" else plan_torchvision
    module = built(plan_of(Request(name, size=(size, size), weights=True)), name, "weights")
    # Parameters that begin with the same numbers, such as ConViT's values, would be written as one tensor.
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=1e-3)
    return module


def with_torch(dynamo):
    def export(module, size, target):
        import torch

        image = torch.zeros(1, 3, size, size)
        options = {"external_data": False} if dynamo else {}
        torch.onnx.export(module, (image,), str(target), dynamo=dynamo, verbose=False, **options)

    return export


def keras_module(library, name, size):
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    from zoolens.findings.graph.importers.importer import Request
    from zoolens.findings.graph.importers.keras.keras_library import build, randomise

    model = build(Request(name, size=(size, size), weights=True))
    randomise(model)
    return model


def with_keras(model, size, target):
    import keras

    model.export(
        str(target),
        format="onnx",
        input_signature=[keras.InputSpec(shape=(1, size, size, 3), dtype="float32")],
        verbose=False,
    )


def with_tf2onnx(model, size, target):
    import tensorflow as tf
    import tf2onnx
    from keras.src.export.tf2onnx_lib import patch_tf2onnx

    patch_tf2onnx()  # it does not know numpy 2 by itself
    signature = [tf.TensorSpec((1, size, size, 3), tf.float32, name="image")]
    function = tf.function(lambda image: model(image, training=False), input_signature=signature)
    tf2onnx.convert.from_function(function, signature, opset=17, inputs_as_nchw=["image"], output_path=str(target))


EXPORTERS = {
    "torchscript": with_torch(dynamo=False),
    "dynamo": with_torch(dynamo=True),
    "keras": with_keras,
    "tf2onnx": with_tf2onnx,
}

if __name__ == "__main__":
    main(*sys.argv[1:])
