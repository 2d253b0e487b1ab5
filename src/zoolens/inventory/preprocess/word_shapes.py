"""What a word looks like, as a feature of its own beside the word: capitals, digits, signs.

`slovnet`: as slovnet 0.6.0 derives it for its taggers of Russian.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

_SIGNS: Final = "!#$%&()[]\\/*+,.:;<=>?@^_{|}~-‐−‒⁃–—―`\"'«»„“ʼʻ”№…"
_KIND: Final = re.compile(
    rf"(?P<RU>[а-яё]+)|(?P<EN>[a-z]+)|(?P<NUM>[+-]?\d+)|(?P<PUNCT>[{re.escape(_SIGNS)}]+)", re.IGNORECASE
)


def _slovnet(word: str) -> str:
    match = _KIND.match(word)
    kind = (match.lastgroup if match else None) or "OTHER"
    if kind == "PUNCT":
        return f"PUNCT_{word}" if len(word) == 1 else "PUNCT_OTHER"
    if kind in ("NUM", "OTHER"):
        return kind
    return f"{kind}_{_outline(word)}"


def _outline(word: str) -> str:
    if len(word) == 1:
        return "X" if word.isupper() else "x"
    if word.isupper():
        return "XX"
    if word.islower():
        return "xx"
    if _is_title(word):
        return "Xx"
    left, dash, right = word.partition("-")
    return "Xx-Xx" if dash and _is_title(left) and _is_title(right) else "OTHER"


def _is_title(word: str) -> bool:
    return len(word) > 1 and word[0].isupper() and word[1:].islower()


RULES: Final[Mapping[str, Callable[[str], str]]] = {"slovnet": _slovnet}
