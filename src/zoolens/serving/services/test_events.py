import pytest

from zoolens.errors import UnknownName
from zoolens.serving.services.definition import Service
from zoolens.serving.services.events import Answered, Compared, Event, EventLog, sessions
from zoolens.store.store import open_store

SERVICE = Service(reference="demo:lenet-wide", within=0.9)


def test_a_session_is_a_run_of_its_own_with_all_that_happened(tmp_path):
    target = tmp_path / "store.sqlite"
    for number in range(2):
        log = EventLog(target, {"fashion": SERVICE, "other": SERVICE})
        log.record("fashion", Event("start", "It begins."))
        log.record("fashion", Event("switch", f"Reason {number}.", "b", "a", 7))
        log.record("fashion", Answered("a", "onnxruntime", 3, 5))
        log.record("fashion", Answered("a", "onnxruntime", 2, 2))
        log.record("fashion", Compared("b", "a", 10, 0.9, 0.5, 1.0))
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
    monkeypatch.setattr("zoolens.serving.services.events._WAITING", 5)
    log = EventLog(tmp_path / "store.sqlite", {"a": SERVICE})
    for _ in range(2000):
        log.record("a", Event("switch", "Often."))
    log.close()
    with open_store(tmp_path / "store.sqlite") as store:
        assert len(sessions(store, "a")[0].events) + log.dropped == 2000
