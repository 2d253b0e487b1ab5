"""What JAX does on a GPU, tried on the CPU as far as it can be."""

import numpy as np
import pytest

from zoolens.inventory.runtimes.jax.jax_cuda import LARGE, PIECES, Mover, graph_options
from zoolens.inventory.runtimes.jax.jax_runtime import Jax
from zoolens.testing import models

jax = pytest.importorskip("jax")


@pytest.mark.parametrize("shape", [(LARGE // 1024 + 3, 1024), (3, LARGE), (7, 5)])
def test_large_arrays_are_moved_in_pieces_and_arrive_as_they_are(shape):
    array = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    mover = Mover(jax, jax.devices()[0])
    pieces = mover.begun(array)
    assert len(pieces) == (PIECES if len(array) >= PIECES and array.nbytes >= LARGE else 1)
    np.testing.assert_array_equal(mover.joined(pieces), array)


def test_only_without_a_device_arrays_may_be_used_beside_any_others():
    array = np.zeros((PIECES, LARGE // PIECES), np.uint8)
    assert not Mover(jax).moved(array).committed
    assert Mover(jax, jax.devices()[0]).moved(array).committed


def test_whoever_sets_the_flag_of_graphs_decides(monkeypatch):
    assert "CONVOLUTION" in graph_options(jax)["xla_gpu_enable_command_buffer"]
    monkeypatch.setenv("XLA_FLAGS", "--xla_gpu_enable_command_buffer=")
    assert graph_options(jax) == {}
    monkeypatch.delenv("XLA_FLAGS")
    monkeypatch.setattr(jax, "__version__", "0.5.3")
    assert graph_options(jax) == {}


def test_a_prediction_is_launched_when_the_inputs_of_the_next_one_travel(tmp_path):
    with Jax().open(models.cached(models.jax_export, tmp_path)) as session:
        (spec,) = session.inputs
        shape = [extent or 2 for extent in spec.shape]
        batches = [{spec.name: np.random.default_rng(seed).normal(size=shape).astype(np.float32)} for seed in range(4)]
        wanted = [session.predict(feeds) for feeds in batches]
        session._device, session._accelerated = jax.devices()[0], True  # as if this were a GPU
        session._call, launched = session._jitted(), []
        run = session._run
        session._run = lambda *given: launched.append(len(launched)) or run(*given)
        first, second = session.begin_predict(batches[:1]), session.begin_predict(batches[1:2])
        assert launched == [0]
        both = session.begin_predict(batches[2:])
        assert launched == [0, 1, 2]
        answers = [*first(), *second(), *both()]
        assert len(launched) == 4
        direct = [session.predict(feeds) for feeds in batches]
    for one, other, third in zip(wanted, answers, direct, strict=True):
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])
            np.testing.assert_array_equal(one[name], third[name])
