"""What every importer of structures must do. A test class derives from `ImporterContract`.

class TestMine(ImporterContract):
    importer = MINE

    def request(self, tmp_path):
        return Request(str(write_a_small_model(tmp_path)))

An importer that needs an environment of its own is asked by the tests for what it declares only.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from pathlib import Path
from typing import ClassVar

import pytest

from zoolens.base.errors import ZoolensError
from zoolens.findings.graph.importers.importer import Importer, Request
from zoolens.findings.graph.ir.model import Graph
from zoolens.findings.graph.ir.vocabulary import OPS
from zoolens.findings.graph.passes.canonical import canonical
from zoolens.testing.late_imports import frameworks_imported_by


class ImporterContract:
    importer: ClassVar[Importer]
    damaged: ClassVar[bool] = True  # whether a file can be damaged; False for a library's importer

    def request(self, tmp_path: Path) -> Request:
        """A small model: the path of its file, or its name in the library."""
        raise NotImplementedError

    @pytest.fixture
    def asked(self, tmp_path: Path) -> Request:
        return self.request(tmp_path)

    @pytest.fixture
    def graph(self, asked: Request) -> Graph:
        if self.importer.environment:
            pytest.skip("it runs in an environment of its own")
        return self.importer.load(asked)

    def test_importing_it_imports_no_framework(self) -> None:
        assert frameworks_imported_by(self.importer.load.__module__) == []

    def test_it_names_the_packages_it_depends_on(self) -> None:
        assert all(isinstance(name, str) and name for name in self.importer.distributions)

    def test_every_node_reads_what_was_computed_before(self, graph: Graph) -> None:
        known: set[str] = set()
        for node in graph.nodes:
            assert set(node.inputs) <= known, f"{node.name} reads what is not there yet"
            assert node.name not in known, f"{node.name} is there twice"
            known.add(node.name)
        assert set(graph.outputs) <= known

    def test_operators_are_known_or_said_to_be_unknown(self, graph: Graph) -> None:
        assert {node.op for node in graph.nodes} <= {*OPS, "unknown"}

    def test_shapes_are_static_and_of_one_input(self, graph: Graph) -> None:
        for node in graph.nodes:
            assert all(extent > 0 for extent in node.shape)
        assert any(node.op == "input" and node.shape[:1] == (1,) for node in graph.nodes)

    def test_loading_again_gives_the_same(self, asked: Request, graph: Graph) -> None:
        again = self.importer.load(asked)  # names may be numbered on by the library
        assert [(node.op, node.shape) for node in again.nodes] == [(node.op, node.shape) for node in graph.nodes]

    def test_weights_come_when_they_are_asked_for(self, asked: Request, graph: Graph) -> None:
        loaded = self.importer.load(replace(asked, weights=True))
        assert loaded.parameters == graph.parameters
        for node in loaded.nodes:
            for parameter in node.parameters:
                if parameter.key:
                    assert loaded.weights[parameter.key].size == prod(parameter.shape)

    def test_the_passes_understand_it(self, graph: Graph) -> None:
        assert canonical(graph).parameters == graph.parameters

    def test_what_cannot_be_read_is_an_error_in_one_sentence(self, asked: Request, tmp_path: Path) -> None:
        if self.importer.environment:
            pytest.skip("it runs in an environment of its own")
        if self.damaged:
            path = tmp_path / f"damaged{Path(asked.subject).suffix}"
            path.write_bytes(Path(asked.subject).read_bytes()[:20] + b"\x00\xff" * 40)
            asked = replace(asked, subject=str(path))
        else:
            asked = replace(asked, subject="there is no such model")
        with pytest.raises(ZoolensError) as caught:
            self.importer.load(asked)
        assert "\n" not in str(caught.value)
