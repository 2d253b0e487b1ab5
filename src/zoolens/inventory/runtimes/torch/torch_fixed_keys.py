"""Keys and values of tokens in memory of a fixed length: a step of decoding is then the same kernels at the same
addresses for each token, recorded once (CUDA graph) and launched together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import UnsupportedAbility, first_line
from zoolens.inventory.runtimes.torch.torch_cuda import GraphedCall
from zoolens.inventory.runtimes.torch.torch_fused_layers import FusedLayers
from zoolens.inventory.runtimes.torch.torch_grouped_attention import grouped_attention

_SHORTEST: Final = 256  # tokens
_SPARE: Final = 4  # times the room that a new text needs; where more is there, each of its steps reads too much


@dataclass
class Places:
    """Where the tokens that are computed stand. A recorded step reads both from memory that each replay fills anew."""

    first: Any = 0
    all: Any = None


class FixedKeys:
    """What `CachedSequences` keeps of earlier tokens. Prompts are computed as in mode eager, single tokens behind them
    by a recorded step. A longer memory, or another number of sequences, needs another recording."""

    def __init__(self, torch: Any, module: Any, device: Any, longest: int | None) -> None:
        self._torch, self._module, self._device, self._longest = (
            torch,
            module,
            device,
            longest,
        )
        self._layers = _plain_layers(module)
        self._fused = FusedLayers(torch, module, device) if device.type == "cuda" else None
        self.forget()

    def forget(self) -> None:
        self._rows = self._length = 0
        self._cache: Any = None
        self._step: Any = None
        self._places = Places()

    def cut(self, before: int, stays: int) -> int:
        """How many tokens are left. Those behind them are overwritten before they are read."""
        return min(before, stays)

    def make_room(self, rows: int, count: int, begin: int) -> None:
        """Memory for so many tokens, of which the first ones up to `begin` are there."""
        needed = fixed_length(count, self._longest)
        fits = rows == self._rows and count <= self._length
        if fits and (begin or self._length <= _SPARE * needed):
            return
        before = self._cache
        # The graph's memory is free again before more is taken.
        self.forget()
        self._rows, self._length = rows, needed
        self._cache = _cache_of(self._layers, needed, self._places)
        if begin:
            for old, new in zip(before.layers, self._cache.layers, strict=True):
                new.take(old, begin)

    def after(self, tokens: NDArray[np.int32], place: int) -> tuple[Any, Any]:
        """The distributions after tokens that stand at this place and behind it."""
        torch = self._torch
        if tokens.shape[1] == 1 and place:
            given = torch.from_numpy(np.append(tokens[:, 0], place).astype(np.int64))
            # From pinned memory the host need not wait until the device has it.
            return self._recorded(given.pin_memory() if self._device.type == "cuda" else given)
        self._places.first = place
        self._places.all = torch.arange(place, place + tokens.shape[1], device=self._device)
        return self._computed(torch.from_numpy(tokens.astype(np.int64)).to(self._device))

    def _recorded(self, given: Any) -> tuple[Any, Any]:
        if self._step is None:
            self._step = GraphedCall(self._torch, self._one_step) if self._device.type == "cuda" else self._one_step
            given = given.to(self._device)
        try:
            found: tuple[Any, Any] = self._step(given)
        except RuntimeError as error:
            if "captur" not in str(error):
                raise
            raise _unable(f"its step cannot be recorded ({first_line(error)})") from error
        return found

    def _one_step(self, given: Any) -> tuple[Any, Any]:
        """`given`: a token of each sequence, and where they stand."""
        self._places.first, self._places.all = given[-1], given[-1:]
        if self._fused is None:
            with grouped_attention(self._module):
                return self._computed(given[:-1, None])
        with grouped_attention(self._module), self._fused.lent(given[-1:]):
            logits = self._logits(given[:-1, None])
            return self._fused.distributions(logits) or distributions(self._torch, logits)

    def _computed(self, ids: Any) -> tuple[Any, Any]:
        return distributions(self._torch, self._logits(ids))

    def _logits(self, ids: Any) -> Any:
        answer = self._module(input_ids=ids, past_key_values=self._cache, use_cache=True, logits_to_keep=1)
        if getattr(answer, "past_key_values", None) is not self._cache:
            raise _unable("it keeps no keys and values of earlier tokens")
        return answer.logits[:, -1]


def distributions(torch: Any, logits: Any) -> tuple[Any, Any]:
    """Log-probabilities where the logits are, since a processor takes milliseconds for a large vocabulary; and the
    largest one, which is NaN where any is."""
    found = torch.log_softmax(logits.float(), -1)
    return found, found.amax()


def fixed_length(count: int, longest: int | None) -> int:
    """Room for so many tokens: a power of two, or one and a half times one, so that memory which grows is recorded
    seldom and never holds half as much again as is needed."""
    length = _SHORTEST
    while length < count:
        length = length * 3 // 2 if length & (length - 1) == 0 else length * 4 // 3
    return length if longest is None else max(count, min(length, longest))


def _plain_layers(module: Any) -> int:
    """How many layers a network has, each of which keeps all tokens; UnsupportedAbility for any other one."""
    try:
        from transformers import StaticCache
    except ImportError as error:
        raise _unable("this version of transformers has no cache of fixed length") from error
    if not getattr(module, "_can_compile_fullgraph", False):
        raise _unable("transformers does not say that each of its steps is the same kernels")
    try:
        layers = StaticCache(config=module.config, max_cache_len=1).layers
    except Exception as error:
        raise _unable(f"transformers makes no cache of fixed length for it ({first_line(error)})") from error
    kinds = sorted({type(layer).__name__ for layer in layers} - {"StaticLayer"})
    if kinds:
        raise _unable(f"its layers keep tokens in other ways than all of them ({', '.join(kinds)})")
    return len(layers)


def _cache_of(layers: int, length: int, places: Places) -> Any:
    from transformers.cache_utils import Cache

    kind = _layer_class()
    return Cache(layers=[kind(length, places) for _ in range(layers)])


@cache
def _layer_class() -> Any:
    """A layer of transformers' caches. Its own static one counts tokens in each layer by itself, three kernels a layer
    and step, and cannot be cut."""
    import torch
    from transformers.cache_utils import CacheLayerMixin

    class FixedLayer(CacheLayerMixin):  # type: ignore[misc]
        is_compileable = True  # so that masks are made of the place on the device
        is_sliding = False

        def __init__(self, length: int, places: Places) -> None:
            super().__init__()
            self._length, self._places = length, places

        def lazy_initialization(self, key_states: Any, value_states: Any) -> None:
            self.keys, self.values = (self._room(states) for states in (key_states, value_states))
            self.is_initialized = True

        def _room(self, states: Any) -> Any:
            rows, heads, _, width = states.shape
            return torch.zeros(
                (rows, heads, self._length, width),
                dtype=states.dtype,
                device=states.device,
            )

        def take(self, other: Any, count: int) -> None:
            self.lazy_initialization(other.keys, other.values)
            self.keys[:, :, :count] = other.keys[:, :, :count]
            self.values[:, :, :count] = other.values[:, :, :count]

        def update(self, key_states: Any, value_states: Any, *_: Any, **__: Any) -> tuple[Any, Any]:
            if not self.is_initialized:
                self.lazy_initialization(key_states, value_states)
            self.keys.index_copy_(2, self._places.all, key_states)
            self.values.index_copy_(2, self._places.all, value_states)
            if not isinstance(self._places.first, int):
                return self.keys, self.values
            # Prompts see what they see in mode eager: torch takes slower kernels where the memory is longer.
            end = self._places.first + key_states.shape[2]
            return self.keys[:, :, :end].contiguous(), self.values[:, :, :end].contiguous()

        def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
            first = self._places.first
            return (first + query_length if isinstance(first, int) else self._length), 0

        def get_seq_length(self) -> Any:
            return self._places.first

        def get_max_length(self) -> int:
            return self._length

    return FixedLayer


def _unable(reason: str) -> UnsupportedAbility:
    return UnsupportedAbility("torch", "continue a sequence of this model with recorded steps", reason)
