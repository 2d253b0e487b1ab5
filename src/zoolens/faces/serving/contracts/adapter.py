"""What lies between a service's own tensors and those of the model that answers: one adapter for each tier of a ladder.

A client of a service always sends the same inputs and gets the same outputs, whichever model answers. A model that
wants another layout, another normalisation or its classes in another order has an adapter that converts both ways.
"""

from __future__ import annotations

from collections.abc import Mapping

from zoolens.base.protocol.messages import Tensor


class Adapter:
    """The adapter of a model that takes and gives exactly what its clients send and expect.

    Both methods are called with whole batches, in a thread of the pool, or on the event loop where the adapter is
    `quick` (it takes microseconds). What cannot be converted, such as a damaged image, is a `ServingError`.
    """

    quick = False

    def feeds(self, inputs: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Converts what the clients sent into what the model is fed."""
        return inputs

    def outputs(self, answers: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Converts what the model answered into what the clients get."""
        return answers
