"""Faults that were put there must be found, with their layer and a proof; where there are none, nothing may be."""

import json
from typing import ClassVar

import numpy as np
import pytest

from zoolens.base.errors import DatasetError, ZoolensError
from zoolens.base.numerics.rounding import rounded
from zoolens.findings.divergence.conftest import PlainRuntime, PlainSession
from zoolens.findings.divergence.divergence_causes import Kind
from zoolens.findings.divergence.divergence_page import html
from zoolens.findings.divergence.divergence_words import as_data, headline, lines, table
from zoolens.findings.divergence.diverging import diverge, diverge_jobs
from zoolens.findings.divergence.gates import parse_divergence_gate
from zoolens.findings.divergence.side_graphs import captured_within
from zoolens.findings.divergence.side_names import SideName, parse_side
from zoolens.findings.divergence.sides import open_side
from zoolens.findings.measure.jobs import Job
from zoolens.inventory.catalog.lookup import find
from zoolens.inventory.datasets.opening import open_dataset
from zoolens.inventory.runtimes.runtime import Options
from zoolens.testing.damaged_onnx import damaged_copies, reexports

pytestmark = pytest.mark.usefixtures("trusted_models")

MODEL = "demo:resnet-tiny"


@pytest.fixture(scope="module")
def data():
    return open_dataset("demo", limit=4)


@pytest.fixture(scope="module")
def entry():
    return find(MODEL)


def only(divergence):
    (cause,) = divergence.causes
    return cause


def test_every_kind_of_damage_is_named_with_its_layer_and_proved(entry, data, plain_job, tmp_path):
    found = {}
    for damage in damaged_copies(entry, tmp_path, seed=3):
        divergence = diverge_jobs(plain_job(entry), plain_job(damage.entry), data, examined=1)
        cause = only(divergence)
        assert cause.proved, (damage.kind, cause)
        assert cause.layer == (damage.tensor or None), (damage.kind, cause)
        assert divergence.differs
        found[damage.kind] = cause.kind
    assert found == {
        "kernel perturbed": Kind.WEIGHTS, "padding moved": Kind.STRUCTURE, "channels swapped": Kind.WEIGHTS,
        "weights in float16": Kind.WEIGHTS, "activation removed": Kind.STRUCTURE, "wrong resize": Kind.PREPROCESSING,
    }  # fmt: skip


def test_files_that_say_the_same_raise_no_alarm(entry, data, plain_job, tmp_path):
    for kind, other in reexports(entry, tmp_path):
        divergence = diverge_jobs(plain_job(entry), plain_job(other), data, examined=1)
        assert not divergence.differs, kind
        assert divergence.causes == ()
        assert len(divergence.layers) >= 15


def test_a_kernel_that_computes_otherwise_is_named_and_proved_by_injecting_it(entry, data, plain_job):
    def fault(name, value):
        return value * np.float32(1.01) if name == "conv_3" else value

    divergence = diverge_jobs(plain_job(entry), plain_job(entry, fault), data, examined=2)
    cause = only(divergence)
    assert (cause.kind, cause.side, cause.layer, cause.proved) == (Kind.KERNEL, "B", "conv_3", True)
    assert divergence.first.layer.pair.a == "conv_3"
    faulty = [fact.layer.pair.b for fact in divergence.layers if fact.layer.faulty]
    assert faulty == ["conv_3"]
    assert divergence.parts.a < divergence.parts.floor < divergence.parts.b


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_a_lower_precision_is_told_from_the_numbers_and_proved_in_float32(entry, data, plain_job, precision):
    def lower(name, value):
        return rounded(value, precision)

    divergence = diverge_jobs(plain_job(entry, lower), plain_job(entry), data, examined=1)
    cause = only(divergence)
    assert (cause.kind, cause.side, cause.layer, cause.proved) == (Kind.PRECISION, "A", "conv_0", True)
    assert f"A computes in {precision}" in cause.words


def test_not_a_number_is_named_with_the_first_layer_that_makes_it(entry, data, plain_job):
    def broken(name, value):
        return value * np.float32(np.nan) if name == "conv_5" else value

    divergence = diverge_jobs(plain_job(entry), plain_job(entry, broken), data, examined=1)
    cause = only(divergence)
    assert (cause.kind, cause.side, cause.layer) == (Kind.NOT_FINITE, "B", "conv_5")
    assert "exact arithmetic gives numbers" in cause.words
    json.dumps(as_data(divergence), allow_nan=False)


def test_a_cause_that_is_not_proved_is_withdrawn(entry, data, plain_job):
    """The runtime says that it computes in bfloat16, but float32 does not remove what it does."""
    job = plain_job(entry, lambda name, value: value + np.float32(0.1) if name == "conv_1" else value, "bfloat16")
    job.runtime.stubborn = True
    divergence = diverge_jobs(plain_job(entry), job, data, examined=1)
    cause = only(divergence)
    assert (cause.kind, cause.layer) == (Kind.KERNEL, "conv_1")
    assert any("bfloat16" in text and "left in float32" in text for text in cause.withdrawn)


