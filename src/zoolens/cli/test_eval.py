from zoolens.cli.eval import _line
from zoolens.measure.plan import Outcome


def test_everything_that_looks_wrong_is_said():
    found = _line(
        Outcome("net", warnings=("it answers class 2 for every input", "softmax is applied twice"), notes=("7 ties",))
    )
    assert "it answers class 2 for every input; softmax is applied twice; 7 ties" in found
    failed = _line(Outcome("net", errors=("The size is unknown.", "The size is unknown.", "It cannot be timed.")))
    assert failed.endswith("The size is unknown; It cannot be timed.")
