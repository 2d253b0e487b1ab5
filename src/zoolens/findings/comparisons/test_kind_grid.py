"""Models × kinds of machine: what makes a kind, what nobody measured, and which differences are more than noise."""

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from zoolens.base.errors import AmbiguousName, GateFailed, UnknownName, ZoolensError
from zoolens.base.statistics.heterogeneity import SPREAD
from zoolens.base.store.records import (
    DISTURBED,
    DatasetRecord,
    ModelRecord,
    Observation,
    Run,
    RunKey,
    StackRecord,
    fingerprint,
)
from zoolens.base.store.run_columns import RunIndex
from zoolens.base.verdicts import NotKnown, enforce
from zoolens.findings.comparisons.conftest import class_columns, one_hot
from zoolens.findings.comparisons.kind_changes import CellOutcome, ChangeTests, judge_grid, row_changes
from zoolens.findings.comparisons.kind_gate import parse_kind_gate
from zoolens.findings.comparisons.kind_grid import GridCell, GridChoice, GridRow, GridWanted, grid_choices, kind_grid
from zoolens.findings.comparisons.kind_report import cell_words, choose_cells
from zoolens.findings.comparisons.machine_kinds import kind_names, kind_of_agent, kind_of_stack, offers
from zoolens.findings.measure.lock import WORKER_PROTOCOL, machine_identity
from zoolens.findings.measure.predictions import KIND
from zoolens.inventory.fleet.agent_facts import AgentFacts, describe_agent

SMALL = {"cpu": "Small", "flags": "aa", "cores": 2, "architecture": "x86_64"}
LARGE = {"cpu": "Large", "flags": "bb", "cores": 64, "architecture": "x86_64"}
DATA = DatasetRecord("data", "digits", 100)


def stack(machine=SMALL, version="1.31.1", options=None, **more):
    environment = {"environment": ["onnxruntime==1.24.1"]} if version == "1.24.1" else {}
    packages = {"onnxruntime": version, "numpy": "2.3.0"}
    identity = {"version": version, "packages": packages, "python": "3.12.0", "machine": machine, **environment, **more}
    identity["options"] = {"threads": None, "device": "cpu", "precision": "default", **(options or {})}
    return StackRecord(fingerprint(identity), "onnxruntime", identity, {})


def measured(
    store, model="zoo:net@1.0.0", where=None, *, ms=10.0, spread=0.01, details=None, top1=0.9, attempt=0, resolved=None
):
    record = ModelRecord(fingerprint(model), model, "onnx", {"outputs": [{}]})
    run = store.begin_run(record, DATA, where or stack(), attempt=attempt, resolved=resolved or {})
    low, high = ms * (1 - spread) / 1e3, ms * (1 + spread) / 1e3
    timing = Observation("latency_p50", ms / 1e3, "batch=1", "s", low, high, details=details or {})
    store.finish_stage(run.id, "latency:batch=1", [timing])
    store.finish_stage(
        run.id, "metric:topk", [Observation("top1", top1, "", "fraction", top1 - 0.05, top1 + 0.05, 100)]
    )
    return run


def grid_of(store, quantity="latency", **wanted):
    return kind_grid(RunIndex(store), GridWanted("data", "onnxruntime", quantity, **wanted))


def judged(store, quantity="latency", against=None, **wanted):
    return judge_grid(store, grid_of(store, quantity, **wanted), against=against)


def test_a_cell_that_nobody_measured_is_no_figure(store):
    measured(store)
    measured(store, where=stack(LARGE), ms=2)
    measured(store, "zoo:other@1.0.0")
    begun = ModelRecord("b", "zoo:begun@1.0.0", "onnx", {})
    store.begin_run(begun, DATA, stack())
    failed = store.begin_run(replace(begun, fingerprint="f", ref="zoo:failed@1.0.0"), DATA, stack())
    store.fail_stage(failed.id, "predictions", "no such operator")
    grid = grid_of(store)
    small, large = grid.kinds
    assert (small.machine_name, large.machine_name) == ("Small, 2 cores", "Large, 64 cores")
    assert grid.models == {small.id: 4, large.id: 1}
    by_name = {row.name: row for row in grid.rows}
    assert by_name["zoo:net@1.0.0"].cell(large.id).value == pytest.approx(0.002)
    assert by_name["zoo:other@1.0.0"].cell(large.id).run is None
    assert by_name["zoo:begun@1.0.0"].cell(small.id).reason == "its latency at batch size 1 was not measured"
    assert by_name["zoo:failed@1.0.0"].cell(small.id).reason == "predictions failed: no such operator"
    assert judge_grid(store, grid).unmeasured == 5
    assert grid_of(store, batch=8).rows[-1].cell(small.id).value is None


