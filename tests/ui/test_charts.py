"""The one chart language in the explorer: specs of `present` drawn under the page's own security policy."""

import re
from io import BytesIO
from pathlib import Path

import pytest

pytest.importorskip("playwright")
from browsing import Visitor
from PIL import Image
from playwright.sync_api import expect

from zoolens.base.present.charts import Chart, axis, heading, quantity, series, themed, values

REPO = Path(__file__).parents[2]
DRAW = """async (spec) => {
  await new Promise((resolve, reject) => {
    const script = document.createElement("script");
    Object.assign(script, { src: "vega.js", onload: resolve, onerror: reject });
    document.head.append(script);
  });
  const place = document.createElement("div");
  document.querySelector("main").append(place);
  await vegaEmbed(place, spec, OPTIONS);
}"""


def options():
    """Those of the explorer's own component, as it is written."""
    source = (REPO / "explorer" / "src" / "components" / "chart.tsx").read_text(encoding="utf-8")
    return re.search(r"const OPTIONS = ({.*?\n});", source, re.DOTALL)[1]


def test_a_chart_is_drawn_and_explains_its_points_under_the_policy(visitor):
    """No style and no script is made of text: the console would tell."""
    page = visitor.visit("#/models", expect="demo:lenet-torch")
    hostile = "<img src=x onerror=\"document.documentElement.setAttribute('hostile', 'ran')\">"
    rows = [{"x": 1, "y": 2, "name": hostile}, {"x": 3, "y": 1, "name": "b"}]
    encoding = {
        "x": quantity("x", 0, 4, axis("x")), "y": quantity("y", 0, 3, axis("y")),
        "color": series("name", [hostile, "b"]),
        "tooltip": [{"field": "name", "type": "nominal"}],
    }  # fmt: skip
    spec = {"title": heading(hostile), "data": values(rows), "mark": {"type": "circle", "size": 900, "tooltip": True}}
    page.evaluate(DRAW.replace("OPTIONS", options()), themed(Chart("c", "a chart", {**spec, "encoding": encoding})))
    page.locator("main svg[role=graphics-document], main svg.marks").first.wait_for()
    page.locator("path[aria-roledescription=circle]").first.hover()
    expect(page.locator("#vg-tooltip-element")).to_contain_text("onerror")
    assert page.locator("#vg-tooltip-element").is_visible()
    assert page.locator("html[hostile]").count() == 0
    assert page.locator("main img").count() == 0


def saved(page, action):
    with page.expect_download() as download:
        page.get_by_role("button", name=action).click()
    return Path(download.value.path()).read_bytes()


def test_a_saved_chart_says_what_it_shows(chromium, whole):
    """A picture goes where no page is around it: title and subtitle are in it."""
    url, names = whole
    window = Visitor(chromium, url, accept_downloads=True)
    page = window.visit(f"#/run/{names['a']}?tab=confusion", expect="Labels and answers")
    page.locator(".chart svg.marks").wait_for()
    page.get_by_label(re.compile("^Save: ")).click()
    svg = saved(page, "Save as SVG").decode()
    assert ">Labels and answers</text>" in svg
    assert "accuracy 100.0 %" in svg
    assert "var(--" not in svg
    png = Image.open(BytesIO(saved(page, "Save as PNG")))
    width, height = (2 * int(side) for side in re.search(r'viewBox="0 0 (\d+) (\d+)', svg).groups())
    assert abs(png.width - width) <= 2
    assert abs(png.height - height) <= 2
    assert png.convert("L").getpixel((2, 2)) == 255  # light, whatever the page is
    csv = saved(page, "Save as CSV").decode()
    assert csv.splitlines()[0].startswith("label,answer,count")
    window.check()
    window.close()
