import threading

import pytest

import zoolens
from zoolens.base.errors import ZoolensError
from zoolens.base.store.records import RunKind
from zoolens.base.store.series import read_series
from zoolens.base.store.store import open_store
from zoolens.findings.tracing import recording, span, traceparent
from zoolens.findings.tracing.recorder import SERIES

HEADER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def by_name(table):
    return {row["name"]: row for row in table.to_pylist()}


def test_spans_nest_and_belong_to_the_trace_that_was_handed_over():
    with recording("app", keep=False, traceparent=HEADER) as current, span("outer"), zoolens.span("inner"):
        handed_on = traceparent()
    rows = by_name(current.table())
    assert rows["app"]["parent"] == 0xB7AD6B7169203331
    assert rows["outer"]["parent"] == rows["app"]["span_id"]
    assert rows["inner"]["parent"] == rows["outer"]["span_id"]
    assert {row["trace_id"] for row in rows.values()} == {"0af7651916cd43dd8448eb211c80319c"}
    assert handed_on == f"00-0af7651916cd43dd8448eb211c80319c-{rows['inner']['span_id']:016x}-01"
    assert rows["outer"]["duration"] >= rows["inner"]["duration"]
    assert {row["clean"] for row in rows.values()} == {None}  # nobody watched whether others disturbed them


def test_threads_hang_on_the_recording():
    def work():
        with span("elsewhere"):
            pass

    with recording("app", keep=False) as current, span("outer"):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    rows = by_name(current.table())
    assert rows["elsewhere"]["parent"] == rows["app"]["span_id"]
    assert rows["elsewhere"]["thread"] != rows["outer"]["thread"]


def test_without_a_recording_nothing_happens():
    with span("nobody looks"):
        assert traceparent() is None


def test_what_was_recorded_before_an_exception_is_stored(tmp_path):
    with open_store(tmp_path / "store.sqlite") as store:
        with pytest.raises(KeyError), recording("app", store=store) as current, span("step"):
            raise KeyError("x")
        (run,) = store.runs(kind=RunKind.TRACE)
        assert run.id == current.run
        assert {"app", "step"} == set(by_name(read_series(store, run.id, SERIES)))


def test_a_second_recording_is_refused_in_a_sentence():
    with (
        recording("first", keep=False),
        pytest.raises(ZoolensError, match="recorded already, as 'first'"),
        recording("second", keep=False),
    ):
        pass


def test_a_recording_ends_with_its_block_and_not_when_its_spans_are_read():
    with recording("app", keep=False) as current:
        pass
    (first,), (second,) = (current.table().to_pylist() for _ in range(2))
    assert first["duration"] == second["duration"]


def test_what_is_known_of_a_span_holds_for_all_below_it():
    with recording("app", keep=False) as current:
        with span("watched") as watched:
            number = watched.number
            with span("inner"):
                pass
        with span("other"):
            pass
        current.judge(number, False)
    rows = by_name(current.table())
    assert {name: rows[name]["clean"] for name in rows} == {
        "app": None, "watched": False, "inner": False, "other": None,
    }  # fmt: skip
