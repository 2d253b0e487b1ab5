"""Sequences that a language model of transformers continues, with the keys and values of earlier tokens kept."""

from __future__ import annotations

import inspect
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ModelError, UnsupportedAbility
from zoolens.inventory.runtimes.sequences import Array, Sequences

_PIECE: Final = 512  # tokens at once of a network that answers the whole vocabulary for each of them
_TRIED: Final = 6  # tokens with which it is tried whether the cache changes the answer
_EXACT: Final = 1e-3  # nats; of float32
_COARSE: Final = 0.25  # nats; of 16 bits


class CachedSequences:
    """Runs within the settings that the session lends to torch."""

    def __init__(self, torch: Any, module: Any, device: Any) -> None:
        self._torch, self._module, self._device = torch, module, device
        config = _language_config(module)
        self._takes_positions = "logits_to_keep" in inspect.signature(module.forward).parameters
        longest = getattr(config, "max_position_embeddings", None)
        self._sequences = Sequences("the model", int(config.vocab_size), int(longest) if longest else None)
        self._cache: Any = None
        self._alive = 0  # tokens whose keys and values are in the cache
        self._tried = False

    def extend(self, tokens: NDArray[np.integer[Any]], kept: int | None) -> Array:
        whole, stays = self._sequences.continued(tokens, kept)
        if not self._tried:
            self._try()
        self._cut(stays)
        begin, self._alive = self._alive, 0
        rows, count = whole.shape
        step = count if self._takes_positions else max(1, _PIECE // rows)
        for place in range(begin, count, step):
            logits = self._logits(whole[:, place : place + step])
        found = self._log_probabilities(logits)
        self._alive = whole.shape[1]
        self._sequences.tokens = whole
        return found

    def _cut(self, stays: int) -> None:
        """Leave no more than so many tokens in the cache; none where it is of a kind that cannot be cut."""
        # Nothing counts as kept while it is cut, which may fail between two layers.
        before, self._alive = self._alive, 0
        if stays and stays < before:
            try:
                # How many to take away, below 0: transformers 5.22 refuses the number that stays, which 4.48 took.
                self._cache.crop(stays - before)
                self._alive = stays
            except (AttributeError, NotImplementedError, ValueError):
                pass
        else:
            self._alive = min(before, stays)
        if not self._alive:
            self._cache = _new_cache()

    def _logits(self, tokens: NDArray[np.int32]) -> Any:
        """Those of the last position on the device, where the tokens go into the cache."""
        wanted = {"logits_to_keep": 1} if self._takes_positions else {}
        ids = self._torch.from_numpy(tokens.astype(np.int64)).to(self._device)
        answer = self._module(input_ids=ids, past_key_values=self._cache, use_cache=True, **wanted)
        if getattr(answer, "past_key_values", None) is not self._cache:
            raise _unable("it keeps no keys and values of earlier tokens")
        return answer.logits[:, -1]

    def _log_probabilities(self, logits: Any) -> Array:
        """Computed where the logits are: a processor takes milliseconds for a large vocabulary."""
        torch = self._torch
        found = torch.log_softmax(logits.float(), -1)
        if not torch.isfinite(found.amax()):
            raise ModelError("The model answered NaN or infinity for a token.")
        if found.device.type == "cuda":
            # Copies to memory that is pinned take a tenth of the time; torch keeps such memory for the next ones.
            found = torch.empty_like(found, device="cpu", pin_memory=True).copy_(found)
        answer: Array = found.numpy()
        return answer

    def _try(self) -> None:
        """A model that sees later tokens as well, such as one of masked tokens, answers otherwise with a cache."""
        torch = self._torch
        ids = np.arange(_TRIED, dtype=np.int32)[None] % self._sequences.vocabulary
        self._cache = _new_cache()
        self._logits(ids[:, :-2])
        self._logits(ids[:, -2:-1])
        ours = self._log_probabilities(self._logits(ids[:, -1:]))
        whole = self._module(input_ids=torch.from_numpy(ids.astype(np.int64)).to(self._device)).logits
        difference = np.abs(ours - self._log_probabilities(whole[:, -1])).max()
        exact = next(self._module.parameters()).dtype == torch.float32 and not torch.is_autocast_enabled()
        if difference > (_EXACT if exact else _COARSE):
            raise _unable(f"its answers with a cache are up to {difference:.2g} nats from those without")
        self._cache, self._alive, self._tried = None, 0, True


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


def _new_cache() -> Any:
    # Without the configuration every layer keeps all tokens, and can be cut; windows are made by masks.
    from transformers import DynamicCache

    return DynamicCache()


def _unable(reason: str) -> UnsupportedAbility:
    return UnsupportedAbility("torch", "continue a sequence with this model", reason)
