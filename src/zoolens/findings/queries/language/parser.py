"""From text to `Query`: clauses in any order, each at most once. The grammar is in docs/query-language.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, Final, TypeVar

from zoolens.base.errors import ZoolensError
from zoolens.findings.queries.language.bound_parser import read_bounds
from zoolens.findings.queries.language.condition_parser import read_condition
from zoolens.findings.queries.language.errors import ClauseError, QueryError, UnknownQueryName
from zoolens.findings.queries.language.expression_parser import close, read_orders
from zoolens.findings.queries.language.identifiers import read_name
from zoolens.findings.queries.language.quantities import read_amount
from zoolens.findings.queries.language.syntax import Bound, Condition, Order, Query
from zoolens.findings.queries.language.tokens import CLAUSES, COMPARISONS, Cursor

__all__ = ["QueryError", "error_about", "parse", "parse_bounds", "parse_condition", "parse_orders", "places"]

MOST_MODELS: Final = 1_000_000_000  # LIMIT
_SYNONYMS: Final = {"LIKE": "CORR"}  # LIKE resnet50 reads better; the published word stays
_NEEDED: Final = ("CORR", "TASK", "ON", "WHERE", "ORDER")
NOTHING_ASKED: Final = (  # the sentence and the hint
    "The query does not say what to look for.",
    "Name a reference (CORR resnet50), a TASK, bounds (ON memory <= 200 MB), WHERE or ORDER BY.",
)
_ELSEWHERE: Final = {
    "FROM": "A zoo is chosen by WHERE zoo = 'name', probe data by DATA name.",
    "TOP": "Write LIMIT and the number at the end.",
    "HAVING": "Bounds on figures are written ON metric <= quantity.",
    "FOR": "The task is written TASK name.",
    "AND": "AND joins bounds of ON and conditions of WHERE.",
    "OR": "OR joins conditions of WHERE.",
    "SELECT": "SELECT stands first, and once.",
    "EXPLAIN": "EXPLAIN stands first, before SELECT.",
}
Fields = dict[str, Any]
T = TypeVar("T")


def parse(text: str) -> Query:
    return _read_query(Cursor(text))


def parse_bounds(text: str) -> tuple[Bound, ...]:
    """Parse what follows the keyword ON."""
    return _alone(Cursor(text), read_bounds)


def parse_condition(text: str) -> Condition:
    """Parse what follows the keyword WHERE."""
    return _alone(Cursor(text), read_condition)


def parse_orders(text: str) -> tuple[Order, ...]:
    """Parse what follows the keywords ORDER BY."""
    return _alone(Cursor(text), read_orders)


def places(text: str) -> Mapping[str, tuple[int, int]]:
    """Where each name of a valid query stands first: models, metrics, attributes, functions, tasks, data; and the
    keyword of each clause, in capitals."""
    cursor = Cursor(text)
    _read_query(cursor)
    return cursor.places


def error_about(name: str, text: str, message: str, *, hint: str | None = None) -> QueryError:
    """An error found after parsing, pointing at where `name` stands in the query."""
    start, end = places(text).get(name, (0, len(text)))
    return QueryError(message, text, start, end, hint=hint)


def pointed(error: ClauseError | UnknownQueryName, text: str | None) -> ZoolensError:
    """Return the error with a caret under the name, where the query was written as text."""
    place = places(text).get(error.name) if text else None
    return error if not text or place is None else QueryError(error.message, text, *place, hint=error.hint)


def _alone(cursor: Cursor, read: Callable[[Cursor], T]) -> T:
    result = read(cursor)
    if cursor.token.kind != "end":
        raise cursor.error(f"Unexpected {cursor.token.shown}.", "It should end here.")
    return result


def _read_query(cursor: Cursor) -> Query:
    fields: Fields = {}
    if cursor.accept("EXPLAIN"):
        fields["explain"] = "analyze" if cursor.accept("ANALYZE", "ANALYSE") else "plan"
    seen = {"SEGMENTS"} if cursor.accept("SELECT") and _read_selection(cursor, fields) else set()
    while cursor.token.kind != "end" and cursor.token.keyword != ";":
        _read_clause(cursor, fields, seen)
    cursor.accept(";")
    if cursor.token.kind != "end":
        raise cursor.error("The query ended at the semicolon.", "Ask one query at a time.")
    if not seen.intersection(_NEEDED):
        raise cursor.error(*NOTHING_ASKED)
    return Query(**fields)


def _read_selection(cursor: Cursor, fields: Fields) -> bool:
    """MODELS, MODEL or *, WITH SEGMENTS; or SEGMENTS alone. Whether segments were asked for."""
    if cursor.accept("SEGMENTS"):
        fields["segments"] = True
    elif not cursor.accept("MODELS", "MODEL", "*"):
        close_to = get_close_matches(cursor.token.keyword, ("MODELS", "SEGMENTS"), n=1)
        hint = f"Did you mean {close_to[0]}?" if close_to else "Write SELECT MODELS."
        raise cursor.error(f"Expected MODELS behind SELECT, found {cursor.token.shown}.", hint)
    elif cursor.accept("WITH"):
        cursor.expect("SEGMENTS", f"Expected SEGMENTS, found {cursor.token.shown}.", "Write MODELS WITH SEGMENTS.")
        fields["segments"] = True
    return "segments" in fields


def _read_clause(cursor: Cursor, fields: Fields, seen: set[str]) -> None:
    keyword = _SYNONYMS.get(cursor.token.keyword, cursor.token.keyword)
    if keyword not in _READERS:
        raise _unexpected(cursor, seen)
    if keyword in seen:
        raise cursor.error(f"{keyword} is here a second time.", _MERGED.get(keyword, f"Write {keyword} once."))
    seen.add(keyword)
    token = cursor.next()
    cursor.places.setdefault(keyword, (token.start, token.end))
    _READERS[keyword](cursor, fields)


_MERGED: Final = {
    "ON": "Bounds are joined by AND.",
    "WHERE": "Conditions are joined by AND or OR.",
    "ORDER": "Expressions are joined by a comma.",
    "SHOW": "Names are joined by a comma.",
    "EXEC": "All keys go into one pair of parentheses.",
}


def _unexpected(cursor: Cursor, seen: set[str]) -> QueryError:
    token = cursor.token
    message = f"Expected a clause, found {token.shown}."
    if token.keyword == ")":
        return cursor.error("This parenthesis closes nothing.", "Remove it, or open one before.")
    if cursor.peek().keyword in COMPARISONS:
        before = "AND" if seen & {"ON", "WHERE"} else "ON"
        return cursor.error(message, f"Write {before} before {token.text}.")
    if token.kind == "number" and "WITHIN" not in seen:
        return cursor.error(message, f"A least agreement is written WITHIN {token.text}%.")
    if token.keyword in _ELSEWHERE:
        return cursor.error(message, _ELSEWHERE[token.keyword])
    close_to = get_close_matches(token.keyword, (*CLAUSES, "SELECT", "EXPLAIN"), n=1)
    listed = f"Clauses: {', '.join(CLAUSES).replace('ORDER', 'ORDER BY')}."
    return cursor.error(message, f"Did you mean {close_to[0]}?" if close_to else listed)


# --- one reader for each clause


def _corr(cursor: Cursor, fields: Fields) -> None:
    fields["reference"] = cursor.name("the reference's name", "Write LIKE resnet50 or CORR 'zoo:name@version'.")


def _within(cursor: Cursor, fields: Fields) -> None:
    fields["within"] = _share(cursor, "WITHIN")


def _task(cursor: Cursor, fields: Fields) -> None:
    fields["task"] = cursor.name("a task", "Write TASK image-classification.")


def _on(cursor: Cursor, fields: Fields) -> None:
    fields["on"] = read_bounds(cursor)


def _where(cursor: Cursor, fields: Fields) -> None:
    fields["where"] = read_condition(cursor)


def _segments(cursor: Cursor, fields: Fields) -> None:
    fields["segments"] = True


def _order(cursor: Cursor, fields: Fields) -> None:
    cursor.expect("BY", f"Expected BY behind ORDER, found {cursor.token.shown}.", "Write ORDER BY metric.")
    fields["order"] = read_orders(cursor)


def _limit(cursor: Cursor, fields: Fields) -> None:
    token = cursor.token
    digits = token.text.replace("_", "") if token.kind == "number" else ""
    if not (digits.isdecimal() and len(digits) <= 10 and 1 <= int(digits) <= MOST_MODELS):
        raise cursor.error(f"LIMIT takes a whole number from 1 on, not {token.shown}.", "Write LIMIT 5.")
    cursor.next()
    fields["limit"] = int(digits)


def _show(cursor: Cursor, fields: Fields) -> None:
    """Read the metrics and attributes after SHOW, with commas between them."""
    names = [read_name(cursor, "a figure or an attribute", "Write SHOW memory, latency, zoo.")]
    while cursor.accept(","):
        names.append(read_name(cursor, "a figure or an attribute", "Write SHOW memory, latency, zoo."))
    fields["show"] = tuple(dict.fromkeys(names))


def _exec(cursor: Cursor, fields: Fields) -> None:
    hint = "Write EXEC (device=cpu, runtime=onnxruntime, batch=1)."
    opened = cursor.token
    cursor.expect("(", f"Expected ( behind EXEC, found {opened.shown}.", hint)
    settings: dict[str, str] = {}
    while True:
        at = cursor.token
        key = read_name(cursor, "a key", hint)
        if key in settings:
            raise cursor.error(f"The key {key!r} is here a second time.", "Give it once.", at)
        if not cursor.accept("=", "=="):
            raise cursor.error(f"Expected = behind {key}, found {cursor.token.shown}.", hint)
        settings[key] = cursor.name(f"a value of {key}", hint)
        if not cursor.accept(","):
            break
    close(cursor, opened, "a comma")
    fields["exec"] = tuple(settings.items())


def _confidence(cursor: Cursor, fields: Fields) -> None:
    at = cursor.token
    share = _share(cursor, "CONFIDENCE")
    if not 0 < share < 1:
        hint = "No finite number of probes gives 100%: write CONFIDENCE 95%."
        raise cursor.error("CONFIDENCE lies between 0% and 100%.", hint, cursor.since(at))
    fields["confidence"] = share


def _data(cursor: Cursor, fields: Fields) -> None:
    fields["data"] = cursor.name("the name of a dataset", "Write DATA imagenet-val or DATA 'name'.")


def _bound(cursor: Cursor, fields: Fields) -> None:
    for word in ("ON", "OFF"):
        if cursor.accept(word):
            fields["bound"] = word.lower()
            return
    fields["bound"] = cursor.name("ON, OFF or the name of a dataset", "Write BOUND OFF or BOUND 'dataset'.")


def _else(cursor: Cursor, fields: Fields) -> None:
    fields["nearest"] = cursor.token.keyword == "NEAREST"
    if not cursor.accept("NEAREST", "NOTHING"):
        message = f"Expected NEAREST or NOTHING behind ELSE, found {cursor.token.shown}."
        raise cursor.error(message, "Write ELSE NEAREST.")


_READERS: Final[Mapping[str, Callable[[Cursor, Fields], None]]] = {
    "CORR": _corr,
    "WITHIN": _within,
    "TASK": _task,
    "ON": _on,
    "WHERE": _where,
    "SEGMENTS": _segments,
    "ORDER": _order,
    "LIMIT": _limit,
    "EXEC": _exec,
    "CONFIDENCE": _confidence,
    "DATA": _data,
    "BOUND": _bound,
    "SHOW": _show,
    "ELSE": _else,
}


def _share(cursor: Cursor, keyword: str) -> float:
    """Read a share, written 95% or 0.95."""
    at = cursor.token
    if at.kind != "number":
        raise cursor.error(f"Expected a share behind {keyword}, found {at.shown}.", f"Write {keyword} 95%.")
    amount = read_amount(cursor)
    unit = amount.unit.name if amount.unit else ""
    if unit not in ("", "%") or amount.of_reference:
        raise cursor.error(f"{keyword} takes a share.", f"Write {keyword} 95% or {keyword} 0.95.", cursor.since(at))
    share = amount.value
    if not 0 <= share <= 1:
        number = float(amount.number)
        hint = f"Write {number:g}% or {number / 100:g}." if not unit and number <= 100 else "Write 95% or 0.95."
        raise cursor.error(f"{keyword} takes a share between 0% and 100%.", hint, cursor.since(at))
    return share
