from zoolens.store.browsing import Activity
from zoolens.ui.model_index import build
from zoolens.ui.zoo_listing import Listed
from zoolens.zoos.base import Entry, Weights
from zoolens.zoos.undescribed import undescribed


def test_weights_that_arrive_after_the_listing_are_seen(tmp_path):
    manifest = undescribed("net", "onnx", {"model": "net.onnx"})
    (row,) = build(Activity({}), Listed(entries=[Entry("folder", manifest, Weights.ABSENT, tmp_path)])).rows
    assert row.weights == "structure only"
    (tmp_path / "net.onnx").write_bytes(b"onnx")
    assert row.weights == "present"
