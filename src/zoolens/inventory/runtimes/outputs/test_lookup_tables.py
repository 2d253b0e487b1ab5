"""The rows of the table that numbers of tokens are looked up in."""

import numpy as np
import pytest

from zoolens.conftest import ASSETS
from zoolens.inventory.runtimes.outputs.lookup_tables import table_rows

TASKS = ASSETS / "tasks"
NETWORK = """<ir_version: 8, opset_import: ["" : 17]>
net (int64[N, T] ids, int64[N, T] mask) => (float[N, T, 2] y)
{ narrow = Cast <to = 6> (ids)
  wide = DequantizeLinear (table, scale)
  a = Gather (wide, narrow)
  b = Gather (kinds, mask)
  y = Add (a, b) }
"""


def written(path, **tables):
    onnx = pytest.importorskip("onnx")
    model = onnx.parser.parse_model(NETWORK)
    model.graph.initializer.extend(onnx.numpy_helper.from_array(values, name) for name, values in tables.items())
    onnx.save(model, path)
    return path


def test_each_input_has_its_own_table(tmp_path):
    tables = {"table": np.ones((30, 2), np.int8), "scale": np.float32(1), "kinds": np.ones((2, 2), np.float32)}
    path = written(tmp_path / "m.onnx", **tables)
    assert [table_rows("onnx", path, name) for name in ("ids", "mask", "other")] == [30, 2, None]


def test_other_files_say_nothing(tmp_path):
    (tmp_path / "odd.onnx").write_bytes(b"odd")
    assert table_rows("onnx", tmp_path / "odd.onnx", "ids") is None
    assert table_rows("torchscript", tmp_path / "odd.onnx", "ids") is None


@pytest.mark.skipif(not TASKS.is_dir(), reason="no reference assets (ZOOLENS_ASSETS)")
@pytest.mark.parametrize(
    ("file", "format_", "name", "rows"),
    [
        ("embeddings/models/all-MiniLM-L6-v2_int8.onnx", "onnx", "input_ids", 30522),
        ("embeddings/models/wordllama_l2_supercat_64.onnx", "onnx", "input_ids", 32000),
        ("text/models/nn_sentiment.onnx", "onnx", "tokens", 30000),
        ("text/models/tflite_support_sentiment_wordavg.tflite", "tflite", "", 10003),
    ],
)
def test_tables_of_real_files(file, format_, name, rows):
    assert table_rows(format_, TASKS / file, name) == rows
