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


def test_operations_that_talk_to_the_host_are_refused():
    from jax.interpreters import mlir
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    from zoolens.runtimes.jax import _operations

    text = """func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %t = stablehlo.create_token : !stablehlo.token
      %o = "stablehlo.outfeed"(%x, %t) {outfeed_config = ""} : (tensor<2xf32>, !stablehlo.token) -> !stablehlo.token
      return %x : tensor<2xf32>
    }"""
    with mlir.make_ir_context():
        version = stablehlo.get_minimum_version()
        content = stablehlo.serialize_portable_artifact(ir.Module.parse(text), version)

    class Exported:
        mlir_module_serialized = content

    with pytest.raises(ModelError, match=r"stablehlo\.outfeed"):
        list(_operations(Exported()))