def test_windows_keep_to_the_budget_and_change_nothing(entry, data, plain_job):
    def fault(name, value):
        return value * np.float32(1.01) if name == "conv_3" else value

    whole = diverge_jobs(plain_job(entry), plain_job(entry, fault), data, examined=1)
    parted = diverge_jobs(plain_job(entry), plain_job(entry, fault), data, examined=1, memory=3 << 20)
    assert [fact.layer for fact in whole.layers] == [fact.layer for fact in parted.layers]
    tiny = diverge_jobs(plain_job(entry), plain_job(entry, fault), data, examined=1, memory=1 << 20)
    assert len(tiny.layers) < len(whole.layers)
    assert any("larger than the memory budget" in note for note in tiny.notes)


def test_two_trainings_have_other_weights_in_all_layers(data, plain_job):
    divergence = diverge_jobs(plain_job(find("demo:lenet-torch")), plain_job(find("demo:lenet-jax")), data, examined=1)
    cause = only(divergence)
    assert (cause.kind, cause.proved) == (Kind.WEIGHTS, True)
    assert "in 5 of 5 layers" in cause.words


def test_networks_of_another_structure_cannot_be_proved(data, plain_job):
    divergence = diverge_jobs(plain_job(find("demo:lenet-torch")), plain_job(find("demo:lenet-wide")), data, examined=1)
    cause = only(divergence)
    assert (cause.kind, cause.proved) == (Kind.STRUCTURE, False)
    assert "no cause is proved" in headline(divergence)


def test_reports_of_all_kinds(entry, data, plain_job, tmp_path):
    damage = next(iter(damaged_copies(entry, tmp_path, seed=3)))
    divergence = diverge_jobs(plain_job(entry), plain_job(damage.entry), data, examined=1)
    told = lines(divergence)
    assert any(
        line.startswith("Cause: The files differ in conv_6 (conv): kernel has other values") for line in told
    ) or (any(line.startswith("Cause: The files differ in") for line in told))
    assert any("Proof: A's file with this one place as in B" in line for line in told)
    assert headline(divergence).endswith("the cause is weights.")
    assert len(table(divergence).rows) == len(divergence.layers)
    shown = json.loads(json.dumps(as_data(divergence), allow_nan=False))
    assert shown["causes"][0]["proved"] is True
    assert "How the difference grows" in html(divergence)
    assert parse_divergence_gate("max_error > 1e-3").verdict(divergence)[0]
    assert not parse_divergence_gate("flip_rate > 100%").verdict(divergence)[0]


def test_gates_that_make_no_sense():
    with pytest.raises(ZoolensError, match="There is no figure 'speed'"):
        parse_divergence_gate("speed > 1")
    with pytest.raises(ZoolensError, match="is no condition"):
        parse_divergence_gate("max_error")


def test_sides_are_parsed():
    assert parse_side("demo:x") == SideName("demo:x")
    assert parse_side("demo:x@1.0.0") == SideName("demo:x@1.0.0")
    assert parse_side("demo:x@1.0.0@onnxruntime") == SideName("demo:x@1.0.0", "onnxruntime")
    told = parse_side("m.onnx@openvino:precision=float32,threads=2")
    assert told == SideName("m.onnx", "openvino", Options(threads=2, precision="float32"))
    told = parse_side("m@onnxruntime:threads=1,env=onnxruntime==1.18,numpy<2")
    assert told == SideName("m", "onnxruntime", Options(threads=1), "onnxruntime==1.18,numpy<2")
    assert parse_side("m@jax:env=jax==0.4") == SideName("m", "jax", Options(), "jax==0.4")
    assert parse_side("m@remote:http://host:8000") == SideName("m", "remote:http://host:8000")
    with pytest.raises(ZoolensError, match="no option 'speed'"):
        parse_side("m@openvino:speed=1")


def test_data_must_be_named():
    with pytest.raises(ZoolensError, match="No dataset given"):
        diverge(MODEL, MODEL)
    with pytest.raises(DatasetError, match="No dataset given"):  # and not the dataset of a stored run
        diverge(MODEL, MODEL, "")


def test_a_runtime_that_shows_nothing_inside_is_named_with_those_that_do(entry, data, plain_job, tmp_path):
    """Its files are compared all the same."""

    class Closed(PlainRuntime):
        name = "closed"
        cannot: ClassVar = {"capture": "it does not show what is inside"}

        def compile(self, loaded, model, options):
            session = super().compile(loaded, model, options)
            session.capture_points = super(PlainSession, session).capture_points
            return session

    damage = next(iter(damaged_copies(entry, tmp_path, seed=3)))
    job = plain_job(damage.entry)
    divergence = diverge_jobs(
        plain_job(entry), Job(job.entry, job.asset, Closed(), job.options), data, examined=1
    )  # fmt: skip
    (note,) = [note for note in divergence.notes if note.startswith("B:")]
    assert "closed does not show the tensors inside a model" in note
    assert "onnxruntime" in note
    assert divergence.b.layers == 0
    assert only(divergence).proved


def test_tensors_of_unknown_size_are_read_until_the_budget_is_spent(entry, data, plain_job):
    side = open_side("A", plain_job(entry), data)
    points = side.subject.session.capture_points()
    every, none_left = captured_within(side, side.feeds(0), points, 1 << 30)
    assert (len(every), none_left) == (len(points), 0)
    some, left = captured_within(side, side.feeds(0), points, 1)
    assert 0 < len(some) < len(points)
    assert len(some) + left == len(points)
