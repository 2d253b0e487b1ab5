"""Names of metrics, attributes and functions: words, or anything in quotes."""

from __future__ import annotations

from zoolens.findings.queries.language.tokens import CLAUSES, COMPARISONS, RESERVED, Cursor, Token, is_word, quoted
from zoolens.findings.queries.language.units import is_known

_COMPARING = frozenset({"IN", "LIKE", "IS", "BETWEEN", "NOT"})
_NAMES_TOO = frozenset({*CLAUSES, "REF"})  # WHERE task = 'x' AND ref LIKE 'timm:*'


def read_name(cursor: Cursor, what: str, hint: str) -> str:
    """A name that something is compared with or computed from. A keyword is a name where a comparison follows it."""
    token = cursor.token
    if token.kind not in ("word", "string") or not token.text:
        raise cursor.error(f"Expected {what}, found {token.shown}.", hint)
    if token.keyword in RESERVED and not (token.keyword in _NAMES_TOO and _is_compared(cursor)):
        raise cursor.error(
            f"Expected {what}, found the keyword {token.keyword}.",
            f'{hint} A name like a keyword needs quotes: "{token.text}".',
        )
    cursor.next()
    name = folded(token.text) + read_scope(cursor, token) if token.kind == "word" else token.text
    cursor.places.setdefault(name, (token.start, cursor.last_end))
    return name


def read_scope(cursor: Cursor, token: Token) -> str:
    """The rest of a metric's scope, =8 in latency_p95@batch=8; nothing may stand between."""
    if "@" not in token.text:
        return ""
    value = cursor.peek()
    if cursor.token.text != "=" or not token.end == cursor.token.start == value.start - 1:
        return ""
    if value.kind not in ("word", "number"):
        return ""
    cursor.next()
    return f"={cursor.next().text}"


def _is_compared(cursor: Cursor) -> bool:
    behind = cursor.peek()
    return behind.keyword in COMPARISONS or behind.keyword in _COMPARING


def folded(word: str) -> str:
    """Well-known metrics are written in any case, unless in quotes."""
    return word.lower() if not word.islower() and is_known(word) else word


def written(name: str) -> str:
    """A name as `read_name` reads it back."""
    return name if is_word(name) and folded(name) == name else quoted(name)
