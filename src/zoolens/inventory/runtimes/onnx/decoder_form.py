"""Language models in ONNX that take the keys and values of earlier tokens, in the form that optimum exports.

Inputs: input_ids, and where the file has them attention_mask and position_ids; past_key_values.N.key and .value for
each layer. Outputs: logits, and present.N.key and .value, which are the next call's past. Numpy and the standard
library only: workers import it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from zoolens.base.errors import ModelError
from zoolens.inventory.runtimes.runtime import Tensor, TensorSpec, shape_text

TOKENS: Final = "input_ids"
MASK: Final = "attention_mask"
POSITIONS: Final = "position_ids"
LOGITS: Final = "logits"
_PAST: Final = re.compile(r"past_key_values\.(\d{1,4})\.(key|value)")
_PREFIX: Final = "past_key_values."
_BRANCH: Final = "use_cache_branch"
_SEQUENCE: Final = 2  # the axis along which caches grow
_FLOATS: Final = ("float32", "float16")
# ONNX Runtime's operators that are given how many tokens each text has, and take these to be the first ones.
_COUNTING: Final = (b"GroupQueryAttention", b"SparseAttention", b"PagedAttention")


@dataclass(frozen=True)
class DecoderForm:
    """The inputs and outputs of one file. `presents` has the output that goes on with each input of `pasts`."""

    tokens: TensorSpec
    mask: TensorSpec | None
    positions: TensorSpec | None
    pasts: tuple[TensorSpec, ...]
    presents: tuple[str, ...]
    vocabulary: int

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """What is fed from outside; the others follow from it."""
        return (self.tokens,) if self.mask is None else (self.tokens, self.mask)

    def empty_caches(self, rows: int) -> list[Tensor]:
        return [np.zeros(_empty_shape(spec, rows), spec.dtype) for spec in self.pasts]

    def whole_texts(self, feeds: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """All inputs for texts that begin with nothing."""
        tokens = feeds[self.tokens.name]
        self.check_ids(tokens)
        mask = np.ones(tokens.shape, np.int64) if self.mask is None else feeds[self.mask.name]
        if mask.shape != tokens.shape:
            raise ModelError(f"The mask of {shape_text(tokens.shape)} tokens is {shape_text(mask.shape)}.")
        if self.positions is None and self.pads_before(feeds):
            raise _only_behind("counts positions from the beginning of each row")
        empty = zip(self.pasts, self.empty_caches(len(tokens)), strict=True)
        return {**self.feeds(tokens, mask), **{spec.name: cache for spec, cache in empty}}

    def pads_before(self, feeds: Mapping[str, Tensor]) -> bool:
        """Whether any text has padding before one of its tokens."""
        if self.mask is None:
            return False
        mask = feeds[self.mask.name].astype(np.int64)
        return bool((np.diff(mask, axis=1) > 0).any())

    def feeds(self, tokens: Tensor, mask: Tensor, kept: int = 0) -> dict[str, Tensor]:
        """All inputs but the caches. `mask` is of all tokens, of which the last are given."""
        fed = {self.tokens.name: tokens.astype(self.tokens.dtype, copy=False)}
        if self.mask is not None:
            fed[self.mask.name] = mask.astype(self.mask.dtype, copy=False)
        if self.positions is not None:
            # As transformers counts them: padding before a text takes no positions.
            places = np.maximum(np.cumsum(mask, axis=1, dtype=np.int64) - 1, 0)
            fed[self.positions.name] = places[:, kept:].astype(self.positions.dtype)
        return fed

    def check_ids(self, tokens: Tensor) -> None:
        """ONNX counts a negative id from the end of the table."""
        if not tokens.size:
            raise ModelError(f"Input {self.tokens.name!r} holds a text without tokens; one is needed at least.")
        wrong = tokens[(tokens < 0) | (tokens >= self.vocabulary)]
        if wrong.size:
            raise ModelError(
                f"Input {self.tokens.name!r} holds the id {int(wrong[0])}, and the vocabulary ends at "
                f"{self.vocabulary - 1:,}.",
                hint="Is the tokenizer that of the model?",
            )

    def check_logits(self, shape: Sequence[int], tokens: Tensor) -> None:
        wanted = (*tokens.shape, self.vocabulary)
        if tuple(shape) == wanted:
            return
        if len(shape) == 3 and tuple(shape) == (wanted[0], 1, wanted[2]):
            raise _only_last()
        raise ModelError(f"The logits of {shape_text(tokens.shape)} tokens are {shape_text(shape)}.")


def check_counting(content: bytes) -> None:
    """Refuse padding before a text where an attention in the file only knows how many tokens each text has."""
    counting = next((name for name in _COUNTING if name in content), None)
    if counting is not None:
        raise _only_behind(f"has attention of the kind {counting.decode()}, which takes the first tokens of each row")


def _only_behind(why: str) -> ModelError:
    return ModelError(
        f"The model {why}, so that padding may only follow a text.",
        hint="Declare tokenizer: {padding_side: right} in the manifest.",
    )


def takes_caches(inputs: Iterable[TensorSpec]) -> bool:
    return any(spec.name.startswith(_PREFIX) for spec in inputs)


def refuse_caches(inputs: Iterable[TensorSpec], file: str, runtime: str) -> None:
    """For runtimes that would ask their caller for caches."""
    if takes_caches(inputs):
        raise ModelError(
            f"{file} takes keys and values of earlier tokens, which {runtime} is not given here.",
            hint="Run it in onnxruntime.",
        )


def decoder_form(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], file: str) -> DecoderForm | None:
    """The form of a file; None where no input has such a name, ModelError where one has and the rest does not fit."""
    if not takes_caches(inputs):
        return None
    given, answered = ({spec.name: spec for spec in specs} for specs in (inputs, outputs))
    try:
        return _read(given, answered)
    except ModelError as error:
        raise ModelError(
            f"{file} is no language model that can be run here: {error.message}", hint=error.hint
        ) from None


def _read(given: Mapping[str, TensorSpec], answered: Mapping[str, TensorSpec]) -> DecoderForm:
    if _BRANCH in given:
        raise ModelError(
            f"it is a merged decoder, whose input {_BRANCH} chooses between two networks.",
            hint="Export it without merging (model.onnx of today's optimum), so that empty caches begin a text.",
        )
    pasts = _pasts(given)
    for spec in pasts:
        _check_past(spec)
    for key, value in zip(pasts[::2], pasts[1::2], strict=True):
        if key.shape[1] != value.shape[1]:
            raise ModelError(f"its input {key.name} has {key.shape[1]:,} heads, and {value.name} {value.shape[1]:,}.")
    presents = tuple(f"present.{spec.name.removeprefix(_PREFIX)}" for spec in pasts)
    for spec, name in zip(pasts, presents, strict=True):
        _check_present(spec, answered.get(name), name)
    known = {TOKENS, MASK, POSITIONS, *(spec.name for spec in pasts)}
    strange = next((name for name in given if name not in known), None)
    if strange is not None:
        raise ModelError(f"what fills its input {strange[:80]!r} is not known here.")
    tokens = _whole_numbers(given, TOKENS)
    if tokens is None:
        raise ModelError(f"it has no input {TOKENS!r}.")
    mask, positions = _whole_numbers(given, MASK), _whole_numbers(given, POSITIONS)
    return DecoderForm(tokens, mask, positions, pasts, presents, _vocabulary(answered.get(LOGITS)))


def _pasts(given: Mapping[str, TensorSpec]) -> tuple[TensorSpec, ...]:
    """The caches, layer by layer, of which each has both."""
    found = [matched for name in given if (matched := _PAST.fullmatch(name))]
    layers = sorted({int(matched[1]) for matched in found})
    names = [
        f"{_PREFIX}{layer}.{part}" for layer in range(layers[-1] + 1 if layers else 1) for part in ("key", "value")
    ]
    missing = [name for name in names if name not in given]
    if missing:
        others = f", and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ModelError(f"it lacks the input {missing[0]}{others}.")
    return tuple(given[name] for name in names)


def _check_past(spec: TensorSpec) -> None:
    shape = spec.shape
    if len(shape) != 4 or spec.dtype not in _FLOATS:
        raise ModelError(
            f"its input {spec.name} is {shape_text(shape)} of {spec.dtype}, not batch × heads × tokens × width in "
            f"{' or '.join(_FLOATS)}."
        )
    if shape[_SEQUENCE] is not None:
        raise ModelError(
            f"its input {spec.name} is {shape_text(shape)}, and always has {shape[_SEQUENCE]:,} tokens, so that no "
            "text begins with none.",
            hint="Export it with a free axis of earlier tokens.",
        )
    if shape[1] is None or shape[3] is None:
        raise ModelError(f"its input {spec.name} is {shape_text(shape)} and does not say its heads and their width.")


def _check_present(past: TensorSpec, present: TensorSpec | None, name: str) -> None:
    if present is None:
        raise ModelError(f"it lacks the output {name}, which goes on with its input {past.name}.")
    pairs = zip(past.shape, present.shape, strict=False)
    other = any(None not in pair and pair[0] != pair[1] for pair in pairs)
    if len(present.shape) not in (0, 4) or other or present.dtype != past.dtype:
        raise ModelError(
            f"its output {name} is {shape_text(present.shape)} of {present.dtype}, which its input {past.name}, "
            f"{shape_text(past.shape)} of {past.dtype}, cannot take."
        )


def _whole_numbers(given: Mapping[str, TensorSpec], name: str) -> TensorSpec | None:
    spec = given.get(name)
    if spec is not None and (len(spec.shape) != 2 or spec.dtype not in ("int64", "int32")):
        raise ModelError(f"its input {name} is {shape_text(spec.shape)} of {spec.dtype}, not whole numbers of texts.")
    return spec


def _vocabulary(logits: TensorSpec | None) -> int:
    if logits is None:
        raise ModelError(f"it has no output {LOGITS!r}.")
    shape = logits.shape
    if len(shape) != 3 or shape[2] is None:
        raise ModelError(f"its {LOGITS} are {shape_text(shape)}, not batch × tokens × a known vocabulary.")
    if shape[1] == 1:
        raise _only_last()
    return shape[2]


def _only_last() -> ModelError:
    return ModelError(
        "it answers with the logits of the last position only, and texts are judged by those of every position.",
        hint="Export it with the logits of all positions.",
    )


def _empty_shape(spec: TensorSpec, rows: int) -> tuple[int, ...]:
    return (rows, *(0 if place == _SEQUENCE else extent or 0 for place, extent in enumerate(spec.shape[1:], 1)))
