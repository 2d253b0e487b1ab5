"""Numbers read the same everywhere, since pages, reports and the terminal take their words from one place: examples of
them. And colours of charts stay apart for every kind of colour vision."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from zoolens.base.present.charts import SERIES
from zoolens.base.present.figures import figure, figure_with_ends

EXAMPLES = json.loads(Path(__file__).with_name("figures.json").read_text(encoding="utf-8"))

# Machado, Oliveira and Fernandes 2009, severity 1: what is left of linear RGB for each kind of colour vision.
VISIONS = {
    "trichromat": np.eye(3),
    "protanope": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranope": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanope": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]]
)
WHITE = np.array([0.95047, 1.0, 1.08883])


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example["with_ends"])
def test_figures_read_as_the_design_says(example):
    value, unit = example["value"], example["unit"]
    assert figure(value, unit) == example["words"]
    assert figure_with_ends(value, example["low"], example["high"], unit) == example["with_ends"]


def linear(colour):
    shares = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    return np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)


def lab(colour, vision):
    xyz = TO_XYZ @ np.clip(np.array(VISIONS[vision]) @ linear(colour), 0, 1) / WHITE
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("vision", VISIONS)
def test_every_two_colours_of_charts_are_told_apart(vision):
    apart = [np.linalg.norm(lab(one, vision) - lab(other, vision)) for one, other in itertools.combinations(SERIES, 2)]
    assert min(apart) > 20


@pytest.mark.parametrize("ground", ["#f4f6f8", "#1d2127"])
def test_colours_of_charts_stand_out_from_light_and_dark_ground(ground):
    below = TO_XYZ[1] @ linear(ground)
    for colour in SERIES:
        light, dark = sorted([TO_XYZ[1] @ linear(colour), below], reverse=True)
        assert (light + 0.05) / (dark + 0.05) > 2.4
