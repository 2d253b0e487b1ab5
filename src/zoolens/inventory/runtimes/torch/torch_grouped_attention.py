"""Attention of one token to keys and values of a fixed length, without a copy of them for each head that shares them.

torch's own attention wants a key for every head where there is a mask, so that transformers copies the whole memory for
each token: at 4,096 tokens a third of a step.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

_NAME: Final = "zoolens_grouped"
_REPLACED: Final = "sdpa"  # other kinds of attention are left as they are
_OTHERS: Final = ("position_bias", "softcap", "cache")  # arguments that change what is computed


@contextmanager
def grouped_attention(module: Any) -> Iterator[None]:
    """While this is open, a network of transformers attends by groups, where it has torch's attention."""
    config = module.config
    if getattr(config, "_attn_implementation", None) != _REPLACED:
        yield
        return
    _register()
    config._attn_implementation = _NAME
    try:
        yield
    finally:
        config._attn_implementation = _REPLACED


@cache
def _register() -> None:
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface

    AttentionInterface.register(_NAME, attended)
    AttentionMaskInterface.register(_NAME, added_mask)


def added_mask(*args: Any, **given: Any) -> Any:
    """What is added to the scores: nothing, or minus infinity for tokens that are not seen."""
    import torch
    from transformers.masking_utils import sdpa_mask

    seen = sdpa_mask(*args, **{**given, "allow_is_causal_skip": False})
    return torch.zeros(seen.shape, device=seen.device).masked_fill(~seen, -torch.inf)


def attended(
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Any,
    dropout: float = 0.0,
    scaling: float | None = None,
    **given: Any,
) -> tuple[Any, None]:
    """The answer of transformers' `sdpa_attention_forward`, rows × tokens × heads × width, to rounding."""
    import torch

    rows, heads, tokens, width = query.shape
    changed = any(given.get(name) is not None for name in _OTHERS)
    if tokens != 1 or dropout or changed or attention_mask is None:
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        mask = None if attention_mask is None else attention_mask.to(query.dtype)
        given |= {"dropout": dropout, "scaling": scaling}
        answer: tuple[Any, None] = sdpa_attention_forward(module, query, key, value, mask, **given)
        return answer
    shared = key.shape[1]
    groups = rows * shared
    own = query.reshape(groups, heads // shared, width)
    # One row of the mask for all heads of a sequence.
    mask = attention_mask.expand(rows, shared, 1, -1).reshape(groups, 1, -1)
    keys, values = key.flatten(0, 1), value.flatten(0, 1)
    scores = _scores(torch, mask, own, keys, width**-0.5 if scaling is None else scaling)
    found = torch.bmm(torch.softmax(scores, -1).to(value.dtype), values)
    return found.reshape(rows, 1, heads, value.shape[-1]), None


def _scores(torch: Any, mask: Any, own: Any, keys: Any, scaling: float) -> Any:
    """In float32, as torch's attention keeps them: rounded to bfloat16 they would be some hundredths off."""
    if own.dtype == torch.float32:
        return torch.baddbmm(mask, own, keys.mT, alpha=scaling)
    if own.device.type == "cuda":
        return torch.bmm(own, keys.mT, out_dtype=torch.float32).mul_(scaling).add_(mask)
    return torch.baddbmm(mask, own.float(), keys.mT.float(), alpha=scaling)
