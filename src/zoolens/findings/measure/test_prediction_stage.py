from types import SimpleNamespace

import numpy as np
import pytest

from zoolens.findings.measure.prediction_stage import answered_batches
from zoolens.inventory.datasets.loader import Batch


class Device:
    """Takes note of when predictions are begun and waited for."""

    fixed_batch = None

    def __init__(self, in_flight):
        self.session, self.seen = SimpleNamespace(elsewhere=False, in_flight=in_flight), []

    def begin_predict(self, arrays):
        (number,) = arrays[0]
        self.seen.append(f"begin {number}")

        def finish():
            self.seen.append(f"wait {number}")
            return [(np.array([10 * number]),)]

        return finish


@pytest.mark.parametrize(
    ("in_flight", "seen"),
    [
        (1, ["begin 0", "wait 0", "begin 1", "wait 1", "begin 2", "wait 2"]),
        (2, ["begin 0", "begin 1", "wait 0", "begin 2", "wait 1", "wait 2"]),
        (9, ["begin 0", "begin 1", "begin 2", "wait 0", "wait 1", "wait 2"]),
    ],
)
def test_as_many_predictions_are_begun_before_one_is_waited_for_as_the_session_asks_for(in_flight, seen):
    one = np.zeros(1, np.int64)
    inputs = [Batch(one, ("",), one, np.array([number])) for number in range(3)]
    device = Device(in_flight)
    answered = [(int(batch.array[0]), int(answer[0])) for batch, (answer,) in answered_batches(device, inputs)]
    assert answered == [(0, 0), (1, 10), (2, 20)]
    assert device.seen == seen
