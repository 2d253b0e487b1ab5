"""What every function for ORDER BY must do. A test class derives from `FunctionContract`, names the function and says
how many arguments it takes.

class TestBargain(FunctionContract):
    function = staticmethod(bargain)
    arguments = 2
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from zoolens.findings.queries.language.syntax import FunctionCall, Metric
from zoolens.findings.queries.planning.expression_evaluator import evaluate

Values = NDArray[np.float64]

ROWS = 8


class FunctionContract:
    function: ClassVar[Callable[..., Any]]
    arguments: ClassVar[int]

    def columns(self) -> list[Values]:
        """One column for each argument, of numbers in (0, 1). Override it where these make no sense."""
        random = np.random.default_rng(0)
        return [random.uniform(0.05, 0.95, ROWS) for _ in range(self.arguments)]

    def values(self, columns: Sequence[Values]) -> Values:
        """What ORDER BY sorts by."""
        figures = {f"argument_{place}": column for place, column in enumerate(columns)}
        call = FunctionCall("function", tuple(Metric(name) for name in figures))
        functions = {"function": type(self).function}
        return evaluate(call, lambda metric: figures[metric.name], len(columns[0]), functions)

    def test_every_row_has_a_number(self) -> None:
        values = self.values(self.columns())
        assert values.shape == (ROWS,)
        assert np.isfinite(values).all()

    def test_what_is_unknown_stays_unknown_and_changes_no_other_row(self) -> None:
        known = self.values(self.columns())
        for place in range(self.arguments):
            columns = self.columns()
            columns[place][0] = np.nan
            values = self.values(columns)
            assert np.isnan(values[0])
            np.testing.assert_allclose(values[1:], known[1:])

    def test_the_order_of_the_rows_does_not_matter(self) -> None:
        straight = self.values(self.columns())
        backwards = self.values([column[::-1] for column in self.columns()])
        np.testing.assert_allclose(backwards[::-1], straight)

    def test_one_row_is_enough(self) -> None:
        alone = self.values([column[:1] for column in self.columns()])
        assert alone.shape == (1,)
        assert np.isfinite(alone).all()

    def test_arguments_are_left_alone(self) -> None:
        columns = self.columns()
        self.values(columns)
        for column, same in zip(columns, self.columns(), strict=True):
            np.testing.assert_array_equal(column, same)
