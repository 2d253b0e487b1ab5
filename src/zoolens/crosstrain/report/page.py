"""One HTML page that needs nothing else: no script, nothing fetched, every text escaped, since names and notes come
from files of others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from typing import Any, Final

from zoolens.crosstrain.report.marks import Picture, shortened
from zoolens.crosstrain.report.tables import Column, Table
from zoolens.crosstrain.report.vector import svg
from zoolens.crosstrain.report.words import cell, nats, p_value, percent

LONGEST: Final = 1000  # characters of a text
_DEEPEST: Final = 4  # of settings within settings
UNLIKELY: Final = 0.05  # p above which a row is greyed
POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"


@dataclass(frozen=True)
class Section:
    """A part of the page, in plain words: `warnings` stand out. Tables are written as CSV too."""

    title: str
    paragraphs: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    items: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()
    tables: tuple[tuple[str, Table], ...] = ()  # heading (may be empty), table
    files: tuple[str, ...] = ()  # beside the page, linked


@dataclass(frozen=True)
class Tile:
    figure: str
    caption: str
    bad: bool = False


@dataclass(frozen=True)
class Page:
    title: str
    lead: str
    tiles: tuple[Tile, ...]
    facts: Mapping[str, Any]
    sections: tuple[Section, ...]


def html(page: Page) -> str:
    links = "".join(f'<a href="#s{i}">{safe(one.title)}</a>' for i, one in enumerate(page.sections, 1))
    tiles = "".join(
        f'<div class="tile{" bad" if one.bad else ""}"><b>{safe(one.figure)}</b><span>{safe(one.caption)}</span></div>'
        for one in page.tiles
    )
    body = "".join("".join(_section(i, one)) for i, one in enumerate(page.sections, 1))
    return document(
        page.title,
        f'<header><h1>{safe(page.title, 200)}</h1><p>{safe(page.lead)}</p><div class="tiles">{tiles}</div>'
        f"<nav>{links}</nav></header>\n<main>{body}{_facts(page.facts)}</main>",
    )


def document(title: str, body: str) -> str:
    """A whole page around what is HTML already."""
    style = resources.files("zoolens.crosstrain.report").joinpath("report.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f"<title>{safe(title, 120)}</title><style>{style}</style></head><body>\n{body}</body></html>\n"
    )


def safe(text: object, longest: int = LONGEST) -> str:
    return escape(shortened(text, longest))


def _section(number: int, section: Section) -> Iterator[str]:
    yield f'\n<section id="s{number}"><h2>{safe(section.title, 200)}</h2>'
    yield from (f"<p>{safe(one)}</p>" for one in section.paragraphs)
    yield from (f'<p class="warn">{safe(one)}</p>' for one in section.warnings)
    if section.items:
        yield f"<ul>{''.join(f'<li>{safe(one)}</li>' for one in section.items)}</ul>"
    for picture in section.pictures:
        caption = f'<figcaption><a href="{safe(picture.name)}.png">{safe(picture.name)}.png</a></figcaption>'
        yield f"<figure>{svg(picture)}{caption}</figure>"
    for heading, table in section.tables:
        yield f"<h3>{safe(heading, 200)}</h3>" if heading else ""
        yield table_html(table)
    if section.files:
        links = ", ".join(f'<a href="{safe(name)}">{safe(name)}</a>' for name in section.files)
        yield f'<p class="files">Every number: {links}</p>'
    yield "</section>"


def table_html(table: Table) -> str:
    columns = _worth_showing(table)
    heads = "".join(f'<th class="{_side(table.columns[i])}">{safe(table.columns[i].name, 80)}</th>' for i in columns)
    weak = next((i for i, column in enumerate(table.columns) if column.kind == "p"), None)
    rows = []
    for row in table.rows:
        cells = "".join(
            f'<td class="{_side(table.columns[i])}">{_words(table.columns[i], row[i])}</td>' for i in columns
        )
        grey = weak is not None and row[weak] is not None and row[weak] > UNLIKELY
        rows.append(f"<tr{' class=weak' if grey else ''}>{cells}</tr>")
    return f'<div class="table"><table><thead><tr>{heads}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'


def _worth_showing(table: Table) -> Sequence[int]:
    """Without columns that are empty in every row."""
    return [i for i in range(len(table.columns)) if any(row[i] not in (None, "") for row in table.rows)]


def _side(column: Column) -> str:
    return "text" if column.kind == "text" else "number"


def _words(column: Column, value: Any) -> str:
    if value is None or isinstance(value, str):
        return safe(cell(value))
    match column.kind:
        case "percent":
            return safe(percent(value))
        case "nats":
            return safe(nats(value))
        case "p":
            return safe(p_value(value))
        case _:
            return safe(cell(value))


def _facts(facts: Mapping[str, Any]) -> str:
    """What is said of the study as a whole, at the end of the page."""
    rows = "".join(
        f'<tr><td class="key">{safe(key, 60)}</td><td>{safe(_plain(value))}</td></tr>' for key, value in facts.items()
    )
    if not rows:
        return ""
    return (
        f'\n<section><h2>About this study</h2><div class="table"><table><tbody>{rows}</tbody></table></div></section>'
    )


def _plain(value: Any) -> str:
    """Settings in words; what is not set is left out. Deep ones are cut: they come from files of others."""
    return _in_words(value, depth=0)


def _in_words(value: Any, depth: int) -> str:
    if depth > _DEEPEST:
        return "…"
    if isinstance(value, Mapping):
        told = [(key, one) for key, one in value.items() if one is not None and one not in ({}, [], "")]
        return ", ".join(f"{key} {_bracketed(one, depth)}" for key, one in told)
    if isinstance(value, list | tuple):
        return "; ".join(_in_words(one, depth + 1) for one in value)
    return cell(value)


def _bracketed(value: Any, depth: int) -> str:
    words = _in_words(value, depth + 1)
    return f"({words})" if isinstance(value, Mapping | list | tuple) else words
