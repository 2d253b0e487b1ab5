from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from zoolens.crosstrain.report import raster
from zoolens.crosstrain.report.axes import Frame, Scale, level_scale, scale_of, wider
from zoolens.crosstrain.report.conftest import EVIL, made_study
from zoolens.crosstrain.report.findings import gather
from zoolens.crosstrain.report.marks import Line, Picture, Points, Polygon, Text, box, ramp
from zoolens.crosstrain.report.pictures import MOST_POINTS, accuracy_picture, pairs_picture, space_picture
from zoolens.crosstrain.report.raster import write_png
from zoolens.crosstrain.report.vector import svg
from zoolens.crosstrain.report.words import cell, short

NAMESPACE = "{http://www.w3.org/2000/svg}"
RED, BLUE, WHITE = (255, 0, 0), (0, 0, 255), (255, 255, 255)


def drawn(tmp_path, *marks, size=(100, 60)):
    path = tmp_path / "picture.png"
    write_png(Picture("picture", "title", *size, marks), path)
    with Image.open(path) as image:
        assert image.size == (2 * size[0], 2 * size[1])
        pixels = np.array(image.convert("RGB"))
    return lambda x, y: tuple(int(one) for one in pixels[int(2 * y), int(2 * x)])


def inked(tmp_path, mark, size=(100, 100)):
    """The box of what is not white: left, top, right, bottom."""
    path = tmp_path / "text.png"
    write_png(Picture("text", "title", *size, (mark,)), path)
    with Image.open(path) as image:
        ys, xs = np.nonzero(np.array(image.convert("L")) < 200)
    return xs.min() / 2, ys.min() / 2, xs.max() / 2, ys.max() / 2


def test_marks_are_drawn_where_they_are_said_to_be(tmp_path):
    at = drawn(
        tmp_path,
        box(10, 10, 30, 30, "#ff0000"),
        Points(((50, 20), (70, 20)), "#0000ff", 5),
        Line(((10, 50), (90, 50)), "#ff0000", 4, dash=(20, 10)),
        Polygon(((80, 5), (95, 5), (95, 30)), "#000000", 0.5),
    )
    assert at(20, 20) == RED
    assert at(35, 20) == WHITE
    assert at(50, 20) == at(70, 20) == BLUE
    assert at(60, 20) == WHITE
    assert at(20, 50) == at(50, 50) == RED
    assert at(35, 50) == at(65, 50) == WHITE
    assert at(93, 10)[0] == pytest.approx(127, abs=2)
    assert at(82, 25) == WHITE


def test_text_stands_on_its_line_from_its_anchor(tmp_path):
    left, top, right, bottom = inked(tmp_path, Text((50, 50), "HHH", anchor="end"))
    assert right == pytest.approx(50, abs=2)
    assert bottom == pytest.approx(50, abs=1)
    assert right - left > bottom - top
    left, top, right, bottom = inked(tmp_path, Text((50, 50), "HHH", turned=True))
    assert bottom == pytest.approx(50, abs=2)
    assert right == pytest.approx(50, abs=1)
    assert bottom - top > right - left


def test_without_a_system_font_signs_are_spelt(tmp_path, monkeypatch):
    raster._font.cache_clear()
    monkeypatch.setattr(raster, "FONTS", {False: (), True: ()})
    greek = inked(tmp_path, Text((5, 50), "Δ"))
    assert greek == inked(tmp_path, Text((5, 50), "Delta"))
    raster._font.cache_clear()


def test_svg_is_xml_with_the_same_marks():
    marks = (
        box(0, 0, 9, 9, "ground"), Points(((1, 2), (3, 4.25)), "#123456", 2, 0.5), Line(((0, 0), (5, 5)), dash=(4, 3)),
        Text((1, 1), f"{EVIL}\x00", bold=True, turned=True),
    )  # fmt: skip
    root = ElementTree.fromstring(svg(Picture("p", EVIL, 10, 10, marks)))
    assert root.find(f"{NAMESPACE}title").text == EVIL
    area, dots, line = root.findall(f"{NAMESPACE}path")
    assert area.get("style") == "fill:var(--ground,#ffffff)"
    assert dots.get("d") == "M1 2h0M3 4.2h0"
    assert dots.get("style") == "stroke:#123456;stroke-opacity:0.5"
    assert line.get("stroke-dasharray") == "4 3"
    text = root.find(f"{NAMESPACE}text")
    assert text.text == f"{EVIL}\N{REPLACEMENT CHARACTER}"
    assert text.get("transform") == "rotate(-90 1 1)"


@pytest.mark.parametrize("draw", [accuracy_picture, pairs_picture, space_picture])
def test_nothing_is_drawn_outside_a_picture(draw):
    for frameworks in (("torch", "jax"), ("torch", "tensorflow", "jax")):
        picture = draw(gather(made_study(30, frameworks)))
        for mark in picture.marks:
            places = {Points: "at", Line: "through", Polygon: "corners"}.get(type(mark))
            for x, y in getattr(mark, places) if places else [mark.at]:
                assert 0 <= x <= picture.width
                assert 0 <= y <= picture.height


