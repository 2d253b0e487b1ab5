"""Texts that a language model writes: each prompt is continued token by token with the most likely one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoolens.inventory.datasets.text_dataset import Writing
from zoolens.inventory.preprocess.text import PrepareText
from zoolens.inventory.runtimes.runtime import Session
from zoolens.inventory.tasks.generation import DRAWN, IDS, LOGS, PROMPT, TEXT, WRITTEN
from zoolens.inventory.tasks.scoring.next_tokens import KeptTokens, kept_tokens
from zoolens.inventory.tasks.scoring.sample_tests import ENDED

Array = NDArray[Any]


@dataclass(frozen=True)
class Writer:
    """How a model goes on with the prompts of a dataset. `top`: how many of the most likely tokens are kept. `stream`:
    what the random numbers of its draws depend on beside the seed and the prompt, so that those of two models are
    independent of each other."""

    writing: Writing
    top: int
    stream: str


def answered_prompts(text: PrepareText, session: Session, batch: Array, writer: Writer) -> dict[str, Array]:
    """What a model writes behind the only prompt of a batch."""
    (record,) = batch
    prompt = text.prompt_ids(record)
    writing, ends = writer.writing, frozenset(text.declared.end_ids or ())
    kept = list(_greedy(session, prompt, writing.tokens, ends, writer.top))
    written = [int(each.ids[0, 0]) for each in kept]
    content = text.tokenizer.texts([written])[0].encode("utf-8", "surrogatepass")
    rows = {
        PROMPT: prompt,
        WRITTEN: np.array(written, np.int32),
        IDS: np.concatenate([each.ids for each in kept]),
        LOGS: np.concatenate([each.logs for each in kept]),
        TEXT: np.frombuffer(content, np.uint8),
        DRAWN: _drawn(session, prompt, writer, ends),
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


def _drawn(session: Session, prompt: Array, writer: Writer, ends: frozenset[int]) -> Array:
    """Texts drawn at random, draws × tokens."""
    writing = writer.writing
    texts = np.full((writing.draws, writing.tokens), ENDED, np.int32)
    if not writing.draws:
        return texts
    random = _random(prompt, writer)
    going = np.ones(writing.draws, np.bool_)
    new = np.tile(prompt, (writing.draws, 1))
    for place in range(writing.tokens):
        logs = session.extend(new, None if place else 0).astype(np.float64) / writing.temperature
        # The largest of the sums with Gumbel noise is a draw.
        tokens = np.argmax(logs + random.gumbel(size=logs.shape), axis=1).astype(np.int32)
        texts[going, place] = tokens[going]
        going &= ~np.isin(tokens, list(ends))
        if not going.any():
            break
        new = tokens[:, np.newaxis]
    return texts


def _random(prompt: Array, writer: Writer) -> np.random.Generator:
    content = f"{writer.writing.seed} {writer.stream} {prompt.tolist()}".encode()
    return np.random.default_rng(np.frombuffer(hashlib.sha256(content).digest(), np.uint32))
