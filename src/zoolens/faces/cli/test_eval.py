import pytest

from zoolens.base.errors import ZoolensError
from zoolens.base.verdicts import NotKnown
from zoolens.faces.cli.eval import _complain, outcome_line
from zoolens.findings.measure.plan import Outcome


def test_everything_that_looks_wrong_is_said():
    found = outcome_line(
        Outcome("net", warnings=("it answers class 2 for every input", "softmax is applied twice"), notes=("7 ties",))
    )
    assert "it answers class 2 for every input; softmax is applied twice; 7 ties" in found
    failed = outcome_line(
        Outcome("net", errors=("The size is unknown.", "The size is unknown.", "It cannot be timed."))
    )
    assert failed.endswith("The size is unknown; It cannot be timed.")


@pytest.mark.parametrize(
    ("other", "error"),
    [
        (Outcome("b"), NotKnown),
        (Outcome("b", warnings=("It is no better than guessing.",)), NotKnown),
        (Outcome("b", errors=("It does not open.",)), ZoolensError),
    ],
)
def test_a_gate_on_guesses_does_not_hide_a_failure(other, error):
    with pytest.raises(ZoolensError) as raised:
        _complain([Outcome("a", guessed=("the scaling of pixels",)), other], ("guessed",))
    assert type(raised.value) is error
    _complain([Outcome("a", guessed=("the scaling of pixels",))], ())
