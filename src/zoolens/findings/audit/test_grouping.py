"""Networks with one structure are one network only where nothing in them is unknown."""

import pytest

from zoolens.findings.audit.comparing_processes import sent
from zoolens.findings.audit.grouping import told
from zoolens.findings.graph.diff.conftest import Sketch
from zoolens.findings.graph.ir.model import Graph, Parameter
from zoolens.findings.graph.ir.serialisation import pack


def attending(**mask: str) -> Graph:
    net = Sketch(size=8)
    entry = net.conv(6, 3)
    value = net.build.add("reshape", [entry], (1, 1, 64, 6))
    numbers = net.build.add("constant", [], (64, 64), parameters=[Parameter("value", (64, 64), "")], **mask)
    seen = net.add("attention", *[value] * 3, numbers, shape=(1, 1, 64, 6), heads=1)
    net.add("add", entry, net.build.add("reshape", [seen], (1, 6, 8, 8)))
    net.head()
    return net.finish()


@pytest.mark.parametrize(("mask", "outcome"), [({"mask": "causal"}, "same"), ({}, "not known")])
def test_masks_whose_numbers_nobody_knows_leave_it_open(mask, outcome):
    graphs = [sent(pack(attending(**mask))) for _ in range(2)]
    found = told({"graphs": graphs, "labels": ["one", "other"], "understood": True})
    assert found["outcome"] == outcome
