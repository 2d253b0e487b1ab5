"""Texts in, numbers of tokens out: our side of the sandboxed process that holds a tokenizer."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.engine.policy import Rights
from zoolens.base.engine.process import WorkerKind, WorkerProcess
from zoolens.base.errors import DatasetError, ManifestError, MissingDependency, WorkerTimeout
from zoolens.base.plugins import installed_version
from zoolens.base.safety.untrusted import read_bytes
from zoolens.inventory.datasets.text_dataset import Choices, TextPair, Value
from zoolens.inventory.manifests.tokenizer import Tokenizer
from zoolens.inventory.preprocess import tokenizer_worker
from zoolens.inventory.preprocess.word_tokenizer import PAIR, TEXT, WORDS

LIBRARY: Final = "tokenizers"
MAX_FILE: Final = 1 << 26  # bytes of a tokenizer.json; the largest vocabularies take some 20 million
MAX_TEXT: Final = 1 << 20  # bytes of a text in UTF-8
_OPENING: Final = 60.0  # seconds
ENCODING_SECONDS: Final = 60.0
_MOST_BYTES: Final = 1 << 30  # of an answer
_MODULE: Final = tokenizer_worker.__name__
_KIND: Final = WorkerKind(
    "process that splits texts into tokens",
    _MODULE,
    _MODULE,
    variables=(("TOKENIZERS_PARALLELISM", "false"),),
    rights=Rights(memory=tokenizer_worker.MEMORY),
)

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Tokens:
    """The tokens of several texts."""

    ids: Integers  # texts × max_length, padded as declared
    types: Integers  # likewise
    lengths: Integers  # tokens of each text without padding
    cut: NDArray[np.bool_]  # texts that had more than max_length
    unknown: Integers  # unknown tokens in each text; −1 where the tokenizer has no unknown token
    shapes: Integers  # as ids: what each word looks like, where the model takes that
    places: tuple[TokenPlaces, ...] = ()  # of each text, where they were asked for


@dataclass(frozen=True)
class TokenPlaces:
    """Where the tokens of one sample come from, without padding: characters from `begins` to `ends` of their text, the
    number of their word, and of their text in a pair; −1 where a token stands for no word."""

    sample: Value
    begins: Integers
    ends: Integers
    words: Integers
    texts: Integers
    padding_side: str = "right"
    ids: Integers | None = None
    cut: bool = False  # the text had more tokens than the model takes

    def columns(self, width: int) -> slice:
        """Where the tokens lie in a row of a model's answer."""
        count = len(self.words)
        return slice(width - count, width) if self.padding_side == "left" else slice(count)


@dataclass(frozen=True)
class ChoiceTokens:
    """What a model of the next token is given for each choice, which ends before the last token of the choice, and the
    tokens of each choice, which the last positions foresee."""

    sample: Choices
    given: tuple[Integers, ...]
    choices: tuple[Integers, ...]
    cut: tuple[bool, ...]  # a part of the context was left out


