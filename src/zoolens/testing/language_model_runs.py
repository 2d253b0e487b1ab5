"""Runs of language models that were never run: the answers are drawn at random, as `zoolens eval` would keep them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from zoolens.base.store.records import DatasetRecord, ModelRecord, Observation, Run, StackRecord, Stage, fingerprint
from zoolens.base.store.scopes import context_scope
from zoolens.base.store.store import Store
from zoolens.findings.measure.evaluate import evaluate
from zoolens.findings.measure.generation_speed import FIRST, FURTHER, MEMORY
from zoolens.findings.measure.predictions import KIND, TRUTH, truth_columns_of
from zoolens.inventory.catalog.draft import draft_manifest
from zoolens.inventory.datasets.opening import absolute_spec, open_dataset
from zoolens.inventory.manifests.locations import model_fingerprint, resolve_asset
from zoolens.inventory.manifests.schema import AssetFile, Manifest
from zoolens.inventory.manifests.schema_texts import PREDICTING
from zoolens.inventory.manifests.tokenizer import ROLE
from zoolens.inventory.preprocess.tokenizer_client import OpenTokenizer, TokenPlaces
from zoolens.inventory.tasks.foreseen_columns import NO_SEED, Foreseen
from zoolens.inventory.tasks.language_model import LanguageModel, foreseen_tokens
from zoolens.inventory.tasks.scoring.next_tokens import kept_tokens
from zoolens.inventory.tasks.scoring.token_samples import position_seeds, text_seed
from zoolens.testing import language_models

STACK: Final[dict[str, object]] = {"version": "1", "options": {}, "packages": {}, "python": None, "machine": {}}


@dataclass(frozen=True)
class Book:
    """Texts on disk, split into the tokens of a tiny model. `scores`: of each text, positions × vocabulary."""

    folder: Path
    data: str
    manifest: Manifest
    places: tuple[TokenPlaces, ...]
    scores: tuple[np.ndarray, ...]

    @property
    def texts(self) -> list[str]:
        return [str(each.sample) for each in self.places]


def written_book(folder: Path, content: str, size: int) -> Book:
    """`content` in passages of so many bytes."""
    (folder / "book.txt").write_text(content, encoding="utf-8")
    data = absolute_spec(f"passages:{folder / 'book.txt'}?size={size}")
    manifest = draft_manifest(language_models.gguf(folder).path())
    declared = manifest.inputs[0].tokenizer
    assert declared is not None
    with_tokens = OpenTokenizer(declared, folder / "tiny.tokenizer.json")
    texts = [sample.value.item() for sample in open_dataset(data)]
    places = with_tokens.encode(texts, places=True).places
    with_tokens.close()
    random = np.random.default_rng(5)
    shape = language_models.VOCABULARY
    scores = tuple(3 * random.normal(size=(len(foreseen_tokens(each)), shape)) for each in places)
    return Book(folder, data, manifest, places, scores)


def timed_run(folder: Path, store: Store, **asked: Any) -> Run:
    """What a tiny model really writes behind one prompt in llama.cpp. `asked`: what is measured of it."""
    language_models.gguf(folder)
    (folder / "prompts.jsonl").write_text('{"prompt": "XYZ"}')
    data = f"prompts:{folder / 'prompts.jsonl'}?tokens=2"
    (outcome,) = evaluate(
        folder / "tiny.gguf", data=data, store=store, runtimes="llamacpp", threads=1, cold=False, **asked
    )
    assert outcome.run is not None, outcome.errors
    return outcome.run


def answered(store: Store, book: Book, name: str, noise: dict[int, float] | float = 0.0) -> Run:
    """A model that differs from the others by this much noise in the scores of each text, by its place."""
    random = np.random.default_rng(list(name.encode()))
    own = []
    for place, scores in enumerate(book.scores):
        size = noise if isinstance(noise, float) else noise.get(place, 0.0)
        own.append(scores + size * random.normal(size=scores.shape))
    return scored(store, book, name, own)


def scored(
    store: Store, book: Book, name: str, scores: Sequence[np.ndarray], top: int = 8, *, sampled: bool = False
) -> Run:
    """A model with these scores of each text, of which so many of the most likely tokens are kept. `sampled`: and a
    sample of the others, as runs of today have it."""
    kept = []
    for where, own in zip(book.places, scores, strict=True):
        assert where.ids is not None
        following = where.ids[foreseen_tokens(where)]
        seed = text_seed(str(where.sample)) if sampled else NO_SEED
        seeds = position_seeds(np.array([seed]), np.array([len(following)])) if sampled else None
        of_text = kept_tokens(own, following, top, seeds=seeds)
        kept.append(Foreseen(following, of_text, len(str(where.sample).encode()), seed))
    return _written(store, book, name, kept)


def with_other_rests(book: Book, top: int, rest: float) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Scores of two models with the same `top` most likely tokens everywhere, equally likely, whose other tokens have
    `rest` together in both and are not the same: their true agreement is 1 − rest."""
    sides: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for scores in book.scores:
        order = np.argsort(-scores, axis=1)
        half = (scores.shape[1] - top) // 2
        for side, first in zip(sides, (top, top + half), strict=True):
            chances = np.full(scores.shape, 1e-12)
            np.put_along_axis(chances, order[:, :top], (1 - rest) / top, axis=1)
            np.put_along_axis(chances, order[:, first : first + half], rest / half, axis=1)
            side.append(np.log(chances))
    return sides


