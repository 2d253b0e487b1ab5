"""Sequences that a language model of transformers continues, with the keys and values of earlier tokens kept."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ModelError, UnsupportedAbility
from zoolens.inventory.runtimes.sequences import Array, Sequences, largest_difference
from zoolens.inventory.runtimes.torch.profiler_marks import Marks, marked_modules
from zoolens.inventory.runtimes.torch.torch_fixed_keys import FixedKeys, distributions

_PIECE: Final = 512  # tokens at once of a network that answers the whole vocabulary for each of them
_TRIED: Final = 6  # tokens with which it is tried whether the cache changes the answer
_EXACT: Final = 1e-3  # nats; of float32
_COARSE: Final = 0.25  # nats; of 16 bits


class CachedSequences:
    """Runs within the settings that the session lends to torch. `recorded`: single tokens are a CUDA graph."""

    def __init__(self, torch: Any, module: Any, device: Any, *, recorded: bool = False) -> None:
        self._torch, self._module, self._device = torch, module, device
        config = _language_config(module)
        longest = getattr(config, "max_position_embeddings", None)
        longest = int(longest) if longest else None
        self._whole = "logits_to_keep" in inspect.signature(module.forward).parameters
        if recorded and not self._whole:
            raise _unable("it answers the whole vocabulary for each token; mode eager continues it")
        self._keys = FixedKeys(torch, module, device, longest) if recorded else GrowingKeys(torch, module, device)
        self._sequences = Sequences("the model", int(config.vocab_size), longest)
        self._borders = tuple(_longrope_borders(config))
        self._alive = 0  # tokens whose keys and values are kept
        self._tried = False

    def extend(self, tokens: NDArray[np.integer[Any]], kept: int | None) -> Array:
        whole, stays = self._sequences.continued(tokens, kept)
        if not self._tried:
            self._try()
        # Nothing counts as kept until all went well: a cut may fail between two layers.
        before, self._alive = self._alive, 0
        rows, count = whole.shape
        if any((before > border) != (count > border) for border in self._borders):
            # Keys are turned by other factors on the other side of the border.
            self._keys.forget()
            before = 0
        try:
            begin = self._keys.cut(before, stays)
            self._keys.make_room(rows, count, begin)
            # Pieces on both sides of a border would be turned by different factors.
            crossed = any(begin < border < count for border in self._borders)
            step = count if self._whole or crossed else max(1, _PIECE // rows)
            for place in range(begin, count, step):
                found = self._keys.after(whole[:, place : place + step], place)
            answer = self._fetched(*found)
        except BaseException:
            # What was computed may be NaN, which a masked token passes on.
            self._keys.forget()
            raise
        self._alive, self._sequences.tokens = count, whole
        return answer

    @contextmanager
    def marked(self, marks: Marks, tokens: NDArray[np.integer[Any]], kept: int) -> Iterator[Callable[[], object]]:
        """The call that goes on behind the first `kept` tokens, while the parts of the network mark themselves."""
        if kept:
            self.extend(tokens[:, :kept], 0)
        with marked_modules(self._module, marks):
            yield lambda: self.extend(tokens[:, kept:], kept)

    def _fetched(self, found: Any, largest: Any) -> Array:
        """Log-probabilities in the host's memory, which waits for the device once."""
        torch = self._torch
        if found.device.type == "cuda":
            # Copies to memory that is pinned take a tenth of the time; torch keeps such memory for the next ones.
            found, largest = (
                torch.empty_like(each, device="cpu", pin_memory=True).copy_(each, non_blocking=True)
                for each in (found, largest)
            )
            torch.cuda.current_stream(self._device).synchronize()
        if not math.isfinite(largest.item()):
            raise ModelError("The model answered NaN or infinity for a token.")
        answer: Array = found.numpy()
        return answer

    def _try(self) -> None:
        """A model that sees later tokens as well, such as one of masked tokens, answers otherwise with a cache. A step
        is recorded with the last token but one, and must be right for the last one too."""
        torch = self._torch
        ids = np.arange(_TRIED, dtype=np.int32)[None] % self._sequences.vocabulary
        self._keys.forget()
        self._keys.make_room(1, _TRIED, 0)
        self._keys.after(ids[:, :-2], 0)
        self._keys.after(ids[:, -2:-1], _TRIED - 2)
        ours = self._fetched(*self._keys.after(ids[:, -1:], _TRIED - 1))
        whole = self._module(input_ids=torch.from_numpy(ids.astype(np.int64)).to(self._device)).logits
        difference = largest_difference(ours, self._fetched(*distributions(torch, whole[:, -1])))
        exact = next(self._module.parameters()).dtype == torch.float32 and not torch.is_autocast_enabled()
        if not difference <= (_EXACT if exact else _COARSE):
            raise _unable(f"its answers with a cache are up to {difference:.2g} nats from those without")
        self._keys.forget()
        self._alive, self._tried = 0, True


