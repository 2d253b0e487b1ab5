"""Questions about a text whose answers are words of it: SQuAD's JSON, versions 1.1 and 2.0."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from zoolens.base.errors import DatasetError
from zoolens.base.safety.untrusted import parse_json
from zoolens.inventory.datasets.text_dataset import TextDataset, TextPair, Truths
from zoolens.inventory.datasets.text_tables import read_content
from zoolens.inventory.datasets.truth import Truth


@dataclass(frozen=True)
class _Question:
    id: str
    pair: TextPair
    answers: tuple[str, ...]


def open_squad(location: str) -> TextDataset:
    """A sample is a question and its context. A question without an answer, as version 2.0 has them, is right where
    nothing is answered."""
    path = Path(location).expanduser()
    try:
        content = parse_json(read_content(path))
    except ValueError as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else error
        raise DatasetError(f"{path} is not JSON: {reason}.") from error
    try:
        questions = list(_questions(content, path))
    except (KeyError, TypeError, AttributeError) as error:
        raise DatasetError(
            f"{path} is not in SQuAD's form: {type(error).__name__} at {str(error)[:60]}.",
            hint="It is {data: [{paragraphs: [{context, qas: [{id, question, answers: [{text}]}]}]}]}.",
        ) from error
    truths = [Truth("spans", {"texts": np.array(each.answers, np.str_)}) for each in questions]
    return TextDataset(
        [each.pair for each in questions],
        name=path.stem,
        truths=Truths("spans", truths),
        ids=[each.id for each in questions],
    )


def _questions(content: Any, path: Path) -> Iterator[_Question]:
    for article in content["data"]:
        for paragraph in article["paragraphs"]:
            context = _text(paragraph["context"], "context", path)
            for asked in paragraph["qas"]:
                question = _text(asked["question"], "question", path)
                impossible = asked.get("is_impossible", False)
                answers = () if impossible else tuple(_text(each["text"], "answer", path) for each in asked["answers"])
                lost = next((answer for answer in answers if answer not in context), None)
                if lost is not None:
                    raise DatasetError(
                        f"{path}: the answer {lost[:60]!r} to the question {str(asked['id'])[:60]} is not in its text."
                    )
                yield _Question(str(asked["id"]), TextPair(question, context), answers)


def _text(value: Any, what: str, path: Path) -> str:
    if not isinstance(value, str):
        raise DatasetError(f"{path} has a {what} that is no text: {str(value)[:60]!r}.")
    return value
