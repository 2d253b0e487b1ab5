"""Users' code in its own process: what it may do wrong, and what is said then."""

import shutil

import pytest

from zoolens.base.errors import ModelError, WorkerError, WorkerTimeout, ZoolensError
from zoolens.training.pairs.sides.network_sides import InputShape, SideName, WorkerSide

INPUTS = [InputShape((4,))]


def side(tmp_path, code, function="net", **options):
    path = tmp_path / "mine.py"
    path.write_text(code)
    with WorkerSide(SideName.parse(f"{path}:{function}"), INPUTS, **options):
        pass


def test_code_that_raises_is_named_by_its_line(tmp_path):
    with pytest.raises(ModelError, match=r"mine\.py:2 raises ZeroDivisionError: division by zero"):
        side(tmp_path, "def net():\n    return 1 / 0\n")


@pytest.mark.slow  # it imports frameworks
@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="there may be a GPU here")
@pytest.mark.parametrize(
    ("code", "framework"),
    [
        ("from torch import nn\ndef net():\n    return nn.Linear(4, 2)\n", "torch"),
        (
            "import keras\ndef net():\n    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])\n",
            "Keras on",
        ),
        (
            "import jax.numpy as jnp\ndef net():\n    return lambda w, x: x @ w['w'], {'w': jnp.ones((4, 2))}\n",
            "JAX",
        ),
    ],
)
def test_a_framework_that_sees_no_gpu_says_so(tmp_path, code, framework):
    with pytest.raises(ModelError, match=f"{framework}.* sees no GPU"):
        side(tmp_path, code, device="gpu")


def test_a_process_that_dies_is_told_with_its_last_words(tmp_path):
    with pytest.raises(WorkerError, match=r"exited with code 7 while calling net.*goodbye"):
        side(tmp_path, "import os\ndef net():\n    print('goodbye', flush=True)\n    os._exit(7)\n")


def test_a_child_that_the_code_forks_does_not_answer(tmp_path):
    code = "import os, sys\ndef net():\n    if os.fork() == 0:\n        sys.exit(5)\n    os.wait()\n"
    with pytest.raises(ModelError, match=r"mine\.py:6 raises ValueError: parent"):
        side(tmp_path, code + "    raise ValueError('parent')\n")


@pytest.mark.slow  # it waits until the time is up
def test_code_that_never_ends_is_stopped_with_what_it_started(tmp_path):
    code = "import os, time\nfrom pathlib import Path\ndef net():\n    child = os.fork()\n"
    code += f"    if child: Path({str(tmp_path)!r}, 'child').write_text(str(child))\n    time.sleep(1000)\n"
    for seconds in (4, 8, 16, 32):  # a busy machine may take longer than the first to come to the call
        with pytest.raises(WorkerTimeout, match=f"no answer in {seconds} s while calling net"):
            side(tmp_path, code, timeout=seconds)
        if (tmp_path / "child").exists():
            break
    import psutil

    child = int((tmp_path / "child").read_text())
    gone = not psutil.pid_exists(child) or psutil.wait_procs([psutil.Process(child)], timeout=10)[0]
    assert gone or psutil.Process(child).status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize("text", ["net", "mine.py:", ":net", "mine.py:a-b", "a b:net"])
def test_names_that_are_none(text):
    with pytest.raises(ModelError):
        SideName.parse(text)


def test_files_that_do_not_exist(tmp_path):
    with pytest.raises(ModelError, match="There is no file"):
        SideName.parse(f"{tmp_path}/none.py:net")
    with (
        pytest.raises(ModelError, match="There is no module 'no_such_module'"),
        WorkerSide(SideName.parse("no_such_module:net"), INPUTS),
    ):
        pass


@pytest.mark.parametrize("text", ["", "3x", "0", "3x64x0", "axb", "int:", "1x2x3x4x5x6x7", "999999999x999999999"])
def test_shapes_that_are_none(text):
    with pytest.raises(ZoolensError, match="is no shape of an input"):
        InputShape.parse(text)


def test_shapes():
    assert InputShape.parse("3x64×32") == InputShape((3, 64, 32))
    assert InputShape.parse("int:128") == InputShape((128,), "int")