def test_every_trial_is_a_point_in_every_panel_and_the_largest_is_drawn_last():
    findings = gather(made_study(30))
    points = [mark for mark in space_picture(findings).marks if isinstance(mark, Points)]
    assert sum(len(mark.at) for mark in points) == 30 * 3  # optimizer × rate, and both against Δ
    assert points[-1].colour == ramp(1)


def test_a_very_large_study_is_thinned():
    findings = gather(made_study(MOST_POINTS + 500))
    points = [mark for mark in pairs_picture(findings).marks if isinstance(mark, Points)]
    assert sum(len(mark.at) for mark in points) == MOST_POINTS
    assert points[-1].colour == ramp(1)


def test_scales_and_their_ticks():
    linear = Scale(0, 1000)
    assert [text for _, text in linear.ticks()] == ["0", "200", "400", "600", "800", "1000"]
    log = scale_of(np.geomspace(1e-5, 1e-1, 40), log=True)
    assert [text for _, text in log.ticks()] == ["1e−5", "1e−4", "0.001", "0.01", "0.1"]
    words = scale_of(np.array(["sgd", "adam", "sgd"]))
    assert words.ticks() == [(0.25, "adam"), (0.75, "sgd")]
    assert np.isnan(linear.shares(np.array([np.nan, 2000.0, -1.0]))).all()
    for log in (False, True):
        assert scale_of(np.array([3.0, 3.0]), log).share(3.0) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (32, 512, ["50", "100", "200", "500"]),
        (1e-3, 3e-2, ["0.001", "0.002", "0.005", "0.01", "0.02"]),
        (1e-4, 3e-2, ["1e−4", "0.001", "0.01"]),
        (0.11, 99, ["0.5", "1", "5", "10", "50"]),
        (3.1, 4.4, ["3.5", "4"]),
        (1.5, 6, ["2", "3", "4", "5", "6"]),
    ],
)
def test_a_logarithmic_axis_has_ticks_within_a_decade_too(low, high, said):
    ticks = Scale(low, high, log=True).ticks()
    assert [text for _, text in ticks] == said
    shares = [share for share, _ in ticks]
    assert shares == sorted(shares)
    assert min(shares) >= 0
    assert max(shares) <= 1


def test_a_planned_logarithmic_range_is_drawn_so():
    study = made_study()
    space = [{"name": "rate", "low": 1e-5, "high": 0.1}, {"name": "optimizer", "choices": ["adam", "sgd"]}]
    assert gather(study).log == {"rate"}
    assert gather(replace(study, details={"space": space})).log == frozenset()
    narrow = tuple(replace(one, hyperparameters={"size": 16 + i}) for i, one in enumerate(study.trials))
    space = [{"name": "size", "low": 16, "high": 64, "log": True}]
    findings = gather(replace(study, trials=narrow, details={"space": space}))
    assert findings.dependence.curves[0].input.log
    assert space_picture(findings) != space_picture(replace(findings, log=frozenset()))


def test_long_words_beside_an_axis_touch_neither_its_name_nor_the_border():
    long = ["kaiming_uniform", "kaiming_normal"]
    trials = tuple(
        replace(one, hyperparameters={"rate": i, "init": long[i % 2]}) for i, one in enumerate(made_study().trials)
    )
    findings = gather(replace(made_study(), trials=trials))
    texts = [mark for mark in space_picture(findings).marks if isinstance(mark, Text)]
    name = next(one for one in texts if one.turned and one.text == "init")
    word = next(one for one in texts if one.anchor == "end" and one.text == "kaiming_normal")
    assert word.at[0] - 0.6 * word.size * len(word.text) > name.at[0] > 0
    assert wider([Scale(0, 1), level_scale(["adam", "sgd"])]) == 0


def test_a_frame_turns_the_vertical_axis_round():
    frame = Frame(10, 20, 100, 50, Scale(0, 1), Scale(0, 1))
    assert frame.points(np.array([0.0, 1.0]), np.array([0.0, 1.0])).tolist() == [[10, 70], [110, 20]]


def test_the_ramp_grows_darker():
    def grey(colour):
        return sum(weight * int(colour[i : i + 2], 16) for weight, i in ((0.299, 1), (0.587, 3), (0.114, 5)))

    shades = [grey(ramp(share)) for share in np.linspace(0, 1, 9)]
    assert shades == sorted(shades, reverse=True)
    assert ramp(-1) == ramp(0)
    assert ramp(2) == ramp(1)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (1e-8, "1e−8"),
        (0.05, "0.05"),
        (512.0, "512"),
        (-0.5, "−0.5"),
        (0, "0"),
        (1234567.0, "1.23e6"),
        (2.5e-4, "2.5e−4"),
    ],
)
def test_short_numbers(value, said):
    assert short(value) == said


def test_cells_that_are_no_number():
    assert [cell(one) for one in (None, float("nan"), True, "text", 12345)] == ["–", "–", "True", "text", "12,345"]
