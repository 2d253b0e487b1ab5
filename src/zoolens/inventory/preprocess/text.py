"""From a text to all inputs of a model, and from answers for each token to one vector a text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import DatasetError, ManifestError, ModelError
from zoolens.inventory.datasets.text_dataset import Choices, Prompt, TextPair, Value, Words
from zoolens.inventory.manifests.schema import Input
from zoolens.inventory.manifests.schema_inputs import TOKEN_TYPES
from zoolens.inventory.manifests.schema_steps import Pool
from zoolens.inventory.preprocess.array_inputs import Prepare
from zoolens.inventory.preprocess.chat_rendering import ChatRenderer
from zoolens.inventory.preprocess.generating_tokenizer import GeneratingTokenizer
from zoolens.inventory.preprocess.tokenizer_client import (
    ChoiceTokens,
    TokenPlaces,
    Tokens,
    token_places,
)
from zoolens.inventory.runtimes.outputs.lookup_tables import table_rows
from zoolens.inventory.runtimes.runtime import ModelFiles, TensorSpec, shape_text

Array = NDArray[Any]

_LENGTH: Final = "\0length"  # a field beside those of the tensors: no input is called so
_CUT: Final = "\0cut"
_UNKNOWN: Final = "\0unknown"
_KEPT: Final = "\0kept"  # of the answer to a choice: how many of its last positions count
_BOTH: Final = ("\0first", "\0second")  # of a pair whose texts are given to the model one by one


@dataclass(frozen=True)
class TextFacts:
    """What became of all texts of some data. `unknown` is None where the tokenizer has no token for unknown words."""

    texts: int
    cut: int
    tokens: int
    unknown: int | None


def joined_facts(parts: Sequence[TextFacts]) -> TextFacts:
    """The facts of all texts together."""
    unknown = [part.unknown for part in parts if part.unknown is not None]
    return TextFacts(
        sum(part.texts for part in parts),
        sum(part.cut for part in parts),
        sum(part.tokens for part in parts),
        sum(unknown) if unknown else None,
    )


class PrepareText(Prepare):
    """A text becomes a record with a field for each input of the model, always max_length long. `feeds` takes records
    apart again, and only then leaves out the padding that no text of the batch needs."""

    def __init__(self, spec: Input, inputs: Sequence[TensorSpec], tokenizer: Path, *, each: bool = False) -> None:
        """`each`: of a pair, both texts are given to the model one by one; records have a record for either."""
        assert spec.tokenizer is not None  # the schema sees to it
        self.each = each and spec.tokenizer.pair is None
        self._last: tuple[Value, Tokens] | None = None
        self._last_choices: ChoiceTokens | None = None
        self._chat: ChatRenderer | None = None
        self.declared = spec.tokenizer
        self.tensors = _filled_tensors(spec, inputs)
        fields = [
            (tensor.name, np.dtype(tensor.dtype), (self.declared.max_length,)) for tensor in self.tensors.values()
        ]
        self._record = np.dtype(
            [*fields, (_LENGTH, np.int64), (_CUT, np.bool_), (_UNKNOWN, np.int64), (_KEPT, np.int64)]
        )
        self.tokenizer = GeneratingTokenizer(self.declared, tokenizer)

    def __call__(self, value: Array) -> Array:
        alone = np.asarray(value, object if isinstance(value, str) else None)
        record: Array = self.many(alone[np.newaxis])[0]
        return record

    def many(self, values: Array) -> Array:
        if not is_text(values):
            given = f"{shape_text(values.shape[1:])} of {values.dtype}"
            raise DatasetError(
                f"The sample is {given}, but the model takes text.",
                hint="Give a table with a column of texts: --data FILE.csv.",
            )
        texts = values.tolist()
        self._check_form(texts)
        if texts and isinstance(texts[0], Choices):
            if len(texts) > 1:
                raise DatasetError("Questions with choices are prepared one by one.")
            return self._choice_records(self._choice_tokens(texts[0]))[np.newaxis]
        if texts and isinstance(texts[0], Prompt):
            return self._prompt_records(texts)
        if self.each and texts and isinstance(texts[0], TextPair):
            both = [self._encoded([text.parts[place] for text in texts]) for place in range(2)]
            pairs = np.empty(len(texts), np.dtype([(name, self._record) for name in _BOTH]))
            for name, records in zip(_BOTH, both, strict=True):
                pairs[name] = records
            return pairs
        return self._encoded(texts)

    def places(self, value: Array) -> TokenPlaces | ChoiceTokens | Prompt:
        """Where the tokens of a sample come from, which reading answers for tokens needs to know."""
        sample = value.item() if isinstance(value, np.ndarray) else value
        self._check_form([sample])
        if isinstance(sample, Choices):
            return self._choice_tokens(sample)
        if isinstance(sample, Prompt):
            return sample
        tokens = self.tokenizer.encode([sample], places=True)
        # The same sample is prepared next.
        self._last = sample, tokens
        return tokens.places[0]

    def halves(self, records: Array) -> list[Array]:
        """The records that are given to the model one after the other: two of pairs whose texts are told apart, and one
        for each choice."""
        if records.ndim == 2:
            return [records[:, place] for place in range(records.shape[1])]
        return [records[name] for name in _BOTH] if records.dtype.names == _BOTH else [records]

    def kept_positions(self, records: Array, answer: Array) -> Array:
        """Returns the positions that foresee the tokens of a choice: batch × positions × vocabulary."""
        count, kept = int(records[_LENGTH][0]), int(records[_KEPT][0])
        if answer.ndim != 3 or answer.shape[1] < count:
            raise ModelError(
                f"The output has shape {shape_text(answer.shape)} for a text of {count:,} tokens, not a score for each "
                "token of the vocabulary at each position.",
                hint="Name the output that has the logits of all positions.",
            )
        end = answer.shape[1] if self.declared.padding_side == "left" else count
        return answer[:, end - kept : end]

    def prompt_ids(self, record: Array) -> Array:
        """The tokens of one prompt, from its record, without padding."""
        ids, count = record[self.tensors["input_ids"].name], int(record[_LENGTH])
        return np.asarray(ids[-count:] if self.declared.padding_side == "left" else ids[:count], np.int32)

    def _prompt_records(self, prompts: Sequence[Prompt]) -> Array:
        rows = [np.array(self._tokens_of(prompt), np.int64) for prompt in prompts]
        longest = self.declared.max_length
        if max(map(len, rows)) > longest:
            raise DatasetError(
                f"A prompt has more than the {longest:,} tokens that the model takes.", hint="Shorten it."
            )
        if min(map(len, rows)) == 0:
            raise DatasetError("A prompt has no tokens.", hint="Remove it.")
        return self._records(self.tokenizer.tokens_of(rows, [False] * len(rows)))

    def _tokens_of(self, prompt: Prompt) -> list[int]:
        if not prompt.messages:
            return self.tokenizer.prompt(prompt.text, special=self.declared.special_tokens)
        if self._chat is None:
            template = self.declared.chat_template
            if template is None:
                raise DatasetError(
                    "The sample is a conversation, and the manifest has no chat template.",
                    hint="Declare it: tokenizer: {chat_template: {template: …}}.",
                )
            self._chat = ChatRenderer(template)
        messages = [{"role": message.role, "content": message.content} for message in prompt.messages]
        # The template has written special tokens already.
        return self.tokenizer.prompt(self._chat.render(messages, answer=True), special=False)

    def _choice_tokens(self, sample: Choices) -> ChoiceTokens:
        last = self._last_choices
        if last is None or last.sample is not sample:
            last = self._last_choices = self.tokenizer.continued(sample)
        return last

    def _choice_records(self, tokens: ChoiceTokens) -> Array:
        records = self._records(self.tokenizer.tokens_of(tokens.given, tokens.cut))
        records[_KEPT] = [len(choice) for choice in tokens.choices]
        return records

    def _encoded(self, texts: Sequence[Value]) -> Array:
        last = self._last
        if last is not None and len(texts) == 1 and texts[0] is last[0]:
            return self._records(last[1])
        return self._records(self.tokenizer.encode(texts))

    def _check_form(self, texts: Sequence[Value]) -> None:
        if any(isinstance(text, Choices | Prompt) for text in texts) and self.declared.pair is not None:
            raise DatasetError("The sample is a text to go on with, but the model takes pairs.")
        pairs = [isinstance(text, TextPair) for text in texts]
        wanted = self.declared.pair is not None
        if wanted and not all(pairs):
            raise DatasetError(
                "The sample is one text, but the model takes pairs.", hint="Name both columns: --data 'FILE?text=A,B'."
            )
        if any(pairs) and not wanted and not self.each:
            raise DatasetError(
                "The sample is a pair of texts, but the model takes one text.",
                hint="Name one column, text=A; or declare tokenizer: {pair: longest_first} where the model takes both "
                "together.",
            )
        if len({type(text) for text in texts}) > 1:
            raise DatasetError("Some samples are texts and some are words or pairs.")

    def feeds(self, records: Array) -> dict[str, Array]:
        """The tensors of a batch by the model's names, no longer than its longest text where they need not be. Of pairs
        whose texts are told apart, those of the first texts."""
        records = self.halves(records)[0]
        columns = self._columns(records)
        return {tensor.name: np.ascontiguousarray(records[tensor.name][:, columns]) for tensor in self.tensors.values()}

    def pooled(self, answer: Array, records: Array, how: Pool | None, output: str) -> Array:
        """One row of numbers a text, of an output that may have one for each token."""
        if how is None:
            if answer.ndim > 2 and self.declared.padding != "max_length":
                raise ModelError(
                    f"The output {output} has shape {shape_text(answer.shape)}: numbers for each token, of which texts "
                    "have different counts.",
                    hint="Declare how they become one vector: postprocess: [{op: pool, method: mean}].",
                )
            return answer
        places = token_places(records[_LENGTH], self.declared.max_length, self.declared.padding_side)
        places = places[:, self._columns(records)]
        if answer.ndim != 3 or answer.shape[:2] != places.shape:
            raise ModelError(
                f"The output {output} has shape {shape_text(answer.shape)}, not one vector for each of "
                f"{shape_text(places.shape)} tokens.",
                hint="Remove the step pool from the manifest, or name another output.",
            )
        if not places.any(axis=1).all():
            raise DatasetError("A text has no tokens, so that there is no vector to make of them.", hint="Remove it.")
        return _pooled(answer, places, how.method)

    def facts(self, values: Iterator[Array]) -> TextFacts:
        """What became of these texts, batch by batch."""
        return joined_facts([self.facts_of(self.many(part)) for batch in values for part in _at_once(batch)])

    def facts_of(self, records: Array) -> TextFacts:
        """Returns how many prepared texts were cut, and how many tokens they have."""
        records = np.concatenate(self.halves(records))
        cut = int(records[_CUT].sum())
        tokens = int(records[_LENGTH].sum())
        unknown = int(records[_UNKNOWN].sum())
        return TextFacts(len(records), cut, tokens, None if unknown < 0 else unknown)

    def close(self) -> None:
        self.tokenizer.close()
        if self._chat is not None:
            self._chat.close()

    def _columns(self, records: Array) -> slice:
        if self.declared.padding == "max_length":
            return slice(None)
        longest = int(records[_LENGTH].max(initial=1))
        return slice(-longest, None) if self.declared.padding_side == "left" else slice(longest)

    def _records(self, tokens: Tokens) -> Array:
        records = np.empty(len(tokens.lengths), self._record)
        mask = token_places(tokens.lengths, self.declared.max_length, self.declared.padding_side)
        filled = {
            "input_ids": tokens.ids,
            "attention_mask": mask,
            "token_type_ids": tokens.types,
            "shape_ids": tokens.shapes,
        }
        for kind, tensor in self.tensors.items():
            records[tensor.name] = filled[kind]
        records[_LENGTH], records[_CUT], records[_UNKNOWN] = tokens.lengths, tokens.cut, tokens.unknown
        records[_KEPT] = 0
        return records


def is_text(values: Array) -> bool:
    """Whether these are samples of text: Python objects, since a text may be as long as it likes."""
    if values.dtype != object or values.ndim != 1:
        return False
    return all(isinstance(value, str | TextPair | Words | Choices | Prompt) for value in values.tolist())


def has_choices(values: Array) -> bool:
    """Whether samples are texts with choices, each of which is prepared by itself."""
    return is_text(values) and any(isinstance(value, Choices) for value in values.tolist())


def _at_once(values: Array) -> list[Array]:
    """Samples that are prepared together."""
    return [values[place : place + 1] for place in range(len(values))] if has_choices(values) else [values]


def _filled_tensors(spec: Input, inputs: Sequence[TensorSpec]) -> dict[str, TensorSpec]:
    """The input of the model that each kind of numbers fills. Every input must be filled."""
    assert spec.tokenizer is not None
    known = {tensor.name: tensor for tensor in inputs}
    listed = ", ".join(known)
    names = spec.tokenizer.tensors.names
    if not names and len(inputs) == 1:
        names = {"input_ids": inputs[0].name}
    if missing := next((name for name in names.values() if name not in known), None):
        raise ManifestError(f"The manifest fills the input {missing!r} with tokens, but the model has {listed}.")
    if empty := next((name for name in known if name not in names.values()), None):
        raise ManifestError(
            f"The model has the inputs {listed}, and nothing in the manifest fills {empty!r}.",
            hint="Name the inputs: tokenizer: {tensors: {input_ids: …, attention_mask: …, token_type_ids: …}}.",
        )
    tensors = {kind: known[name] for kind, name in names.items()}
    for tensor in tensors.values():
        _check_tensor(tensor, spec.tokenizer.max_length, fixed=spec.tokenizer.padding == "max_length")
    return tensors


def check_vocabulary(spec: Input, files: ModelFiles, inputs: Sequence[TensorSpec]) -> None:
    """Refuses a vocabulary that is larger than the table of the model: what an id beyond it gives depends on the
    runtime, and is no answer."""
    assert spec.tokenizer is not None  # the schema sees to it
    declared = spec.tokenizer.vocabulary
    rows = table_rows(files.format, files.path(), spec.tokenizer.tensors.input_ids or inputs[0].name)
    if rows is not None and declared > rows:
        raise ManifestError(
            f"The manifest declares a vocabulary of {declared:,} ids, but the table of the model has {rows:,} rows.",
            hint=f"Correct it: vocabulary: {rows}. Is the tokenizer that of another model?",
        )


def _check_tensor(tensor: TensorSpec, max_length: int, *, fixed: bool) -> None:
    if tensor.dtype not in TOKEN_TYPES:
        raise ManifestError(f"The input {tensor.name!r} is {tensor.dtype}; tokens are {', '.join(TOKEN_TYPES)}.")
    if not tensor.shape:
        # The format does not say it.
        return
    if len(tensor.shape) != 2:
        raise ManifestError(
            f"The input {tensor.name!r} has shape {shape_text(tensor.shape)}, but tokens of texts are batch × tokens."
        )
    length = tensor.shape[1]
    if length is not None and (length != max_length or not fixed):
        raise ManifestError(
            f"The input {tensor.name!r} takes exactly {length:,} tokens.",
            hint=f"Declare max_length: {length} and padding: max_length.",
        )


def _pooled(answer: Array, places: NDArray[np.bool_], method: str) -> Array:
    if method == "mean":
        weights = places[:, :, None]
        total = np.where(weights, answer, 0).sum(axis=1, dtype=np.float64)
        return np.asarray(total / places.sum(axis=1)[:, None], np.float32)
    if method == "first":
        chosen = places.argmax(axis=1)
    else:
        from_end = places[:, ::-1].argmax(axis=1)
        chosen = places.shape[1] - 1 - from_end
    return np.asarray(answer[np.arange(len(answer)), chosen])
