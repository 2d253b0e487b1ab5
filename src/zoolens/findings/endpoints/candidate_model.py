"""A model that an endpoint may have: run here, it says how likely each next token is."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ModelError, ZoolensError
from zoolens.findings.endpoints.told_distance import Vocabulary
from zoolens.inventory.catalog.sessions import Placement, place
from zoolens.inventory.manifests.schema_texts import PREDICTING
from zoolens.inventory.manifests.tokenizer import ROLE
from zoolens.inventory.preprocess.chat_rendering import ChatRenderer
from zoolens.inventory.preprocess.generating_tokenizer import GeneratingTokenizer
from zoolens.inventory.runtimes.runtime import Options, Session

_ROWS: Final = 1 << 14  # tokens whose texts are asked for at once

Floats = NDArray[np.float64]


class CandidateModel:
    """One of the user's models with its tokenizer and chat template; close it, or use it as a context manager."""

    def __init__(self, model: str, *, runtime: str | None = None, threads: int | None = None) -> None:
        self.placement = _placed(model, runtime, threads)
        declared = self.placement.manifest.inputs[0].tokenizer
        assert declared is not None
        self._declared = declared
        self._session: Session | None = None
        self._renderer: ChatRenderer | None = None
        self.tokenizer = GeneratingTokenizer(declared, self.placement.paths[ROLE])
        try:
            self._session = self.placement.open()
        except BaseException:
            self.close()
            raise

    @property
    def name(self) -> str:
        return self.placement.entry.ref

    @property
    def longest(self) -> int:
        return self._declared.max_length

    @property
    def tokenizer_content(self) -> bytes:
        return self.placement.paths[ROLE].read_bytes()

    @cached_property
    def vocabulary(self) -> Vocabulary:
        count = self._declared.vocabulary
        pieces: list[bytes] = []
        shown: list[str] = []
        for start in range(0, count, _ROWS):
            numbers = range(start, min(start + _ROWS, count))
            pieces += self.tokenizer.pieces(numbers)
            shown += self.tokenizer.texts([[number] for number in numbers])
        return Vocabulary.of(pieces, shown)

    def probabilities(self, ids: Sequence[int]) -> Floats:
        """The probability of each token after these ones."""
        assert self._session is not None
        logs = self._session.extend(np.array([ids], np.int32), 0)[0]
        probabilities = np.asarray(np.exp(logs.astype(np.float64)))
        if not np.isfinite(probabilities).all():
            raise ModelError(f"{self.name} gives probabilities here that are no numbers.")
        return probabilities

    def conversation(self, messages: Sequence[dict[str, str]]) -> list[int]:
        """The tokens of a conversation up to where the model's answer begins, by the model's own template."""
        template = self._declared.chat_template
        if template is None:
            raise ModelError(
                f"{self.name} has no chat template, without which a conversation is no text.",
                hint="Write it in the manifest (tokenizer: chat_template), or ask without --chat.",
            )
        if self._renderer is None:
            self._renderer = ChatRenderer(template)
        return self.tokenizer.prompt(self._renderer.render(messages, answer=True), special=False)

    def close(self) -> None:
        self.tokenizer.close()
        if self._session is not None:
            self._session.close()
        if self._renderer is not None:
            self._renderer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _placed(model: str, runtime: str | None, threads: int | None) -> Placement:
    placement = place(model, runtime=runtime, options=Options(threads=threads))
    manifest = placement.manifest
    if manifest.inputs[0].tokenizer is None or not any(output.task == PREDICTING for output in manifest.outputs):
        raise ZoolensError(
            f"{placement.entry.ref} is no language model.",
            hint="An endpoint is compared with models of the next token.",
        )
    placement.runtime.require("extend")
    return placement
