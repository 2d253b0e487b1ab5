from collections import Counter

import numpy as np
import pytest

from zoolens.base.errors import ModelError
from zoolens.findings.graph.importers.constants import Constant
from zoolens.findings.graph.importers.translation import Translation
from zoolens.findings.graph.ir.builder import GraphBuilder


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_values_that_do_not_have_the_shape_of_their_tensor_are_refused(dtype):
    state = Translation(GraphBuilder("net", keep_weights=True), Counter())
    damaged = Constant((2, 2), dtype, "weights", lambda: np.zeros(3, dtype))
    with pytest.raises(ModelError, match="The values of 'weights' do not have its shape"):
        state.materialised(damaged)