class OpenTokenizer:
    """A tokenizer in a process of its own, which ends with this object or with `close`. Threads may share it."""

    def __init__(self, declared: Tokenizer, path: Path) -> None:
        if declared.words is None and installed_version(LIBRARY) is None:
            raise MissingDependency("A model that takes text", LIBRARY, "text")
        self._declared, self._path = declared, path
        self._lock = threading.Lock()
        self._content = _content(path, any_text=declared.words is not None)
        self._worker = self._started()

    def _started(self) -> WorkerProcess:
        declared, worker, doing = self._declared, WorkerProcess(_KIND), f"opening {self._path.name}"
        asked = {
            "do": "open",
            "max_length": declared.max_length,
            "cut": declared.truncation,
            "special": declared.special_tokens,
            "pair": declared.pair,
            "words": None if declared.words is None else declared.words.model_dump(),
        }
        tensors = {"content": np.frombuffer(self._content, np.uint8)}
        try:
            about = worker.ask(asked, doing, tensors, timeout=_OPENING)
            with worker.sensible(doing):
                self.size, self._pad_type = int(about["size"]), int(about["pad_type"])
                pad, special = None if about["pad"] is None else int(about["pad"]), int(about["special"])
            self._pad = self._pad_id(pad)
            self._check_room(special)
        except BaseException:
            worker.stop()
            raise
        return worker

    def _check_room(self, special: int) -> None:
        longest = self._declared.max_length
        if special >= longest:
            raise ManifestError(
                f"The tokenizer adds {special} special tokens to each text, which leaves no room for words among the "
                f"{longest} of max_length.",
                hint="Raise max_length.",
            )

    def _pad_id(self, own: int | None) -> int:
        declared = self._declared
        pad = declared.pad_id if declared.pad_id is not None else own
        if pad is None and declared.padding != "none":
            raise ManifestError(
                f"{self._path.name} does not say which id stands for padding.",
                hint="Say it in the manifest: tokenizer: {pad_id: …}.",
            )
        return pad or 0

    def encode(self, texts: Sequence[Value], *, places: bool = False) -> Tokens:
        """Tokens of all samples, which are of one form. DatasetError where one cannot be given to the model as the
        manifest declares. `places`: tell also where tokens come from."""
        tensors = packed_texts(texts)
        asked = {"do": "encode", "form": form_of(texts[0]) if texts else TEXT, "places": places}
        doing = "splitting texts into tokens"
        with self._lock:
            worker = self._ready()
            try:
                answer = worker.ask(asked, doing, tensors, timeout=ENCODING_SECONDS)
                with worker.sensible(doing):
                    received = worker.outputs.read(answer["tensors"], _MOST_BYTES)
                    sent = _received(received, len(texts))
                    where = self._places(received, sent, texts) if places else ()
            except WorkerTimeout as error:
                raise self._too_slow() from error
        self._check(sent)
        return replace(self._filled(sent), places=where)

    def continued(self, sample: Choices) -> ChoiceTokens:
        """The tokens of a context with each of its choices. A context that is too long loses its beginning."""
        doing = "splitting a text into tokens"
        with self._lock:
            worker = self._ready()
            try:
                answer = worker.ask({"do": "choices"}, doing, packed_texts([sample]), timeout=ENCODING_SECONDS)
                with worker.sensible(doing):
                    received = worker.outputs.read(answer["tensors"], _MOST_BYTES)
                    rows, starts = _rows(received, len(sample.choices))
            except WorkerTimeout as error:
                raise self._too_slow() from error
        pairs = list(zip(rows, starts, strict=True))
        longest = self._declared.max_length
        self._check_ids(max(int(row.max(initial=0)) for row in rows))
        for (row, start), choice in zip(pairs, sample.choices, strict=True):
            self._check_choice(len(row), start, choice)
        return ChoiceTokens(
            sample,
            given=tuple(row[-longest - 1 : -1] for row, _ in pairs),
            choices=tuple(row[start:] for row, start in pairs),
            cut=tuple(len(row) > longest + 1 for row, _ in pairs),
        )

    def _check_choice(self, count: int, start: int, choice: str) -> None:
        shown, longest = repr(choice[:60]), self._declared.max_length
        if start == 0:
            raise DatasetError(
                f"Nothing stands before the choice {shown}: its context has no tokens.",
                hint="Write a context, or use a tokenizer that adds a token for the beginning.",
            )
        if start >= count:
            raise DatasetError(f"The choice {shown} has no token of its own behind its context.")
        if count - start > longest:
            raise DatasetError(
                f"The choice {shown} has {count - start:,} tokens, more than the {longest:,} that the model takes."
            )
        if count > longest + 1 and self._declared.truncation == "refuse":
            raise DatasetError(
                f"A context with its choice has {count:,} tokens, more than the {longest:,} that the model takes.",
                hint="The manifest declares truncation: refuse.",
            )

    def show(self, text: str) -> list[str]:
        """The tokens of a text as the tokenizer writes them, those of a long text from its start on."""
        with self._lock:
            worker = self._ready()
            answer = worker.ask(
                {"do": "show"}, "splitting a text into tokens", packed_texts([text]), timeout=ENCODING_SECONDS
            )
            if not isinstance(answer, list):
                raise worker.nonsense(ValueError("no tokens"))
            return [str(token)[: tokenizer_worker.SHOWN] for token in answer[: tokenizer_worker.SHOWN]]

    def close(self) -> None:
        self._worker.stop()

    def _ready(self) -> WorkerProcess:
        """The process; another one where it was stopped because a text took too long."""
        if not self._worker.running:
            self._worker = self._started()
        return self._worker

    def _too_slow(self) -> DatasetError:
        return DatasetError(
            f"The tokenizer {self._path.name} takes longer than {ENCODING_SECONDS:g} s for a text.",
            hint="Give it shorter texts; a rule of the tokenizer may never end.",
        )

    def _check(self, sent: _Sent) -> None:
        declared, counts = self._declared, sent.counts
        if counts.max(initial=0) > declared.max_length:
            raise DatasetError(
                f"A text has {counts.max():,} tokens, more than the {declared.max_length:,} that the model takes.",
                hint="The manifest declares truncation: refuse.",
            )
        self._check_ids(int(max(sent.ids.max(initial=0), self._pad if declared.padding != "none" else 0)))
        if counts.min(initial=1) == 0 and (declared.tensors.attention_mask or declared.padding != "max_length"):
            raise DatasetError("A text has no tokens.", hint="Remove it.")

    def _check_ids(self, highest: int) -> None:
        if highest >= self._declared.vocabulary:
            raise ManifestError(
                f"{self._path.name} gives a token the id {highest:,}, but the model knows the ids 0 to "
                f"{self._declared.vocabulary - 1:,} only.",
                hint="It is the tokenizer of another model, or vocabulary is wrong in the manifest.",
            )

    def _places(
        self, received: Mapping[str, NDArray[Any]], sent: _Sent, texts: Sequence[Value]
    ) -> tuple[TokenPlaces, ...]:
        """Returns where tokens come from; ValueError if that cannot be."""
        rows = [np.array(received[name], np.int64) for name in tokenizer_worker.PLACES]
        if any(len(row) != len(sent.ids) or row.min(initial=0) < -1 for row in rows):
            raise ValueError("places of other tokens")
        ends = np.cumsum(sent.counts)[:-1]
        begins, stops, words, parts = (np.split(row, ends) for row in rows)
        side = self._declared.padding_side
        ids, cut = np.split(sent.ids, ends), sent.cut.astype(bool).tolist()
        pieces = zip(texts, begins, stops, words, parts, [side] * len(texts), ids, cut, strict=True)
        return tuple(TokenPlaces(*piece) for piece in pieces)

    def tokens_of(self, rows: Sequence[Integers], cut: Sequence[bool]) -> Tokens:
        """Rows of ids as the model takes them. `cut`: a part of the text was left out."""
        zeros = np.zeros(sum(map(len, rows)), np.int64)
        counts = np.array([len(row) for row in rows])
        sent = _Sent(np.concatenate(rows), zeros, zeros, counts, np.array(cut), np.full(len(rows), -1))
        return self._filled(sent)

    def _filled(self, sent: _Sent) -> Tokens:
        shape = len(sent.counts), self._declared.max_length
        ids = np.full(shape, self._pad, np.int64)
        types = np.full(shape, self._pad_type, np.int64)
        places = token_places(sent.counts, shape[1], self._declared.padding_side)
        ids[places] = sent.ids
        types[places] = sent.types
        shapes = np.zeros(shape, np.int64)
        shapes[places] = sent.shapes
        return Tokens(ids, types, sent.counts, sent.cut.astype(bool), sent.unknown, shapes)


