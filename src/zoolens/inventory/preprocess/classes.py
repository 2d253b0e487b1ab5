"""Classes by name: whether two lists name the same classes, and where each class of one stands in the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from zoolens.base.phrases import first_few

Translation = NDArray[np.int32]  # class of one order -> the same class in another order
NAMES_SHOWN: Final = 3


def plain_name(name: str) -> str:
    """A class name without what spellings differ in: case, underscores, repeated spaces, forms of Unicode (macOS writes
    an accented letter of a file name as two characters)."""
    return " ".join(normalize("NFKC", name).casefold().replace("_", " ").split())


def class_mismatch(ours: Sequence[str], theirs: Sequence[str]) -> str | None:
    """Why two lists of names are not the same classes; None: they are, perhaps in another order."""
    count_a, count_b = Counter(map(plain_name, ours)), Counter(map(plain_name, theirs))
    if [*map(plain_name, ours)] == [*map(plain_name, theirs)]:
        return None
    only_a = [name for name in ours if plain_name(name) not in count_b]
    only_b = [name for name in theirs if plain_name(name) not in count_a]
    if only_a or only_b:
        return (
            f"they name different classes: only A has {_some(only_a)}, only B has {_some(only_b)} "
            "(a label_map in the manifest would translate)"
        )
    twice = [name for name in count_a if max(count_a[name], count_b[name]) > 1]
    if twice:
        return f"the name {_some(twice)} stands for several classes, so that they cannot be matched by name"
    return None


def translation(source: Sequence[str], target: Sequence[str]) -> Translation | None:
    """Place of each source name among the target's; None: the same order."""
    sources = [plain_name(name) for name in source]
    targets = [plain_name(name) for name in target]
    places = {name: place for place, name in enumerate(targets)}
    order = np.array([places[name] for name in sources], np.int32)
    return None if sources == targets else order


def _some(names: Sequence[str]) -> str:
    return first_few([repr(name) for name in names], NAMES_SHOWN) or "none"