def test_options_make_rows_and_versions_make_kinds(store):
    measured(store)
    measured(store, where=stack(options={"threads": 1}))
    measured(store, where=stack(version="1.24.1"))
    measured(store, where=stack(isolated=True, decoder={"cv2": "4"}))
    grid = grid_of(store)
    assert [row.name for row in grid.rows] == ["zoo:net@1.0.0", "zoo:net@1.0.0 (threads 1)"]
    names = kind_names(grid.kinds)
    said = [str(names[kind.id]) for kind in grid.kinds]
    assert said == ["onnxruntime 1.24.1 (own environment), Small, 2 cores", "onnxruntime 1.31.1, Small, 2 cores"]
    assert grid.rows[0].cell(grid.kinds[1].id).runs == 2
    assert [choice.runtimes for choice in grid_choices(RunIndex(store))] == [{"onnxruntime": 4}]


def test_two_contents_of_one_name_are_told_apart(store):
    measured(store)
    run = store.begin_run(ModelRecord("0123456789", "zoo:net@1.0.0", "onnx", {}), DATA, stack())
    store.finish_stage(run.id, "latency:batch=1", [Observation("latency_p50", 1.0, "batch=1", "s")])
    assert sorted(row.name for row in grid_of(store).rows)[0] == "zoo:net@1.0.0 #01234567"


def test_a_regression_between_kinds_is_named_with_what_differs(store):
    measured(store, ms=10.0)
    measured(store, where=stack(version="1.24.1"), ms=13.1)
    measured(store, where=stack(LARGE), ms=1.0)
    found = judged(store)
    (regression,) = found.regressions
    assert regression.sentence == (
        "zoo:net@1.0.0 in onnxruntime 1.24.1 (own environment) takes 1.31 × [1.2, 1.43] the time of "
        "onnxruntime 1.31.1 on the same kind of machine: onnxruntime 1.24.1 instead of 1.31.1, environment "
        "onnxruntime==1.24.1 instead of none."
    )
    # The best on its hardware is held against the best of all, which is no regression.
    (row,) = found.rows
    across = [change for change in row.values() if not change.same_hardware]
    assert [change.outcome for change in across] == [CellOutcome.WORSE]
    assert "on Small, 2 cores takes 10 ×" in across[0].sentence
    assert "processor Small instead of Large" in across[0].sentence


def test_what_the_spread_explains_is_not_marked(store):
    measured(store, ms=10.0, spread=0.05)
    measured(store, where=stack(version="1.24.1"), ms=10.5, spread=0.05)
    (change,) = judged(store).changes
    assert (change.outcome, change.words.count("no more than the spread")) == (CellOutcome.UNCLEAR, 1)


def test_repetitions_widen_the_interval_of_their_cell(store):
    """Two runs of one kind that do not agree show a spread that neither knows."""
    measured(store, where=stack(version="1.24.1"), ms=13.1)
    measured(store, ms=10.0)
    assert judged(store).regressions
    measured(store, ms=13.0, attempt=1)
    (change,) = judged(store).changes
    assert change.outcome is CellOutcome.UNCLEAR


def test_a_repetition_under_load_or_in_another_precision_is_none(store):
    measured(store, where=stack(version="1.24.1"), ms=13.1)
    measured(store, ms=10.0)
    measured(store, ms=9.0, attempt=1, resolved={"precision": "bfloat16"})
    measured(store, ms=80.0, attempt=2, details={DISTURBED: True})
    (row,) = grid_of(store).rows
    cell = next(cell for cell in row.cells.values() if cell.runs == 3)
    assert (cell.value, cell.low) == (pytest.approx(0.009), pytest.approx(0.009 * 0.99))
    (regression,) = judged(store).regressions
    assert regression.words.startswith("takes 1.46 ×")


