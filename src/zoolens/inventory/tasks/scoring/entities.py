"""Entities of tagged tokens, read as seqeval 1.2.2 reads them, and their F1.

The lenient reading, seqeval's default, needs no scheme: it accepts B, I, E, S and O, and an entity may begin with any
of them. The strict reading accepts the letters of one scheme only, and drops entities that break its rules.
Unlike seqeval, tags of any other form are refused, and a score without any entity is undefined instead of 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from zoolens.base.errors import UnknownName, ZoolensError
from zoolens.inventory.tasks.scoring.score import Integers, MeanScore, Score, checked_weights, mean_of_scores, ratio

# Counts are kept as inputs × types. Datasets have at most a few hundred; a damaged column has one for each token.
MOST_TYPES: Final = 1000
NO_ENTITY: Final = "There is no entity, neither true nor predicted."


class Entity(NamedTuple):
    """`first` and `last`: places of its tokens, both inclusive."""

    type: str
    first: int
    last: int


class _Tag(NamedTuple):
    letter: str
    type: str


_OUTSIDE: Final = _Tag("O", "_")

# Letters of the tag before, letters of this tag, and whether both must have the same type; None: they may or may not.
_Rule = tuple[str, str, Literal["same", "different"] | None]


@dataclass(frozen=True)
class _Scheme:
    letters: str
    starts: tuple[_Rule, ...]
    continues: tuple[_Rule, ...]
    ends: tuple[_Rule, ...]


_ANY: Final = "BIOESLU"
SCHEMES: Final = {
    "IOB1": _Scheme(
        "IOB",
        (("O", "I", None), ("I", "I", "different"), ("B", "I", None), ("IB", "B", "same")),
        (("BI", "I", "same"),),
        (("IB", "I", "different"), ("IB", "O", None), ("I", "B", None), ("B", "B", "same")),
    ),
    "IOB2": _Scheme(
        "IOB",
        ((_ANY, "B", None),),
        (("BI", "I", "same"),),
        (("IB", "OB", None), ("IB", "I", "different")),
    ),
    "IOE1": _Scheme(
        "IOE",
        (("OE", "I", None), ("I", "I", "different"), ("E", "E", "same")),
        (("I", "IE", "same"),),
        (("I", "IE", "different"), ("I", "O", None), ("E", "IE", "same")),
    ),
    "IOE2": _Scheme(
        "IOE",
        (("OE", "IE", None), ("I", "IE", "different")),
        (("I", "IE", "same"),),
        (("E", _ANY, None),),
    ),
    "IOBES": _Scheme("IOBES", ((_ANY, "BS", None),), (("BI", "IE", "same"),), (("SE", _ANY, None),)),
    "BILOU": _Scheme("BILOU", ((_ANY, "BU", None),), (("BI", "IL", "same"),), (("UL", _ANY, None),)),
}


def read_entities(tags: Sequence[str], scheme: str | None = None) -> list[Entity]:
    """The entities of one row of tags. `scheme`: of the strict reading; None: the lenient reading."""
    if scheme is None:
        return _read_leniently([_parse(tag, "BIES", strict=False) for tag in tags])
    if scheme not in SCHEMES:
        raise UnknownName("tagging scheme", scheme, SCHEMES)
    rules = SCHEMES[scheme]
    return _read_strictly([_parse(tag, rules.letters, strict=True) for tag in tags], rules)


def _parse(tag: str, letters: str, *, strict: bool) -> _Tag:
    if tag == "O":
        return _OUTSIDE
    letter, dash, rest = tag[:1], tag[1:2], tag[2:]
    if letter == "O" or letter not in letters or not letter or dash not in ("", "-"):
        forms = ", ".join(f"{known}-TYPE" for known in letters if known != "O")
        raise ZoolensError(f"Tags must be O or one of {forms}; got {tag[:80]!r}.")
    # seqeval's strict reading strips dashes at both ends of a type, its lenient reading removes the first one.
    return _Tag(letter, (rest.strip("-") if strict else rest) or "_")


def _read_leniently(tags: list[_Tag]) -> list[Entity]:
    found = []
    first = 0
    before = _OUTSIDE
    for place, tag in enumerate([*tags, _OUTSIDE]):
        other_type = before.type != tag.type
        ends = before.letter in "ES" or (before.letter in "BI" and tag.letter in "BSO")
        if ends or (before.letter != "O" and other_type):
            found.append(Entity(before.type, first, place - 1))
        starts = tag.letter in "BS" or (before.letter in "ESO" and tag.letter in "EI")
        if starts or (tag.letter != "O" and other_type):
            first = place
        before = tag
    return found


def _read_strictly(tags: list[_Tag], scheme: _Scheme) -> list[Entity]:
    padded = [*tags, _OUTSIDE]
    found = []
    place = 0
    before = _OUTSIDE
    while place < len(padded):
        first = place
        place += 1
        if _applies(scheme.starts, before, padded[first]):
            while place < len(padded) and _applies(scheme.continues, padded[place - 1], padded[place]):
                place += 1
            if _applies(scheme.ends, padded[place - 1], padded[place]):
                found.append(Entity(padded[first].type, first, place - 1))
        before = padded[place - 1]
    return found


def _applies(rules: tuple[_Rule, ...], before: _Tag, tag: _Tag) -> bool:
    relation = "same" if before.type == tag.type else "different"
    return any(
        before.letter in earlier and tag.letter in later and types in (None, relation)
        for earlier, later, types in rules
    )


@dataclass(frozen=True)
class EntityParts:
    """Counts of entities, inputs × types. `correct`: predicted entities that are true, with type and both ends."""

    types: tuple[str, ...]
    correct: Integers
    predicted: Integers
    true: Integers


def entity_parts(
    true: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], scheme: str | None = None
) -> EntityParts:
    """Counts the entities of each input's row of true and of predicted tags."""
    if len(true) != len(predicted):
        raise ZoolensError(f"There are {len(true)} rows of true tags but {len(predicted)} of predicted tags.")
    pairs = [_entities_of_both(*rows, scheme) for rows in zip(true, predicted, strict=True)]
    types = sorted({entity.type for entity in chain.from_iterable(ours | theirs for ours, theirs in pairs)})
    if len(types) > MOST_TYPES:
        raise ZoolensError(f"At most {MOST_TYPES} types of entities can be scored; the tags have {len(types)}.")
    columns = {name: column for column, name in enumerate(types)}
    correct, found, there = (np.zeros((len(pairs), len(types)), np.int64) for _ in range(3))
    for row, (truth, answer) in enumerate(pairs):
        for counts, entities in ((correct, truth & answer), (found, answer), (there, truth)):
            for entity in entities:
                counts[row, columns[entity.type]] += 1
    return EntityParts(tuple(types), correct, found, there)


