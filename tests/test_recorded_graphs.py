"""Operators are mapped to the nodes of a file on every processor: graphs and profiles recorded on ARM and on x86.

ONNX Runtime makes other graphs of a file on x86 with AVX (blocks of channels, sums inside convolutions) than on ARM
(channels last), and other ones at each level of optimisation.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from zoolens.inventory.runtimes.onnx.onnx_file import OnnxGraph, OnnxNode
from zoolens.inventory.runtimes.onnxruntime.fused_operators import computed_tensors, fused_nodes
from zoolens.inventory.runtimes.onnxruntime.onnxruntime_profile import read_profiles
from zoolens.inventory.runtimes.runtime import TensorSpec
from zoolens.inventory.runtimes.timing.calls import ObservedCall

RECORDED = Path(__file__).parent / "data" / "onnxruntime_graphs.tsv"
CONSTANT = "*"
HEAVY = ("Conv", "Gemm", "MatMul")


@dataclass
class Network:
    outputs: str
    nodes: list[list[str]] = field(default_factory=list)
    optimised: dict[tuple[str, str], list[list[str]]] = field(default_factory=dict)
    profiles: dict[str, list[list[str]]] = field(default_factory=dict)

    @property
    def file(self):
        return graph(self.nodes, self.outputs)


def recorded():
    networks, rows = {}, []
    for line in RECORDED.read_text().splitlines():
        kind, *fields = line.split("\t")
        if not kind:
            rows.append(fields)
        elif kind == "network":
            network = networks[fields[0]] = Network(fields[1])
            rows = network.nodes
        elif kind == "optimised":
            rows = network.optimised[fields[0], fields[1]] = []
        elif kind == "profile":
            rows = network.profiles[fields[0]] = []
    return networks


def graph(rows, outputs=""):
    """Constants are nodes' inputs that nobody makes, and have no names of their own."""
    nodes = [
        OnnxNode(op, tuple("" if name == "-" else name for name in inputs.split()), tuple(made.split()), False, name)
        for name, op, inputs, made, *_ in rows
    ]
    made = {name for node in nodes for name in node.outputs}
    taken = {name for node in nodes for name in node.inputs if name} - made - {CONSTANT}
    inputs = [TensorSpec(name, (), "float32") for name in sorted(taken)]
    ends = [TensorSpec(name, (), "float32") for name in outputs.split()]
    return OnnxGraph(nodes=nodes, inputs=inputs, outputs=ends, constants={CONSTANT: None})


NETWORKS = recorded()
GRAPHS = [(name, *key) for name, network in NETWORKS.items() for key in network.optimised]
PROFILES = [(name, cpu) for name, network in NETWORKS.items() for cpu in network.profiles]


@pytest.mark.parametrize(("name", "cpu", "level"), GRAPHS, ids=["-".join(key) for key in GRAPHS])
def test_every_operator_names_the_nodes_that_it_computes(name, cpu, level):
    network = NETWORKS[name]
    rows = network.optimised[cpu, level]
    found = fused_nodes(network.file, graph(rows))
    assert [part.labels for part in found] == [tuple(row[4].split()) for row in rows]


@pytest.mark.parametrize("name", NETWORKS)
def test_what_was_recorded_computes_every_node_once(name):
    """The expected nodes were looked through by eye; these are the rules that they must keep in any case."""
    network = NETWORKS[name]
    kinds = {node.name or node.outputs[0]: node.op for node in network.file.nodes}
    computed = {node.name or node.outputs[0] for node, _ in computed_tensors(network.file)}
    for rows in network.optimised.values():
        labels = [row[4].split() for row in rows]
        told = [label for own in labels for label in own]
        assert computed <= set(told)
        assert all(told.count(label) == 1 or kinds[label] == "HardSwish" for label in told)
        for row, own in zip(rows, labels, strict=True):
            heavy = [label for label in own if kinds[label] in HEAVY]
            assert len(heavy) <= 1
            assert not heavy or any(kind in row[1] for kind in HEAVY)


def test_both_processors_and_all_levels_are_there():
    assert {cpu for _, cpu, _ in GRAPHS} == {cpu for _, cpu in PROFILES} == {"aarch64", "x86-64-avx512"}
    assert {level for _, _, level in GRAPHS} == {
        "DISABLE_ALL",
        "ENABLE_BASIC",
        "ENABLE_EXTENDED",
        "ENABLE_LAYOUT",
        "ENABLE_ALL",
    }
    summed = [
        row
        for network in NETWORKS.values()
        for row in network.optimised.get(("x86-64-avx512", "ENABLE_ALL"), ())
        if row[0].endswith("_nchwc") and len(row[2].split()) == 4
    ]
    assert len(summed) > 10, "convolutions that take the other operand of a sum"


@pytest.mark.parametrize(("name", "cpu"), PROFILES, ids=["-".join(key) for key in PROFILES])
def test_a_profile_shows_names_of_the_file(name, cpu, tmp_path):
    network = NETWORKS[name]
    events = network.profiles[cpu]
    fused = fused_nodes(network.file, graph(network.optimised[cpu, "ENABLE_ALL"]))
    (profile,) = read_profiles(written(events, tmp_path), 0, [CALL], renumbered(fused, events))
    assert [operator.kind for operator in profile.operators] == [kind for _, kind in events]
    known = {node.name or node.outputs[0] for node in network.file.nodes}
    tensors = {tensor for node in network.file.nodes for tensor in (*node.inputs, *node.outputs)}
    for operator in profile.operators:
        kind, _, moved = operator.name.partition(" of ")
        shown = kind if operator.nodes else moved or kind
        assert shown in known | tensors or operator.kind == "QuantizeLinear", operator.name
    computed = [node for operator in profile.operators for node in operator.nodes]
    assert len(computed) == len(set(computed))
    assert {node.name for node, _ in computed_tensors(network.file)} <= set(computed)


CALL = ObservedCall(1_000_000, 1_000_000_000, None, 0, 0, 0, 0, 0)


def written(events, folder):
    path = folder / "profile.json"
    rows = [
        {"cat": "Node", "name": f"{name}_kernel_time", "ts": 2000 + place, "dur": 1, "args": {"op_name": kind}}
        for place, (name, kind) in enumerate(events)
    ]
    path.write_text(json.dumps(rows))
    return path


def renumbered(fused, events):
    """What was fused, with the numbers of the version that was profiled in its names."""
    waiting = {}
    for name, _ in events:
        waiting.setdefault(name.partition("_token_")[0], []).append(name)
    return [
        replace(part, node=replace(part.node, name=waiting[part.node.name.partition("_token_")[0]].pop(0)))
        for part in fused
    ]
