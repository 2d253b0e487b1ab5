"""Slices of one dataset from several machines: what may be put together into one run."""

import pytest

from zoolens.base.store.store import open_store
from zoolens.base.store.transfer import pack_run
from zoolens.findings.measure.predictions import KIND
from zoolens.findings.measure.shards import _add_slices, _put_together
from zoolens.testing.store_records import begin, some_rows


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "here.sqlite") as opened:
        yield opened


def a_slice(tmp_path, part, **resolved):
    """Ten answers of a node, packed as it sends them."""
    with open_store(tmp_path / f"node{part}.sqlite") as node:
        run = begin(node)
        machine = {"name": f"node{part}", "host": str(part)}
        node.set_resolved(run.id, {"provider": "cpu", "precision": "float32", "machines": [machine], **resolved})
        node.add_part(run.id, KIND, 0, some_rows(part))
        packed = pack_run(node, node.run(run.id))
    return {**packed, "start": part * 10, "stop": part * 10 + 10, "facts": {}}


def rows(store):
    return store.table(begin(store).id, KIND).num_rows


def test_slices_of_several_machines_are_one_run_that_names_them(store, tmp_path):
    _add_slices(store, [a_slice(tmp_path, 0), a_slice(tmp_path, 1)])
    assert rows(store) == 20
    assert [machine["name"] for machine in begin(store).resolved["machines"]] == ["node0", "node1"]


@pytest.mark.parametrize("other", [{"provider": "cuda"}, {"precision": "float16"}])
def test_a_slice_that_ran_otherwise_is_not_joined(store, tmp_path, other):
    _add_slices(store, [a_slice(tmp_path, 0), a_slice(tmp_path, 1, **other)])
    assert rows(store) == 10
    assert begin(store).resolved["provider"] == "cpu"


def test_slices_do_not_go_on_from_answers_that_ran_otherwise(store, tmp_path):
    _add_slices(store, [a_slice(tmp_path, 0)])
    _add_slices(store, [a_slice(tmp_path, 1, provider="cuda")])
    assert rows(store) == 10
    assert begin(store).resolved["provider"] == "cpu"


def test_slices_are_stored_as_soon_as_they_follow_what_is_there(store, tmp_path):
    """Whoever is killed while the last one is still answered goes on behind the others."""
    slices = [a_slice(tmp_path, part) for part in range(4)]
    answers = {}
    stored = []
    for shard in (1, 0, 3, 2):
        answers[shard] = [slices[shard]]
        _put_together(store, answers)
        stored.append(rows(store) if store.kinds(begin(store).id) else 0)
    assert stored == [0, 20, 20, 40]
