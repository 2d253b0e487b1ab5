"""What a dataset's file says about its inputs and classes: which part holds which, and how the classes are called."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Final
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import DatasetError
from zoolens.base.safety.untrusted import is_file, parse_json, read_text
from zoolens.inventory.datasets.dataset import UNLABELLED

# Files beside data that list classes: a name a line, or as training scripts write them in JSON.
NAMES: Final = (
    "synset_words.txt", "classes.txt", "labels.txt", "class_to_idx.json", "class_indices.json", "idx_to_class.json",
    "classes.json", "labels.json", "label_map.json", "imagenet_class_index.json",
)  # fmt: skip
MAX_BYTES: Final = 1 << 22
WHOLE: Final = re.compile(r"\d+\.0*")  # 3.0, as tables with a gap somewhere are often written
_MOST_DIGITS: Final = 9  # of a label that is a number


def read_class_file(path: Path) -> tuple[str, ...]:
    """One class a line, in index order, or JSON; trailing empty lines do not count."""
    try:
        text = normalize("NFC", read_text(path, MAX_BYTES))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise DatasetError(
            f"The class file {path} cannot be read: {reason}.", hint="Give one class name per line."
        ) from error
    if path.suffix == ".json":
        return _classes_of_json(text, path)
    lines = text.splitlines()
    while lines and not lines[-1].strip():
        lines.pop()
    return tuple(line.strip() for line in lines)


def _classes_of_json(text: str, path: Path) -> tuple[str, ...]:
    """A list of names, or a mapping from names to numbers or from numbers to names. Several names of one class, such as
    its WordNet id and a word, are a list."""
    refusal = DatasetError(
        f"The class file {path} lists no classes.",
        hint='Write ["cat", "dog"], {"cat": 0, "dog": 1} or {"0": "cat", "1": "dog"}, every number from 0 on once.',
    )
    try:
        content = parse_json(text)
    except ValueError as error:
        raise DatasetError(f"The class file {path} is not JSON: {error}.") from error
    if isinstance(content, list):
        pairs = list(enumerate(content))
    elif isinstance(content, dict) and all(type(number) is int for number in content.values()):
        pairs = [(number, name) for name, number in content.items()]
    elif isinstance(content, dict) and all(number.isdecimal() for number in content):
        pairs = [(int(number), name) for number, name in content.items()]
    else:
        raise refusal
    names = {number: _one_name(name) for number, name in pairs}
    if not names or sorted(names) != list(range(len(pairs))) or None in names.values():
        raise refusal
    return tuple(str(names[number]) for number in range(len(names)))


def _one_name(name: Any) -> str | None:
    if isinstance(name, list) and name and all(isinstance(part, str) for part in name):
        return " ".join(name)
    return name.strip() if isinstance(name, str) else None


def class_names(option: str | None, folder: Path, beside: Sequence[str] = ()) -> tuple[str, ...] | None:
    """Class names from the user's option (a file, or names with commas), else from the first file of `beside`."""
    if option is not None:
        path = Path(option).expanduser()
        for candidate in (folder / path, path):
            if is_file(candidate):
                return read_class_file(candidate)
        if "," in option:
            return tuple(name.strip() for name in option.split(","))
        raise DatasetError(
            f"There is no class file {option[:200]!r}.", hint="Give a file with one name a line, or names with commas."
        )
    for name in beside:
        if (folder / name).is_file():
            return read_class_file(folder / name)
    return None


def class_indices(
    words: list[str], names: tuple[str, ...] | None, where: str
) -> tuple[dict[str, int], tuple[str, ...] | None]:
    """Index of every class word found: the number it is, its line in the class file, or its place in the alphabet."""
    # Also where names are numbers, such as of stars.
    if names is not None and set(map(_composed, words)) <= set(names):
        return _lines(words, names, where), names
    whole = {word: word.partition(".")[0] if WHOLE.fullmatch(word) else word for word in words}
    if all(word.isdecimal() for word in whole.values()):
        if longest := next((word for word in whole.values() if len(word) > _MOST_DIGITS), None):
            raise DatasetError(
                f"{where} has the label {longest[:80]!r}, a number of {len(longest):,} digits.",
                hint="Labels are the numbers of the model's outputs, or words.",
            )
        # As numbers: in the order of the alphabet class 10 would be the third.
        return {word: int(number) for word, number in whole.items()}, names
    if names is None:
        return {word: index for index, word in enumerate(sorted(words))}, tuple(sorted(words))
    return _lines(words, names, where), names


def _lines(words: Sequence[str], names: Sequence[str], where: str) -> dict[str, int]:
    """The line of the class file that each word names: by the whole line, or else by the first word of it."""
    whole: dict[str, list[int]] = {}
    first: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        whole.setdefault(name, []).append(index)
        first.setdefault(name.split()[0] if name else "", []).append(index)
    lines_of_word = {word: whole.get(_composed(word)) or first.get(_composed(word), []) for word in words}
    for word, lines in lines_of_word.items():
        if not lines:
            raise DatasetError(
                f"{where} has the class {word!r}, which the class file does not list.",
                hint="A line of the class file is the class's name, or starts with it as in 'n01440764 tench'.",
            )
        if len(lines) > 1:
            raise DatasetError(
                f"{where} has the class {word!r}, which the class file lists {len(lines)} times (as the classes "
                f"{lines[0]} and {lines[1]}).",
                hint="Give each class a name of its own, or use the numbers of the classes as labels.",
            )
    return {word: lines[0] for word, lines in lines_of_word.items()}


def _composed(word: str) -> str:
    """The form of Unicode that class files are read in: names of folders on macOS come in another one."""
    return normalize("NFC", word)


def are_whole(labels: NDArray[Any]) -> bool:
    """Whether numbers with a point are class numbers all the same: 3.0, as tables with a gap somewhere are written."""
    with np.errstate(invalid="ignore"):
        return bool(np.all((labels % 1 == 0) & (labels < 10**_MOST_DIGITS)))


def check_labels(name: str, labels: Sequence[int] | NDArray[np.int64], classes: tuple[str, ...] | None) -> None:
    """Labels must be indices of classes: a label outside means that the two files do not belong together."""
    if not len(labels):
        return
    low, high = int(np.min(labels)), int(np.max(labels))
    if high == UNLABELLED:
        return
    if low < 0:
        raise DatasetError(
            f"Dataset {name} has the negative label {low}.",
            hint="Labels count from 0. Leave regression targets out (y=none, of texts label=none).",
        )
    if classes is not None and high >= len(classes):
        raise DatasetError(
            f"Dataset {name} has the label {high} but only {len(classes)} class names.",
            hint="Labels count from 0; is the class file of another dataset?",
        )


def choose_part(
    kind: str, option: str, given: str | None, usual: Sequence[str], parts: Collection[str], path: Path, other: str = ""
) -> str:
    """The array or column (`kind`) of a file that the user named with an option, or else the first with a usual name.

    `other` ends the hint of the error.
    """
    for name in (given,) if given is not None else usual:
        if name in parts:
            return name
    raise DatasetError(
        f"{path} has no {kind} {given!r}." if given else f"{path} has no {kind} with a usual name for {option}.",
        hint=f"It has {', '.join(parts) or f'no {kind}s'}; choose with the option {option}=…{other}",
    )
