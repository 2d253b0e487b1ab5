"""The process that splits texts into tokens: sandboxed, since the rules come from a stranger's tokenizer.json.

A regular expression in it may never end, and a malformed table makes the library abort. The content of the file comes
as a message: the process opens no file after it has started.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final

from zoolens.base.engine.service import Message, Service
from zoolens.base.errors import ManifestError, first_line
from zoolens.inventory.preprocess.token_bytes import token_bytes
from zoolens.inventory.preprocess.word_tokenizer import SPECIAL, TEXT, WORDS, Encoding, WordEncoder

MEMORY: Final = 4 << 30  # bytes
SHOWN: Final = 200  # tokens of a text that are written out
_LETTERS: Final = 60  # of each of them
PLACES: Final = ("begins", "ends", "words", "texts")  # of each token
_PADS: Final = ("[PAD]", "<pad>", "<PAD>", "<|pad|>")
_REPEATED: Final = ("a", "A")  # words that are tried: a vocabulary may lack one of them


def main(settings: Mapping[str, Any], began_ns: int) -> None:
    # All of it is read now: the sandbox hides what comes later.
    try:
        import tokenizers
    except ImportError:
        library = None  # vocabularies of words need none
    else:
        library = tokenizers.Tokenizer
    service = Service(settings, began_ns)
    worker = _Tokenizer(service, library)
    answers = {
        "open": worker.open,
        "encode": worker.encode,
        "choices": worker.choices,
        "show": worker.show,
        "prompt": worker.prompt,
        "decode": worker.decode,
        "pieces": worker.pieces,
    }
    service.serve_named(answers, _doing)


def _doing(request: Message) -> str:
    return "Opening the tokenizer" if request["do"] == "open" else "Splitting texts into tokens"


class _Tokenizer:
    def __init__(self, service: Service, library: Any) -> None:
        self._service, self._library = service, library
        self._encoder: WordEncoder | _LibraryEncoder | None = None

    def open(self, request: Message) -> Any:
        content = self._service.inputs.read(request["tensors"])["content"].tobytes()
        if request["words"] is None:
            self._encoder = _LibraryEncoder(self._library, content, request)
        else:
            self._encoder = WordEncoder(content, request["words"], request["max_length"], request["cut"])
        return self._encoder.about

    def encode(self, request: Message) -> Any:
        """All tokens of all samples, one sample after the other. `counts`: tokens of each; `cut`: whether it had more;
        `unknown`: how many of them the vocabulary does not have. The places of tokens are sent where they are asked
        for."""
        import numpy as np

        assert self._encoder is not None  # it was opened
        encoded = [self._encoder.encode(request["form"], parts) for parts in self._samples(request)]
        rows = ("ids", "types", "shapes", *(PLACES if request["places"] else ()))
        whole = {name: [value for one in encoded for value in getattr(one, name)] for name in rows}
        whole |= {
            "counts": [len(one.ids) for one in encoded],
            "cut": [int(one.cut) for one in encoded],
            "unknown": [one.unknown for one in encoded],
        }
        tensors = {name: np.array(values, np.int64) for name, values in whole.items()}
        return {"tensors": self._service.outputs.write(tensors)}

    def choices(self, request: Message) -> Any:
        """The tokens of a context with each of its continuations. `starts`: where those of a continuation begin."""
        import numpy as np

        ((context, *continuations),) = self._samples(request)
        rows, start = self._library_encoder().continued(context, continuations)
        whole = {
            "ids": [id_ for row in rows for id_ in row],
            "counts": [len(row) for row in rows],
            "starts": [start] * len(rows),
        }
        return {"tensors": self._service.outputs.write({name: np.array(of, np.int64) for name, of in whole.items()})}

    def show(self, request: Message) -> Any:
        """Returns the tokens of a text as strings."""
        assert self._encoder is not None
        ((text,),) = self._samples(request)
        return [token[:_LETTERS] for token in self._encoder.show(text)[:SHOWN]]

    def prompt(self, request: Message) -> Any:
        """All tokens of one text, however many; `special`: with those that are added to a text."""
        import numpy as np

        ((text,),) = self._samples(request)
        ids = self._library_encoder().whole(text, special=request["special"])
        return {"tensors": self._service.outputs.write({"ids": np.array(ids, np.int64)})}

    def decode(self, request: Message) -> Any:
        """The text of each row of ids, without special tokens."""
        return [self._library_encoder().decoded(ids) for ids in request["rows"]]

    def pieces(self, request: Message) -> Any:
        """The bytes of each token."""
        return [list(self._library_encoder().piece(number)) for number in request["ids"]]

    def _library_encoder(self) -> _LibraryEncoder:
        if not isinstance(self._encoder, _LibraryEncoder):
            raise ManifestError("A vocabulary of words does not make texts of tokens.")
        return self._encoder

    def _samples(self, request: Message) -> list[list[str]]:
        """The texts of each sample."""
        sent = self._service.inputs.read(request["tensors"])
        content = sent["content"].tobytes()
        ends = sent["ends"].tolist()
        texts = iter([content[start:end].decode() for start, end in zip([0, *ends], ends, strict=False)])
        return [list(islice(texts, count)) for count in sent["parts"].tolist()]


class _LibraryEncoder:
    """What the library makes of the content of a tokenizer.json, with our own truncation and no padding."""

    def __init__(self, library: Any, content: bytes, request: Message) -> None:
        pair = request["pair"] is not None
        try:
            tokenizer = library.from_str(content.decode())
            own = tokenizer.padding or {}
            tokenizer.no_padding()
            tokenizer.no_truncation()
            cut: dict[str, Any] | None = None
            if request["cut"] != "refuse":
                strategy = request["pair"] or "longest_first"
                cut = {"max_length": request["max_length"], "direction": request["cut"], "strategy": strategy}
                tokenizer.enable_truncation(**cut)
            added = tokenizer.num_special_tokens_to_add(pair) if request["special"] else 0
            size = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1) + 1
        except BaseException as error:
            # The library's panics are no Exception.
            raise ManifestError(
                f"The tokenizer cannot be read: {first_line(error)}.",
                hint="It must be a tokenizer.json of the library `tokenizers`, in a version that can read it.",
            ) from error
        if pair:
            _check_pair_template(json.loads(content).get("post_processor"))
        self._tokenizer, self._special, self._truncation = tokenizer, request["special"], cut
        self._content = json.loads(content)
        self._unknown = _unknown(tokenizer, content)
        self._takes_words = False  # until it was tried
        pad = own.get("pad_id")
        if pad is None:
            pad = next((known for token in _PADS if (known := tokenizer.token_to_id(token)) is not None), None)
        self.about = {"size": size, "pad": pad, "pad_type": own.get("pad_type_id", 0), "special": added}

    def encode(self, form: str, parts: Sequence[str]) -> Encoding:
        encoding = self._encoded(form, parts)
        offsets = encoding.offsets
        return Encoding(
            ids=encoding.ids,
            types=encoding.type_ids,
            cut=bool(encoding.overflowing),
            unknown=-1 if self._unknown is None else encoding.ids.count(self._unknown),
            shapes=[0] * len(encoding.ids),
            begins=[begin for begin, _ in offsets],
            ends=[end for _, end in offsets],
            words=[SPECIAL if word is None else word for word in encoding.word_ids],
            texts=[SPECIAL if text is None else text for text in encoding.sequence_ids],
        )

    def continued(self, context: str, continuations: Sequence[str]) -> tuple[list[list[int]], int]:
        """The whole tokens of a context with each continuation, and how many of them the context has by itself.

        As in lm-evaluation-harness: both are split together, blanks at the end of the context belong to the
        continuation, and whatever stands behind the context's own number of tokens is the continuation.
        """
        stripped = context.rstrip()
        blanks = context[len(stripped) :]
        self._tokenizer.no_truncation()
        try:
            behind = self._added_behind()
            start = len(self._written(stripped, behind))
            return [self._written(stripped + blanks + text, behind) for text in continuations], start
        finally:
            if self._truncation is not None:
                self._tokenizer.enable_truncation(**self._truncation)

    def _added_behind(self) -> int:
        """How many tokens are added behind every text, such as one for its end."""
        parts = self._split(TEXT, [_REPEATED[0]]).sequence_ids
        return next((place for place, part in enumerate(reversed(parts)) if part is not None), 0)

    def _written(self, text: str, behind: int) -> list[int]:
        ids: list[int] = self._split(TEXT, [text]).ids
        return ids[: len(ids) - behind]

    def whole(self, text: str, *, special: bool) -> list[int]:
        """All tokens of a text, cut nowhere."""
        declared = self._special
        self._special = special
        self._tokenizer.no_truncation()
        try:
            ids: list[int] = self._split(TEXT, [text]).ids
        finally:
            self._special = declared
            if self._truncation is not None:
                self._tokenizer.enable_truncation(**self._truncation)
        return ids

    def decoded(self, ids: Sequence[int]) -> str:
        try:
            text: str = self._tokenizer.decode(ids, skip_special_tokens=True)
        except BaseException as error:
            raise ManifestError(f"The tokenizer cannot make a text of tokens: {first_line(error)}.") from error
        return text

    def piece(self, number: int) -> bytes:
        return token_bytes(self._tokenizer, self._content, number)

    def show(self, text: str) -> list[str]:
        tokens: list[str] = self._encoded(TEXT, [text]).tokens
        return tokens

    def _encoded(self, form: str, parts: Sequence[str]) -> Any:
        if form == WORDS and not self._takes_words:
            self._check_words()
        return self._split(form, parts)

    def _split(self, form: str, parts: Sequence[str]) -> Any:
        try:
            if form == WORDS:
                return self._tokenizer.encode(parts, is_pretokenized=True, add_special_tokens=self._special)
            return self._tokenizer.encode(*parts, add_special_tokens=self._special)
        except BaseException as error:
            raise ManifestError(f"The tokenizer cannot split a text into tokens: {first_line(error)}.") from error

    def _check_words(self) -> None:
        """ManifestError where two words get other ids than the text that they make up: the space between words belongs
        to a token, and words that were split already have none."""
        for word in _REPEATED:
            if self._split(TEXT, [f"{word} {word}"]).ids == self._split(WORDS, [word, word]).ids:
                continue
            raise ManifestError(
                "The tokenizer takes the space before a word into its token, which words that were split already do "
                "not have: they would get other ids than in a text.",
                hint="Set add_prefix_space: true in pre_tokenizer of tokenizer.json (prepend_scheme: always of "
                "Metaspace) if the model was trained so; if it was trained on words without spaces, put "
                "WhitespaceSplit before it in a Sequence.",
            )
        self._takes_words = True


def _check_pair_template(processor: Any) -> None:
    """ManifestError where the template of a pair lacks one of its texts, which the library would drop silently."""
    if not isinstance(processor, dict):
        return
    for each in processor.get("processors") or ():
        _check_pair_template(each)
    if processor.get("type") != "TemplateProcessing":
        return
    pieces = [piece for piece in processor.get("pair") or () if isinstance(piece, dict)]
    found = {piece["Sequence"].get("id") for piece in pieces if isinstance(piece.get("Sequence"), dict)}
    if missing := sorted({"A", "B"} - found):
        raise ManifestError(
            f"The tokenizer's template of pairs has no place for text {missing[0]}, which would never reach the model.",
            hint="Correct post_processor.pair in tokenizer.json, or leave `pair` out of the manifest.",
        )


def _unknown(tokenizer: Any, content: bytes) -> int | None:
    """Returns the id of the unknown token, or None. Unigram models store its index only."""
    token = getattr(tokenizer.model, "unk_token", None)
    if isinstance(token, str):
        known: int | None = tokenizer.token_to_id(token)
        return known
    model = json.loads(content).get("model")
    number = model.get("unk_id") if isinstance(model, dict) else None
    return number if isinstance(number, int) else None
