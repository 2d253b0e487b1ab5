"""Answers of the API's own functions, kept for a bundle: single answers, pictures, and lists with all their rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from zoolens.base.errors import ZoolensError
from zoolens.base.present.text import clean
from zoolens.faces.ui.bundle.contents import BundleContents
from zoolens.faces.ui.bundle.packs import PackWriter
from zoolens.faces.ui.bundle.redaction import Redaction
from zoolens.faces.ui.bundle.requests import LISTINGS, PAGING, Listing, Parameters, is_list, parts, subjects, variants
from zoolens.faces.ui.context import Context
from zoolens.faces.ui.endpoint import MOST_ROWS, Endpoint, File, status_of

ROWS_AT_ONCE: Final = 250  # in one piece of a list
_COUNTED: Final = ("rows", "facets", "offset", "total")  # parts of an answer that the browser makes
_IDENTITIES: Final = (
    "key",
    "id",
    "ref",
    "index",
    "name",
    "trial",
)  # fields that tell one row of a list from the others

Row = Any  # nearly always the fields of an object; some lists have plain texts


class SameName(ZoolensError):
    """Two things that have the same name in a bundle."""


@dataclass
class BundleRecorder:
    """Asks endpoints and keeps what they answer."""

    context: Context
    # The context in which networks are compared
    networks: Context
    chosen: BundleContents
    writer: PackWriter
    redaction: Redaction

    def record(self, endpoint: Endpoint) -> dict[str, Any] | None:
        """What the index says of an endpoint; None where nothing was asked."""
        defaults = {name: _plain(value) for name, value in _defaults(endpoint).items()}
        kept: dict[str, Any] = {"defaults": defaults}
        if issubclass(endpoint.answer, File):
            kept["files"] = self._files(endpoint)
        elif is_list(endpoint):
            listing = LISTINGS.get(endpoint.template, Listing())
            kept["list"] = _described(endpoint, listing)
            kept["tables"] = {}
            for subject in subjects(endpoint, self.context, self.chosen):
                table = _Table(self, endpoint, listing, subject)
                self._keep(kept["tables"], endpoint, subject, table.recorded())
                kept["list"]["variants"] = table.varied
        else:
            kept["answers"] = self._answers(endpoint)
        return kept if any(kept.get(name) for name in ("files", "tables", "answers")) else None

    def _answers(self, endpoint: Endpoint) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for subject in subjects(endpoint, self.context, self.chosen):
            for variant in variants(endpoint, self.context, subject):
                parameters = {**subject, **variant}
                self._keep(kept, endpoint, parameters, self.write(self.asked(endpoint, parameters)))
        return kept

    def _files(self, endpoint: Endpoint) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for subject in subjects(endpoint, self.context, self.chosen):
            answer = self.asked(endpoint, subject)
            if isinstance(answer, File):
                content = answer.content
                if answer.media_type == "application/json":
                    content = json.dumps(self.redaction.data(json.loads(content)), indent=2).encode()
                elif answer.media_type.startswith(("text/", "image/svg")):
                    content = self.redaction.text(content.decode(errors="replace")).encode()
                self._keep(kept, endpoint, subject, self.writer.add_file(content, answer.media_type))
        return kept

    def _keep(self, kept: dict[str, Any], endpoint: Endpoint, parameters: Parameters, value: Any) -> None:
        key = self.key(endpoint, parameters)
        if kept.setdefault(key, value) != value:
            raise SameName(
                f"Two things that were chosen have the same name once folders and names of persons are removed: {key}.",
                hint="Choose only one of them, or rename one.",
            )

    def key(self, endpoint: Endpoint, parameters: Parameters) -> str:
        """How the browser names a request: the parameters that are not the defaults, in the order of their names."""
        defaults = _defaults(endpoint)
        named: dict[str, str] = {}
        for name, value in sorted(parameters.items()):
            plain = "" if value in (None, "", []) else _plain(value)
            if plain and plain != _plain(defaults.get(name)):
                named[name] = self.redaction.text(plain)
        return json.dumps(named, ensure_ascii=False, separators=(",", ":"))

    def asked(self, endpoint: Endpoint, parameters: Parameters) -> Any:
        """The answer as plain data, a file, or what the API says instead of an answer. Nothing is left out of it yet:
        `write` does that."""
        try:
            context = self.networks if endpoint.template.startswith("/networks") else self.context
            answer = endpoint.call(context, endpoint.query.model_validate(parameters))
        except ZoolensError as error:
            return {"error": clean(str(error)), "status": status_of(error)}
        return answer if isinstance(answer, File) else json.loads(answer.model_dump_json())

    def write(self, value: Any) -> Any:
        """Keep plain data, fit to be passed on, and say where it is. An error is told at once."""
        shared = self.redaction.data(value)
        return shared if is_error(shared) else self.writer.add(shared)


@dataclass
class _Table:
    """One list: all rows that any request can show, the order of each way of sorting, and which rows each facet has."""

    recorder: BundleRecorder
    endpoint: Endpoint
    listing: Listing
    subject: Parameters
    rows: list[Row] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)
    varied: list[str] = field(default_factory=list)  # fields of a request that choose one of the variants

    def recorded(self) -> Any:
        """Where it was written."""
        kept: dict[str, Any] = {}
        first: dict[str, Any] | None = None
        for variant in variants(self.endpoint, self.recorder.context, self.subject):
            if first is None:
                answer = first = self._whole(variant)
                places = [] if is_error(answer) else [self._place(*numbered) for numbered in _numbered(answer["rows"])]
            else:
                answer, places = self._narrowed(variant)
            self.varied = list(variant)
            kept[self.recorder.key(self.endpoint, variant)] = self._variant(answer, places)
        facets = [] if first is None or is_error(first) else list(self._facets(first))
        shared = self.recorder.redaction.data(self.rows)
        starts = range(0, len(shared), ROWS_AT_ONCE)
        pieces = [self.recorder.writer.add(shared[start : start + ROWS_AT_ONCE]) for start in starts]
        about = {
            "count": len(self.rows),
            "size": ROWS_AT_ONCE,
            "rows": pieces,
            "search": [self._searched(row) for row in shared] if self._has_search else None,
            "fields": {name: [_field(row, name) for row in shared] for name in self._filtered},
            "facets": facets,
            "parts": {} if not self.rows else self._parts(first or {}),
            "variants": kept,
        }
        return self.recorder.writer.add(about)

    @property
    def _has_search(self) -> bool:
        return self.listing.searched and "q" in self.endpoint.query.model_fields

    @property
    def _filtered(self) -> list[str]:
        """Fields of rows that a request can be narrowed by, beside words and facets."""
        listing = self.listing
        since = (listing.since,) if listing.since else ()
        named = (listing.patterns, listing.equals, listing.ranges)
        return list(dict.fromkeys([*(name for fields in named for name in fields.values()), *since]))

    def _whole(self, parameters: Parameters) -> dict[str, Any]:
        """The answer to a request with the rows of all its pages."""
        everything = {name: [str(value) for value in self._kinds(name)] for name in self.listing.usual}
        asked = {**everything, **self.subject, **parameters}
        answer = self.recorder.asked(self.endpoint, {**asked, "offset": 0, "limit": MOST_ROWS})
        while not is_error(answer) and len(answer["rows"]) < answer["total"]:
            page = {"offset": len(answer["rows"]), "limit": MOST_ROWS}
            further = self.recorder.asked(self.endpoint, {**asked, **page})
            if is_error(further) or not further["rows"]:
                break
            answer["rows"] += further["rows"]
        return answer  # type: ignore[no-any-return]

    def _kinds(self, name: str) -> list[Any]:
        """All values of a field that has a usual one: kinds of runs that somebody chose."""
        chosen = self.recorder.chosen
        kinds = {str(run.kind) for run in (*chosen.runs, *chosen.traces)}
        return sorted(kinds | set(self.listing.usual[name]))

    def _narrowed(self, parameters: Parameters, *, known: bool = False) -> tuple[dict[str, Any], list[int]]:
        """Another answer than the usual one, and the places of its rows, in its order. `known`: rows that the variants
        do not have are left out."""
        if self.listing.order is None:
            answer = self._whole(parameters)
            numbered = [] if is_error(answer) else list(_numbered(answer["rows"]))
            if known:
                return answer, [self.places[identity] for identity, _ in numbered if identity in self.places]
            return answer, [self._place(*row) for row in numbered]
        asked = {**self.subject, **parameters}
        answer = self.recorder.asked(self.endpoint, {**asked, "limit": 1})
        if is_error(answer):
            return answer, []
        return {**answer, "rows": []}, self.listing.order(self.recorder.context, asked)

    def _variant(self, answer: dict[str, Any], places: list[int]) -> Any:
        if is_error(answer):
            return self.recorder.write(answer)
        patches: dict[str, dict[str, Any]] = {}
        for place, row in zip(places, answer["rows"], strict=False):  # without rows there is nothing else to tell
            known = self.rows[place]
            for name, value in row.items() if known is not row and isinstance(row, dict) else ():
                if known.get(name) != value:
                    patches.setdefault(name, {})[str(place)] = value
        rest = {name: value for name, value in answer.items() if name not in _COUNTED}
        in_order = places == list(range(len(places)))
        return self.recorder.write({"rest": rest, "places": len(places) if in_order else places, "patches": patches})

    def _place(self, identity: str, row: Row) -> int:
        if identity not in self.places:
            self.places[identity] = len(self.rows)
            self.rows.append(row)
        return self.places[identity]

    def _facets(self, answer: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Which rows each value of a facet has: asked of the endpoint itself, value by value."""
        for facet in answer.get("facets", ()):
            name, values = facet["name"], []
            for value in facet["values"]:
                _, places = self._narrowed({name: [value["value"]]}, known=True)
                if places:
                    values.append({"value": value["value"], "places": sorted(places)})
            usual = list(self.listing.usual.get(name, ()))
            yield self.recorder.redaction.data({"name": name, "values": values, "usual": usual})

    def _parts(self, whole: dict[str, Any]) -> dict[str, Any]:
        """Which rows each numbered part has, and what the answer says otherwise then."""
        kept: dict[str, Any] = {}
        for name, numbers in parts(self.endpoint).items():
            for number in numbers:
                answer, places = self._narrowed({name: number}, known=True)
                if is_error(answer):
                    continue
                changed = {
                    key: value for key, value in answer.items() if whole.get(key) != value and key not in _COUNTED
                }
                part = {"places": sorted(places), "rest": changed}
                kept.setdefault(name, {})[str(number)] = self.recorder.write(part)
        return kept

    def _searched(self, row: Row) -> str:
        named = [_field(row, name) for name in self.listing.search] if self.listing.search else row
        return "\n".join(_texts(named)).casefold()


