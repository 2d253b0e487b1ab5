"""Words with a tag each: CoNLL files, and .jsonl files with tags or with entities as ranges of characters.

Tags become BIO (IOB2), in which B- begins each entity: entities are the same in all schemes, and models differ in them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from zoolens.base.errors import DatasetError
from zoolens.inventory.datasets.text_dataset import TextDataset, Truths, Words
from zoolens.inventory.datasets.text_tables import JSON_SUFFIXES, Row, json_lines, read_content
from zoolens.inventory.datasets.truth import Truth

SUFFIXES: Final = (".conll", ".bio", ".iob", ".iob2", ".bioes")
SCHEMES: Final = ("BIO", "IOB1", "BIOES", "BILOU")
_MOST_VALUES: Final = 1 << 20  # of one line of JSON
_DOCUMENT: Final = "-DOCSTART-"
_WORD: Final = re.compile(r"\w+|[^\w\s]")
_TAG: Final = re.compile(r"O|[BIESLU]-\S+")
_BEGIN: Final = {"S": "B", "U": "B", "E": "I", "L": "I"}  # letters of BIOES and BILOU as those of BIO


@dataclass(frozen=True)
class Tagged:
    """A text that was split into words. `where`: what errors call it."""

    where: str
    words: tuple[str, ...]
    tags: list[str]


def open_tagged(
    location: str, *, word: str | None = None, tag: str | None = None, scheme: str | None = None
) -> TextDataset:
    """word, tag: numbers of the columns of a CoNLL file, counted from 0 (−1: the last); by default the first and the
    last. Of .jsonl files: names of the fields, by default tokens (words, or [begin, end, word]) or text, and tags or
    entities ([begin, end, type] in characters).

    scheme: BIO, IOB1, BIOES or BILOU; by default it is told from the tags. All become BIO.
    """
    path = Path(location).expanduser()
    if scheme is not None and scheme not in SCHEMES:
        raise DatasetError(f"There is no scheme {scheme!r} of tags.", hint=f"It is one of {', '.join(SCHEMES)}.")
    content = read_content(path)
    notes: list[str] = []
    if path.suffix.lower() in JSON_SUFFIXES:
        rows = list(_from_json(content, path, word, tag, notes))
    else:
        rows = list(_from_columns(content, path, _column(word, 0), _column(tag, -1)))
    return tagged_dataset(rows, path.stem, scheme, notes)


def tagged_dataset(
    rows: Sequence[Tagged], name: str, scheme: str | None = None, notes: Sequence[str] = ()
) -> TextDataset:
    """Tagged texts, whatever they were read from, with tags in BIO."""
    for row in rows:
        if len(row.tags) != len(row.words):
            raise DatasetError(f"{row.where} has {len(row.words)} words but {len(row.tags)} tags.")
        for tag in row.tags:
            _checked_tag(tag, row.where)
    said = list(notes)
    found = scheme or _scheme_of(rows)
    if found != "BIO":
        said.append(f"its tags are {found}, which were converted to BIO")
    truths = [Truth("tags", {"tags": np.array(_as_bio(row, found), np.str_)}) for row in rows]
    dataset = TextDataset([Words(row.words) for row in rows], name=name, truths=Truths("tags", truths))
    dataset.notes = tuple(dict.fromkeys(said))
    return dataset


def _column(given: str | None, usual: int) -> int:
    try:
        return usual if given is None else int(given)
    except ValueError as error:
        raise DatasetError(f"The columns of a CoNLL file are numbered from 0; got {given!r}.") from error


def _from_columns(content: str, path: Path, word: int, tag: int) -> Iterator[Tagged]:
    words: list[str] = []
    tags: list[str] = []
    first = 1
    for number, line in enumerate([*content.split("\n"), ""], 1):
        cells = line.split()
        if not cells or cells[0] == _DOCUMENT:
            if words:
                yield Tagged(f"{path} line {first}", tuple(words), tags)
            words, tags, first = [], [], number + 1
            continue
        # Comments of CoNLL-U; a word # has a tag behind it.
        if line.startswith("# ") and not _TAG.fullmatch(cells[-1]):
            continue
        try:
            words.append(cells[word])
            tags.append(_checked_tag(cells[tag], f"{path} line {number}"))
        except IndexError as error:
            raise DatasetError(
                f"{path} line {number} has {len(cells)} columns, not one for the word and one for the tag.",
                hint="Say which they are: word=0&tag=3, counted from 0.",
            ) from error


def _checked_tag(tag: Any, where: str) -> str:
    if not isinstance(tag, str) or not _TAG.fullmatch(tag):
        raise DatasetError(
            f"{where} has the tag {str(tag)[:40]!r}, which is neither O nor a letter and a type such as B-PER.",
            hint="Name the column of the tags with tag=….",
        )
    return tag


def _from_json(content: str, path: Path, word: str | None, tag: str | None, notes: list[str]) -> Iterator[Tagged]:
    for number, row in json_lines(content, path, _MOST_VALUES):
        where = f"{path} line {number}"
        words, ranges = _words(row, word, where)
        if word is None and "tokens" not in row:
            notes.append("its texts were split into words and single signs (\\w+ or one other character)")
        key = tag or next((name for name in ("tags", "ner_tags", "entities", "spans") if name in row), None)
        listed = row.get(key) if key is not None else None
        if not isinstance(listed, list):
            raise DatasetError(f"{where} has no list of tags or entities.", hint="Name the field with tag=….")
        if all(isinstance(each, str) for each in listed) and (listed or not words):
            tags = [_checked_tag(each, where) for each in listed]
            if len(tags) != len(words):
                raise DatasetError(f"{where} has {len(words)} words but {len(tags)} tags.")
        elif ranges is None:
            raise DatasetError(
                f"{where} has entities as ranges of characters, but its words have no places.",
                hint="Write each token as [begin, end, word], or give the text itself.",
            )
        else:
            tags = _tags_of_ranges([_range(each, where) for each in listed], ranges)
        yield Tagged(where, words, tags)


def _words(row: Row, word: str | None, where: str) -> tuple[tuple[str, ...], list[tuple[int, int]] | None]:
    """The words of a text, and where each begins and ends, if that is known."""
    given = row.get(word or "tokens", row.get("text") if word is None else None)
    if isinstance(given, str):
        found = list(_WORD.finditer(given))
        return tuple(match.group() for match in found), [match.span() for match in found]
    if isinstance(given, list) and all(isinstance(each, str) for each in given):
        return tuple(given), None
    if isinstance(given, list):
        ranges = [_range(each, where) for each in given]
        return tuple(each[2] for each in ranges), [each[:2] for each in ranges]
    raise DatasetError(f"{where} has no words.", hint="Name the field of the tokens or of the text with word=….")


def _range(given: Any, where: str) -> tuple[int, int, str]:
    """Where a word or an entity begins and ends, and the word or the entity's type."""
    values = given
    if isinstance(given, dict):
        values = [given.get("start"), given.get("end"), given.get("label", given.get("type"))]
    if isinstance(values, list) and [type(each) for each in values] == [int, int, str] and 0 <= values[0] <= values[1]:
        return (values[0], values[1], values[2])
    raise DatasetError(f"{where} has {str(given)[:60]}, where [begin, end, word or type] is expected.")


