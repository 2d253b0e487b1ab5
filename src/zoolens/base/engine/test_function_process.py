"""What is computed in a process of its own, and what becomes of it when that goes wrong."""

import os
import time

import pytest

from zoolens.base.engine.function_process import call_in_process
from zoolens.base.errors import ModelError, WorkerError, WorkerTimeout


def called(function, **job):
    return call_in_process(f"{__name__}:{function}", job, "testing it", timeout=20, variables={"ZOOLENS_MARK": "here"})


def test_an_answer_comes_back_and_what_is_printed_is_none_of_it():
    assert called("loud", number=3) == [{"number": 3}, "here"]


def test_an_error_comes_back_as_it_was_raised():
    with pytest.raises(ModelError, match=r"It is broken\. Mend it\."):
        called("broken")


def test_a_process_that_dies_is_said():
    with pytest.raises(WorkerError, match=r"computing process exited with code 3 while testing it\."):
        called("dying")


def test_a_function_that_takes_too_long_is_ended_with_all_that_it_started():
    with pytest.raises(WorkerTimeout, match="no answer in 1 s while testing it"):
        call_in_process(f"{__name__}:endless", {}, "testing it", timeout=1)


def loud(job):
    print("noise")
    return [job, os.environ["ZOOLENS_MARK"]]


def broken(_):
    raise ModelError("It is broken.", hint="Mend it.")


def dying(_):
    os._exit(3)


def endless(_):
    """A child that holds the output open must not keep us waiting."""
    os.fork()
    time.sleep(60)
