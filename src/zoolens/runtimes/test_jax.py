"""JAX programs keep the contract, with a free and with a fixed batch."""

from __future__ import annotations

import numpy as np
import pytest

from zoolens.errors import ModelError
from zoolens.runtimes.base import ModelFiles
from zoolens.runtimes.jax import Jax
from zoolens.testing import models
from zoolens.testing.runtime_contract import RuntimeContract
from zoolens.testing.tiny import ComputesTheTinyNetwork

jax = pytest.importorskip("jax")


class TestContract(RuntimeContract, ComputesTheTinyNetwork):
    runtime_class = Jax

    def model(self, tmp_path):
        return models.cached(models.jax_export, tmp_path)


class TestFixedBatch(RuntimeContract):
    runtime_class = Jax

    def model(self, tmp_path):
        return models.cached(models.jax_export, tmp_path, batch=1)


def _export(path, function, *shapes, **options):
    from jax import export

    examples = [jax.ShapeDtypeStruct(shape, np.float32) for shape in shapes]
    path.write_bytes(export.export(jax.jit(function), platforms=["cpu"], **options)(*examples).serialize())
    return ModelFiles("jax-export", {"model": path})


def test_dictionaries_name_the_outputs(tmp_path):
    files = _export(tmp_path / "two.jax", lambda a, b: {"sum": a + b, "product": a * b}, (2, 3), (2, 3))
    with Jax().open(files) as session:
        assert {spec.name for spec in session.inputs} == {"input0", "input1"}
        ones = np.ones((2, 3), np.float32)
        answers = session.predict({"input0": ones, "input1": 2 * ones})
        np.testing.assert_array_equal(answers["sum"], 3 * ones)
        np.testing.assert_array_equal(answers["product"], 2 * ones)


def test_a_call_into_the_hosting_process_is_refused(tmp_path):
    from jax import export

    def calling(x):
        return jax.ffi.ffi_call("xla_ffi_python_cpu_callback", jax.ShapeDtypeStruct(x.shape, x.dtype))(x, index=0)

    check = export.DisabledSafetyCheck.custom_call("xla_ffi_python_cpu_callback")
    files = _export(tmp_path / "call.jax", calling, (2,), disabled_checks=[check])
    with pytest.raises(ModelError, match="xla_ffi_python_cpu_callback"):
        Jax().open(files)
