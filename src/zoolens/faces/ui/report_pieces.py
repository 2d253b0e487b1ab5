"""Pieces of reports: what a page shows, taken from the answer of the API and kept as it was then.

A browser names the question that an answer came from and the field of it; the server asks again, so that nothing that a
browser made up stands in a report as a figure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from pydantic import ValidationError

from zoolens.base.present.figures import NOTHING
from zoolens.base.present.text import clean
from zoolens.faces.ui.context import Context
from zoolens.faces.ui.endpoint import Answer, Endpoint, File, RequestError
from zoolens.faces.ui.page_figures import Figure
from zoolens.faces.ui.resources.comparisons import ComparedFigure, Comparison
from zoolens.faces.ui.resources.run import RunDetail
from zoolens.faces.ui.word_tables import WordColumn, WordTable

MOST_BYTES: Final = 1 << 20  # of one piece
_MOST_ROWS: Final = 40  # of a table
_LONGEST: Final = 200
_SCHEMA: Final = "$schema"  # of every chart
_CANNOT: Final = ("jobs", "live", "reports", "services/server")  # beginnings of paths whose answers are no findings

Piece = dict[str, Any]


def note(text: str) -> Piece:
    """A piece of Markdown."""
    return {"kind": "note", "text": text}


def taken(context: Context, path: str, parameters: Mapping[str, Any], field: str, title: str, page: str) -> Piece:
    """A chart or a table of an answer. `page`: the address of the page that shows it."""
    endpoint = _endpoint(path)
    try:
        query = endpoint.query.model_validate(dict(parameters))
    except ValidationError as error:
        raise RequestError(f"This is no question that {path[:_LONGEST]} answers.") from error
    answer = endpoint.call(context, query)
    shown = _at(answer, field)
    about = {"title": title, "caption": _caption(answer), "page": page, "added": datetime.now(UTC).isoformat()}
    if isinstance(shown, dict) and _SCHEMA in shown:
        piece = {"kind": "chart", "chart": shown, **about}
    else:
        piece = {"kind": "table", "table": _table(shown).model_dump(mode="json"), **about}
    if len(json.dumps(piece)) > MOST_BYTES:
        raise RequestError(
            f"This has more than the {MOST_BYTES >> 20} MiB that a report keeps of one piece.",
            hint="Add a part of it, or save it as a file.",
        )
    return piece


def _endpoint(path: str) -> Endpoint:
    from zoolens.faces.ui.resources import endpoints

    for resource in endpoints().values():
        for endpoint in resource:
            usable = endpoint.method == "GET" and not endpoint.stream and not issubclass(endpoint.answer, File)
            if usable and endpoint.template == path and not path.strip("/").startswith(_CANNOT):
                return endpoint
    raise RequestError(f"A report cannot take anything from {path[:_LONGEST]!r}.")


def _at(answer: Answer, field: str) -> Any:
    """The value of a field such as "charts.0.chart"."""
    value: Any = answer
    for name in field.split("."):
        if isinstance(value, list):
            value = value[int(name)] if name.isdecimal() and int(name) < len(value) else None
        elif isinstance(value, Answer):
            value = getattr(value, name) if name in type(value).model_fields else None
        else:
            value = None
    if not value:
        raise RequestError(f"There is nothing in the field {field[:_LONGEST]!r}.")
    return value


def _caption(answer: Answer) -> str:
    """What the piece is about, where the answer says it."""
    if isinstance(answer, Comparison):
        sides = " and ".join(f"{side.model} in {side.stack}" for side in (answer.a, answer.b))
        return f"A and B: {sides}; {answer.inputs:,} inputs of {answer.dataset}. {answer.verdict}"
    if isinstance(answer, RunDetail):
        run = answer.run
        return f"{run.model} in {run.stack}: run {run.id[:8]} on {run.inputs:,} inputs of {run.dataset}"
    return ""


def _table(shown: Any) -> WordTable:
    if isinstance(shown, WordTable):
        return shown
    rows = shown[:_MOST_ROWS] if isinstance(shown, list) else []
    if rows and all(isinstance(row, Figure) for row in rows):
        return _words(["Figure", "Value [95 %]"], [[_name(row), row.interval or NOTHING] for row in rows], len(shown))
    if rows and all(isinstance(row, ComparedFigure) for row in rows):
        cells = [[_name(row), _interval(row.a), _interval(row.b), row.change] for row in rows]
        return _words(["Figure", "A", "B", "B vs A"], cells, len(shown))
    raise RequestError("A report takes charts and tables of figures.")


def _words(titles: Sequence[str], rows: list[list[str]], total: int) -> WordTable:
    columns = [WordColumn(title=title, number=place > 0) for place, title in enumerate(titles)]
    return WordTable(columns=columns, rows=rows, total=total)


def _name(row: Figure | ComparedFigure) -> str:
    return clean(f"{row.title}, {row.part}" if row.part else row.title)


def _interval(figure: Figure | None) -> str:
    return NOTHING if figure is None else figure.interval or NOTHING
