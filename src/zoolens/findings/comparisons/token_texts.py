"""The texts of a run, split into the tokens that it answered for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import AssetError, DatasetError, ManifestError, ModelError
from zoolens.base.store.records import Run
from zoolens.inventory.catalog.stored import stored_entry
from zoolens.inventory.manifests.locations import resolve_file
from zoolens.inventory.manifests.tokenizer import ROLE
from zoolens.inventory.preprocess.generating_tokenizer import GeneratingTokenizer
from zoolens.inventory.preprocess.tokenizer_client import TokenPlaces
from zoolens.inventory.tasks.language_model import foreseen_tokens

MOST_IDS: Final = 1 << 16  # tokens whose words are asked for at once


@dataclass(frozen=True)
class TokenText:
    """A text in pieces: what stands before the first token that was to be foreseen, such tokens, and what was cut off.
    A token that holds only a part of a character, which the one before it has begun, is empty. `split`: False where the
    pieces are the numbers of tokens, because nobody knows where in the text they lie; the text is then in `before`."""

    before: str
    pieces: tuple[str, ...]
    behind: str = ""
    split: bool = True


class RunTokenizer:
    """The tokenizer of a run's manifest, opened again. Use `close` (or `contextlib.closing`) when done."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.problem = ""  # why tokens are shown by their numbers
        self._tokenizer: GeneratingTokenizer | None = None
        self._words: dict[int, str] = {}
        try:
            self._tokenizer = _tokenizer_of(run)
        except (AssetError, ManifestError, ModelError) as error:
            self.problem = f"Tokens are shown by their numbers, since the tokenizer cannot be read: {error.message}"

    def split(self, text: str, following: NDArray[np.integer]) -> TokenText:
        """A text of the run's data. `following`: the tokens that the run was to foresee in it."""
        places = self._places(text)
        targets = None if places is None else foreseen_tokens(places)
        if places is not None and targets is not None and np.array_equal(_ids(places)[targets], following):
            return _in_pieces(text, places, targets)
        self.problem = self.problem or (
            "Tokens are shown by their numbers: the tokenizer that the manifest names does not split the texts as run "
            f"{self._run.id[:8]} had them."
        )
        return TokenText(f"{text}\n", tuple(f"[{number}]" for number in following.tolist()), split=False)

    def _places(self, text: str) -> TokenPlaces | None:
        """None where the tokenizer refuses the text, or cannot be read."""
        if self._tokenizer is None:
            return None
        try:
            return self._tokenizer.encode([text], places=True).places[0]
        except (DatasetError, ManifestError):
            return None

    def words(self, ids: Iterable[int]) -> dict[int, str]:
        """What each token stands for; its number in brackets where nobody knows."""
        asked = sorted(set(ids))
        missing = [number for number in asked if number not in self._words]
        if self.problem or self._tokenizer is None:
            self._words.update({number: f"[{number}]" for number in missing})
            missing = []
        for first in range(0, len(missing), MOST_IDS):
            some = missing[first : first + MOST_IDS]
            pieces = self._tokenizer.pieces(some) if self._tokenizer else []
            self._words.update(zip(some, (piece.decode("utf-8", "replace") for piece in pieces), strict=True))
        return {number: self._words[number] for number in asked}

    def close(self) -> None:
        if self._tokenizer is not None:
            self._tokenizer.close()


def _tokenizer_of(run: Run) -> GeneratingTokenizer:
    entry = stored_entry(run)
    files = [file for asset in entry.manifest.assets for file in asset.files if file.role == ROLE]
    declared = entry.manifest.inputs[0].tokenizer if entry.manifest.inputs else None
    if declared is None or not files:
        raise ManifestError(f"The manifest of {run.ref} names no tokenizer.")
    return GeneratingTokenizer(declared, resolve_file(files[0], entry.folder, fetch=False))


def _ids(places: TokenPlaces) -> NDArray[np.int64]:
    return np.zeros(0, np.int64) if places.ids is None else places.ids


def _in_pieces(text: str, places: TokenPlaces, targets: NDArray[np.int64]) -> TokenText:
    if not len(targets):
        return TokenText(text, ())
    end = start = int(places.begins[targets[0]])
    pieces = []
    for stop in places.ends[targets].tolist():
        pieces.append(text[end:stop])
        end = max(end, stop)
    return TokenText(text[:start], tuple(pieces), text[end:])
