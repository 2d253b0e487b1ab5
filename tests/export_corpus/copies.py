"""Copies of an ONNX file as its users have them: optimised, quantised, in half precision. `KINDS` makes each."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np


def optimised(level):
    """As ONNX Runtime saves the graph that it would run. What ALL writes depends on the CPU."""

    def make(source, target):
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, f"ORT_{level}")
        options.optimized_model_filepath = str(target)
        options.log_severity_level = 4
        ort.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])

    return make


def dynamic(source, target):
    from onnxruntime.quantization import quantize_dynamic

    quantize_dynamic(str(source), str(target))


def static(form):
    def make(source, target):
        from onnxruntime.quantization import QuantFormat, quantize_static

        quantize_static(str(source), str(target), _Calibration(source), quant_format=getattr(QuantFormat, form))

    return make


class _Calibration:
    """Two random inputs."""

    def __init__(self, source):
        import onnxruntime as ort

        session = ort.InferenceSession(str(source), providers=["CPUExecutionProvider"])
        generator = np.random.default_rng(0)
        self.rows = [{one.name: _random(one, generator) for one in session.get_inputs()} for _ in range(2)]

    def get_next(self):
        return self.rows.pop() if self.rows else None


def _random(given, generator):
    if given.type == "tensor(float)":
        return generator.normal(size=given.shape).astype(np.float32)
    return np.ones(given.shape, np.int64)


def half(source, target):
    import onnx
    from onnxruntime.transformers.float16 import convert_float_to_float16

    onnx.save(convert_float_to_float16(onnx.load(str(source)), keep_io_types=True), str(target))


def bfloat16(source, target):
    """Every weight in bfloat16 and cast back where it is used, as exporters of mixed precision write it."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    model = onnx.load(str(source))
    casts = []
    for tensor in model.graph.initializer:
        if tensor.data_type != TensorProto.FLOAT:
            continue
        name = tensor.name
        bits = (numpy_helper.to_array(tensor).view(np.uint32) >> 16).astype(np.uint16)
        raw = bits.tobytes()
        tensor.CopyFrom(helper.make_tensor(f"{name}_bf16", TensorProto.BFLOAT16, bits.shape, raw, raw=True))
        casts.append(helper.make_node("Cast", [tensor.name], [name], to=TensorProto.FLOAT))
    nodes = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend([*casts, *nodes])
    onnx.save(model, str(target))


def int4(source, target):
    import onnx
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    quantiser = MatMulNBitsQuantizer(onnx.load(str(source)), block_size=32, is_symmetric=True)
    quantiser.process()
    onnx.save(quantiser.model.model, str(target))


def transformer(source, target):
    """By ONNX Runtime's optimiser of transformers, for BERT."""
    from onnxruntime.transformers.optimizer import optimize_model

    optimize_model(str(source), model_type="bert", num_heads=0, hidden_size=0).save_model_to_file(str(target))


def slimmed(source, target):
    import onnx
    import onnxslim

    onnx.save(onnxslim.slim(str(source)), str(target))


def simplified(source, target):
    import onnx
    import onnxsim

    onnx.save(onnxsim.simplify(str(source))[0], str(target))


KINDS = {
    "basic": optimised("ENABLE_BASIC"),
    "extended": optimised("ENABLE_EXTENDED"),
    "all": optimised("ENABLE_ALL"),
    "dynamic": dynamic,
    "qdq": static("QDQ"),
    "qoperator": static("QOperator"),
    "half": half,
    "bfloat16": bfloat16,
    "int4": int4,
    "transformer": transformer,
    "onnxslim": slimmed,
    "onnxsim": simplified,
}


def make(kind: str, source: Path, target: Path) -> Path:
    """The copy, made if it is not there; what its maker says is left out."""
    if not target.exists():
        logging.disable(logging.WARNING)
        partial = target.with_suffix(".partial")
        KINDS[kind](source, partial)
        partial.rename(target)
    return target