def _tags_of_ranges(entities: Sequence[tuple[int, int, str]], words: Sequence[tuple[int, int]]) -> list[str]:
    """The words that an entity overlaps have its tag. Of entities that overlap, the longest counts."""
    tags = ["O"] * len(words)
    begins, ends = (np.array([place[side] for place in words], np.int64) for side in (0, 1))
    for begin, end, kind in sorted(entities, key=lambda entity: entity[0] - entity[1]):
        inside = np.flatnonzero((begins < end) & (ends > begin)).tolist()
        if not inside or any(tags[place] != "O" for place in inside):
            continue
        for place in inside:
            tags[place] = f"I-{kind}"
        tags[inside[0]] = f"B-{kind}"
    return tags


def _scheme_of(rows: Sequence[Tagged]) -> str:
    """BIO, unless letters or an I- without a beginning tell another one."""
    letters = {tag[0] for row in rows for tag in row.tags}
    if letters & {"L", "U"}:
        return "BILOU"
    if letters & {"E", "S"}:
        return "BIOES"
    return "IOB1" if any(_begins_inside(row.tags) for row in rows) else "BIO"


def _begins_inside(tags: Sequence[str]) -> bool:
    """Whether an entity begins with I-, as it does in IOB1 unless it follows another one of its type."""
    pairs = zip(["O", *tags], tags, strict=False)
    return any(tag[0] == "I" and before[2:] != tag[2:] for before, tag in pairs)


def _as_bio(row: Tagged, scheme: str) -> list[str]:
    if scheme in ("BIOES", "BILOU"):
        return [tag if tag == "O" else _BEGIN.get(tag[0], tag[0]) + tag[1:] for tag in row.tags]
    if odd := next((tag for tag in row.tags if tag[0] not in "BIO"), None):
        raise DatasetError(f"{row.where} has the tag {odd!r}, which {scheme} does not have.")
    if scheme == "BIO":
        return row.tags
    pairs = zip(["O", *row.tags], row.tags, strict=False)
    return [f"B{tag[1:]}" if tag[0] == "I" and before[2:] != tag[2:] else tag for before, tag in pairs]
