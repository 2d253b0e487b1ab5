import base64
import io
import re
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from zoolens.base.errors import DatasetError
from zoolens.findings.comparisons.contact_sheet import html
from zoolens.findings.comparisons.disagreements import disagree
from zoolens.inventory.datasets.opening import open_dataset
from zoolens.inventory.datasets.previews import SIDE, png

pytestmark = pytest.mark.usefixtures("trusted_models")

HOSTILE = "<script>alert('x')</script>"


@pytest.fixture(scope="module")
def found(demo_store):
    return disagree("demo:lenet-torch", 3, store=demo_store, limit=4)


def pictures(page):
    return [
        np.asarray(Image.open(io.BytesIO(base64.b64decode(text))))
        for text in re.findall(r"data:image/png;base64,([A-Za-z0-9+/=]+)", page)
    ]


def test_the_sheet_shows_the_inputs_themselves(found):
    shown = pictures(html(found))
    assert len(shown) == 4
    dataset = open_dataset("demo", limit=200)
    for picture, one in zip(shown, found.inputs, strict=True):
        factor = picture.shape[0] // 28
        np.testing.assert_array_equal(picture[::factor, ::factor], dataset.read(one.index).value[:, :, 0])


def test_the_sheet_says_what_each_model_answers(found):
    page = html(found)
    first = found.inputs[0]
    assert f"input {first.input} · {first.entropy:.2f} bits" in page
    for neighbour, vote in zip(found.panel, first.votes, strict=True):
        assert neighbour.run.ref in page
        assert f"{100 * vote.score:.0f} %" in page
    assert f"{found.total:,} of 200 inputs" in page


def test_names_are_only_text(found):
    page = html(replace(found, classes=(HOSTILE,) * 10, inputs=(replace(found.inputs[0], input=HOSTILE),)))
    assert "<script" not in page
    assert "&lt;script" in page


def test_changed_data_are_not_shown_as_the_runs_own(found):
    run = replace(found.run, dataset=replace(found.run.dataset, fingerprint="other"))
    with pytest.raises(DatasetError, match="content has changed"):
        html(replace(found, panel=(replace(found.panel[0], run=run), *found.panel[1:])))


@pytest.mark.parametrize(
    ("shape", "size"), [((28, 28, 1), (196, 196)), ((400, 200, 3), (98, 196)), ((150, 3, 3), (3, 150))]
)
def test_pictures_have_a_size_that_fits(shape, size):
    assert Image.open(io.BytesIO(png(np.zeros(shape, np.uint8)))).size == size
    assert max(size) <= SIDE


def test_a_sheet_that_is_passed_on_tells_no_folder(found):
    names = tuple(f"/home/someone/class{i}" for i in range(10))
    page = html(replace(found, classes=names, inputs=(replace(found.inputs[0], input="/data/someone/7.png"),)))
    assert "input 7.png" in page
    assert "someone" not in page
