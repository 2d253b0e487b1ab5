"""A tokenizer for models that write: whole prompts in, and texts out of the tokens that a model chose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from zoolens.base.errors import WorkerTimeout
from zoolens.inventory.preprocess.tokenizer_client import ENCODING_SECONDS, OpenTokenizer, packed_texts

_MOST_BYTES: Final = 1 << 26  # of the tokens of a prompt, which has a million bytes at most
_LONGEST_PIECE: Final = 1 << 16  # bytes of a token
_CUT_OFF: Final = "\N{REPLACEMENT CHARACTER}"  # what a text ends with where its last character is not complete
_BEFORE: Final = 6  # tokens of a prompt with which its answer is decoded


class GeneratingTokenizer(OpenTokenizer):
    """Threads may share it."""

    def prompt(self, text: str, *, special: bool) -> list[int]:
        """All tokens of a text, cut nowhere. `special`: with those that the tokenizer adds; a chat template has written
        them already."""
        asked = {"do": "prompt", "special": special}
        with self._lock:
            worker = self._ready()
            try:
                answer = worker.ask(
                    asked, "splitting a text into tokens", packed_texts([text]), timeout=ENCODING_SECONDS
                )
            except WorkerTimeout as error:
                raise self._too_slow() from error
            with worker.sensible("splitting a text into tokens"):
                ids = np.array(worker.outputs.read(answer["tensors"], _MOST_BYTES)["ids"], np.int64)
                if ids.ndim != 1 or ids.min(initial=0) < 0:
                    raise ValueError("no tokens")
        self._check_ids(int(ids.max(initial=0)))
        return [int(number) for number in ids]

    def texts(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """The text of each row of tokens, without special ones."""
        answer = self._asked({"do": "decode", "rows": [list(row) for row in rows]}, len(rows))
        return [str(text) for text in answer]

    def pieces(self, ids: Sequence[int]) -> list[bytes]:
        """The bytes of each token, also of special ones."""
        answer = self._asked({"do": "pieces", "ids": list(ids)}, len(ids))
        with self._worker.sensible("writing tokens"):
            return [bytes(piece[:_LONGEST_PIECE]) for piece in answer]

    def _asked(self, request: dict[str, Any], count: int) -> list[Any]:
        with self._lock:
            worker = self._ready()
            answer = worker.ask(request, "making a text of tokens", timeout=ENCODING_SECONDS)
            if not isinstance(answer, list) or len(answer) != count:
                raise worker.nonsense(ValueError("other texts"))
            return answer


class GrowingText:
    """The text of tokens that come one by one. What a token adds depends on those before it (a blank that is left out
    at the beginning of a text, half a character), so that each is decoded with a few of them. `before`: tokens of the
    text that it goes on with."""

    def __init__(self, tokenizer: GeneratingTokenizer, before: Sequence[int] = ()) -> None:
        self._tokenizer = tokenizer
        self._ids = [*before[-_BEFORE:]]
        # From which token on is decoded, and how many tokens are told already.
        self._begin, self._told = 0, len(self._ids)

    def add(self, number: int) -> str:
        """What is new of the text; empty where it ends within a character."""
        self._ids.append(number)
        before, now = self._texts()
        if len(now) <= len(before) or now.endswith(_CUT_OFF):
            return ""
        self._begin, self._told = self._told, len(self._ids)
        return now[len(before) :]

    def end(self) -> str:
        """What is left at the end: half a character, as the sign for it."""
        before, now = self._texts()
        self._begin = self._told = len(self._ids)
        return now[len(before) :]

    def _texts(self) -> tuple[str, str]:
        """What is told of the last tokens, and the text of all of them."""
        before, now = self._tokenizer.texts([self._ids[self._begin : self._told], self._ids[self._begin :]])
        if before.endswith(_CUT_OFF):
            # The text before ends within a character, whose rest could not be told of what it becomes.
            self._begin = self._told
            return self._texts()
        return before, now
