import inspect
import io
import os
import pickle
import pty
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest

import zoolens
from zoolens.base.errors import WrongArgument, ZoolensError
from zoolens.base.progress import Progress, Silent
from zoolens.base.public import watching
from zoolens.base.public.calls import public_call, same_parameters


def measure(model: str, *, batches: tuple[int, ...] = (1,), progress: Progress | None = None) -> object:
    """What it was given."""
    return model, batches, progress


PUBLIC = public_call(measure, "zoolens.place", "measured")


def test_a_right_call_reaches_the_function():
    assert PUBLIC("a", batches=(2,)) == ("a", (2,), None)
    assert inspect.signature(PUBLIC) == inspect.signature(measure)
    assert PUBLIC.__doc__ == "What it was given."


@pytest.mark.parametrize(
    ("args", "kwargs", "sentence"),
    [
        ((3,), {}, "place.measured: model must be str; got 3, of type int."),
        (("a",), {"batches": (1, "2")}, "place.measured: batches must be a tuple of int; got (1, '2'), of type tuple."),
        (
            ("a",),
            {"batch": 3},
            "place.measured: got an unexpected keyword argument 'batch'. Did you mean batches?",
        ),
        ((), {}, "place.measured: missing a required argument: 'model'. It takes model, batches, progress."),
        (("a", "b"), {}, "place.measured: too many positional arguments. It takes model, batches, progress."),
    ],
)
def test_a_wrong_call_is_one_sentence(args, kwargs, sentence):
    with pytest.raises(WrongArgument) as caught:
        PUBLIC(*args, **kwargs)
    assert str(caught.value) == sentence
    assert isinstance(caught.value, ZoolensError)
    assert isinstance(caught.value, TypeError)  # as Python's own refusals are
    assert caught.value.__cause__ is None


def test_numbers_of_numpy_reach_the_function_as_those_of_python():
    def sized(size: int, share: float = 0.5, *more: object) -> object:
        return [type(value) for value in (size, share, *more)]

    public = public_call(sized, "zoolens.place", "sized")
    assert public(np.int64(2), np.float32(0.25), "x") == [int, float, str]
    assert public(2, share=1) == [int, int]


@pytest.mark.parametrize("model", ["a\0b", "\ud800"])
def test_texts_that_nothing_can_hold_are_refused(model):
    with pytest.raises(WrongArgument, match="model has characters that no name can have"):
        PUBLIC(model)


def test_a_text_in_the_place_of_a_file_is_one_sentence():
    with pytest.raises(WrongArgument, match="too long for the name of a file") as caught:
        zoolens.find_model("name: x\n" * 1000)
    assert len(str(caught.value)) < 200


def test_the_arguments_of_a_context_manager_are_checked_when_it_is_called():
    @contextmanager
    def opened(name: str):
        yield name

    call = public_call(opened, "zoolens", "opened")
    with call("a") as name:
        assert name == "a"
    with pytest.raises(WrongArgument, match="opened: name must be str"):
        call(3)


def test_public_functions_can_be_pickled_and_are_the_same_each_time():
    assert zoolens.evaluate is zoolens.evaluate
    assert pickle.loads(pickle.dumps(zoolens.find_model)) is zoolens.find_model
    assert pickle.loads(pickle.dumps(zoolens.tracing.span)) is zoolens.tracing.span


def test_a_function_that_passes_all_on_has_the_signature_of_the_other():
    @same_parameters(measure)
    def asked(*args, **kwargs) -> int:
        return len(args) + len(kwargs)

    assert list(inspect.signature(asked).parameters) == ["model", "batches", "progress"]
    assert inspect.signature(asked).return_annotation is int
    assert asked("a", batches=(1,)) == 2


def test_a_function_that_passes_all_on_checks_what_the_other_takes(on_a_terminal):
    @same_parameters(measure)
    def asked(*args, **kwargs) -> object:
        return measure(*args, **kwargs)

    public = public_call(asked, "zoolens.place", "asked")
    with pytest.raises(WrongArgument, match="model must be str; got 3"):
        public(3)
    assert public("a") == ("a", (1,), None)
    on_a_terminal()
    assert type(public("a")[2]).__name__ == "Bars"


def test_arguments_of_query_are_checked():
    with pytest.raises(WrongArgument, match="within must be float, str or None"):
        zoolens.query("CORR a", within=["x"])


# --- progress


@pytest.fixture
def on_a_terminal(monkeypatch):
    """A function after which standard error is a terminal, and nothing tells of pytest: it sets both before a test."""
    _, terminal = pty.openpty()
    with os.fdopen(terminal, "w") as stream:

        def begin():
            monkeypatch.delenv(watching.SWITCH, raising=False)
            monkeypatch.delenv("PYTEST_CURRENT_TEST", raising=False)
            monkeypatch.setattr(sys, "stderr", stream)

        yield begin


def given_progress():
    return PUBLIC("a")[2]


def test_long_work_is_shown_on_a_terminal(on_a_terminal):
    assert given_progress() is None  # in a test
    on_a_terminal()
    assert type(given_progress()).__name__ == "Bars"


def test_the_progress_that_the_caller_gives_is_used(on_a_terminal):
    on_a_terminal()
    silent = Silent()
    assert PUBLIC("a", progress=silent)[2] is silent


def test_none_passed_by_position_is_as_if_nothing_was_passed(on_a_terminal):
    def told(model: str, progress: Progress | None = None) -> object:
        return model, progress

    on_a_terminal()
    model, progress = public_call(told, "zoolens.place", "told")("a", None)
    assert model == "a"
    assert type(progress).__name__ == "Bars"


@pytest.mark.parametrize("value", ["off", "0", "OFF"])
def test_it_can_be_switched_off(on_a_terminal, monkeypatch, value):
    on_a_terminal()
    monkeypatch.setenv(watching.SWITCH, value)
    assert given_progress() is None


def test_nothing_is_shown_in_a_pipe(on_a_terminal, monkeypatch):
    on_a_terminal()
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert given_progress() is None


def test_nothing_is_shown_from_another_thread(on_a_terminal):
    on_a_terminal()
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(given_progress).result() is None