class GrowingKeys:
    """Keys and values of as many tokens as there are, in a cache of transformers."""

    def __init__(self, torch: Any, module: Any, device: Any) -> None:
        self._torch, self._module, self._device = torch, module, device
        self._wanted = {"logits_to_keep": 1} if "logits_to_keep" in inspect.signature(module.forward).parameters else {}
        self.cache: Any = None

    def forget(self) -> None:
        self.cache = None

    def cut(self, before: int, stays: int) -> int:
        """Leave no more than so many tokens; none where the cache is of a kind that cannot be cut."""
        if stays < before:
            if not stays:
                self.cache = None
                return 0
            try:
                # How many to take away, below 0: transformers 5.22 refuses the number that stays, which 4.48 took.
                self.cache.crop(stays - before)
            except (AttributeError, NotImplementedError, ValueError):
                self.cache = None
                return 0
        return min(before, stays)

    def make_room(self, rows: int, count: int, begin: int) -> None:
        if not begin:
            # Without the configuration every layer keeps all tokens, and can be cut; windows are made by masks.
            from transformers import DynamicCache

            self.cache = DynamicCache()

    def after(self, tokens: NDArray[np.int32], place: int) -> tuple[Any, Any]:
        """The distributions after the last of these tokens, which go into the cache."""
        ids = self._torch.from_numpy(tokens.astype(np.int64)).to(self._device)
        answer = self._module(input_ids=ids, past_key_values=self.cache, use_cache=True, **self._wanted)
        if getattr(answer, "past_key_values", None) is not self.cache:
            raise _unable("it keeps no keys and values of earlier tokens")
        return distributions(self._torch, answer.logits[:, -1])


def _language_config(module: Any) -> Any:
    """What a network of transformers says of itself; UnsupportedAbility for any other one."""
    config = getattr(module, "config", None)
    can = getattr(module, "can_generate", None)
    if config is None or can is None or not can():
        raise _unable("only language models that transformers builds keep keys and values")
    if getattr(config, "is_encoder_decoder", False):
        raise _unable("it has an encoder, and only models of the next token are continued")
    if not isinstance(getattr(config, "vocab_size", None), int):
        raise ModelError("The model's configuration states no vocab_size.")
    return config


def _longrope_borders(config: Any) -> Iterator[int]:
    """The lengths beyond which rotary positions are turned by the long factors instead of the short ones."""
    parameters = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    by_layer_type = [value for value in parameters.values() if isinstance(value, Mapping)]
    for rope in (parameters, *by_layer_type):
        # Transformers 4 knew older names, and kept the length in the configuration.
        if rope.get("rope_type", rope.get("type")) in ("longrope", "su"):
            length = rope.get("original_max_position_embeddings")
            length = length or getattr(config, "original_max_position_embeddings", None)
            yield int(length or config.max_position_embeddings)


def _unable(reason: str) -> UnsupportedAbility:
    return UnsupportedAbility("torch", "continue a sequence with this model", reason)
