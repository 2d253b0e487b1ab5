"""Demands on runtime and machine."""

import contextlib
import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoolens.base.engine.machine import Machine
from zoolens.base.errors import ConstraintError
from zoolens.inventory.runtimes.constraints import check, parse_requirements_text, said_once
from zoolens.inventory.runtimes.onnxruntime.onnxruntime_runtime import OnnxRuntime

MACHINE = Machine(
    cpu="Some CPU",
    flags=("avx2", "avx512f", "avx512vl", "sse4_1"),
    cores=2,
    memory_bytes=16 * 10**9,
    os="Some OS",
    kernel="Linux 6",
    python="3.11.7",
    architecture="x86_64",
    hypervisor=True,
    steal_time=True,
)
INSTALLED = {"onnxruntime": "1.31.1", "NumPy": "2.4.6", "some_thing": "2.0rc1"}


class Forked(OnnxRuntime):
    """A runtime whose package is not named after it, as tensorflow-cpu is."""

    name = "forked"
    distributions = ("Some-Thing",)


def failures(text, runtime=None, machine=MACHINE):
    return check(parse_requirements_text(text), runtime or OnnxRuntime(), machine, INSTALLED)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "onnxruntime>=1.20",
        "onnxruntime >= 1.20, < 2, numpy>=2",
        "OnnxRuntime==1.31.*",
        "avx512",
        "AVX512F, sse4.1",
        "memory>=8GB",
        "memory >= 14 GiB, memory<1TB",
        "cores>=2, cores<=2, cores==2",
        "python>=3.11",
        "device==cpu",
        "onnxruntime>=1.20, avx512, memory>=8GB, cores>=2, python>=3.11, device==cpu",
        "some-thing>=1",
    ],
)
def test_satisfied(text):
    assert failures(text) == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("onnxruntime>=1.40", "onnxruntime>=1.40 is required but 1.31.1 is installed"),
        ("absent>=1", "absent>=1 is required but absent is not installed"),
        ("openvino>=2025", "openvino>=2025 asks for another runtime than onnxruntime"),
        ("mxnet==1.9.1", "mxnet==1.9.1 asks for another runtime than onnxruntime"),
        ("memory>=32GB", "memory>=32GB is required but this machine offers 16.0 GB"),
        ("memory>=15GiB", "memory>=15GiB is required but this machine offers 16.0 GB"),
        ("cores>2", "cores>2 is required but this machine offers 2"),
        ("python<3.11", "python<3.11 is required but this is Python 3.11.7"),
        ("device==tpu", "device==tpu is required but onnxruntime runs on cpu, cuda"),
    ],
)
def test_not_satisfied_says_why(text, reason):
    assert failures(text) == [reason]


def test_an_absent_cpu_feature_is_named():
    (reason,) = failures("amx")
    assert reason.startswith("amx is required but this CPU has no such feature")


def test_every_failing_clause_is_told():
    assert len(failures("onnxruntime>=9, cores>=64, avx2, memory>=1TB")) == 3


def test_a_runtime_is_also_known_by_its_own_name():
    assert failures("forked>=2.0rc1", Forked()) == []
    assert failures("forked>=3", Forked()) == ["forked>=3 is required but 2.0rc1 is installed"]


@pytest.mark.parametrize(
    "text",
    [
        "memory>=8XB",
        "memory>=8",
        "memory>=lots",
        "memory=8GB",
        "cores>=two",
        "cores>=-1",
        "cores>=1.5",
        "device>=cpu",
        "device==",
        "python=>3",
        "onnxruntime>=",
        "onnxruntime>>1",
        ">=1.20",
        "two words",
        "--index-url=https://example.org",
        "package @ file:///tmp/x",
        "a/b==1",
    ],
)
def test_what_cannot_be_read_is_pointed_at(text):
    with pytest.raises(ConstraintError) as caught:
        parse_requirements_text(f"avx2, {text}" if not text.startswith(">") else text)
    assert text in caught.value.message
    assert caught.value.hint


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused_but_never_crashes(text):
    with contextlib.suppress(ConstraintError):
        check(parse_requirements_text(text), OnnxRuntime(), MACHINE, INSTALLED)


@given(st.integers(1, 4096), st.sampled_from(["MB", "MiB", "GB", "kib", "B"]))
def test_a_machine_with_exactly_the_memory_satisfies(amount, unit):
    factor = {"MB": 10**6, "MiB": 2**20, "GB": 10**9, "kib": 1024, "B": 1}[unit]
    machine = dataclasses.replace(MACHINE, memory_bytes=amount * factor)
    assert failures(f"memory=={amount}{unit}", machine=machine) == []
    assert failures(f"memory>{amount}{unit}", machine=machine) != []


@pytest.mark.parametrize("text", [f"cores>={'9' * 5000}", f"memory>={'9' * 400}GB", "cores>=²"])
def test_amounts_beyond_all_measure_are_refused(text):
    with pytest.raises(ConstraintError, match="cannot be read"):
        parse_requirements_text(text)


def test_a_demand_that_several_runtimes_do_not_meet_is_told_once():
    demand = "device=gpu is required but"
    reasons = [f"{demand} a runs on cpu", f"{demand} b runs on cpu", "c>=1 asks for another runtime than a"]
    reasons += ["c>=1 asks for another runtime than b", "c>=1 asks for another runtime than b", "d is not installed"]
    assert said_once(reasons) == [
        "device=gpu is required but a runs on cpu, b runs on cpu",
        "c>=1 asks for another runtime than a, b",
        "d is not installed",
    ]
