"""Names of layers as identifiers, as names of Keras layers and as words in comments.

Layer names come from a network that somebody else may have written: nothing but letters, digits and underscores of them
becomes code, and nothing but plain characters of them becomes a comment or a docstring.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Collection, Sequence
from typing import Final

_LONGEST: Final = 60
_WORD: Final = re.compile(r"[^A-Za-z0-9]+")
_PLAIN: Final = re.compile(r"[^A-Za-z0-9_.:/+\- ]")


def parts_of(source: str, framework: str) -> tuple[str, ...]:
    """What a source calls a layer, in the parts of its own hierarchy. Keras users write theirs with underscores."""
    separators = "[./_]" if framework == "keras" else "[./]"
    return tuple(part for part in re.split(separators, source) if part)


def layer_name(parts: Sequence[str]) -> str:
    """A name of a layer: letters, digits and underscores. It may begin with a digit."""
    name = "_".join(_WORD.sub("_", part).strip("_") for part in parts)
    return re.sub("__+", "_", name).strip("_")[:_LONGEST].strip("_")


def identifier(parts: Sequence[str], otherwise: str) -> str:
    """A Python name for a layer. Digits that it begins with go behind; one without letters follows `otherwise`."""
    words = [word for word in layer_name(parts).split("_") if word]
    first = next((place for place, word in enumerate(words) if not word[0].isdigit()), None)
    ordered = [otherwise, *words] if first is None else [*words[first:], *words[:first]]
    name = "_".join(ordered)
    return f"{name}_" if keyword.iskeyword(name) or keyword.issoftkeyword(name) else name


def snake_case(name: str) -> str:
    """`Conv2dNormActivation` as conv2d_norm_activation, `ZeroPadding2D` as zero_padding."""
    name = re.sub(r"[123]D", "", name)
    split = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name))
    return identifier([split.lower()], "block")


def camel_case(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_") if part)


def comment(text: str) -> str:
    """Words from a network for a comment or a docstring: one line of plain characters, none of which ends it."""
    return _PLAIN.sub("?", text)[:_LONGEST].strip() or "?"


def unique(wanted: str, taken: Collection[str], numbered: Callable[[str, int], str] = "{}_{}".format) -> str:
    """The name, with the first free number behind it where it is taken."""
    name, count = wanted, 1
    while name in taken:
        count += 1
        name = numbered(wanted, count)
    return name
