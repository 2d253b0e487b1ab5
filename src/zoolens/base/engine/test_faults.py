"""Errors cross from a worker as plain data, and every death has a sentence."""

import signal

import pytest

from zoolens.base.engine.faults import death, describe, rebuild
from zoolens.base.errors import Circumstance, MissingDependency, ModelError, UnexpectedError, UnknownName, WorkerError


@pytest.mark.parametrize(
    "error",
    [
        ModelError("It is made of glass.", hint="Do not touch it."),
        UnknownName("zoo", "torhc", ["torch"]),
        MissingDependency("The trainer", "torch", "torch"),
    ],
)
def test_an_error_keeps_its_kind_its_sentence_and_its_hint(error):
    again = rebuild(describe(error, "Reading"))
    assert type(again) is type(error)
    assert (again.message, again.hint, str(again)) == (error.message, error.hint, str(error))


def test_a_plug_ins_own_kind_comes_as_the_nearest_that_everybody_knows():
    class Cracked(ModelError):
        pass

    assert type(rebuild(describe(Cracked("It has a crack."), "Reading"))) is ModelError


def test_what_nobody_foresaw_names_its_place():
    try:
        [][1]
    except IndexError as error:
        again = rebuild(describe(error, "Reading net.onnx"))
    assert isinstance(again, UnexpectedError)
    assert again.message.startswith("Reading net.onnx met an unexpected IndexError at test_faults.py:")


def test_no_memory_is_said_in_words():
    assert describe(MemoryError(), "The training process")["message"] == "The training process ran out of memory."


@pytest.mark.parametrize("told", [{}, {"type": "Exception"}, {"type": 3, "message": ["x"]}, {"type": "first_line"}])
def test_a_description_that_is_none_is_still_an_error(told):
    assert type(rebuild(told)) is WorkerError


@pytest.mark.parametrize("kind", ["StoreError", "DamagedStore", "Lost", "Lacking", "Cancelled", "GateFailed"])
def test_a_worker_knows_nothing_of_the_store_or_of_machines(kind):
    """A model that took its worker over would otherwise end the work on all others, or be sent round the fleet."""
    told = {"type": kind, "message": "Believe me."}
    assert type(rebuild(told, of_worker=True)) is WorkerError
    assert type(rebuild(told)).__name__ == kind


def test_a_long_sentence_is_cut():
    again = rebuild({"type": "ModelError", "message": "x" * 9999, "hint": "y" * 9999})
    assert (len(again.message), len(again.hint)) == (4000, 4000)


def test_every_death_has_a_sentence():
    crashed = death("training process", -signal.SIGSEGV, "training lenet", ["some noise", "out of cheese"])
    assert type(crashed) is WorkerError
    assert crashed.message == "The training process died with signal 11 (SIGSEGV) while training lenet."
    assert crashed.hint == "Its last output: some noise | out of cheese"
    assert "exited with code 7" in death("process", 7, "reading", []).message
    assert "died with signal 250 (unknown)" in death("process", -250, "reading", []).message
    assert "hung up while reading" in death("process", None, "reading", []).message
    assert death("process", 1, "reading", []).hint is None


def test_who_was_killed_is_asked_about_memory_and_is_no_fault_of_the_work():
    killed = death("process", -signal.SIGKILL, "reading", [])
    assert isinstance(killed, Circumstance)
    assert killed.hint == "It was killed. Is there enough memory?"
    assert "Is there enough memory?" in death("process", -signal.SIGABRT, "reading", ["std::bad_alloc"]).hint
