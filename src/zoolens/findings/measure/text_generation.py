"""Texts that a language model writes: each prompt is continued token by token with the most likely one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoolens.inventory.datasets.text_dataset import Writing
from zoolens.inventory.preprocess.text import PrepareText
from zoolens.inventory.runtimes.runtime import Session
from zoolens.inventory.tasks.generation import IDS, LOGS, PROMPT, TEXT, WRITTEN
from zoolens.inventory.tasks.scoring.next_tokens import KeptTokens, kept_tokens

Array = NDArray[Any]


def answered_prompts(text: PrepareText, session: Session, batch: Array, writing: Writing, top: int) -> dict[str, Array]:
    """What a model writes behind the only prompt of a batch. `top`: how many of the most likely tokens are kept at each
    position."""
    (record,) = batch
    prompt = text.prompt_ids(record)
    kept = list(_greedy(session, prompt, writing.tokens, frozenset(text.declared.end_ids or ()), top))
    written = [int(each.ids[0, 0]) for each in kept]
    content = text.tokenizer.texts([written])[0].encode("utf-8", "surrogatepass")
    rows = {
        PROMPT: prompt,
        WRITTEN: np.array(written, np.int32),
        IDS: np.concatenate([each.ids for each in kept]),
        LOGS: np.concatenate([each.logs for each in kept]),
        TEXT: np.frombuffer(content, np.uint8),
    }
    return {name: row[np.newaxis] for name, row in rows.items()}


def _greedy(session: Session, prompt: Array, count: int, ends: frozenset[int], top: int) -> Iterator[KeptTokens]:
    """Yields the distribution at each written position, of which the most likely token is written."""
    new: Sequence[int] | Array = prompt
    for place in range(count):
        after = session.extend(np.asarray(new, np.int32)[np.newaxis], None if place else 0)
        kept = kept_tokens(after, np.zeros(1, np.int64), top)
        yield kept
        token = int(kept.ids[0, 0])
        if token in ends:
            return
        new = [token]
