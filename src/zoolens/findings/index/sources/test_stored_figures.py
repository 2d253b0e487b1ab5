"""The figures that are chosen once for many rows are those that would be chosen figure by figure."""

import itertools
import random

import numpy as np

from zoolens.base.store.figures import FigureKind, FigureKinds, RunFigures
from zoolens.base.store.records import Provenance
from zoolens.findings.index.sources.stored_figures import Naming, chosen_figures, merged, own_figures, with_further
from zoolens.findings.index.tables.figure_table import figure_table_of
from zoolens.findings.index.tables.rows import Figure

METRICS = ("top1", "latency_p50", "file_size", "energy")


def drawn(draw, run):
    """The figures of a run: some metrics, each from anywhere, with numbers that may be missing."""
    names = draw.sample(METRICS, draw.randint(1, len(METRICS)))
    kinds = [
        FigureKind(
            "metric:topk" if name == "top1" else "size", name, "", draw.choice(["", "s"]),
            draw.choice(list(Provenance)), draw.random() < 0.5,
        )
        for name in names
    ]  # fmt: skip
    numbers = [draw.choice([draw.random(), None]) if place % 3 else draw.random() for place in range(3 * len(kinds))]
    return RunFigures(run, FigureKinds(tuple(kinds)), numbers)


def rows(draw, shared):
    for row in range(20):
        found = [drawn(draw, f"run {row} {number}") for number in range(draw.randint(1, 3))]
        if row % 2:  # with the same figures as other rows
            found = [one._replace(kinds=shared.kinds, numbers=shared.numbers) for one in found]
        further = {
            name: Figure(draw.random(), "", draw.choice(list(Provenance)), error=0.5, source="somebody")
            for name in draw.sample([*METRICS, "flops"], draw.randint(0, 2))
        }
        yield found, further


def test_a_choice_is_what_merging_figure_by_figure_gives():
    draw = random.Random(0)
    named = Naming("digits", about_data=True)
    chosen, expected = [], []
    for found, further in itertools.chain(*(rows(draw, drawn(draw, "shared")) for _ in range(5))):
        chosen.append(with_further(chosen_figures([(one, named) for one in found]), further.items()))
        sources = [own_figures(one) for one in found]
        about_data = [{**own, "top1@digits": own["top1"]} if "top1" in own else own for own in sources]
        expected.append(merged(*(own.items() for own in about_data), further.items()))
    assert [dict(own) for own in chosen] == expected
    assert [len(own) for own in chosen] == [len(own) for own in expected]
    ours, theirs = figure_table_of(chosen), figure_table_of(expected)
    assert set(ours.names) == set(theirs.names)
    for name in theirs.names:
        np.testing.assert_array_equal(ours.values(name), theirs.values(name))
        assert [ours.figure(row, name) for row in range(ours.n)] == [theirs.figure(row, name) for row in range(ours.n)]


def test_a_name_that_a_run_does_not_have_is_looked_up_in_vain():
    figures = chosen_figures([(drawn(random.Random(1), "run"), Naming("digits", about_data=False))])
    assert "flops" not in figures
    assert figures.get("flops") is None