def _entities_of_both(a: Sequence[str], b: Sequence[str], scheme: str | None) -> tuple[set[Entity], set[Entity]]:
    if len(a) != len(b):
        raise ZoolensError(f"Two rows of tags for the same tokens have {len(a)} and {len(b)} tags.")
    return set(read_entities(a, scheme)), set(read_entities(b, scheme))


def best_constant_f1(true: Sequence[Sequence[str]]) -> float:
    """The F1 of the best tag that every word is given: B makes an entity of each word, I one of the whole row."""
    rows = [(len(row), read_entities(row)) for row in true]
    entities = [(entity, length) for length, row in rows for entity in row]
    words = Counter(entity.type for entity, _ in entities if entity.first == entity.last)
    whole = Counter(entity.type for entity, length in entities if (entity.first, entity.last) == (0, length - 1))
    answered = sum(length for length, _ in rows), sum(length > 0 for length, _ in rows)
    return max(
        2 * max(found.values(), default=0) / max(1, said + len(entities))
        for found, said in zip((words, whole), answered, strict=True)
    )


def f1_by_type(parts: EntityParts, weights: ArrayLike | None = None) -> dict[str, Score]:
    """F1 of each type; undefined for a type without true and predicted entities."""
    correct, total = _sums(parts, weights)
    return {
        name: ratio(2 * correct[column], total[column], f"There is no entity of the type {name}.")
        for column, name in enumerate(parts.types)
    }


def micro_f1(parts: EntityParts, weights: ArrayLike | None = None) -> Score:
    """F1 over the entities of all types together."""
    correct, total = _sums(parts, weights)
    return ratio(2 * correct.sum(), total.sum(), NO_ENTITY)


def macro_f1(parts: EntityParts, weights: ArrayLike | None = None) -> MeanScore:
    """Mean F1 of the types that the weighted inputs have."""
    scores = mean_of_scores(list(f1_by_type(parts, weights).values()))
    return scores if scores.defined else MeanScore(scores.value, 0, scores.total, NO_ENTITY)


def _sums(parts: EntityParts, weights: ArrayLike | None) -> tuple[Integers, Integers]:
    counts = checked_weights(weights, len(parts.true))
    return counts @ parts.correct, counts @ (parts.predicted + parts.true)


def tag_agreement(a: Sequence[str], b: Sequence[str], scheme: str | None = None) -> float:
    """F1 of the entities of two rows of tags for the same tokens, between 0 and 1, in either order the same.
    Two rows without entities give the same answer, which is 1."""
    ours, theirs = _entities_of_both(a, b, scheme)
    total = len(ours) + len(theirs)
    return 2 * len(ours & theirs) / total if total else 1.0
