"""Clocks differ: what is the newest is told by the store, in the order in which it got things."""

from datetime import UTC, datetime, timedelta

import pytest

from zoolens.base.progress import Silent
from zoolens.base.store import commands, copying, run_merge
from zoolens.base.store.browsing import page_of_runs
from zoolens.base.store.copying import copy_store
from zoolens.base.store.model_activity import model_activity
from zoolens.base.store.run_columns import RunIndex
from zoolens.base.store.store import open_store
from zoolens.base.store.transfer import merge_run, pack_run
from zoolens.findings.comparisons.contents import content_of, replaced_contents
from zoolens.findings.comparisons.runs import _met
from zoolens.findings.comparisons.signatures import default_dataset
from zoolens.findings.index.sources.run_table import _read
from zoolens.testing.store_records import dataset_record, model_record, stack_record

YEAR = timedelta(days=365)


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "store.sqlite") as opened:
        yield opened


def evaluated(store, content, *, dataset="digits", ahead=None):
    """A run of this content under one name; `ahead`: by a clock that is so far off."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commands, "now", lambda: datetime.now(UTC) + (ahead or timedelta()))
        run = store.begin_run(model_record("zoo:net@1.0.0", content), dataset_record(dataset), stack_record())
        store.mark_evaluated(run.id, {})
    return store.run(run.id)


def test_a_run_of_a_clock_that_was_a_year_ahead_does_not_stay_the_newest(store):
    ahead = evaluated(store, "old", dataset="old data", ahead=YEAR)
    now = evaluated(store, "new", dataset="new data")
    assert ahead.created > now.created
    assert store.run("last").id == now.id
    assert [run.id for run in store.runs()] == [now.id, ahead.id]
    assert _met(ahead) < _met(now)
    assert replaced_contents([content_of(ahead), content_of(now)]) == [True, False]
    assert default_dataset([ahead, now]) == now.key.dataset
    index = RunIndex(store)
    assert page_of_runs(index).ids == (now.id, ahead.id)
    assert model_activity(index).models["zoo:net@1.0.0"].last_run == now.id


def test_the_content_that_was_met_again_is_the_model(store):
    """Also by a clock that is a year behind."""
    first, second = evaluated(store, "old"), evaluated(store, "new")
    assert replaced_contents([content_of(first), content_of(second)]) == [True, False]
    first = evaluated(store, "old", ahead=-YEAR)
    assert replaced_contents([content_of(first), content_of(second)]) == [False, True]
    assert _met(second) < _met(first)


def test_what_a_node_with_another_clock_met_is_the_last(store, tmp_path):
    evaluated(store, "mine")
    with open_store(tmp_path / "node.sqlite") as node:
        behind = evaluated(node, "of the node", ahead=-YEAR)
        packed = pack_run(node, behind)
    merged = merge_run(store, packed)
    assert store.run("last").id == merged.id
    assert max(store.runs(), key=_met).id == merged.id


def test_a_copy_keeps_the_order_and_a_merge_puts_what_is_here_last(store, tmp_path):
    first, second = evaluated(store, "old", ahead=YEAR), evaluated(store, "new")
    with open_store(tmp_path / "copy.sqlite") as copy:
        copy_store(store, copy)
        assert max(copy.runs(), key=_met).id == second.id
        third = evaluated(copy, "newest")
        assert max(copy.runs(), key=_met).id == third.id
    with open_store(tmp_path / "other.sqlite") as other:
        mine = evaluated(other, "mine")
        copy_store(store, other)
        assert max(other.runs(), key=_met).id == mine.id
    assert first.met < second.met


def test_a_copy_that_was_killed_keeps_the_order(store, tmp_path, monkeypatch):
    """Whatever the copy meets before it goes on is the newest, also where the other store has counted more."""
    runs = [evaluated(store, str(number)) for number in range(3)]
    monkeypatch.setattr(copying, "RUNS_AT_ONCE", 1)
    with open_store(tmp_path / "copy.sqlite") as copy:
        with monkeypatch.context() as patch:
            patch.setattr(copying, "add_run", killed_after(2))
            with pytest.raises(KeyboardInterrupt):
                copy_store(store, copy)
        mine = evaluated(copy, "mine")
        copy_store(store, copy)
        assert [run.id for run in sorted(copy.runs(), key=_met)] == [*(run.id for run in runs), mine.id]


def killed_after(count):
    left = [None] * count

    def add(*given):
        if not left:
            raise KeyboardInterrupt
        left.pop()
        return run_merge.add_run(*given)

    return add


def test_a_mirror_follows_the_order_of_its_source(store, tmp_path):
    """What the source met since the last copy is newer than what it met before, also by a clock that is behind."""
    first = evaluated(store, "first", ahead=YEAR)
    with open_store(tmp_path / "copy.sqlite") as copy:
        copy_store(store, copy)
        second = evaluated(store, "second")
        again = evaluated(store, "first", ahead=-YEAR)
        copy_store(store, copy)
        assert again.id == first.id
        assert [run.id for run in sorted(copy.runs(), key=_met)] == [second.id, first.id]
        mine = evaluated(copy, "mine")
        third = evaluated(store, "third")
        copy_store(store, copy)
        assert max(copy.runs(), key=_met).id == mine.id
        assert copy.run(second.id).met < copy.run(third.id).met


def test_two_copies_into_one_new_store_do_not_count_twice(store, tmp_path):
    for number in range(3):
        evaluated(store, f"a{number}")
    with open_store(tmp_path / "b.sqlite") as b, open_store(tmp_path / "target.sqlite") as target:
        for number in range(5):
            evaluated(b, f"b{number}")
        copy_store(store, target)
        copy_store(b, target)
        mine = evaluated(target, "mine")
        assert max(target.runs(), key=_met).id == mine.id


def test_the_index_has_runs_in_the_order_of_the_store(store, tmp_path):
    ahead, now = evaluated(store, "old", ahead=YEAR), evaluated(store, "new")
    table = _read(store, tmp_path / "runs", Silent()).table
    assert [str(table.id[place]) for place in range(2)] == [ahead.id, now.id]
