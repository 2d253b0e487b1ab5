"""A model with several inputs is evaluated and compared like any other, where the data have all of them."""

import numpy as np
import pytest

from zoolens.base.errors import DatasetError
from zoolens.base.store.store import open_store
from zoolens.findings.comparisons.compare import compare
from zoolens.findings.measure.evaluate import evaluate
from zoolens.inventory.datasets.opening import open_dataset

pytestmark = pytest.mark.usefixtures("trusted_models")

N, CLASSES = 50, 4
MANIFEST = """zoolens: 1
name: {name}
version: 1.0.0
inputs:
  - {{name: left, modality: array, shape: [null, 4], layout: NC}}
  - {{name: right, modality: array, shape: [null, 4], layout: NC}}
outputs:
  - {{scores: logits}}
assets:
  - format: onnx
    files: [{{location: {name}.onnx}}]
"""


@pytest.fixture
def model(tmp_path):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    helper, number = onnx.helper, onnx.TensorProto.FLOAT

    def write(name, operator):
        ends = [helper.make_tensor_value_info(end, number, [None, CLASSES]) for end in ("left", "right", "logits")]
        node = helper.make_node(operator, ["left", "right"], ["logits"])
        graph = helper.make_graph([node], name, ends[:2], ends[2:])
        onnx.save(
            helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
            tmp_path / f"{name}.onnx",
        )
        (tmp_path / f"{name}.yaml").write_text(MANIFEST.format(name=name))
        return str(tmp_path / f"{name}.yaml")

    return write


@pytest.fixture
def arrays(tmp_path):
    draw = np.random.default_rng(0)
    found = {name: draw.standard_normal((N, CLASSES)).astype(np.float32) for name in ("left", "right")}
    found["y"] = (found["left"] + found["right"]).argmax(axis=1)
    np.savez(tmp_path / "pairs.npz", **found)
    return found


def test_both_inputs_reach_the_model(home, tmp_path, model, arrays):
    data = f"npz:{tmp_path / 'pairs.npz'}?x=left,right"
    with open_store(tmp_path / "store.sqlite") as store:
        outcomes = [
            evaluate([model(name, operator)], data, runtimes=["onnxruntime"], batches=(1,), cold=False, store=store)[0]
            for name, operator in (("sum", "Add"), ("difference", "Sub"))
        ]
        assert [one.errors for one in outcomes] == [(), ()]
        assert not any("timed with" in note for note in outcomes[0].notes)
        (top1,) = store.observations(outcomes[0].run.id, metric="top1")
        assert (top1.value, top1.n) == (1.0, N)
        found = compare(*(one.run.id for one in outcomes), store=store).answers
    expected = (arrays["left"] - arrays["right"]).argmax(axis=1)
    assert found.only_a == int((expected != arrays["y"]).sum())
    assert found.agreement == pytest.approx(float((expected == arrays["y"]).mean()))


def test_data_with_one_input_are_refused_with_a_way_out(home, tmp_path, model, arrays):
    with open_store(tmp_path / "store.sqlite") as store:
        (outcome,) = evaluate(
            [model("sum", "Add")], f"npz:{tmp_path / 'pairs.npz'}?x=left", runtimes=["onnxruntime"], batches=(),
            cold=False, store=store,
        )  # fmt: skip
    assert "has 2 inputs (left, right), but datasets give one per example" in outcome.errors[0]
    assert "x=left,right" in outcome.errors[0]


def test_the_names_of_the_inputs_belong_to_the_content(tmp_path, arrays):
    np.savez(tmp_path / "swapped.npz", left=arrays["right"], right=arrays["left"], y=arrays["y"])
    specs = (f"npz:{tmp_path / 'pairs.npz'}?x=left,right", f"npz:{tmp_path / 'swapped.npz'}?x=left,right")
    first, other = (open_dataset(spec).fingerprint() for spec in specs)
    assert first != other
    assert first != open_dataset(f"npz:{tmp_path / 'pairs.npz'}?x=right,left").fingerprint()


def test_arrays_of_different_lengths_are_refused(tmp_path, arrays):
    np.savez(tmp_path / "short.npz", left=arrays["left"], right=arrays["right"][:9], y=arrays["y"])
    with pytest.raises(DatasetError, match="left has 50, right has 9"):
        open_dataset(f"npz:{tmp_path / 'short.npz'}?x=left,right")
