"""The names of the classes on the page *Live* where the manifest of the model names none."""

import io

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("starlette")

from zoolens.base.store.records import DatasetRecord, ModelRecord, StackRecord
from zoolens.base.store.store import open_store
from zoolens.faces.ui.context import open_context
from zoolens.faces.ui.read_ahead import open_runs
from zoolens.faces.ui.resources.live import LiveQuery, live
from zoolens.faces.ui.settings import Settings

ANIMALS = ["ant", "bee", "cat"]


@pytest.mark.parametrize(
    ("output", "classes", "expected"),
    [
        ("{}", ANIMALS, ("animals", ANIMALS)),
        ("{}", ["ant", "bee"], ("", ["class 0", "class 1", "class 2"])),  # there are not as many
        ("{labels: [a, b, c]}", ANIMALS, ("", ["a", "b", "c"])),
        ("{label_map: {0: 1, 1: 2, 2: 0}}", ANIMALS, ("", ["class 0", "class 1", "class 2"])),  # by other numbers
    ],
)
def test_names_are_those_of_the_data_only_where_the_model_was_judged_by_them(
    tmp_path, monkeypatch, output, classes, expected
):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path))
    (tmp_path / "tiny.json").write_text('{"classes": 3, "input": [4, 4]}')
    (tmp_path / "tiny.yaml").write_text(
        "zoolens: 1\nname: tiny\ninputs: [{shape: [null, 4, 4], layout: NHW, color: gray}]\n"
        f"outputs: [{output}]\nassets: [{{format: fake, files: [{{location: tiny.json}}]}}]\n"
    )
    stream = io.BytesIO()
    Image.fromarray(np.ones((4, 4), np.uint8)).save(stream, "PNG")
    query = LiveQuery.model_validate({"model": str(tmp_path / "tiny.yaml"), "runtime": "fake"})
    settings = Settings(store=tmp_path / "store.sqlite", allowed=(tmp_path,), zoos=("demo",))
    with (
        open_store(tmp_path / "store.sqlite") as store,
        open_runs(settings) as runs,
        open_context(settings, runs) as context,
    ):
        ref = live(context, query, stream.getvalue()).model
        data = DatasetRecord("d", "animals", 10, {"classes": classes})
        store.begin_run(ModelRecord("m", ref, "fake", {}), data, StackRecord("s", "fake", {}, {}))
        told = live(context, query, stream.getvalue())
    assert (told.named_by, sorted(one.label for one in told.classes)) == (expected[0], sorted(expected[1]))
