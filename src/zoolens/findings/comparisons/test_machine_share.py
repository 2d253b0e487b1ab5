"""How much of a difference is the machine: by the cells of the table machine × software."""

import math
from dataclasses import replace

import pytest

from zoolens.base.store.records import DISTURBED, Observation, StackRecord, fingerprint
from zoolens.base.store.store import open_store
from zoolens.findings.comparisons.machine_share import machine_shares, share_words
from zoolens.testing.store_records import dataset_record, model_record

OLD, NEW = {"machine": {"cpu": "old"}}, {"machine": {"cpu": "new"}}
SLOW, FAST = {"version": "1"}, {"version": "2"}


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "store.sqlite") as store:
        yield store


def measured(store, machine, software, milliseconds, spread=0.01, model="zoo:net@1.0.0", attempt=0, **details):
    identity = {**machine, **software}
    stack = StackRecord(fingerprint(identity), "onnxruntime", identity, identity)
    run = store.begin_run(model_record(model), dataset_record(), stack, attempt=attempt)
    low, high = milliseconds * (1 - spread), milliseconds * (1 + spread)
    figure = Observation("latency_p50", milliseconds / 1e3, scope="batch=1", low=low / 1e3, high=high / 1e3, unit="s")
    figure = replace(figure, details=details)
    store.finish_stage(run.id, "latency", [figure, Observation("latency_p50", 1.0, scope="batch=1,raw", unit="s")])
    return store.run(run.id)


def test_both_cells_split_the_difference(store):
    a, b = measured(store, OLD, SLOW, 80), measured(store, NEW, FAST, 10)
    measured(store, OLD, FAST, 40)
    measured(store, NEW, SLOW, 20)
    (found,) = machine_shares(store, a, b)
    assert found.whole.factor == pytest.approx(1 / 8)
    assert [step.factor for step in found.machine] == pytest.approx([1 / 4, 1 / 4])
    assert [step.factor for step in found.software] == pytest.approx([1 / 2, 1 / 2])
    assert found.share == pytest.approx(2 / 3)
    assert all(step.clear for step in (*found.machine, *found.software))
    assert "67 % of the difference is the machine, 33 % the software" in share_words(found)


def test_one_cell_is_enough_and_none_is_said(store):
    a, b = measured(store, OLD, SLOW, 80), measured(store, NEW, FAST, 10)
    (unknown,) = machine_shares(store, a, b)
    assert (unknown.machine, unknown.share) == ((), None)
    assert "is not known: nobody measured A's software on B's machine" in share_words(unknown)
    cell = measured(store, NEW, SLOW, 11)
    (found,) = machine_shares(store, a, b)
    assert [step.factor for step in found.machine] == pytest.approx([11 / 80])
    assert [step.cell for step in found.software] == [cell.id]


def test_steps_that_go_different_ways_are_no_shares(store):
    """The machine is faster and the software slower: neither is a part of the whole."""
    a, b = measured(store, OLD, SLOW, 80), measured(store, NEW, FAST, 40)
    measured(store, NEW, SLOW, 20)
    (found,) = machine_shares(store, a, b)
    assert found.share is None
    assert share_words(found).endswith(".")
    assert "% of the difference" not in share_words(found)


def test_a_step_within_the_spread_is_told_as_such(store):
    a, b = measured(store, OLD, SLOW, 80, spread=0.1), measured(store, NEW, FAST, 40, spread=0.1)
    measured(store, NEW, SLOW, 41, spread=0.1)
    (found,) = machine_shares(store, a, b)
    assert not found.software[0].clear
    assert "the software × 0.976 (no more than the spread)" in share_words(found)


def test_a_difference_within_the_spread_has_no_shares(store):
    a, b = measured(store, OLD, SLOW, 80, spread=0.1), measured(store, NEW, FAST, 79, spread=0.1)
    measured(store, NEW, SLOW, 79.5, spread=0.1)
    (found,) = machine_shares(store, a, b)
    assert found.share is None
    assert "B takes 0.988 × the time of A (no more than the spread)" in share_words(found)


def test_times_under_load_say_nothing_of_the_machine(store):
    """They would be told as clear shares: a busy machine is slow with narrow intervals."""
    a, b = measured(store, OLD, SLOW, 80), measured(store, NEW, FAST, 10, **{DISTURBED: True})
    measured(store, NEW, SLOW, 20)
    (found,) = machine_shares(store, a, b)
    assert (found.machine, found.share) == ((), None)
    assert "is not known: B was measured beside other work" in share_words(found)


def test_a_cell_under_load_is_none(store):
    a, b = measured(store, OLD, SLOW, 80), measured(store, NEW, FAST, 10)
    measured(store, NEW, SLOW, 20, **{DISTURBED: True})
    (found,) = machine_shares(store, a, b)
    assert (found.machine, found.share) == ((), None)
    assert "A's software on B's machine was measured beside other work" in share_words(found)
    # An older attempt without other work beside it tells.
    measured(store, NEW, SLOW, 20, attempt=1)
    measured(store, NEW, SLOW, 50, attempt=2, **{DISTURBED: True})
    (found,) = machine_shares(store, a, b)
    assert found.share == pytest.approx(math.log(4) / math.log(8))


def test_two_sittings_of_one_thing_have_no_shares(store):
    """Each knows its own median within 1 %, and they are 4 % apart."""
    a, b = measured(store, OLD, SLOW, 10), measured(store, NEW, FAST, 10.4)
    measured(store, NEW, SLOW, 10.2)
    (found,) = machine_shares(store, a, b)
    assert found.share is None
    assert "B takes 1.04 × the time of A (no more than the spread)" in share_words(found)


def test_a_machine_that_does_something_else_in_other_software_is_no_part(store):
    a, b = measured(store, OLD, SLOW, 80), measured(store, NEW, FAST, 10)
    measured(store, NEW, SLOW, 70)
    measured(store, OLD, FAST, 60)
    (found,) = machine_shares(store, a, b)
    assert (found.share, found.entangled) == (None, True)
    assert "The machine does not do the same in both, so that neither is a part of the whole." in share_words(found)


def test_another_way_of_measuring_is_no_software(store):
    a = measured(store, OLD, {**SLOW, "protocol": 1, "isolated": True}, 80)
    b = measured(store, NEW, {**FAST, "protocol": 1}, 10)
    (found,) = machine_shares(store, a, b)
    assert "is not known: versions of zoolens measured it in different ways." in share_words(found)


def test_a_setting_of_the_accelerator_is_software(store):
    gpu = {"name": "H200", "driver": "1", "settings": {}}
    a = measured(store, {**OLD, "accelerator": gpu}, SLOW, 80)
    other = {**OLD, "accelerator": {**gpu, "settings": {"XLA_FLAGS": "x"}}}
    assert machine_shares(store, a, measured(store, other, SLOW, 40)) == ()
    b = measured(store, {**NEW, "accelerator": {**gpu, "settings": {"XLA_FLAGS": "x"}}}, SLOW, 20)
    (found,) = machine_shares(store, a, b)
    assert [step.factor for step in found.software] == pytest.approx([0.5])


def test_what_differs_in_one_way_only_or_is_another_model_is_not_split(store):
    a = measured(store, OLD, SLOW, 80)
    assert machine_shares(store, a, measured(store, OLD, FAST, 10)) == ()
    assert machine_shares(store, a, measured(store, NEW, SLOW, 10)) == ()
    assert machine_shares(store, a, measured(store, NEW, FAST, 10, model="zoo:other@1.0.0")) == ()
    assert machine_shares(store, a, measured(store, {"machine": {}}, FAST, 10)) == ()
