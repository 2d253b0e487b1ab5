"""What every cost counter must do. A test class derives from `CounterContract` and names the counter.

class TestMine(CounterContract):
    counter = COUNTER

Where its package is installed, it counts a small network in a process of its own, as `zoolens cost --counters` does.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from zoolens.findings.graph.counters.counter import KINDS, Counter
from zoolens.findings.graph.counters.terms import Convention
from zoolens.findings.graph.importers.importer import Request
from zoolens.findings.graph.importers.onnx import ONNX
from zoolens.findings.graph.ir.model import Graph
from zoolens.testing import models
from zoolens.testing.late_imports import frameworks_imported_by


class CounterContract:
    counter: ClassVar[Counter]

    @pytest.fixture
    def graph(self, tmp_path: Path) -> Graph:
        pytest.importorskip("onnx", reason="the small network of this contract is an ONNX file")
        return ONNX.load(Request(str(models.onnx(tmp_path).path())))

    def test_it_says_what_it_runs_and_what_that_looks_at(self) -> None:
        assert self.counter.name
        assert self.counter.distribution
        assert self.counter.kind in KINDS
        assert self.counter.version is None or self.counter.version[0].isdigit()

    def test_importing_it_imports_no_framework(self) -> None:
        assert frameworks_imported_by(self.counter.count.__module__) == []

    def test_its_convention_has_words_and_prices(self, graph: Graph) -> None:
        for subject in (Graph("", (), ()), graph):
            convention = self.counter.convention(subject)
            assert isinstance(convention, Convention)
            assert convention.summary
            assert "\n" not in convention.summary
            assert convention.per_mac >= 0
