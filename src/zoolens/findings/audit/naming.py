"""Which architecture a name speaks of: "squeezenet1.0-12.onnx" means SqueezeNet 1.0, "model.tflite" means nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Final

from zoolens.findings.audit.architectures import ArchitectureEntry, architecture, architectures
from zoolens.findings.graph.signatures.known_networks import PAPER, shipped

_PIECES: Final = re.compile(r"[a-z]+|\d+")
_WIDTH: Final = re.compile(r"(.+)_(\d\.\d+)")
_BETWEEN: Final = r"[^a-z0-9]*"
_LEAST: Final = 5  # letters and figures: shorter names mean too many things
_SIZE: Final = re.compile(r"_(?:160|192|224|240|256|288|299|320|331|384|448|512)$")  # of images, no part of a structure
_USUAL: Final = {  # names without the detail that only one published network has
    "wide_resnet50": "wide_resnet50_2", "wide_resnet101": "wide_resnet101_2",
    "swin_tiny": "swin_t", "swin_small": "swin_s", "swin_base": "swin_b",
    "vit_base_patch16": "vit_b_16", "vit_base_patch32": "vit_b_32", "vit_large_patch16": "vit_l_16",
}  # fmt: skip


def claimed_architecture(name: str) -> str:
    """The id of the architecture that a name speaks of, "" if none; the longest that fits wins.

    Of an architecture with width multipliers it is the id without the width, unless the name has one.
    """
    text = name.lower()
    fitting = [(len(pattern.pattern), id_) for pattern, id_ in _patterns() if pattern.search(text)]
    return max(fitting)[1] if fitting else ""


def named_architectures(text: str) -> list[tuple[tuple[int, int], str]]:
    """Every architecture that a text in lower case names, with the place of its name; the longest of those that
    overlap."""
    found = [(match.span(), id_) for pattern, id_ in _patterns() for match in pattern.finditer(text)]
    found.sort(key=lambda place: (place[0][0] - place[0][1], place))
    kept: list[tuple[tuple[int, int], str]] = []
    for span, id_ in found:
        if all(span[1] <= other[0] or span[0] >= other[1] for other, _ in kept):
            kept.append((span, id_))
    return sorted(kept)


def claiming(names: Iterable[str], id_: str) -> set[str]:
    """Returns those of very many names that speak of one architecture, as `claimed_architecture` tells it. Names that
    have no word for it are passed over at once, since looking for all architectures takes half a millisecond a name."""
    own = [pattern for pattern, each in _patterns() if each == id_]
    candidates = {name for name in names if any(pattern.search(name.lower()) for pattern in own)}
    return {name for name in candidates if claimed_architecture(name) == id_}


def covers(claimed: str, id_: str) -> bool:
    """Whether what a name claims is this architecture, or this one at any width."""
    width = _WIDTH.fullmatch(id_)
    return claimed == id_ or (width is not None and width[1] == claimed)


def label(id_: str) -> str:
    """An architecture in words; widths that no zoo lists get the name of their architecture and the width."""
    known = architecture(id_)
    if known is not None:
        return _name_with_width(id_, known)
    base = _WIDTH.fullmatch(id_)
    parent = architecture(f"{base[1] if base else id_}_1.0")
    if parent is None:
        return next(
            (network.name for network in shipped() if network.zoo == PAPER and network.architecture == id_), id_
        )
    return _without_width(parent.name) + (f", width {base[2]}" if base else "")


def _name_with_width(id_: str, known: ArchitectureEntry) -> str:
    base = _WIDTH.fullmatch(id_)
    if base is None or architecture(f"{base[1]}_1.0") is None:
        return known.name
    name = _without_width(known.name)
    return name if float(base[2]) == 1.0 else f"{name}, width {base[2]}"


def _without_width(name: str) -> str:
    return re.sub(r"[ ,]*(?:width|×|x)?\s*\d\.\d+$", "", name)


def _without_unsaid_width(id_: str, alias: str) -> str:
    width = _WIDTH.fullmatch(id_)
    if width is None or architecture(f"{width[1]}_1.0") is None:
        return id_
    names_width = "".join(_PIECES.findall(alias)).endswith(
        (width[2].replace(".", ""), f"{round(100 * float(width[2])):03}")
    )
    return id_ if names_width else width[1]


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((_pattern(alias), id_) for id_, alias in sorted(set(_aliases())))


def _pattern(alias: str) -> re.Pattern[str]:
    """The alias with anything or nothing between its words and figures, a "v" before figures too."""
    first, *rest = _PIECES.findall(alias)
    text = first + "".join(f"{_BETWEEN}{'v?' if piece.isdecimal() else ''}{piece}" for piece in rest)
    return re.compile(rf"(?<![a-z0-9]){text}(?![a-z0-9])")


def _aliases() -> Iterator[tuple[str, str]]:
    """Ids, names and members' names, in lower case, unless two architectures share one, or begin with it ("resnet")."""
    ids_of_alias: dict[str, set[str]] = {}
    for id_, alias in (*_all_aliases(), *_width_aliases()):
        pieces = "".join(_PIECES.findall(alias))
        if len(pieces) >= _LEAST:
            ids_of_alias.setdefault(alias, set()).add(id_)
    for alias, ids in ids_of_alias.items():
        if len(ids) == 1 and not _is_vague(alias, ids, ids_of_alias):
            yield next(iter(ids)), alias


def _is_vague(alias: str, ids: set[str], ids_of_alias: Mapping[str, set[str]]) -> bool:
    figures = any(letter.isdecimal() for letter in alias)
    return not figures and any(other.startswith(alias) and theirs != ids for other, theirs in ids_of_alias.items())


def _width_aliases() -> Iterator[tuple[str, str]]:
    """Names that say "width" or "alpha" before the width."""
    ids = {entry.id for entry in architectures()} | {known.architecture for known in shipped() if known.note}
    for id_ in sorted(ids):
        width = _WIDTH.fullmatch(id_)
        if width is not None and architecture(f"{width[1]}_1.0") is not None:
            yield from ((id_, f"{width[1]}_{word}_{width[2]}") for word in ("width", "alpha"))


def _all_aliases() -> Iterator[tuple[str, str]]:
    yield from ((id_, alias) for alias, id_ in _USUAL.items())
    for entry in architectures():
        aliases = [entry.id, entry.name.lower()]
        for names in entry.members.values():
            aliases += [re.split(r"[/.](?=[a-z])", name.lower())[0] for name in names if "light/" not in name]
        for alias in aliases:
            yield _without_unsaid_width(entry.id, alias), alias
    for known in shipped():
        # Widths of an architecture that no zoo lists.
        if known.architecture and known.note:
            yield known.architecture, known.architecture
        elif not known.architecture:
            # Networks that only one zoo has.
            yield known.name.lower(), known.name.lower()
            yield known.name.lower(), _SIZE.sub("", known.name.lower())
        elif known.zoo == PAPER and architecture(known.architecture) is None:
            # Networks that no zoo has.
            yield known.architecture, known.name.lower()
