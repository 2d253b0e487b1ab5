import io
import sys
import xml.etree.ElementTree as ET
from importlib import resources

import pytest
from PIL import Image

from zoolens.base.errors import MissingDependency
from zoolens.base.present import images
from zoolens.base.present.charts import INK, Chart, axis, heading, quantity, values

CHART = Chart(
    "points",
    "points",
    {
        "title": heading("<script>alert(1)</script>\x00 Δ"),
        "data": values([{"x": 0.5}]),
        "mark": {"type": "circle", "color": INK},
        "encoding": {"x": quantity("x", 0, 1, axis("x"))},
    },
)
needs_images = pytest.mark.skipif(not images.can_draw(), reason="NO vl-convert: the extra `reports` is not installed")


@needs_images
def test_a_chart_becomes_a_picture_twice_its_size_on_white_paper():
    with Image.open(io.BytesIO(images.png(CHART))) as image:
        assert image.width > 400
        assert image.convert("RGB").getpixel((2, 2)) == (255, 255, 255)
        assert len(image.getcolors(1 << 24)) > 10


@needs_images
def test_a_chart_becomes_well_formed_svg_with_plain_colours():
    text = images.svg(CHART)
    root = ET.fromstring(text)
    assert not [one for one in root.iter() if one.tag.endswith("script")]
    assert "<script>alert(1)</script>\N{REPLACEMENT CHARACTER} Δ" in {one.text for one in root.iter()}
    assert "var(" not in text


@needs_images
def test_the_same_chart_gives_the_same_bytes():
    assert images.png(CHART) == images.png(CHART)


def test_without_the_library_it_is_said_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(MissingDependency, match="needs vl-convert-python") as error:
        images.png(CHART)
    assert "zoolens[reports]" in error.value.hint


@needs_images
def test_a_page_draws_with_the_vega_that_files_are_drawn_with():
    """Where this fails, vl-convert was updated: run `python -m scripts.vendor_vega`."""
    import vl_convert

    script = resources.files("zoolens.base.present").joinpath("assets", "vega.js").read_text(encoding="utf-8")
    assert f'"{vl_convert.get_vega_version()}"' in script
    assert f'"{vl_convert.get_vegalite_versions()[-1]}.' in script
    assert "</script" not in script
    assert "<!--" not in script
