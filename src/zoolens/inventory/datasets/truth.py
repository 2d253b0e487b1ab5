"""What a dataset says is right of one sample, where that is more than the number of one class.

A truth has a kind, and arrays by name. The kinds and their arrays:

- `boxes`: `boxes` (n × 4, float64: left, top, width and height in pixels of the image), `classes` (n, int64), `areas`
  (n, float64, in pixels), `crowds` (n, bool: a region of many objects that were not drawn one by one).
- `mask`: `mask` (height × width, uint8 or uint16: numbers of classes; `UNJUDGED` where nothing is right or wrong).
- `labels`: `present` (classes, int8: 1 the label applies, 0 it does not, −1 nobody said).
- `value`: `value` (numbers of one answer, float64).
- `similarity`: `similarity` (one number, float64: how alike the two texts of a pair are, on any scale).
- `relevance`: `own` (one str: what others call the sample as a document; empty: it is a query), `documents` (str: those
  that were judged for this query) and `gains` (float64: how relevant each is, at least 0; NaN: the document is not
  ranked for this query, as it is the query itself); none for a document.
- `tags`: `tags` (words, str: one tag such as B-PER or O for each word of the sample).
- `spans`: `texts` (answers, str: every answer that counts as right; none means that there is no answer).
- `text`: `text` (one str).
- `continuation`: `whole` (one bool: true; the sample is a text, of which each part should be foreseen from what stands
  before it).
- `choice`: `answer` (one number, int64: the place of the right choice, counted from 0).
- `prompt`: nothing: a text may go on in many ways.
- `activity`: `intervals` (n × 2, float64: begin and end in seconds), `timed` (one bool; false: where there is an
  interval, the sound is active at some moment, and nobody said when).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

# The arrays of each kind, with the kinds of numpy types that they may have.
KINDS: Final[Mapping[str, Mapping[str, str]]] = {
    "boxes": {"boxes": "f", "classes": "i", "areas": "f", "crowds": "b"},
    "mask": {"mask": "u"},
    "labels": {"present": "i"},
    "value": {"value": "f"},
    "similarity": {"similarity": "f"},
    "relevance": {"own": "U", "documents": "U", "gains": "f"},
    "tags": {"tags": "U"},
    "spans": {"texts": "U"},
    "text": {"text": "U"},
    "continuation": {"whole": "b"},
    "choice": {"answer": "i"},
    "prompt": {},
    "activity": {"intervals": "f", "timed": "b"},
}
# What each kind of truth is called in a sentence.
WORDS: Final[Mapping[str, str]] = {
    "boxes": "boxes",
    "mask": "masks",
    "labels": "several labels of one input",
    "value": "values",
    "similarity": "similarities of pairs",
    "relevance": "relevance of documents for queries",
    "tags": "tags of words",
    "spans": "answers in words",
    "text": "texts",
    "continuation": "texts to foresee",
    "choice": "right choices",
    "prompt": "prompts",
    "activity": "intervals of activity",
}
UNJUDGED: Final = {"uint8": 255, "uint16": 65535}  # in a mask: pixels that count neither for nor against a model


@dataclass(frozen=True)
class Truth:
    """What is right of one sample; `kind` says which arrays there are."""

    kind: str
    parts: Mapping[str, NDArray[Any]]

    def __post_init__(self) -> None:
        wanted = KINDS.get(self.kind)
        if wanted is None:
            raise ValueError(f"There is no kind of truth {self.kind!r}; known: {', '.join(KINDS)}.")
        given = {name: np.asarray(part).dtype.kind for name, part in self.parts.items()}
        # An empty list of texts has the type float64 in numpy, which nobody should have to think of.
        wrong = [name for name, kind in given.items() if kind not in wanted.get(name, "") and self.parts[name].size]
        if set(given) != set(wanted) or wrong:
            raise ValueError(
                f"A truth of kind {self.kind} has the arrays {dict(wanted)} (numpy's kinds of types), not {given}."
            )

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.parts[name]
