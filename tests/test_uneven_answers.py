"""Answers that are not one row of numbers for each input, or the same for all inputs: what becomes of them."""

import numpy as np
import pytest

from zoolens.findings.measure.evaluate import evaluate

MANIFEST = """zoolens: 1
name: {name}
inputs: [{{name: x, modality: array, shape: [{batch}, 4]}}]
outputs: [{{name: y, task: other}}]
assets: [{{format: onnx, files: [{{location: {name}.onnx}}]}}]
"""
# The number of rows is the number of positive values, as behind a non-maximum suppression.
DETECTIONS = "p = Greater (x, zero)\n i = NonZero (p)\n t = Transpose (i)\n r = Cast <to = 1> (t)"


@pytest.fixture
def answer(home, tmp_path):
    """Evaluates a network of one input on 40 inputs, and returns what became of it."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    np.savez(tmp_path / "data.npz", x=np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32))

    def evaluated(name, given, nodes, *, batch="null"):
        size = "N" if batch == "null" else batch
        constants = "float zero = {0}, int64[1] first = {0}"
        network = f"net (float[{size}, 4] x) => ({given} y) <{constants}> {{ {nodes} }}"
        model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]>\n{network}')
        onnx.save(model, tmp_path / f"{name}.onnx")
        path = tmp_path / f"{name}.yaml"
        path.write_text(MANIFEST.format(name=name, batch=batch))
        data = f"npz:{tmp_path / 'data.npz'}"
        (outcome,) = evaluate(path, data, runtimes="onnxruntime", batches=(), cold=False, trust=True)
        return outcome

    return evaluated


def test_rows_that_are_no_inputs_are_refused(answer):
    (error,) = answer("rows", "float[n, 2]", f"{DETECTIONS}\n y = Identity (r)").errors
    assert "rows for a batch of 32, not an answer for each input" in error
    assert "--no-accuracy" in error
    (error,) = answer("sum", "float", "y = ReduceSum <keepdims = 0> (x)").errors
    assert "The output y has a single number for a batch of 32" in error


def test_answers_of_different_lengths_are_refused(answer):
    (error,) = answer("uneven", "float[1, n, 2]", f"{DETECTIONS}\n y = Unsqueeze (r, first)", batch=1).errors
    assert "The output y gives" in error
    assert "answers of different lengths cannot be kept beside each other" in error


def test_the_same_numbers_for_all_inputs_are_a_warning(answer):
    (warning,) = answer("dead", "float[N, 4]", "m = Mul (x, zero)\n y = Abs (m)").warnings
    assert "its outputs are the same numbers for every one of 40 inputs" in warning
    assert answer("alive", "float[N, 4]", "y = Abs (x)").warnings == ()
