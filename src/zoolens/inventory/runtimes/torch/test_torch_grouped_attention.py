"""Attention by groups answers as the attention of torch that it replaces."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from zoolens.inventory.frameworks.torchvision_shim import import_torchvision
from zoolens.inventory.runtimes.torch.torch_grouped_attention import attended, grouped_attention

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


def given(heads=6, shared=2, dtype=None, length=20):
    random = torch.Generator().manual_seed(0)
    query, key, value = (
        torch.randn(shape, generator=random, dtype=torch.float64).to(dtype or torch.float32)
        for shape in ((3, heads, 1, 8), (3, shared, length, 8), (3, shared, length, 5))
    )
    seen = torch.arange(length)[None, None, None] <= torch.tensor([length - 1, 4, 11])[:, None, None, None]
    return query, key, value, seen


def theirs(query, key, value, seen, scaling):
    import_torchvision(with_compiler=False)
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    module = SimpleNamespace(num_key_value_groups=query.shape[1] // key.shape[1])
    return sdpa_attention_forward(module, query, key, value, seen, scaling=scaling)[0]


@pytest.mark.parametrize("shared", [1, 2, 6])
@pytest.mark.parametrize(("scaling", "length"), [(None, 20), (0.3, 384)])
def test_answers_are_those_of_torch(shared, scaling, length):
    query, key, value, seen = given(shared=shared, length=length)
    added = torch.zeros(seen.shape).masked_fill(~seen, -torch.inf)
    ours, _ = attended(None, query, key, value, added, scaling=scaling)
    torch.testing.assert_close(ours, theirs(query, key, value, seen, scaling), atol=1e-6, rtol=1e-6)


def test_scores_are_not_rounded_to_bfloat16():
    query, key, value, seen = given(dtype=torch.bfloat16)
    added = torch.zeros(seen.shape).masked_fill(~seen, -torch.inf)
    ours, _ = attended(None, 8 * query, key, value, added)
    exact = theirs(*(each.double() for each in (8 * query, key, value)), seen, None)
    # Weights of up to 1 and the answer are rounded, each by 2 ** -9.
    assert (ours - exact).abs().max() < 3 * value.abs().max() * 2**-9


def test_arguments_that_change_what_is_computed_are_left_to_torch():
    query, key, value, seen = given(shared=6)
    added = torch.zeros(seen.shape).masked_fill(~seen, -torch.inf)
    bias = torch.randn(1, 6, 1, 20, generator=torch.Generator().manual_seed(1))
    ours, _ = attended(SimpleNamespace(), query, key, value, added, position_bias=bias)
    torch.testing.assert_close(ours, theirs(query, key, value, added + bias, None), atol=1e-6, rtol=1e-6)
    with pytest.raises(ValueError, match="softcap"):
        attended(SimpleNamespace(), query, key, value, added, softcap=3.0)


def test_the_network_keeps_its_own_attention_afterwards():
    config = SimpleNamespace(_attn_implementation="sdpa")
    network = SimpleNamespace(config=config)
    with grouped_attention(network):
        assert config._attn_implementation == "zoolens_grouped"
    assert config._attn_implementation == "sdpa"
    config._attn_implementation = "eager"
    with grouped_attention(network):
        assert config._attn_implementation == "eager"
