"""What a prompt and a further token cost, against graphs that are imported at other lengths."""

from __future__ import annotations

import numpy as np
import pytest

from zoolens.findings.graph.cost.cost import cost
from zoolens.findings.graph.cost.generation import generation
from zoolens.findings.graph.importers.gguf import GGUF
from zoolens.findings.graph.importers.importer import Request
from zoolens.findings.graph.ir.builder import GraphBuilder
from zoolens.findings.graph.passes.canonical import canonical
from zoolens.testing import language_models


@pytest.fixture
def graph(tmp_path):
    def load(tokens):
        path = language_models.gguf(tmp_path).path()
        return canonical(GGUF.load(Request(str(path), extents={"tokens": (1, tokens)})))

    return load


def test_a_prompt_costs_what_the_graph_of_that_length_does(graph):
    found = generation(graph(16))
    for tokens in (1, 5, 400):
        assert found.prefill_macs(tokens) == cost(graph(tokens)).macs
    assert found == generation(graph(33))
    assert found.context_length == language_models.CONTEXT
    assert found.lengths == (128, 512, 600)


def test_a_further_token_meets_every_weight_and_every_kept_token_once(graph):
    found = generation(graph(16))
    matrices = {name: values for name, values in language_models.weights().items() if values.ndim == 2}
    heads, width = language_models.HEADS, language_models.WIDTH // language_models.HEADS
    attended = language_models.LAYERS * heads * 2 * width
    # The table of tokens is the output's matrix here.
    assert found.decode_macs(1) == sum(values.size for values in matrices.values()) + attended
    assert found.decode_macs(100) - found.decode_macs(99) == attended


def test_the_cache_has_the_heads_of_keys_alone(graph):
    found = generation(graph(16))
    width = language_models.WIDTH // language_models.HEADS
    numbers = 2 * language_models.LAYERS * language_models.KEY_HEADS * width
    assert found.cached_numbers == numbers
    assert found.cache_bytes(100) == 100 * numbers * 2


def test_all_weights_are_read_for_a_token_and_one_row_of_a_table_of_its_own(graph, tmp_path):
    stored = 4 * sum(values.size for values in language_models.weights().values())
    assert generation(graph(16)).weight_bytes == stored
    output = np.zeros((language_models.VOCABULARY, language_models.WIDTH), np.float32)
    path = tmp_path / "untied.gguf"
    tensors = language_models.weights() | {"output.weight": output}
    path.write_bytes(language_models.gguf_bytes(language_models.metadata(), tensors))
    untied = canonical(GGUF.load(Request(str(path))))
    assert generation(untied).weight_bytes == stored


def test_heads_that_are_repeated_are_kept_once():
    builder = GraphBuilder("repeated")
    tokens = builder.add("input", (), (1, 6))
    table = builder.parameter("table", (10, 8), "table")
    states = builder.add("embedding", (tokens,), (1, 6, 8), parameters=(table,))
    one = builder.add("reshape", (states,), (1, 1, 6, 8))
    keys = builder.add("expand", (one,), (1, 4, 6, 8))
    queries = builder.add("tile", (one,), (1, 4, 6, 8), repeats=(1, 4, 1, 1))
    answer = builder.add("attention", (queries, keys, keys), (1, 4, 6, 8), heads=4, causal=True)
    assert generation(builder.finish([answer])).cached_numbers == 2 * 8


@pytest.mark.parametrize("change", ["not causal", "unknown", "no attention", "image"])
def test_what_does_not_write_text_has_no_such_cost(change):
    builder = GraphBuilder("other")
    given = builder.add("input", (), (1, 3, 8, 8) if change == "image" else (1, 6))
    table = builder.parameter("table", (10, 8), "table")
    states = builder.add("embedding", (given,), (1, 1, 6, 8), parameters=(table,))
    if change == "unknown":
        states = builder.unknown("Thing", (states,), (1, 1, 6, 8))
    if change != "no attention":
        causal = None if change == "not causal" else True
        states = builder.add("attention", (states,) * 3, (1, 1, 6, 8), heads=1, causal=causal)
    assert generation(builder.finish([states])) is None
