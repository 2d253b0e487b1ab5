"""The process that splits texts into tokens: sandboxed, since the rules come from a stranger's tokenizer.json.

A regular expression in it may never end, and a malformed table makes the library abort. The content of the file comes
as a message: the process opens no file after it has started.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from zoolens.base.engine.service import Message, Service
from zoolens.base.errors import ManifestError, first_line

MEMORY: Final = 4 << 30  # bytes
SHOWN: Final = 200  # tokens of a text that are written out
_LETTERS: Final = 60  # of each of them
_PADS: Final = ("[PAD]", "<pad>", "<PAD>", "<|pad|>")


def main(settings: Mapping[str, Any], began_ns: int) -> None:
    # All of it is read now: the sandbox hides what comes later.
    import tokenizers

    service = Service(settings, began_ns)
    worker = _Tokenizer(service, tokenizers.Tokenizer)
    answers = {"open": worker.open, "encode": worker.encode, "show": worker.show}
    service.serve(lambda request: answers[request["do"]](request) if request["do"] in answers else None, _doing)


def _doing(request: Message) -> str:
    return "Opening the tokenizer" if request["do"] == "open" else "Splitting texts into tokens"


class _Tokenizer:
    def __init__(self, service: Service, library: Any) -> None:
        self._service, self._library = service, library
        self._tokenizer: Any = None
        self._special = True
        self._unknown: int | None = None

    def open(self, request: Message) -> Any:
        """What the library makes of the content of a tokenizer.json, with our own truncation and no padding."""
        content = self._service.inputs.read(request["tensors"])["content"].tobytes()
        try:
            tokenizer = self._library.from_str(content.decode())
            own = tokenizer.padding or {}
            tokenizer.no_padding()
            tokenizer.no_truncation()
            if request["cut"] != "refuse":
                tokenizer.enable_truncation(request["max_length"], direction=request["cut"])
            added = tokenizer.num_special_tokens_to_add(False) if request["special"] else 0
            size = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1) + 1
        except BaseException as error:
            # The library's panics are no Exception.
            raise ManifestError(
                f"The tokenizer cannot be read: {first_line(error)}.",
                hint="It must be a tokenizer.json of the library `tokenizers`, in a version that can read it.",
            ) from error
        self._tokenizer, self._special = tokenizer, request["special"]
        self._unknown = _unknown(tokenizer, content)
        pad = own.get("pad_id")
        if pad is None:
            pad = next((known for token in _PADS if (known := tokenizer.token_to_id(token)) is not None), None)
        return {"size": size, "pad": pad, "pad_type": own.get("pad_type_id", 0), "special": added}

    def encode(self, request: Message) -> Any:
        """Ids and types of all tokens of all texts, one text after the other. `counts`: tokens of each text; `cut`:
        whether it had more; `unknown`: how many of them the vocabulary does not have."""
        import numpy as np

        ids: list[int] = []
        types: list[int] = []
        counts, cut, unknown = [], [], []
        for text in self._texts(request):
            encoding = self._encoded(text)
            ids += encoding.ids
            types += encoding.type_ids
            counts.append(len(encoding.ids))
            cut.append(bool(encoding.overflowing))
            unknown.append(-1 if self._unknown is None else encoding.ids.count(self._unknown))
        whole = {"ids": ids, "types": types, "counts": counts, "cut": cut, "unknown": unknown}
        tensors = {name: np.array(values, np.int64) for name, values in whole.items()}
        return {"tensors": self._service.outputs.write(tensors)}

    def show(self, request: Message) -> Any:
        """Returns the tokens of a text as strings."""
        (text,) = self._texts(request)
        return [token[:_LETTERS] for token in self._encoded(text).tokens[:SHOWN]]

    def _texts(self, request: Message) -> list[str]:
        sent = self._service.inputs.read(request["tensors"])
        content = sent["content"].tobytes()
        ends = sent["ends"].tolist()
        starts = [0, *ends]
        return [content[start:end].decode() for start, end in zip(starts, ends, strict=False)]

    def _encoded(self, text: str) -> Any:
        try:
            return self._tokenizer.encode(text, add_special_tokens=self._special)
        except BaseException as error:
            raise ManifestError(f"The tokenizer cannot split a text into tokens: {first_line(error)}.") from error


def _unknown(tokenizer: Any, content: bytes) -> int | None:
    """Returns the id of the unknown token, or None. Unigram models store its index only."""
    token = getattr(tokenizer.model, "unk_token", None)
    if isinstance(token, str):
        known: int | None = tokenizer.token_to_id(token)
        return known
    model = json.loads(content).get("model")
    number = model.get("unk_id") if isinstance(model, dict) else None
    return number if isinstance(number, int) else None
