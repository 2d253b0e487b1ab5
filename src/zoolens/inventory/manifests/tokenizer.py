"""How a text becomes the numbers that a model takes: which tokenizer, how many tokens, and which tensors they fill."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from zoolens.inventory.manifests.chat_template import ChatTemplate
from zoolens.inventory.manifests.part import MAX_EXTENT, Part

ROLE = "tokenizer"  # of the file among those of an asset


class TokenTensors(Part):
    """The model's own names of the inputs that the tokenizer fills; what is left out is not fed."""

    input_ids: str | None = Field(default=None, description="May be left out where the model has this input only.")
    attention_mask: str | None = Field(default=None, description="1 for tokens of the text, 0 for padding.")
    token_type_ids: str | None = None
    shape_ids: str | None = Field(default=None, description="What each word looks like; see words: {shapes: …}.")

    @property
    def names(self) -> dict[str, str]:
        """The model's name of each input that has one, by what it is filled with."""
        return {kind: name for kind, name in self.model_dump().items() if name is not None}

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        names = self.names
        if len(set(names.values())) < len(names):
            raise ValueError("two of them name the same input")
        if names and self.input_ids is None:
            raise ValueError("say also which input takes the ids of the tokens: input_ids")
        return self


class WordShapes(Part):
    """A number for what each word looks like: capitals, digits, signs."""

    rule: Literal["slovnet"] = Field(description="How a word's shape is told: slovnet, as its taggers of Russian do.")
    key: str = Field(description="Where the names of the shapes lie in the vocabulary file, which is a JSON object.")


class WordVocabulary(Part):
    """A vocabulary of whole words. The file of role tokenizer holds it: JSON (a list of words, or words with their
    numbers), or lines of `word id` or `word`."""

    pattern: str | None = Field(
        default=None, max_length=1000, description="Regular expression; None: the data are words already."
    )
    matches: Literal["words", "separators"] = Field(
        default="words", description="Whether the pattern matches words, or what lies between them."
    )
    lower_case: bool = True
    key: str | None = Field(default=None, description="Where in a JSON object the vocabulary lies.")
    unknown_id: int = Field(ge=0, description="Number of words that the vocabulary does not have.")
    start_id: int | None = Field(default=None, ge=0, description="Put before each text.")
    shapes: WordShapes | None = None


class Tokenizer(Part):
    """The file itself is listed under `assets` with the role tokenizer: a tokenizer.json of the library `tokenizers`,
    or a vocabulary where `words` is declared. Truncation and padding that a tokenizer.json may hold do not count; what
    is said here does."""

    max_length: int = Field(ge=1, le=MAX_EXTENT, description="The most tokens of a text, with special ones.")
    truncation: Literal["right", "left", "refuse"] = Field(
        default="right", description="Where a longer text is cut; refuse: it is an error."
    )
    padding: Literal["max_length", "longest", "none"] = Field(
        default="max_length",
        description="Up to which length shorter texts are filled: max_length, that of the longest text of a batch, or "
        "none, which runs one text at a time.",
    )
    padding_side: Literal["right", "left"] = "right"
    pad_id: int | None = Field(
        default=None, ge=0, description="Where the tokenizer's own is not meant, or it has none."
    )
    special_tokens: bool = Field(default=True, description="Whether tokens such as [CLS] and [SEP] are added.")
    # Required: some runtimes answer something for an id that the model does not have, and do not say so.
    vocabulary: int = Field(
        ge=1,
        description="How many ids the model knows: the rows of its first table, vocab_size. An id beyond is an error.",
    )
    tensors: TokenTensors = TokenTensors()
    words: WordVocabulary | None = Field(
        default=None, description="The tokens are whole words, and the file is a vocabulary."
    )
    pair: Literal["longest_first", "only_first", "only_second"] | None = Field(
        default=None,
        description="A sample is two texts, which fill the inputs together as the tokenizer joins pairs. Which of them "
        "is cut where both are too long: the longer one token by token, the first, or the second.",
    )
    chat_template: ChatTemplate | None = Field(
        default=None, description="How a conversation becomes one text, of models that were trained on conversations."
    )
    end_ids: tuple[int, ...] | None = Field(
        default=None, max_length=64, description="Tokens with which a model ends what it writes."
    )

    @model_validator(mode="after")
    def _padding_is_visible(self) -> Self:
        if self.padding == "longest" and self.tensors.attention_mask is None:
            raise ValueError(
                "padding: longest without an attention_mask makes the answer to a text depend on the others in its "
                "batch; use max_length or none"
            )
        return self

    @model_validator(mode="after")
    def _words_fit(self) -> Self:
        shapes = self.words is not None and self.words.shapes is not None
        if shapes != (self.tensors.shape_ids is not None):
            raise ValueError("words: {shapes: …} and tensors: {shape_ids: …} belong together")
        if self.words is not None and self.pair is not None:
            raise ValueError("a vocabulary of words takes one text, not a pair")
        return self
