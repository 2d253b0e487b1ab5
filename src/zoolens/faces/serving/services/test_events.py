import re
import threading
import time
from dataclasses import replace

import pytest

from zoolens.base.errors import UnknownName
from zoolens.base.store.series import append_series
from zoolens.base.store.store import open_store
from zoolens.faces.serving.services.definition import Service
from zoolens.faces.serving.services.events import (
    AnswerCounts,
    EventKind,
    EventLog,
    ModelComparison,
    ServiceEvent,
    Session,
    sessions,
)
from zoolens.faces.serving.services.session_words import session_sentences

SERVICE = Service(reference="demo:lenet-wide", within=0.9)


def test_a_session_is_a_run_of_its_own_with_all_that_happened(tmp_path):
    target = tmp_path / "store.sqlite"
    for number in range(2):
        log = EventLog(target, {"fashion": SERVICE, "other": SERVICE})
        log.record("fashion", ServiceEvent("start", "It begins."))
        log.record("fashion", ServiceEvent("switch", f"Reason {number}.", "b", "a", 7))
        log.record("fashion", AnswerCounts("a", "onnxruntime", 3, 5))
        log.record("fashion", AnswerCounts("a", "onnxruntime", 2, 2))
        log.record("fashion", ModelComparison("b", "a", 10, 0.9, 0.5, 1.0))
        log.close()
        assert log.dropped == 0
    with open_store(target) as store:
        newest, older = sessions(store, "fashion")
        assert [event.kind for event in newest.events] == ["start", "switch"]
        assert newest.events[1].reason == "Reason 1."
        assert (newest.events[1].model, newest.events[1].previous, newest.events[1].waiting) == ("b", "a", 7)
        assert newest.answered == {("a", "onnxruntime"): 5}
        assert newest.comparisons[0].gain is None
        assert older.events[1].reason == "Reason 0."
        assert store.runs() == []  # not among the evaluations
        with pytest.raises(UnknownName, match="fashoin"):
            sessions(store, "fashoin")


def test_what_does_not_fit_into_the_queue_is_dropped_and_counted(tmp_path, monkeypatch):
    monkeypatch.setattr("zoolens.faces.serving.services.events._WAITING", 5)
    log = EventLog(tmp_path / "store.sqlite", {"a": SERVICE})
    for _ in range(2000):
        log.record("a", ServiceEvent("switch", "Often."))
    log.close()
    with open_store(tmp_path / "store.sqlite") as store:
        events = sessions(store, "a")[0].events
        assert sum(event.kind == "switch" for event in events) + log.dropped == 2000
        # What still came behind the last loss stands behind its event.
        assert any(event.kind == "dropped" for event in events) == (log.dropped > 0)


def test_a_disk_that_is_full_for_a_while_is_told_and_does_not_end_the_log(tmp_path, monkeypatch):
    monkeypatch.setattr("zoolens.faces.serving.services.events._EVERY", 0.01)
    full = threading.Event()
    full.set()

    def append(*arguments):
        if full.is_set():
            raise OSError(28, "No space left on device")
        append_series(*arguments)

    monkeypatch.setattr("zoolens.faces.serving.services.events.append_series", append)
    log = EventLog(tmp_path / "store.sqlite", {"a": SERVICE})
    log.record("a", ServiceEvent("switch", "It is lost."))
    while not log.dropped:
        time.sleep(0.005)
    full.clear()
    log.record("a", ServiceEvent("switch", "It is kept."))
    log.close()
    with open_store(tmp_path / "store.sqlite") as store:
        reasons = [event.reason for event in sessions(store, "a")[0].events]
    assert "It is kept." in reasons
    assert any("could not be written" in reason for reason in reasons)


def test_a_session_without_an_end_says_what_its_counts_leave_out():
    start, stop = ServiceEvent(EventKind.START, "begun"), ServiceEvent(EventKind.STOP, "ended")
    counted = AnswerCounts("m", "onnxruntime", 7, 7, time=1_000_000_000)
    begun = Session("digits", None, (start,), (), ())
    assert session_sentences(begun) == [
        "No requests were counted yet: they are counted once a minute and at the end, which is not known."
    ]
    first, second = session_sentences(replace(begun, answers=(counted,)))
    assert first == "7 of 7 requests were answered by m in onnxruntime."
    assert re.fullmatch(r"Requests after \d\d:\d\d:\d\d are not counted: .*", second)
    assert session_sentences(replace(begun, events=(start, stop), answers=(counted,))) == [first]
