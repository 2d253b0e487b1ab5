"""For runtimes that run a format of `zoolens.testing.models`: the answers are the network's, not just self-consistent.

Mix into a `RuntimeContract` subclass whose `model` comes from there.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from zoolens.inventory.runtimes.runtime import ModelFiles, Options, Runtime
from zoolens.testing import models


class ComputesTheTinyNetwork:
    layout: ClassVar[str] = "NCHW"
    rounding: ClassVar[float] = 1e-5  # of answers between -2 and 2, in float32

    def test_computes_what_numpy_computes(self, runtime: Runtime, files: ModelFiles) -> None:
        with runtime.open(files, Options(precision="float32")) as session:
            images = models.images(1, layout=self.layout, seed=3)
            (answer,) = session.predict({session.inputs[0].name: images}).values()
        wanted = models.reference(models.images(1, seed=3))
        np.testing.assert_allclose(answer, wanted, atol=self.rounding)

    def test_counts_its_parameters(self, runtime: Runtime, files: ModelFiles) -> None:
        with runtime.open(files) as session:
            assert session.count_parameters() == models.PARAMETERS
