"""Checks of a session say what checks in processes of their own say, to the last digit."""

import os
import sys
from pathlib import Path

import pytest

from zoolens.training.pairs.sides import network_sides
from zoolens.training.port.port_check import check
from zoolens.training.port.port_words import check_data

EXAMPLES = Path(__file__).parents[4] / "examples" / "port"
SEEDED = """\
import {library}
from {file} import {function} as made
def net():
    {seed}
    return made()
"""
TORCH = ("torch", "torch_net", "net", "torch.manual_seed(7)")
KERAS = ("keras", "keras_net", "first_try", "keras.utils.set_random_seed(7)")
RESIDUAL = ("torch", "residual_torch", "net", "torch.manual_seed(7)")
JAX = ("jax", "residual_jax", "net", "pass")

pytestmark = [
    pytest.mark.slow,  # it imports three frameworks
    pytest.mark.skipif(sys.platform != "linux" or not hasattr(os, "pidfd_open"), reason="workers are forked on Linux"),
]


@pytest.mark.parametrize(("a", "b"), [(TORCH, KERAS), (RESIDUAL, JAX)])
def test_answers_are_equal_to_the_last_digit(tmp_path, monkeypatch, a, b):
    for name in ("torch_net", "keras_net", "residual_torch", "residual_jax"):
        (tmp_path / f"{name}.py").write_text((EXAMPLES / f"{name}.py").read_text())
    sides = []
    for letter, (library, file, function, seed) in (("a", a), ("b", b)):
        path = tmp_path / f"{letter}.py"
        path.write_text(SEEDED.format(library=library, file=file, function=function, seed=seed))
        sides.append(f"{path}:net")
    forked = []
    opened = network_sides.WorkerSide._opened

    def noted(self, *options):
        about = opened(self, *options)
        forked.append(self._worker.forked)
        return about

    monkeypatch.setattr(network_sides.WorkerSide, "_opened", noted)
    in_forks = [check_data(check(*sides, ["3x32x32"])) for _ in range(2)]
    monkeypatch.setattr(network_sides, "preloaded_for", lambda code: None)
    in_processes = check_data(check(*sides, ["3x32x32"]))
    assert forked == [True] * 4 + [False] * 2
    assert in_forks == [in_processes] * 2