def time_texts(store: Store, run: Run, prompt: int, answer: int, first: float, further: float) -> None:
    """Put times into a run as if it had been timed: `first` behind a prompt, and `further` for each other token."""
    longest = context_scope(prompt + answer)
    found = [
        Observation(FIRST, first, context_scope(prompt), "s"),
        Observation(FURTHER, further, longest, "s"),
        Observation(MEMORY, 5e7, longest, "B"),
    ]
    store.finish_stage(run.id, Stage.GENERATION.of("made-up"), found)


def _manifest(book: Book, name: str) -> Manifest:
    """That of the book's model, with another file: no two models have the same content."""
    (asset,) = book.manifest.assets
    path = book.folder / f"{name}.gguf"
    path.write_bytes(name.encode())
    tokenizer = next(file for file in asset.files if file.role == ROLE)
    own = asset.model_copy(update={"files": (AssetFile(location=path.name), tokenizer)})
    return book.manifest.model_copy(update={"name": name, "assets": (own,)})


def _written(store: Store, book: Book, name: str, kept: list[Foreseen]) -> Run:
    manifest = _manifest(book, name)
    paths = resolve_asset(manifest.assets[0], book.folder, fetch=False)
    types = LanguageModel().columns(main=True)
    columns = {
        column: pa.array(values.tolist() if isinstance(values, np.ndarray) else [row.tolist() for row in values], kind)
        for (column, values), kind in zip(LanguageModel().keep(kept, None).items(), types.values(), strict=True)
    }
    dataset = open_dataset(book.data)
    head = {
        "index": np.arange(len(kept)),
        "input": [sample.id for sample in dataset],
        "label": np.full(len(kept), -1, np.int32),
    }
    declared = manifest.model_dump(mode="json")
    run = store.begin_run(
        ModelRecord(model_fingerprint(manifest, manifest.assets[0], paths), f"file:{name}@0.1.0", "gguf", declared),
        DatasetRecord(dataset.fingerprint(), dataset.name, len(kept), {}),
        StackRecord(fingerprint("llamacpp"), "llamacpp", STACK, {}),
        resolved={
            "outputs": [{"name": "logits", "task": "language-model"}],
            "origin": {"data": book.data, "manifest": declared, "folder": str(book.folder), "ref": f"file:{name}"},
        },
    )
    truths = {f"{TRUTH}{name}": pa.array(np.ones(len(kept)), pa.int8()) for name in truth_columns_of(PREDICTING)}
    store.add_part(run.id, KIND, 0, pa.table({**head, **columns, **truths}))
    store.finish_stage(run.id, "predictions")
    return store.run(run.id)
