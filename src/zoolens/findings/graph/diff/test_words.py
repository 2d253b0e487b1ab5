"""How a difference is named: joins of two paths, learned tables, settings, and amounts that work against each other."""

import pytest

from zoolens.findings.graph.diff import diff_causes
from zoolens.findings.graph.diff.conftest import Sketch
from zoolens.findings.graph.diff.report import diff
from zoolens.findings.graph.passes.canonical import canonical


def residual(*joins):
    """Residual blocks whose two paths are joined by these operators; "" for no shortcut."""
    net = Sketch(size=32)
    net.conv(8)
    net.pool()
    for join in joins:
        entry = net.last
        net.conv(8)
        main = net.conv(8, act=None)
        if join:
            inputs = (entry, main) if join in ("sub", "div") else (main, entry)
            net.add(join, *inputs)
        net.add("relu")
    net.head()
    return net.finish()


@pytest.mark.parametrize("join", ["sub", "div", "mul", "maximum", "minimum", "pow"])
def test_another_join_of_two_paths_is_named(join):
    whole = residual("add", "add", "add")
    found = diff(whole, residual("add", join, "add"))
    assert [one.text for one in found.differences] == [f"add 1 of block 2 of stage 1: {join} in b instead of add in a"]
    assert found.verdict == "different networks: operator"
    back = diff(residual("add", join, "add"), whole)
    assert [one.cause for one in back.differences] == [diff_causes.OPERATOR]
    assert back.differences[0].text.endswith(f": add in b instead of {join} in a")


def test_a_concat_in_place_of_a_sum_is_named():
    def network(join):
        net = Sketch(size=32)
        entry = net.conv(8)
        main = net.conv(8)
        net.concat(main, entry) if join == "concat" else net.add("add", main, entry)
        net.conv(8)
        net.head()
        return net.finish()

    found = diff(network("add"), network("concat"))
    assert [one.text for one in found.differences] == ["add 1 of block 1 of stage 1: concat in b instead of add in a"]
    assert found.differences[0].macs == found.macs_gap > 0


def test_a_shortcut_that_is_gone_is_still_a_shortcut():
    found = diff(residual("add", "add"), residual("add", ""))
    assert [one.text for one in found.differences] == ["the last block of stage 1: shortcut removed in b"]


# --- a small vision transformer


def transformer(*, heads=3, position=True, token=True, registers=0, **attention):
    import torch
    from torch import nn

    from zoolens.findings.graph.importers.torch.torch_library import graph_of_module

    class Transformer(nn.Module):
        def __init__(self):
            super().__init__()
            self.patch = nn.Conv2d(3, 12, 8, 8)
            self.token = nn.Parameter(torch.zeros(1, 1, 12)) if token else None
            table = torch.rand(1, 16 + token + registers, 12)
            self.position = nn.Parameter(table)
            self.registers = nn.Parameter(torch.zeros(1, registers, 12)) if registers else None
            self.norm, self.joint, self.out = nn.LayerNorm(12), nn.Linear(12, 36), nn.Linear(12, 12)
            self.head = nn.Linear(12, 10)

        def forward(self, x):
            x = self.patch(x).flatten(2).transpose(1, 2)
            x = torch.cat([self.token, x], 1) if token else x
            x = torch.cat([x, self.registers], 1) if registers else x
            x = x + self.position if position else x
            parts = self.joint(self.norm(x)).reshape(1, -1, 3, heads, 12 // heads).permute(2, 0, 3, 1, 4)
            attended = nn.functional.scaled_dot_product_attention(*parts.unbind(0), **attention)
            x = x + self.out(attended.transpose(1, 2).reshape(1, -1, 12))
            return self.head(x[:, 0] if token else x.mean(1))

    return canonical(graph_of_module(Transformer().eval(), [torch.zeros(1, 3, 32, 32)], "transformer"))


@pytest.mark.parametrize(
    ("choices", "text", "verdict"),
    [
        ({"heads": 6}, "attention heads 6 in b instead of 3 in a", "different networks: setting"),
        ({"is_causal": True}, "attention causal True in b instead of False in a", "different networks: setting"),
        (
            {"scale": 1.0},
            "attention scale 1 in b instead of 1/√width in a",
            "the same network up to constants that do not change cost (numbers that layers compute with)",
        ),
        (
            {"position": False},
            "the stem: position embedding (1×17×12) only in a",
            "different networks: learned table",
        ),
        (
            {"registers": 4},
            "the stem: learned numbers (1×4×12) only in b",
            "different networks: learned table (100 % of the cost gap)",
        ),
        (
            {"token": False},
            "the stem: class token (1×1×12) only in a",
            "different networks: learned table (100 % of the cost gap), operator",
        ),
    ],
)
def test_what_a_transformer_lacks_or_has_otherwise_is_named(choices, text, verdict):
    pytest.importorskip("torch")
    found = diff(transformer(), transformer(**choices))
    assert found.differences[0].text.endswith(text)
    assert found.verdict == verdict
    assert sum(one.macs for one in found.differences) == found.macs_gap


# --- amounts


def test_causes_that_work_against_each_other_have_amounts_and_no_shares():
    def network(k, pads):
        net = Sketch(size=32)
        net.conv(8, k, pads=(k // 2,) * 4)
        net.conv(8, pads=pads)
        net.conv(8)
        net.head()
        return net.finish()

    found = diff(network(5, (1, 1, 1, 1)), network(3, (4, 4, 4, 4)))
    assert {one.cause for one in found.differences} == {diff_causes.KERNEL, diff_causes.PADDING}
    assert not found.has_shares
    assert {one["share_of_macs_gap"] for one in found.as_data()["differences"]} == {None}
    assert "%" not in found.verdict
    assert "MACs)" in found.verdict
    alone = diff(network(5, (1, 1, 1, 1)), network(3, (1, 1, 1, 1)))
    assert alone.verdict == "different networks: kernel (100 % of the cost gap)"


def test_a_limit_that_half_precision_would_round_to_the_other_is_another_limit():
    def network(limit):
        net = Sketch(size=8)
        net.conv(4)
        net.add("clip", low=0.0, high=limit)
        net.head()
        return net.finish()

    assert diff(network(6.5), network(6.5)).same
    found = diff(network(6.5), network(6.51))
    assert [one.cause for one in found.differences] == [diff_causes.CONSTANT]
