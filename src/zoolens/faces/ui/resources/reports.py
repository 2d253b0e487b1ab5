"""/reports: pages that a reader composes of figures, charts and notes, kept in the store."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, ValidationError

from zoolens.base.present.charts import Spec
from zoolens.base.present.text import clean
from zoolens.base.store.composed_reports import (
    ReportRecord,
    StaleReport,
    add_report,
    load_report,
    load_reports,
    remove_report,
    report_heads,
    write_report,
)
from zoolens.faces.ui.context import Context
from zoolens.faces.ui.endpoint import Answer, Endpoint, Paged, Query, RequestError, RowPage, Shown
from zoolens.faces.ui.report_pieces import note, taken
from zoolens.faces.ui.word_tables import WordTable

MOST_PIECES: Final = 100
LONGEST_NOTE: Final = 20_000
MOST_BYTES: Final = 8 << 20  # of a report, all of which is stored again with every change
_LONGEST: Final = 200
_PAGE: Final = r"^(#/.*)?$"  # nothing but a page of the explorer: a link of another scheme could run something
_UNKNOWN: Final = "*This piece cannot be shown: another version of zoolens wrote it, or it was damaged.*"
# Quotes and lists within each other at the beginning of a line: thousands of them are more than a browser's stack
# holds, and who opened the report could not even remove the note.
_NESTED: Final = re.compile(r" *(?:(?:>|[-*+](?= )|\d{1,9}[.)](?= )) *){30}")
_STALE: Final = "This report was changed in another window meanwhile."


def _note_text(text: object) -> str:
    """The lines of a note, each without control and direction characters. One that is nested too deeply is literal."""
    lines = str(text).replace("\r", "").replace("\t", "    ").split("\n")
    cleaned = (clean(line, LONGEST_NOTE) for line in lines)
    return "\n".join(f"\\{line.lstrip()}" if _NESTED.match(line) else line for line in cleaned)


NoteText = Annotated[str, BeforeValidator(_note_text)]


class ReportQuery(Query):
    id: str = Field(max_length=40, description="The id of a report.")


class NewReport(Query):
    title: str = Field(min_length=1, max_length=_LONGEST)


class ReportPart(Query):
    """A piece of a report as it is to be: the one that has the number `keep` now, or a note."""

    keep: int | None = Field(None, ge=0, lt=MOST_PIECES)
    note: str | None = Field(None, max_length=LONGEST_NOTE)


class ReportChange(Query):
    """A report as it is to be; `version` is that which was changed."""

    id: str = Field(max_length=40)
    version: int = Field(ge=1)
    title: str = Field(min_length=1, max_length=_LONGEST)
    parts: list[ReportPart] = Field(max_length=MOST_PIECES)


class ReportAddition(Query):
    """Something that a page shows: the question that it was the answer to, and the field of the answer."""

    id: str = Field(max_length=40)
    path: str = Field(max_length=_LONGEST, description="As the API names it, such as /runs/{run}/confusion.")
    parameters: dict[str, Any] = Field({}, description="What was asked.")
    field: str = Field(max_length=_LONGEST, description="A chart or table of the answer, such as charts.0.chart.")
    title: str = Field("", max_length=_LONGEST)
    page: str = Field("", max_length=4_000, pattern=_PAGE, description="The address of the page behind the #.")


class ReportItem(Answer):
    id: str
    title: Shown
    pieces: int
    created: datetime
    changed: datetime


class ReportList(RowPage[ReportItem]):
    pass


class ReportPiece(Answer):
    """A note (`text` is Markdown), a chart or a table, as it was when it was `added`."""

    kind: Literal["note", "chart", "table"]
    text: NoteText
    title: Shown
    caption: Shown
    chart: Spec | None
    table: WordTable | None
    page: str
    """The address of the page that it was taken from; empty where there is none."""
    added: datetime | None


class Report(Answer):
    id: str
    version: int
    title: Shown
    created: datetime
    changed: datetime
    pieces: list[ReportPiece]


def reports(context: Context, query: Paged) -> ReportList:
    heads = report_heads(context.store)
    known = load_reports(context.store, [head.id for head in heads[query.page]])
    rows = [ReportItem.of(record, pieces=len(record.pieces)) for record in known]
    return ReportList(total=len(heads), offset=query.offset, rows=rows)


def report(context: Context, query: ReportQuery) -> Report:
    return _report(load_report(context.store, query.id))


def new_report(context: Context, query: NewReport) -> Report:
    return _report(add_report(context.store, query.title))


def change_report(context: Context, query: ReportChange) -> Report:
    known = load_report(context.store, query.id)
    return _written(context, known, query.version, query.title, list(_parts(known, query.parts)))


def add_to_report(context: Context, query: ReportAddition) -> Report:
    known = load_report(context.store, query.id)
    if len(known.pieces) >= MOST_PIECES:
        raise RequestError(f"A report has at most {MOST_PIECES} pieces.", hint="Begin another one.")
    piece = taken(context, query.path, query.parameters, query.field, query.title, query.page)
    return _written(context, known, known.version, known.title, [*known.pieces, piece])


def drop_report(context: Context, query: ReportQuery) -> ReportList:
    remove_report(context.store, query.id)
    return reports(context, Paged.model_validate({}))


def _parts(known: ReportRecord, parts: list[ReportPart]) -> Iterator[Mapping[str, Any]]:
    for part in parts:
        if part.note is not None:
            yield note(part.note)
        elif part.keep is not None and part.keep < len(known.pieces):
            yield known.pieces[part.keep]
        else:
            raise RequestError("A part of a report is a note, or the number of a piece that it has.")


def _written(
    context: Context, known: ReportRecord, version: int, title: str, pieces: list[Mapping[str, Any]]
) -> Report:
    if len(json.dumps(pieces)) > MOST_BYTES:
        raise RequestError(
            f"A report has at most {MOST_BYTES >> 20} MiB.", hint="Begin another one, or remove a large chart."
        )
    try:
        return _report(write_report(context.store, known.id, version, title, pieces))
    except StaleReport as error:
        raise RequestError(_STALE, status=409, hint="Load the page again, and make the change once more.") from error


def _report(record: ReportRecord) -> Report:
    return Report.of(record, pieces=[_piece(piece) for piece in record.pieces])


def _piece(piece: Mapping[str, Any]) -> ReportPiece:
    """A piece as it is shown. A store that was copied from somewhere may hold anything."""
    plain = {"text": "", "title": "", "caption": "", "chart": None, "table": None, "page": "", "added": None}
    known = {name: value for name, value in piece.items() if name in ReportPiece.model_fields}
    if re.fullmatch(_PAGE, str(known.get("page", ""))) is None:
        known["page"] = ""
    try:
        return ReportPiece.model_validate({**plain, **known})
    except ValidationError:
        return ReportPiece.model_validate({**plain, **note(_UNKNOWN)})


ENDPOINTS: Final = (
    Endpoint("/reports", "Reports, the one that was changed last first", reports),
    Endpoint("/reports", "Begin a report", new_report, method="POST", status=201),
    Endpoint("/reports/{id}", "One report with its pieces", report),
    Endpoint("/reports/{id}", "Change the title, the notes or the order of a report", change_report, method="POST"),
    Endpoint("/reports/{id}", "Take a report off the list", drop_report, method="DELETE"),
    Endpoint("/reports/{id}/pieces", "Add what a page shows to a report", add_to_report, method="POST"),
)
