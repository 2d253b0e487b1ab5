"""Sides that are forked from a process with their framework answer as those that import it themselves."""

import os
import sys

import numpy as np
import pytest

from zoolens.base.engine.fork_server import Preloaded
from zoolens.base.errors import ModelError
from zoolens.training.pairs.sides import network_sides
from zoolens.training.pairs.sides.framework_imports import preloaded_for
from zoolens.training.pairs.sides.network_sides import InputShape, SideName, WorkerSide

INPUTS = [InputShape((4,))]
LINEAR = "def net():\n    return torch.nn.Linear(4, 2)\n"
forks = pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(os, "pidfd_open"), reason="workers are forked on Linux"
)


@pytest.mark.parametrize(
    ("code", "frameworks"),
    [
        ("import torch\n", ["torch"]),
        ("from torch import nn\nimport keras.layers as kl\n", ["torch", "keras"]),
        ("import beside\nimport torch\n", ["jax", "torch"]),
        ("import numpy as np\n", None),
        ("def net():\n    import torch\n", None),
        ("try:\n    import torch\nexcept ImportError:\n    pass\n", None),
        ("from .torch import net\n", None),
        ("import os\nos.environ['KERAS_BACKEND'] = 'torch'\nimport keras\n", None),
        ("import hidden\nimport keras\n", None),
        ("import torch\ndef broken(:\n", None),
        ("import torch\n\0", None),
    ],
)
def test_frameworks_are_read_from_the_text(tmp_path, code, frameworks):
    (tmp_path / "beside.py").write_text("import mine, jax\n")
    (tmp_path / "hidden.py").write_text("from os import putenv\nputenv('KERAS_BACKEND', 'torch')\n")
    (tmp_path / "mine.py").write_text(code)
    found = preloaded_for(str(tmp_path / "mine.py"))
    assert (found and [name for name in found.modules if not name.startswith(("zoolens", "torch."))]) == frameworks


def test_modules_are_started(tmp_path):
    assert preloaded_for("torch") is None
    assert preloaded_for(str(tmp_path / "none.py")) is None


def opened(tmp_path, code):
    """Whether the side was forked, its tensors, and what it answers to ones."""
    path = tmp_path / "mine.py"
    path.write_text(code)
    with WorkerSide(SideName.parse(f"{path}:net"), INPUTS) as side:
        return side._worker.forked, side.tensors(), side.run([np.ones((3, 4), np.float32)])[0]


@forks
@pytest.mark.slow  # it imports torch
def test_a_fork_answers_as_a_process_of_its_own(tmp_path, monkeypatch):
    code = "import torch\ndef net():\n    torch.manual_seed(3)\n    return torch.nn.Linear(4, 2)\n"
    forked = opened(tmp_path, code)
    monkeypatch.setattr(network_sides, "preloaded_for", lambda code: None)
    started = opened(tmp_path, code)
    assert (forked[0], started[0]) == (True, False)
    assert forked[1].keys() == started[1].keys()
    assert all(np.array_equal(forked[1][name], started[1][name]) for name in forked[1])
    np.testing.assert_array_equal(forked[2], started[2])


@forks
@pytest.mark.slow
def test_what_a_side_sets_is_not_there_for_the_next_one(tmp_path):
    code = (
        "import torch\ndef net():\n    before = torch.get_default_dtype()\n    torch.set_default_dtype(torch.float64)\n"
    )
    code += "    assert before == torch.float32\n    torch.nn.Linear.forward = lambda self, x: x * 0\n"
    assert opened(tmp_path, code + "    return torch.nn.Linear(4, 2)\n")[0]
    forked, tensors, answer = opened(tmp_path, "import torch\n" + LINEAR)
    assert forked
    assert tensors["weight"].dtype == np.float32
    assert np.any(answer != 0)


@forks
@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        # The text does not show it.
        "import torch, os\ngetattr(os, 'envi' + 'ron')['MINE'] = '1'\n",
        # Imported by torch._dynamo; in a process of its own this one would be found first.
        "import torch\nfrom pathlib import Path\n(Path(__file__).parent / 'sympy.py').touch()\n",
    ],
)
def test_code_that_changes_what_is_imported_is_called_in_a_process_of_its_own(tmp_path, code):
    path = tmp_path / "mine.py"
    path.write_text(code + LINEAR)
    for _ in range(2):
        with WorkerSide(SideName.parse(f"{path}:net"), INPUTS) as side:
            assert not side._worker.forked


@forks
@pytest.mark.slow
def test_an_error_is_that_of_a_process_of_its_own(tmp_path):
    (tmp_path / "helper.py").write_text("raise ValueError('broken')\n")
    with pytest.raises(ModelError, match=r"helper\.py:1 raises ValueError: broken"):
        opened(tmp_path, "import torch\nimport helper\n" + LINEAR)


@forks
def test_preloaded_modules_that_do_not_exist_change_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(network_sides, "preloaded_for", lambda code: Preloaded(("no_such_framework",)))
    with pytest.raises(ModelError, match=r"mine\.py:2 raises ZeroDivisionError"):
        opened(tmp_path, "def net():\n    return 1 / 0\n")
