"""The datasheet of an exported study: what it is, who made it and how, and what is wrong with it, from the data."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from zoolens.base.store.records import Provenance
from zoolens.base.store.values import to_json
from zoolens.training.crosstrain.exchange.contents import Contents
from zoolens.training.crosstrain.exchange.exchange_schema import FORMAT, TABLES
from zoolens.training.crosstrain.exchange.rows import recipes_of

_NOT_STATED = "not stated"
_OBEYED: Final = re.compile(r"[\\`*_{}\[\]()#!|>~]")  # by Markdown


def datasheet(contents: Contents, made: Sequence[datetime], replicates: str | None = None) -> str:
    """`made`: when each side was filed. `replicates`: the study of its trials under other seeds."""
    study = contents.study
    sections = {
        "What": _what(contents),
        "Who": _who(study.details),
        "How": _how(contents, made),
        "Versions and machines": _versions(contents),
        "Known flaws": _flaws(contents, replicates),
        "Files": _files(),
    }
    text = [f"# {plain(study.name)}", ""]
    for title, lines in sections.items():
        text += [f"## {title}", "", *(f"- {line}" for line in lines), ""]
    return "\n".join(text)


def plain(text: object) -> str:
    """A stranger's words on one line, as Markdown and HTML show them and do not obey them."""
    line = " ".join(str(text).split())
    return _OBEYED.sub(lambda match: f"\\{match[0]}", line.replace("&", "&amp;").replace("<", "&lt;"))


def _what(contents: Contents) -> Iterator[str]:
    counts = contents.counts()
    yield (
        f"{counts['trials']} trials: the same recipe trained by {', '.join(contents.study.frameworks)}; "
        f"{counts['sides']} sides, of which {counts['finished']} finished, {counts['with predictions']} have their "
        f"predictions and {counts['with weights']} their weights."
    )
    for place, dataset in enumerate(contents.study.datasets):
        labels = "with labels" if place in contents.labels else "without labels"
        about = f"{dataset.size} samples, {labels}, fingerprint {dataset.fingerprint[:16]}"
        yield f"Data: {plain(dataset.name)} ({about}). Its images are not in this folder."
    varied = dict.fromkeys(name for trial in contents.trials for name in trial.trial.hyperparameters)
    yield f"Hyperparameters: {', '.join(map(plain, varied)) or 'none'}."


def _who(details: Mapping[str, Any]) -> Iterator[str]:
    for title, key in (("Made by", "author"), ("Source", "source"), ("Cite", "citation"), ("Licence", "licence")):
        yield f"{title}: {plain(details.get(key) or _NOT_STATED)}."


def _how(contents: Contents, made: Sequence[datetime]) -> Iterator[str]:
    recipes = recipes_of(contents)
    kinds = Counter(f"{recipe.architecture}, {recipe.mode} mode, {recipe.weights} first weights" for recipe in recipes)
    yield from (f"{plain(kind)}: {count} recipes." for kind, count in kinds.items())
    if not recipes:
        yield f"No recipes: {plain(contents.study.details.get('source') or 'published figures')}."
    if made:
        yield f"Filed between {min(made):%Y-%m-%d} and {max(made):%Y-%m-%d}."
    yield "Accuracies are exact counts over all test samples, unless the column `exact` says otherwise."


def _versions(contents: Contents) -> Iterator[str]:
    stacks = Counter(
        (side.side.framework, ", ".join(f"{plain(name)} {plain(version)}" for name, version in side.versions.items()))
        for _, side in contents.sides
    )
    for (framework, versions), count in stacks.items():
        yield f"{framework}: {versions or _NOT_STATED} ({count} sides)."
    conditions = Counter(to_json(trial.conditions) for trial in contents.trials)
    for condition, count in conditions.items():
        yield f"Conditions of {count} trials: {plain(condition)}."


def _flaws(contents: Contents, replicates: str | None) -> Iterator[str]:
    sides = list(contents.sides)
    counts = {
        "did not finish (see `status` and `message`)": sum(facts.side.status != "finished" for _, facts in sides),
        "always gave the same answer: their accuracy says nothing": sum(facts.side.collapsed for _, facts in sides),
        "have an accuracy that is no quotient of counts": sum(not facts.side.exact for _, facts in sides),
        "are claims that nobody here measured": sum(trial.provenance is Provenance.CLAIMED for trial, _ in sides),
        "have no predictions, so that nothing can be recomputed": sum(facts.answers is None for _, facts in sides),
    }
    yield from (f"{count} of {len(sides)} sides {flaw}." for flaw, count in counts.items() if count)
    settings = Counter(to_json({**trial.trial.hyperparameters, "seed": 0}) for trial in contents.trials)
    if replicates is not None:
        yield f"Its trials under other seeds are a study of their own, {plain(replicates)}, and not in this folder."
    elif max(settings.values(), default=0) < 2:
        yield "No setting was trained more than once: differences cannot be told from seed noise."
    if len(contents.labels) < len(contents.study.datasets):
        yield "Labels of some test samples are not here: figures over them cannot be recomputed."
    yield "Names of datasets are as their user wrote them, and may name files of another machine."


def _files() -> Iterator[str]:
    yield f"Format: {FORMAT}. Every column, with unit and range, is in `schema.json`; `checksums.txt` has SHA-256 sums."
    yield f"Tables: {', '.join(f'`{name}.parquet`' for name in TABLES)}."
    yield "`study.json`: name, frameworks, datasets; `recipes.json`: every training recipe."
    yield "`weights/SIDE.safetensors`: the trained weights of a side, where they were kept. Nothing here is pickled."
