"""The support table says what the runtimes declare."""

from __future__ import annotations

from zoolens.base import plugins
from zoolens.inventory.runtimes.abilities import ABILITIES
from zoolens.inventory.runtimes.fake import Fake
from zoolens.inventory.runtimes.runtime import TensorSpec
from zoolens.inventory.runtimes.support import support_markdown, support_row, support_rows

BUILT_IN = {"onnxruntime", "openvino", "litert", "opencv", "torch", "tensorflow", "jax", "mxnet", "fake"}


def test_every_registered_runtime_has_a_row():
    rows = {row.name for row in support_rows()}
    assert rows >= BUILT_IN
    assert rows == set(plugins.names(plugins.RUNTIMES))


def test_rows_and_table_repeat_the_declarations():
    table = support_markdown()
    for row in support_rows():
        declared = plugins.load(plugins.RUNTIMES, row.name).cannot
        assert {ability: reason for ability, reason in row.abilities.items() if reason} == dict(declared)
        line = next(line for line in table.splitlines() if line.startswith(f"| {row.name} |"))
        assert line.count("| no") == len(declared)
        assert line.count("| yes") == len(ABILITIES) - len(declared)
        for ability, reason in declared.items():
            assert f"- {row.name}, {ability.replace('_', ' ')}: {reason}." in table


def test_columns_line_up():
    lines = [line for line in support_markdown().splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in lines}) == 1


def test_a_row_of_one_runtime():
    row = support_row(Fake())
    assert row.version == "built-in"
    assert row.abilities["count_parameters"] is None
    assert "thread" in row.abilities["set_threads"]


def test_a_manifest_fills_the_extents_that_a_file_leaves_free():
    image = TensorSpec("x", (None, 3, None, None), "uint8", 0.5, 7)
    assert image.with_extents((1, 3, 224, None)) == TensorSpec("x", (1, 3, 224, None), "uint8", 0.5, 7)
    # What the file says counts, and other axes are another tensor.
    assert image.with_extents((None, 4, 8, 8)).shape == (None, 3, 8, 8)
    assert image.with_extents((3, 224, 224)) is image
    assert TensorSpec("x", (1, 3), "float32").for_any_batch.shape == (None, 3)
    assert TensorSpec("x", (), "float32").for_any_batch.shape == ()
