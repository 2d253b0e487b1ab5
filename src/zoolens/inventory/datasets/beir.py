"""Queries and documents with judged relevance: folders of BEIR, texts in JSON lines and a table of judgements."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Final

import numpy as np

from zoolens.base.errors import DatasetError
from zoolens.base.safety.untrusted import is_file
from zoolens.inventory.datasets.text_dataset import TextDataset, Truths
from zoolens.inventory.datasets.text_tables import json_lines, read_content, read_table
from zoolens.inventory.datasets.truth import Truth

CORPUS: Final = "corpus.jsonl"
QUERIES: Final = "queries.jsonl"
_COLUMNS: Final = ("query-id", "corpus-id", "score")
_MOST_VALUES: Final = 1000  # of one line
_FORM: Final = 'Lines are {"_id": …, "title": …, "text": …}; qrels have the columns query-id, corpus-id and score.'


def open_beir(location: str, *, split: str = "test") -> TextDataset:
    """A folder. Samples are all documents, a title before its text, and then the queries that qrels/SPLIT.tsv judges.
    A document whose id is the query's is not ranked for it, as in BEIR's own evaluation. split: test, dev or train."""
    folder = Path(location).expanduser()
    table = _inside(folder, split)
    documents = _texts(folder / CORPUS, titles=True)
    asked = _texts(folder / QUERIES, titles=False)
    judged = _judged(table)
    unknown = next((query for query in judged if query not in asked), None)
    if unknown is not None:
        raise DatasetError(f"{table} judges the query {unknown[:80]!r}, which {QUERIES} does not have.", hint=_FORM)
    truths = [_truth(name, {}) for name in documents]
    truths += [_truth("", judged[query], query if query in documents else None) for query in judged]
    return TextDataset(
        [*documents.values(), *(asked[query] for query in judged)],
        name=f"{folder.resolve().name} {split}",
        truths=Truths("relevance", truths),
        ids=[*(f"document {name}" for name in documents), *(f"query {query}" for query in judged)],
    )


def _inside(folder: Path, split: str) -> Path:
    if not split.replace("-", "").replace("_", "").isalnum():
        raise DatasetError(f"The split {split[:80]!r} is no name.", hint="Such as split=test.")
    for path in (folder / "qrels" / f"{split}.tsv", folder / CORPUS, folder / QUERIES):
        if not is_file(path):
            raise DatasetError(f"There is no {path}.", hint=f"A folder of BEIR has {CORPUS}, {QUERIES} and qrels/.")
    return folder / "qrels" / f"{split}.tsv"


def _texts(path: Path, *, titles: bool) -> dict[str, str]:
    """The text of each id, in the order of the file."""
    found: dict[str, str] = {}
    for number, row in json_lines(read_content(path), path, _MOST_VALUES):
        name, text, title = row.get("_id"), row.get("text"), row.get("title") or ""
        if not isinstance(name, str) or not name or not isinstance(text, str) or not isinstance(title, str):
            raise DatasetError(f"{path} line {number} has no _id, or no text.", hint=_FORM)
        if name in found:
            raise DatasetError(f"{path} line {number} has the _id {name[:80]!r} again.", hint=_FORM)
        found[name] = f"{title} {text}".strip() if titles else text
    if not found:
        raise DatasetError(f"{path} has no texts.", hint=_FORM)
    return found


def _judged(path: Path) -> dict[str, dict[str, float]]:
    """The documents that were judged for each query, with their relevance."""
    columns, rows = read_table(path)
    if missing := next((name for name in _COLUMNS if name not in columns), None):
        raise DatasetError(f"{path} has no column {missing!r}.", hint=_FORM)
    found: dict[str, dict[str, float]] = {}
    for number, row in rows:
        query, document, gain = str(row["query-id"]), str(row["corpus-id"]), _gain(row["score"])
        if gain is None or not query or not document:
            raise DatasetError(
                f"{path} line {number} has no query, no document, or no score of at least 0.", hint=_FORM
            )
        own = found.setdefault(query, {})
        if document in own:
            raise DatasetError(f"{path} line {number} judges a document for a query again.", hint="Remove one of them.")
        own[document] = gain
    if not found:
        raise DatasetError(f"{path} judges no query.", hint=_FORM)
    return found


def _gain(value: Any) -> float | None:
    try:
        gain = float(value)
    except ValueError:
        return None
    return gain if math.isfinite(gain) and gain >= 0 else None


def _truth(own: str, documents: dict[str, float], itself: str | None = None) -> Truth:
    """`itself`: the query as a document, which also keeps its judgement where it has one."""
    unranked = [] if itself is None else [itself]
    parts = {
        "own": np.array([own]),
        "documents": np.array([*documents, *unranked], np.str_),
        "gains": np.array([*documents.values(), *(math.nan for _ in unranked)], np.float64),
    }
    return Truth("relevance", parts)
