"""A frozen ladder is served as it was, whatever the store learns later."""

import json

import pytest

from zoolens.faces.serving.services.definition import Service, ServiceError
from zoolens.faces.serving.services.frozen_ladder import frozen_data
from zoolens.faces.serving.services.ladder_query import LadderBuilder

pytestmark = pytest.mark.usefixtures("trusted_models")
USUAL = {"reference": "demo:lenet-wide", "within": 0.8, "batch": {"size": 4}, "where": "name LIKE 'mlp-%'"}


@pytest.fixture(scope="module")
def builder(measured_store, quick):
    examined = {}
    return lambda **settings: LadderBuilder(
        "fashion", Service(**{**USUAL, **settings}), measured_store, latency=quick, examined=examined
    )


@pytest.fixture
def frozen(builder, tmp_path):
    path = tmp_path / "ladder.json"
    path.write_text(json.dumps(frozen_data({"fashion": builder().build()})))
    return path


def changed(path, change):
    data = json.loads(path.read_text())
    change(data["services"]["fashion"])
    path.write_text(json.dumps(data))
    return str(path)


def test_it_keeps_rungs_and_figures(builder, frozen):
    before = builder().build()
    file = changed(frozen, lambda held: held["rungs"][1].update(seconds={"1": 42.0}, equivalence=0.81))
    after = builder(ladder=file).build()
    assert [rung.model for rung in after.ladder.rungs] == [rung.model for rung in before.ladder.rungs]
    assert after.ladder.rungs[1].profile.of(1) == 42.0
    assert after.ladder.rungs[1].equivalence == 0.81
    assert after.inputs == before.inputs
    assert any("was frozen in" in note for note in after.notes)


def test_what_cannot_be_served_any_more_is_left_out_and_said(builder, frozen):
    after = builder(ladder=changed(frozen, lambda held: held["rungs"][1].update(run="0" * 16))).build()
    assert len(after.ladder.rungs) == 1
    assert after.excluded[0].reason == "The store does not hold its evaluation any more."
    assert after.excluded[0].outcome.value == "not known"


@pytest.mark.parametrize("run", ["0" * 16, None])
def test_with_another_reference_nothing_in_it_holds(builder, frozen, run):
    """How equivalent a tier is was measured with the file that the reference had then."""
    file = changed(frozen, lambda held: held["rungs"][0].update(run=run or held["rungs"][1]["run"]))
    with pytest.raises(ServiceError, match="was frozen with another demo:lenet-wide"):
        builder(ladder=file).build()


def test_a_rung_that_broke_its_promise_leaves_it(builder, frozen):
    building = builder(ladder=str(frozen))
    building.removed["demo:mlp-wide@1.0.0", "onnxruntime"] = "It has broken its promise."
    assert [other.reason for other in building.build().excluded] == ["It has broken its promise."]


@pytest.mark.parametrize(
    "other", [{"within": 0.7}, {"batch": {"size": 2}}, {"where": None}, {"objectives": {"latency": {"bound": "1 s"}}}]
)
def test_another_definition_needs_another_ladder(builder, frozen, other):
    with pytest.raises(ServiceError, match="was frozen for another definition"):
        builder(ladder=str(frozen), **other).build()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"zoolens_ladders": 2, "services": {}}', "[" * 100_000, "\x00"])
def test_another_file_is_refused(builder, tmp_path, text):
    path = tmp_path / "ladder.json"
    path.write_text(text)
    with pytest.raises(ServiceError, match=r"holds no ladders\. Write it with"):
        builder(ladder=str(path)).build()
    with pytest.raises(ServiceError, match="cannot be read"):
        builder(ladder=str(tmp_path / "absent.json")).build()
