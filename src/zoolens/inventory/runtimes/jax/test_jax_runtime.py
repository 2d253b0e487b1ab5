"""JAX programs keep the contract, with a free and with a fixed batch."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from zoolens.base.errors import ModelError
from zoolens.inventory.runtimes.jax.jax_instructions import read_instructions
from zoolens.inventory.runtimes.jax.jax_profile import _read
from zoolens.inventory.runtimes.jax.jax_runtime import Jax
from zoolens.inventory.runtimes.runtime import ModelFiles, Options
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

    from zoolens.inventory.runtimes.jax.jax_runtime import _operations

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


# --- observing


def test_instructions_name_the_operations_that_they_compute(tmp_path):
    def network(x):
        with jax.named_scope("first"):
            x = jax.numpy.tanh(x @ np.ones((3, 4), np.float32))
        with jax.named_scope("second"):
            return x @ np.ones((4, 2), np.float32) + 1

    files = _export(tmp_path / "scopes.jax", network, (2, 3))
    feeds = {"input0": np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)}
    with Jax().open(files) as session:
        (profile,) = session.profile(feeds)
        points = [point.name for point in session.capture_points()]
        captured = session.capture(feeds, ["first/dot_general", "first/tanh"])
        answer = session.predict(feeds)["output0"]
    nodes = {node for operator in profile.operators for node in operator.nodes}
    assert {"first/dot_general", "first/tanh", "second/dot_general", "second/add"} <= nodes
    assert points == ["first/dot_general", "first/tanh", "second/dot_general", "second/add"]
    np.testing.assert_allclose(
        captured.tensors["first/tanh"], np.tanh(captured.tensors["first/dot_general"]), rtol=1e-6
    )
    np.testing.assert_allclose(captured.outputs["output0"], answer, rtol=1e-6)


def test_a_name_of_several_instructions_is_no_node():
    text = """HloModule m
%fused (p: f32[2,4]) -> f32[2,4] {
  %p = f32[2,4]{1,0} parameter(0)
  ROOT %max.1 = f32[2,4]{1,0} maximum(%p, %p), metadata={op_name="jit(f)/relu/max"}
}

ENTRY %main (x: f32[2,3]) -> f32[2,4] {
  %x = f32[2,3]{1,0} parameter(0)
  %dot.1 = f32[2,4]{1,0} dot(%x, %x), metadata={op_name="jit(f)/a/add"}
  %dot.2 = bf16[2,4]{1,0} dot(%x, %x), metadata={op_name="jit(f)/a/add"}
  ROOT %fusion = f32[2,4]{1,0} fusion(%dot.1), kind=kLoop, calls=%fused
}
"""
    instructions = read_instructions(text)
    assert instructions["dot.1"].nodes == ()
    assert instructions["dot.2"].precision == "bfloat16"
    assert instructions["fusion"].nodes == ("relu/max",)
    assert instructions["fusion"].shapes == ((2, 4),)
    assert "max.1" not in instructions


def test_a_program_for_the_cpu_does_not_run_on_a_gpu(tmp_path):
    with pytest.raises(ModelError, match="was exported for cpu, not for cuda"):
        Jax().open(models.cached(models.jax_export, tmp_path), Options(device="cuda"))


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="there is a GPU here")
def test_without_a_gpu_that_is_said(tmp_path):
    from jax import export

    path = tmp_path / "both.jax"
    example = jax.ShapeDtypeStruct((2, 3), np.float32)
    path.write_bytes(export.export(jax.jit(jax.numpy.tanh), platforms=["cpu", "cuda"])(example).serialize())
    files = ModelFiles("jax-export", {"model": path})
    with pytest.raises(ModelError, match="jax cannot run on cuda here"):
        Jax().open(files, Options(device="cuda"))
    with Jax().open(files) as session:
        assert session.effective().provider == "XLA CPU"


def test_an_instruction_lasts_until_its_end_is_told():
    """A convolution goes on in other threads after its own event: without the second one it would look cheap."""

    def event(name, start, duration, **stats):
        return SimpleNamespace(name=name, start_ns=start, duration_ns=duration, stats=list(stats.items()))

    events = [
        event("zoolens call", 1000, 900),
        event("convolution", 1100, 10, hlo_op="convolution", _p=7),
        event("end: convolution", 1500, 5, _c=7),
        event("fusion", 1600, 40, hlo_op="fusion"),
    ]
    line = SimpleNamespace(name="thread", events=events)
    data = SimpleNamespace(planes=[SimpleNamespace(name="/host:CPU", lines=[line])])
    marks, read = _read(data)
    assert marks == [1000]
    assert [(found.instruction, found.start, found.duration) for found in read] == [
        ("convolution", 1100, 405),
        ("fusion", 1600, 40),
    ]


def test_what_a_loop_runs_stands_below_it(tmp_path):
    weights = np.full((64, 64), 0.01, np.float32)

    def loop(values):
        return jax.lax.fori_loop(0, 3, lambda _, rows: jax.numpy.tanh(rows @ weights), values)

    with Jax().open(_export(tmp_path / "loop.jax", loop, (256, 64))) as session:
        (profile,) = session.profile({session.inputs[0].name: np.ones((256, 64), np.float32)})
    (place,) = (place for place, operator in enumerate(profile.operators) if operator.kind == "while")
    inside = [operator for operator in profile.operators if operator.parent == place]
    assert len(inside) >= 3
    assert all(operator.parent is None for operator in profile.operators[:place])
    assert profile.operators[place].duration <= 1.05 * profile.duration
