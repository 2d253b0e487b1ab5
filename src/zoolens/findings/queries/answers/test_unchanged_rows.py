from dataclasses import replace

import pytest

from zoolens.findings.index.index import Index
from zoolens.findings.queries.answers.unchanged_rows import settled
from zoolens.findings.queries.query import prepare


class Changed(Index):
    """An index some of whose models' files are others by now; `looks` counts how often somebody looked."""

    gone: frozenset[int] = frozenset()
    looks = 0

    def changed_rows(self, rows):
        self.looks += 1
        return [row for row in rows if row in self.gone]


def index_of(make_index, models, gone):
    """An index of so many models, each in two runtimes that take turns at being the better one."""
    rows = {"big": ("onnxruntime", 0, 100, 10)}
    for number in range(models):
        rows[f"net-{number}"] = ("onnxruntime", 3 * number + 1, 50, 5)
        rows[f"net-{number}/litert"] = ("litert", 3 * number + (0 if number % 2 else 5), 50, 5)
    index = make_index(rows)
    changed = Changed(index.rows, dataset=index.dataset, semantic=index.semantic)
    changed.gone = frozenset(row for row in range(1, len(index.rows)) if gone(row))
    return changed


def one_round_after_another(plan, best):
    """The same by the plain rule: models found to have changed are left out, and the best of the others looked at."""
    while changed := plan.view.index.changed_rows(best):
        plan = replace(plan, changed=(*plan.changed, *changed))
        best = plan.best_rows()
    return set(plan.changed), list(best)


@pytest.mark.parametrize("whose", ["CORR big", "TASK image-classification"])
@pytest.mark.parametrize("limit", [1, pytest.param(3, marks=pytest.mark.slow), 200])
@pytest.mark.parametrize(
    "gone",
    [
        lambda row: False,
        lambda row: True,
        lambda row: row < 150,
        lambda row: row % 2 == 1,
        lambda row: row % 2 == 0,
        lambda row: row % 7 != 0,
    ],
)
def test_files_that_changed_are_left_out_as_if_they_were_found_one_round_after_another(make_index, whose, limit, gone):
    index = index_of(make_index, 100, gone)
    plan = prepare(f"{whose} ON memory <= 90% LIMIT {limit}", store=index).plan
    best = plan.best_rows()
    found, rows = settled(plan, best)
    assert (set(found.changed), list(rows)) == one_round_after_another(plan, best)
    assert list(rows) == found.best_rows()


def test_many_changed_files_are_judged_together(make_index):
    index = index_of(make_index, 100, lambda row: row < 190)
    plan = prepare("CORR big LIMIT 1", store=index).plan
    settled(plan, plan.best_rows())
    assert index.looks < 15


def test_where_nothing_changed_the_best_rows_alone_are_looked_at(make_index):
    index = index_of(make_index, 100, lambda row: False)
    plan = prepare("CORR big LIMIT 5", store=index).plan
    best = plan.best_rows()
    found, rows = settled(plan, best)
    assert found is plan
    assert rows is best
    assert index.looks == 1
