"""Looks up the classes of data among the classes of a model, where the numbers of the classes do not tell.

Folders of images without a class file are numbered by the alphabet, which proves nothing about a model's outputs: the
names decide, and where they cannot, the evaluation is refused. A class file gives an order; but where it lists fewer
classes than the model has outputs, and the model has outputs of all these names, the names decide too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import DatasetError, ManifestError
from zoolens.inventory.datasets.dataset import Dataset
from zoolens.inventory.datasets.imagenet import BACKGROUND, imagenet_classes, imagenet_names
from zoolens.inventory.manifests.schema import Output
from zoolens.inventory.preprocess.classes import plain_name

_NUMBERED: Final = re.compile(r"(?P<stem>.*?)(?P<number>\d{1,9})")
_WORDNET_ID: Final = re.compile(r"n\d{8}")
_HOW_TO_SAY: Final = (
    "Say the order: a classes.txt in a folder of images with one class a line in the order of the model's outputs, "
    "classes=… behind the name of other data, labels in the manifest, or a label_map."
)


def find_outputs(names: Sequence[str] | None, outputs: int, dataset: Dataset) -> dict[int, int] | None:
    """A label_map (output → class of the data) that names ask for; None: outputs are the dataset's classes in order.

    `names`: of the model's outputs, where its manifest gives them. Outputs that stand for none of the dataset's classes
    follow behind those that do, so that no answer is lost.
    """
    classes = dataset.classes
    if classes is None or (not dataset.alphabetical and len(classes) == outputs):
        return None
    known = in_full(names) if names and len(names) == outputs else imagenet_names(outputs)
    places = find_classes(classes, known) if known else [None] * len(classes)
    if all(place is not None for place in places):
        return _label_map([place for place in places if place is not None], known or ())
    if not dataset.alphabetical:
        return None
    unknown = next(word for word, place in zip(classes, places, strict=True) if place is None)
    if outputs != len(classes):
        why = _why_not_found(unknown, known) if known else "the model names none of its outputs"
        raise DatasetError(
            f"{dataset.name} has {len(classes):,} classes without a known order and the model has {outputs:,} outputs: "
            f"{why}, so that which class is which output cannot be known.",
            hint=_HOW_TO_SAY,
        )
    if names and any(place is not None for place in places):
        if sum(plain_name(name) == plain_name(unknown) for name in names) > 1:
            raise DatasetError(f"The model's labels have {unknown!r} more than once.", hint=_HOW_TO_SAY)
        raise DatasetError(
            f"Some classes of {dataset.name} are among the model's labels and {unknown!r} is not.",
            hint=f"Spell it as the manifest does. {_HOW_TO_SAY}",
        )
    return None


def class_translation(output: Output, dataset: Dataset) -> NDArray[np.int64] | None:
    """The dataset's class for each class that a model answers by number, −1 where it has none; None: the same numbers.

    A label_map says it; otherwise the names do. Classes of the dataset that the model does not name are never found.
    """
    if output.label_map is not None:
        if min(output.label_map, default=0) < 0 or min(output.label_map.values(), default=0) < 0:
            raise ManifestError("label_map has a negative index.", hint="Outputs and classes count from 0.")
        mapped = np.full(max(output.label_map, default=0) + 1, -1, np.int64)
        for own, theirs in output.label_map.items():
            mapped[own] = theirs
        return mapped
    if output.labels is None or dataset.classes is None:
        return None
    times = Counter(dataset.classes)
    if twice := next((name for name in output.labels if times[name] > 1), None):
        raise DatasetError(
            f"{times[twice]} classes of {dataset.name} are called {twice!r}, so that names do not tell them apart.",
            hint="Give them one number in the dataset, or say which is which with a label_map.",
        )
    places = find_classes(dataset.classes, in_full(output.labels))
    if all(place is None for place in places):
        raise DatasetError(
            f"None of the {len(dataset.classes):,} classes of {dataset.name}, such as {dataset.classes[0]!r}, is among "
            f"the model's labels, such as {output.labels[0]!r}.",
            hint="Spell them as the manifest does, or say which is which with a label_map.",
        )
    found = np.full(len(output.labels), -1, np.int64)
    for number, place in enumerate(places):
        if place is not None:
            found[place] = number
    return found


def unnamed_classes(output: Output, dataset: Dataset) -> list[str]:
    """The classes of the dataset that a model with names or a label_map cannot answer."""
    translation = class_translation(output, dataset)
    if translation is None or dataset.classes is None:
        return []
    answered = set(translation.tolist())
    return [name for number, name in enumerate(dataset.classes) if number not in answered]


def may_reorder(names: Sequence[str] | None, dataset: Dataset) -> bool:
    """Whether names may bring the outputs into another order than they come in, as far as can be said before the
    model is open: such an evaluation is another one than that of the outputs as they come."""
    classes = dataset.classes
    if classes is None or (names and len(names) == len(classes) and not dataset.alphabetical):
        return False
    places = find_classes(classes, in_full(names) if names else imagenet_classes())
    known = [place for place in places if place is not None]
    return (len(known) == len(places) or (dataset.alphabetical and bool(known))) and places != list(range(len(places)))


def _why_not_found(word: str, names: Sequence[str]) -> str:
    parts = _places([_spellings(name) for name in names])
    places = sorted(set().union(*(parts.get(spelling, set()) for spelling in _spellings(word))))
    if len(places) > 1:
        return f"{word!r} may be any of the model's classes {places[0]} and {places[1]}"
    if places:
        return f"{word!r} and another folder both name the model's class {places[0]}"
    return f"{word!r} is not among the model's class names"


def assumed_order(names: Sequence[str] | None, outputs: int, dataset: Dataset) -> str | None:
    """The guess that an accuracy rests on where nothing but the alphabet says which class is which output."""
    classes = dataset.classes
    if not dataset.alphabetical or classes is None:
        return None
    known = in_full(names) if names and len(names) == outputs else imagenet_names(outputs)
    if known and all(place is not None for place in find_classes(classes, known)):
        return None
    last = f"{classes[-1]!r} {len(classes) - 1}"
    return f"classes of {dataset.name} are outputs by the alphabet: {classes[0]!r} is 0, {last}"


def disputed_order(dataset: Dataset) -> str | None:
    """What to say where the alphabet and the numbers in the names of classes give two orders."""
    if not dataset.alphabetical or dataset.classes is None:
        return None
    numbered = [_NUMBERED.fullmatch(name) for name in dataset.classes]
    if not all(numbered) or len({found["stem"] for found in numbered if found}) > 1:
        return None
    numbers = [int(found["number"]) for found in numbered if found]
    if numbers == sorted(numbers):
        return None
    later = next(place for place in range(1, len(numbers)) if numbers[place] < numbers[place - 1])
    return (
        f"by the alphabet {dataset.classes[later - 1]!r} comes before {dataset.classes[later]!r}, by number behind it: "
        f"the accuracy may be that of the wrong order. {_HOW_TO_SAY}"
    )


def unproven_order(names: Sequence[str] | None, dataset: Dataset) -> str | None:
    """What to say where folders are numbered by the alphabet although the model has names, which are others."""
    if not dataset.alphabetical or not names or dataset.classes is None:
        return None
    if any(place is not None for place in find_classes(dataset.classes, in_full(names))):
        return None
    return (
        f"classes of {dataset.name} such as {dataset.classes[0]!r} are none of the model's labels, such as "
        f"{names[0]!r}: they are numbered by the alphabet, which may be wrong. {_HOW_TO_SAY}"
    )


def find_classes(words: Sequence[str], names: Sequence[str]) -> list[int | None]:
    """Where each word is among a model's class names; None: nowhere, in several places, or where another word is.

    A whole name counts before a part of one: its WordNet id, the rest behind the id, one of several names with commas.
    """
    whole = _places([[plain_name(name)] for name in names])
    parts = _places([_spellings(name) for name in names])
    looked_up = [_place(word, whole, parts) for word in words]
    often = Counter(looked_up)
    return [place if often[place] == 1 else None for place in looked_up]


def _place(word: str, whole: dict[str, set[int]], parts: dict[str, set[int]]) -> int | None:
    candidates = [whole.get(plain_name(word), set())]
    candidates += [parts.get(spelling, set()) for spelling in _spellings(word)]
    for places in candidates:
        if len(places) == 1:
            return min(places)
    return None


def _places(spellings: Sequence[Sequence[str]]) -> dict[str, set[int]]:
    places: dict[str, set[int]] = {}
    for index, ways in enumerate(spellings):
        for way in ways:
            places.setdefault(way, set()).add(index)
    return places


def _spellings(name: str) -> list[str]:
    """What a class may be called: "n01440764 tench, Tinca tinca" is also the id alone and each of the names.
    Folders of some releases are called "n02085620-Chihuahua"."""
    plain = plain_name(name)
    first = plain[:9]
    if not _WORDNET_ID.fullmatch(first) or plain[9:10].isalnum():
        return [plain, *(part.strip() for part in plain.split(",") if part.strip())]
    rest = plain[9:].strip(" -:,")
    return [first, rest, *(part.strip() for part in rest.split(",") if part.strip())]


def _label_map(places: Sequence[int], names: Sequence[str]) -> dict[int, int] | None:
    """Returns the place of each output: classes of the dataset first, then the others by name, so that all models with
    these names agree; None if nothing moves."""
    rank = [(name == BACKGROUND, plain_name(name)) for name in names]
    rest = set(range(len(names))) - set(places)
    others = sorted(rest, key=lambda output: rank[output])
    order = {output: place for place, output in enumerate([*places, *others])}
    moved = any(output != place for output, place in order.items())
    return order if moved else None


def in_full(names: Sequence[str]) -> Sequence[str]:
    """Returns the classes of ImageNet with their WordNet ids and all their names; other classes as they are.

    Models mostly have the first English name only, where folders have the id. The two classes called "crane" are
    distinguished by their index if the others are in ImageNet's order.
    """
    known = imagenet_names(len(names))
    if not known:
        return names
    places = find_classes(names, known)
    if _mostly(place == index for index, place in enumerate(places)):
        return known
    return [name if place is None else known[place] for name, place in zip(names, places, strict=True)]


def _mostly(facts: Iterable[bool]) -> bool:
    truths = list(facts)
    return sum(truths) > 0.9 * len(truths)