def test_a_newer_run_that_failed_is_told_beside_the_figure_of_an_older_one(store):
    """The figure of before would be read as that of today."""
    run = measured(store)
    measured(store, where=stack(version="1.24.1"), ms=13.1)
    newer = store.begin_attempt(run.model, DATA, run.stack)
    store.fail_stage(newer.id, "latency:batch=1", "no such operator")
    found = judged(store)
    (cell,) = [cell for cell in found.grid.rows[0].cells.values() if cell.runs == 2]
    assert (cell.value, cell.failed_since) == (pytest.approx(0.01), "latency:batch=1 failed: no such operator")
    assert cell_words(cell, None) == "10.0 ms [9.90, 10.1], newest run failed".replace("10.0", "10")
    with pytest.raises(NotKnown, match="no such operator"):
        enforce([parse_kind_gate("latency_p50 rise > 99%")], found)
    with pytest.raises(NotKnown, match="1 of 2 cells have no figure, or their newest run failed"):
        enforce([parse_kind_gate("unknown")], found)


def test_figures_of_another_way_of_measuring_are_not_compared(store):
    """`PROTOCOL` is raised where numbers mean something else. In a worker the present one has another number."""
    measured(store, where=stack(protocol=1, isolated=False))
    measured(store, where=stack(version="1.24.1", protocol=WORKER_PROTOCOL, isolated=True), ms=20.0)
    assert [change.outcome for change in judged(store).changes] == [CellOutcome.WORSE]
    measured(store, where=stack(version="1.24.1", protocol=1, isolated=True), ms=20.0)
    (change,) = judged(store).changes
    assert change.outcome is CellOutcome.UNKNOWN
    assert "versions of zoolens measured it in different ways" in change.words


def test_a_precision_that_a_runtime_chose_by_itself_is_named(store):
    measured(store, ms=10.0, resolved={"precision": "float32"})
    measured(store, where=stack(LARGE, decoder={"cv2": "5"}), ms=1.0, resolved={"precision": "bfloat16"})
    (change,) = judged(store, against=judged(store).grid.kinds[0].id).changes
    assert ": precision float32 instead of bfloat16, cv2 none instead of 5, processor Small instead" in change.sentence


def test_a_timing_beside_other_work_tells_nothing_though_its_samples_are_clean(store):
    measured(store, details={"others": 0.05})
    measured(store, where=stack(version="1.24.1"), ms=19.0, details={"others": 0.4})
    (change,) = judged(store).changes
    assert (change.outcome, "others used the machine" in change.words) == (CellOutcome.UNKNOWN, True)
    cell = judged(store).grid.rows[0].cell(change.kind.id if change.kind.version == "1.24.1" else change.other.id)
    assert cell_words(cell, change).endswith(", beside other work")


def test_a_disturbed_timing_and_one_without_interval_tell_nothing(store):
    measured(store)
    measured(store, where=stack(version="1.24.1"), ms=40, details={DISTURBED: True})
    (change,) = judged(store).changes
    assert change.outcome is CellOutcome.UNKNOWN
    with pytest.raises(NotKnown, match="others used the machine"):
        enforce([parse_kind_gate("latency_p50 rise > 10%")], judged(store))


def answered(store, where, labels, answers):
    """A run with answers, which the exact test reads."""
    import pyarrow as pa

    right = float(np.mean(labels == answers))
    run = measured(store, where=where, top1=right)
    head = {"index": np.arange(len(labels)), "input": [str(at) for at in range(len(labels))], "label": labels}
    columns = class_columns(one_hot(answers), labels)
    store.add_part(run.id, KIND, 0, pa.table({**head, **columns}))
    store.finish_stage(run.id, "predictions")


@pytest.mark.parametrize(
    ("wrong", "outcome", "words"),
    [
        (5, CellOutcome.UNCLEAR, "5 of 100 inputs, no more than chance"),
        (6, CellOutcome.WORSE, "exact McNemar p = 0.031"),
        (12, CellOutcome.WORSE, "exact McNemar p = 0.0005"),
        (0, CellOutcome.SAME, "has the same top1 as"),
    ],
)
def test_accuracy_is_judged_by_the_answers_to_the_same_inputs(store, wrong, outcome, words):
    labels = np.arange(100, dtype=np.int32) % 10
    worse = labels.copy()
    worse[:wrong] = (labels[:wrong] + 1) % 10
    answered(store, stack(), labels, labels)
    answered(store, stack(version="1.24.1"), labels, worse)
    changes = judged(store, "quality").changes
    change = next(one for one in changes if one.kind.version == "1.24.1" or outcome is CellOutcome.SAME)
    assert change.outcome is outcome
    assert words in change.words