@dataclass(frozen=True)
class _Sent:
    """What the process has sent: tokens of all texts one behind the other, and how many each text has."""

    ids: Integers
    types: Integers
    shapes: Integers
    counts: Integers
    cut: Integers
    unknown: Integers


def _received(tensors: Mapping[str, NDArray[Any]], texts: int) -> _Sent:
    """Returns a copy of a worker's tensors; ValueError if their lengths do not match."""
    sent = _Sent(*(np.array(tensors[part.name], np.int64) for part in fields(_Sent)))
    if any(len(part) != texts for part in (sent.counts, sent.cut, sent.unknown)):
        raise ValueError("tokens of other texts")
    if sent.counts.min(initial=0) < 0 or any(
        len(row) != sent.counts.sum() for row in (sent.ids, sent.types, sent.shapes)
    ):
        raise ValueError("texts of other lengths")
    return sent


def _rows(tensors: Mapping[str, NDArray[Any]], count: int) -> tuple[list[Integers], list[int]]:
    """The tokens of each choice with its context, and where it begins; ValueError if that cannot be."""
    ids, counts, starts = (np.array(tensors[name], np.int64) for name in ("ids", "counts", "starts"))
    if len(counts) != count or len(starts) != count or counts.min() < 0 or counts.sum() != len(ids):
        raise ValueError("tokens of other choices")
    if ids.min(initial=0) < 0 or starts.min() < 0:
        raise ValueError("numbers below zero")
    return np.split(ids, np.cumsum(counts)[:-1]), starts.tolist()


def token_places(lengths: Integers, width: int, padding_side: str) -> NDArray[np.bool_]:
    """Which places of each row hold tokens and not padding."""
    columns = np.arange(width)
    if padding_side == "left":
        return np.asarray(columns >= width - lengths[:, None])
    return np.asarray(columns < lengths[:, None])


def _content(path: Path, *, any_text: bool) -> bytes:
    try:
        content = read_bytes(path, MAX_FILE)
    except OSError as error:
        raise ManifestError(f"The tokenizer {path} cannot be read: {error.strerror}.") from error
    if not any_text and not content.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        raise ManifestError(
            f"{path.name} is not a tokenizer.json: it does not hold a JSON object.",
            hint="A vocabulary of words is declared with tokenizer: {words: …}; SentencePiece models and pickles are "
            "not read: convert them with `tokenizers`.",
        )
    return content


def form_of(value: Value) -> str:
    """What a sample is made of: one text, a pair, or words."""
    if isinstance(value, str):
        return TEXT
    return PAIR if isinstance(value, TextPair) else WORDS


def packed_texts(samples: Sequence[Value]) -> dict[str, Any]:
    """Texts as tensors: their bytes one behind the other, where each ends, and how many texts each sample has."""
    texts = [(sample,) if isinstance(sample, str) else sample.parts for sample in samples]
    encoded = []
    for text in chain.from_iterable(texts):
        try:
            encoded.append(text.encode())
        except UnicodeEncodeError as error:
            raise DatasetError(
                "A text holds half of a character (a lone surrogate).", hint="Save it as UTF-8."
            ) from error
        if len(encoded[-1]) > MAX_TEXT:
            raise DatasetError(
                f"A text has {len(encoded[-1]):,} bytes, more than the {MAX_TEXT:,} that are split into tokens.",
                hint="Give a part of it.",
            )
    ends = np.cumsum([len(text_bytes) for text_bytes in encoded], dtype=np.int64)
    return {
        "content": np.frombuffer(b"".join(encoded) or b"\0", np.uint8),
        "ends": ends,
        "parts": np.array([len(parts) for parts in texts], np.int64),
    }