def is_error(answer: Any) -> bool:
    return isinstance(answer, dict) and set(answer) == {"error", "status"}


def _described(endpoint: Endpoint, listing: Listing) -> dict[str, Any]:
    """What the browser must know to narrow a list: which fields name what it is about, and which narrow it."""
    fields = endpoint.query.model_fields
    lists = [name for name, info in fields.items() if isinstance(_plain_default(info), list)]
    words = ("q", "since", "until") if listing.searched else ()
    narrowing = [*lists, *(name for name in words if name in fields), *listing.ranges]
    return {
        "narrowing": list(dict.fromkeys([*narrowing, *listing.equals, *parts(endpoint)])),
        "patterns": dict(listing.patterns),
        "equals": dict(listing.equals),
        "ranges": dict(listing.ranges),
        "since": listing.since,
        "last": list(listing.last),
    }


def _plain_default(info: Any) -> Any:
    return None if info.is_required() else info.get_default(call_default_factory=True)


def _defaults(endpoint: Endpoint) -> dict[str, Any]:
    fields = endpoint.query.model_fields.items()
    defaults = {name: _plain_default(info) for name, info in fields if name not in PAGING}
    return {name: value for name, value in defaults.items() if value not in (None, "", [])}


def _plain(value: Any) -> str:
    """A value of a request as the browser writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "" if value is None else str(value)


def _numbered(rows: list[Row]) -> Iterator[tuple[str, Row]]:
    """Each row with what identifies it: a field, its content, and its number among equal rows."""
    seen: dict[str, int] = {}
    for row in rows:
        by = next((name for name in _IDENTITIES if isinstance(row, dict) and name in row), None)
        identity = json.dumps([by, row[by]] if by else row, sort_keys=True)
        seen[identity] = seen.get(identity, 0) + 1
        yield f"{identity} {seen[identity]}", row


def _field(row: Row, name: str) -> Any:
    """A field of a row; "ours.answer" is one of a field of it."""
    for part in name.split("."):
        row = row.get(part) if isinstance(row, dict) else None
    return row


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for member in value:
            yield from _texts(member)
    elif isinstance(value, dict):
        yield from _texts(list(value.values()))