def test_of_several_pairs_of_cells_each_needs_clearer_answers(store):
    """The best of four kinds is compared with the others: six pairs, of which the clearest is looked at."""
    labels = np.arange(100, dtype=np.int32) % 10
    worse = labels.copy()
    worse[:6] = (labels[:6] + 1) % 10
    answered(store, stack(version="1.24.1"), labels, worse)
    for version in ("1.25", "1.26", "1.27"):
        answered(store, stack(version=version), labels, labels)
    assert grid_of(store, "quality").pairs == 6
    found = [change for change in judged(store, "quality").changes if change.kind.version == "1.24.1"]
    assert [(change.outcome, "p = 0.031" in change.words) for change in found] == [(CellOutcome.UNCLEAR, True)]


def test_of_twenty_tables_without_a_difference_one_at_most_names_one():
    """12 models × 8 kinds whose sittings spread as `heterogeneity` allows, and whose intervals know nothing of it. The
    best cell of each row is chosen for being the best."""
    random, spread, within = np.random.default_rng(5), np.log1p(SPREAD) / 1.959964, 0.005
    kinds = {kind.id: kind for kind in (kind_of_stack("rt", {"machine": SMALL, "version": str(n)}) for n in range(8))}
    pairs, runs = 12 * 28, [begun("rt", place) for place in range(8)]
    named = 0
    for _ in range(40):
        values = 1e-3 * np.exp(random.normal(0, spread, (12, 8)) + random.normal(0, within, (12, 8)))
        tests = ChangeTests(None, pairs=pairs)
        rows = [GridRow("m", "m", "", dict(zip(kinds, map(timed, runs, row), strict=True))) for row in values.tolist()]
        changes = [change for row in rows for _, change in row_changes(row, kinds, tests, None)]
        named += any(change.outcome is not CellOutcome.UNCLEAR for change in changes)
    assert named <= 6  # 2 are expected at most; 7 of 40 would be there in one of a hundred draws


def begun(runtime, place):
    record = ModelRecord("m", "zoo:m@1.0.0", "onnx", {})
    where = StackRecord(str(place), runtime, {}, {})
    return Run(str(place), RunKey("m", "data", str(place)), datetime.now(UTC), record, DATA, where, {}, {})


def timed(run, value):
    figure = Observation("latency_p50", value, "batch=1", "s", value * 0.99, value * 1.01)
    return GridCell(run, figure, figure.low, figure.high, 1)


def test_more_tests_than_allowed_are_said(store):
    labels = np.arange(100, dtype=np.int32) % 10
    answered(store, stack(), labels, labels)
    answered(store, stack(version="1.24.1"), labels, (labels + 1) % 10)
    (change,) = judge_grid(store, grid_of(store, "quality"), most_tests=0).changes
    assert change.outcome is CellOutcome.UNKNOWN
    assert "`zoolens compare " in change.words


def test_gates(store):
    measured(store, ms=10.0)
    measured(store, where=stack(version="1.24.1"), ms=13.1)
    measured(store, where=stack(LARGE), ms=1.0)
    found = judged(store)
    enforce([parse_kind_gate("latency_p50 rise > 40%"), parse_kind_gate("unknown")], found)
    with pytest.raises(GateFailed, match=r"rise > 30%: zoo:net@1.0.0 in onnxruntime 1.24.1 .* takes 1.31 ×"):
        enforce([parse_kind_gate("latency_p50 rise > 30%")], found)
    with pytest.raises(UnknownName, match="top1"):
        enforce([parse_kind_gate("top1 drop > 1%")], found)
    large = next(kind.id for kind in found.grid.kinds if kind.machine_name.startswith("Large"))
    with pytest.raises(GateFailed, match="on Small, 2 cores takes 10 ×"):
        enforce([parse_kind_gate("latency_p50 rise > 40%")], judged(store, against=large))
    measured(store, "zoo:other@1.0.0")
    with pytest.raises(NotKnown, match="2 of 6 cells have no figure"):
        enforce([parse_kind_gate("unknown")], judged(store))
    with pytest.raises(NotKnown, match=f"zoo:other@1.0.0 has no figure on the kind {large}"):
        enforce([parse_kind_gate("latency_p50 rise > 4000%")], judged(store, against=large))


