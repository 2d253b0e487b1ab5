import json

import numpy as np
import pytest

from zoolens.base.present.charts import (
    INK,
    RAMP,
    Chart,
    axis,
    for_file,
    level,
    logarithmic_ticks,
    quantity,
    shade,
    si_labels,
    themed,
    values,
)
from zoolens.base.present.images import svg


def chart(**spec):
    return Chart("name", "what it shows", spec)


def test_a_page_gives_the_colours_of_its_scheme_and_a_file_has_light_ones():
    drawn = chart(mark={"type": "rule", "color": INK}, layer=[{"mark": {"color": INK}}])
    assert themed(drawn)["mark"]["color"] == "var(--ink, #1b1f24)"
    assert for_file(drawn)["mark"]["color"] == "#1b1f24"
    assert for_file(drawn)["layer"][0]["mark"]["color"] == "#1b1f24"
    assert "var(" not in json.dumps(for_file(drawn))
    assert themed(drawn)["description"] == "what it shows"


def test_a_notebook_draws_a_chart():
    shown = chart(mark={"type": "rule", "color": INK})._repr_mimebundle_(include=None, exclude=None)
    assert shown["application/vnd.vegalite.v5+json"]["mark"]["color"] == "#1b1f24"
    assert shown["text/plain"] == "what it shows"


def test_a_chart_may_change_parts_of_the_theme():
    config = themed(chart(config={"axis": {"grid": False}}))["config"]
    assert config["axis"]["grid"] is False
    assert config["axis"]["labelFontSize"] == 11


def test_data_are_json():
    rows = values([{"x": np.float32(0.5), "y": np.nan, "z": np.int64(3), "of": "a\x00" * 200, "none": None}])["values"]
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows
    assert (rows[0]["x"], rows[0]["y"], rows[0]["z"], rows[0]["none"]) == (0.5, None, 3, None)
    assert len(rows[0]["of"]) == 110


def test_the_ramp_grows_darker_and_spans_its_range():
    def grey(colour):
        return sum(weight * int(colour[i : i + 2], 16) for weight, i in ((0.299, 1), (0.587, 3), (0.114, 5)))

    shades = [grey(colour) for colour in RAMP]
    assert shades == sorted(shades, reverse=True)
    assert shade("delta", 0.0, 0.4, "Δ")["scale"]["domain"] == [0.0, 0.2, 0.4]
    assert len(set(shade("delta", 0.0, 0.0, "Δ")["scale"]["domain"])) == 3  # all the same is no scale


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (32, 512, [50, 100, 200, 500]),
        (1e-3, 3e-2, [0.001, 0.002, 0.005, 0.01, 0.02]),
        (1e-4, 3e-2, [1e-4, 0.001, 0.01]),
        (1e-9, 1e1, [1e-9, 1e-6, 1e-3, 1]),
    ],
)
def test_a_logarithmic_axis_has_ticks_within_a_decade_too(low, high, ticks):
    assert logarithmic_ticks(low, high) == pytest.approx(ticks)


def test_names_of_levels_that_have_no_room_beside_each_other_are_turned():
    wide, narrow = (level("x", ["kaiming_uniform", "kaiming_normal"], axis("init"), width) for width in (400, 100))
    assert wide["axis"]["labelAngle"] == 0
    assert narrow["axis"]["labelAngle"] < 0
    assert level("y", ["kaiming_uniform"] * 9, axis("init"))["axis"]["labelAngle"] == 0  # below each other


def test_every_tick_has_its_unit_with_a_prefix():
    pytest.importorskip("vl_convert")
    for unit, low, high, shown in (
        ("s", 1e-5, 2.0, ("10 µs", "1 ms", "1 s")),
        ("B", 1e3, 2e9, ("1 kB", "1 MB", "1 GB")),
        ("J", 1e-6, 2.0, ("1 µJ", "1 mJ", "1 J")),
    ):
        ticks = axis("x", expression=si_labels(unit), values=logarithmic_ticks(low, high, most=9))
        x = quantity("x", low, high, ticks, type="log")
        spec = {"data": {"values": [{"x": low}]}, "mark": "point", "encoding": {"x": x}, "width": 900}
        drawn = svg(Chart("ticks", "Ticks", spec))
        assert [label for label in shown if f">{label}<" not in drawn] == []
    assert si_labels("inputs/s") is None
    assert "%" in str(si_labels("fraction", 0.01))
