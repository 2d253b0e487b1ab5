"""What is computed in a process of its own, and what becomes of it when that goes wrong."""

import pytest

from zoolens.errors import ZoolensError
from zoolens.ui.side_process import computed


def test_an_answer_comes_back_and_what_is_printed_is_none_of_it():
    assert computed(f"{__name__}:loud", "a", None) == ["a", None]


def test_an_error_comes_back_with_its_hint():
    with pytest.raises(ZoolensError, match=r"It is broken\. Mend it\."):
        computed(f"{__name__}:broken")


def test_a_process_that_dies_is_said():
    with pytest.raises(ZoolensError, match="ended with status 3"):
        computed(f"{__name__}:dying")


def loud(*arguments):
    print("noise")
    return arguments


def broken():
    raise ZoolensError("It is broken.", hint="Mend it.")


def dying():
    import os

    os._exit(3)