def test_a_gate_on_nothing_passes_nothing(store):
    """Of one kind alone nothing can be worse; a misspelt name leaves no rows."""
    measured(store)
    for text in ("latency_p50 rise > 10%", "unknown"):
        with pytest.raises(NotKnown, match="No evaluations fit"):
            enforce([parse_kind_gate(text)], judged(store, text="nett"))
    with pytest.raises(NotKnown, match="No two cells with latency_p50 can be compared"):
        enforce([parse_kind_gate("latency_p50 rise > 10%")], judged(store))
    failed = ModelRecord(fingerprint("zoo:net@1.0.0"), "zoo:net@1.0.0", "onnx", {})
    run = store.begin_run(failed, DATA, stack(version="1.24.1"))
    store.fail_stage(run.id, "predictions", "no such operator")
    with pytest.raises(NotKnown, match=r"onnxruntime 1.24.1 .* predictions failed: no such operator"):
        enforce([parse_kind_gate("latency_p50 rise > 10%")], judged(store))
    for text in ("latency_p50[batch=8] rise > 10%", "disagreement > 2%"):
        with pytest.raises(ZoolensError, match="is no condition of a table"):
            parse_kind_gate(text)


def test_the_level_of_a_page_is_that_of_the_whole_table(store):
    for number in range(3):
        measured(store, f"zoo:net{number}@1.0.0")
        measured(store, f"zoo:net{number}@1.0.0", stack(version="1.24.1"))
    page = kind_grid(RunIndex(store), GridWanted("data", "onnxruntime", "latency"), limit=1)
    assert (page.pairs, len(page.rows)) == (3, 1)


def test_rows_are_searched_paged_and_sorted_by_how_far_their_figures_are_apart(store):
    for number, factor in enumerate((1.1, 3.0, 2.0)):
        measured(store, f"zoo:net{number}@1.0.0", ms=10.0)
        measured(store, f"zoo:net{number}@1.0.0", stack(LARGE), ms=10.0 / factor)
    assert [row.model for row in grid_of(store, order="spread").rows] == [f"zoo:net{at}@1.0.0" for at in (1, 2, 0)]
    assert [row.model for row in grid_of(store, text="NET2 zoo").rows] == ["zoo:net2@1.0.0"]
    page = kind_grid(RunIndex(store), GridWanted("data", "onnxruntime", "latency"), limit=2, offset=2)
    assert (page.total, [row.model for row in page.rows]) == (3, ["zoo:net2@1.0.0"])
    nothing = kind_grid(RunIndex(store), GridWanted("data", "torch"))
    assert (nothing.rows, nothing.kinds, nothing.metric) == ((), (), "")


@pytest.fixture(scope="module")
def here() -> AgentFacts:
    facts = describe_agent()
    packages = {"onnxruntime": "1.31.1", "numpy": "2.3.0"}
    return replace(facts, runtimes={"onnxruntime": "1.31.1"}, packages=packages)


def test_agents_are_found_at_their_kinds_and_make_columns_of_their_own(store, here):
    machine = machine_identity(here.machine)
    there = stack(machine, python=here.machine.python)
    measured(store, where=there)
    old = replace(here, environment="onnxruntime==1.24.1", runtimes={"onnxruntime": "1.24.1"})
    agents = {"alpha": here, "beta": old, "gamma": replace(here, runtimes={"torch": "2"})}
    grid = kind_grid(RunIndex(store), GridWanted("data", "onnxruntime"), agents)
    assert [grid.agents[kind.id] for kind in grid.kinds] == [("alpha",), ("beta",)]
    assert grid.rows[0].cell(grid.kinds[1].id).run is None
    assert not offers(replace(here, packages={**here.packages, "numpy": "9"}), grid.kinds[0])
    assert kind_of_agent("onnxruntime", replace(here, environment=";; not a requirement")) is None


def test_identities_of_other_versions_are_no_bare_errors(store):
    odd = StackRecord("odd", "onnxruntime", {"machine": "a string", "packages": [1], "options": 3}, {})
    measured(store, where=odd)
    measured(store)
    grid = grid_of(store)
    assert "behind a server" in {kind.machine_name for kind in grid.kinds}
    assert judge_grid(store, grid).changes == []


def test_a_dataset_is_found_by_a_part_of_its_name():
    parts = [GridChoice(str(size), f"digits/test (first {size})", {"rt": 5}) for size in (20, 200)]
    assert choose_cells(parts, "First 200", "")[0] is parts[1]
    assert choose_cells(parts, "digits/test (first 20)", "")[0] is parts[0]
    with pytest.raises(AmbiguousName, match="first 20"):
        choose_cells(parts, "digits", "")
    with pytest.raises(UnknownName, match="faces"):
        choose_cells(parts, "faces", "")
