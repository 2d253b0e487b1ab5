"""What every resource metric must do. A test class derives from `ResourceContract` and names the function.

class TestDownload(ResourceContract):
    resource = staticmethod(download)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import MappingProxyType
from typing import ClassVar

from zoolens.findings.index.sources.resources import with_resources
from zoolens.findings.index.tables.row_table import table_of
from zoolens.findings.index.tables.rows import Figure, Row

_NAME = "resource"


class ResourceContract:
    resource: ClassVar[Callable[[Row], Figure | float | None]]

    def row(self) -> Row:
        """A row for which the metric has a figure. Override it where these attributes and figures are not enough."""
        figures = {
            "file_size": Figure(25e6, "B"),
            "parameters": Figure(6e6),
            "flops": Figure(2e9),
            "macs": Figure(1e9),
            "top1": Figure(0.7, "fraction", low=0.68, high=0.72),
            "latency_p50@batch=1": Figure(0.02, "s"),
            "peak_memory@process": Figure(2e8, "B"),
        }
        attributes = {
            "zoo": "demo",
            "name": "small",
            "format": "onnx",
            "runtime": "onnxruntime",
            "precision": "float32",
        }
        return Row("key", "model", "demo:small@1.0.0", MappingProxyType(attributes), MappingProxyType(figures))

    def figure(self, row: Row) -> Figure | None:
        """What a query reads: the figure that an index keeps of the metric's answer."""
        (indexed,) = with_resources(table_of([row]), {_NAME: type(self).resource})
        return indexed.figures.get(_NAME)

    def test_it_gives_one_finite_number(self) -> None:
        figure = self.figure(self.row())
        assert figure is not None
        assert math.isfinite(figure.value)

    def test_an_interval_holds_the_figure(self) -> None:
        figure = self.figure(self.row())
        assert figure is not None
        assert (figure.low is None) == (figure.high is None)
        if figure.low is not None and figure.high is not None:
            assert figure.low <= figure.value <= figure.high
        assert figure.error is None or figure.error >= 0

    def test_the_same_row_gives_the_same_figure(self) -> None:
        assert self.figure(self.row()) == self.figure(self.row())

    def test_a_row_without_figures_is_no_error(self) -> None:
        """Models that were never run have none: what cannot be known is None, and never a guess that is not finite."""
        figure = self.figure(Row("key", "model", "demo:small@1.0.0", {}, {}))
        assert figure is None or math.isfinite(figure.value)
