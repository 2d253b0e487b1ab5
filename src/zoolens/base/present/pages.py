"""Pages: Jinja2 templates with one layout and one style sheet, each page whole in one file.

A page fetches nothing and runs only our own scripts: its content security policy names them by their hashes. Every
value that a template writes passes `_shown`, so that no text of a stranger is markup, steers anything, or tells in
which folders of this machine something lies.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from markupsafe import Markup

from zoolens.base.present.charts import Chart, themed
from zoolens.base.present.tables import Table, cell_words, plain_words
from zoolens.base.present.text import shareable, without_folders
from zoolens.base.verdicts import Outcome, Verdict

if TYPE_CHECKING:
    from jinja2 import Environment

UNLIKELY: Final = 0.05  # p above which a row is greyed
_DEEPEST: Final = 4  # settings within settings
_VEGA: Final = ("vega.js", "charts.js")
_VERDICT_KINDS: Final = {Outcome.SAME: "good", Outcome.DIFFERENT: "", Outcome.NOT_KNOWN: "unknown"}


@dataclass(frozen=True)
class Tile:
    """A figure in the head of a page. `kind`: a class of the style sheet that colours it."""

    figure: str
    caption: str
    kind: str = ""


@dataclass(frozen=True)
class Section:
    """A part of a page: words first, then charts, tables, a drawing and links to files beside the page. `pointing`:
    what the drawing tells who points at it, which a picture of it does not."""

    title: str = ""
    paragraphs: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    items: tuple[str, ...] = ()
    charts: tuple[Chart, ...] = ()
    drawing: str = ""  # SVG that we wrote
    tables: tuple[tuple[str, Table], ...] = ()  # heading (may be empty), table
    files: tuple[str, ...] = ()
    pointing: str = ""


@dataclass(frozen=True)
class Page:
    """What a report says, from which its HTML is rendered."""

    title: str
    lead: str = ""
    verdict: str = ""  # the one sentence to take away
    good: bool = False  # whether the verdict is good news, on pages without `judged`
    tiles: tuple[Tile, ...] = ()
    sections: tuple[Section, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)  # settings, at the end
    pictures: bool = False  # whether every chart lies beside the page as PNG too
    judged: Verdict | None = None  # outcome and coverage, on pages that say whether two things are the same

    @property
    def verdict_kind(self) -> str:
        """The class of the style sheet for the verdict. Not known is neither good nor bad news."""
        if self.judged is None:
            return "good" if self.good else ""
        return _VERDICT_KINDS[self.judged.outcome]

    @property
    def coverage(self) -> tuple[str, ...]:
        """What the verdict rests on and what would make the rest known, unless the verdict says it itself."""
        if self.judged is None or self.judged.coverage.whole:
            return ()
        coverage = self.judged.coverage
        told = self.verdict
        return tuple(text for text in (coverage.text, *coverage.remedies) if text not in told)


def page_html(page: Page) -> str:
    charts = [chart for section in page.sections for chart in section.charts]
    return render("report.html", title=page.title, page=page, charts=charts)


def render(
    template: str, *, title: str, charts: Sequence[Chart] = (), data: Any = None, script: str = "", **view: Any
) -> str:
    """A whole page from a template. `data` is given to the page's own `script` as JSON; charts bring vega with them."""
    scripts = [*(map(_asset, _VEGA) if charts else ()), *([_asset(script)] if script else ())]
    return (
        _environment()
        .get_template(template)
        .render(
            title=title,
            style=Markup(_asset("style.css")),  # noqa: S704 - our own files
            scripts=[Markup(text) for text in scripts],  # noqa: S704
            policy=_policy(scripts),
            data=data,
            **view,
        )
    )


def fragment(template: str, **view: Any) -> str:
    """A piece of HTML from a template, for who puts it into a page of their own."""
    return _environment().get_template(template).render(**view)


def settings_words(value: Any, depth: int = 0) -> str:
    """Settings in words, without those that are not set. Deep ones are cut, since they come from files of others."""
    if depth > _DEEPEST:
        return "…"
    if isinstance(value, Mapping):
        known = [(name, inner) for name, inner in value.items() if inner is not None and inner not in ({}, [], "")]
        return ", ".join(f"{name} {_in_brackets(inner, depth + 1)}" for name, inner in known)
    if isinstance(value, list | tuple):
        return "; ".join(settings_words(inner, depth + 1) for inner in value)
    return plain_words(value)


def _in_brackets(value: Any, depth: int) -> str:
    words = settings_words(value, depth)
    return f"({words})" if isinstance(value, Mapping | list | tuple) else words


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("zoolens.base.present"),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "cut": shareable,
        "json": _json,
        "spec": lambda chart: _json(themed(chart)),
        "markup": Markup,
        "settings": settings_words,
    }
    environment.globals |= {"cell_words": cell_words, "UNLIKELY": UNLIKELY}
    return environment


def _shown(value: Any) -> Any:
    if value is None:
        return ""
    return value if isinstance(value, Markup) else shareable(value)


def _json(data: Any) -> Markup:
    """JSON for a script element, which no text in it can end."""
    text = json.dumps(_shareable(data), ensure_ascii=False, allow_nan=False, default=str)
    return Markup(text.replace("<", "\\u003c"))  # noqa: S704


def _shareable(data: Any) -> Any:
    if isinstance(data, str):
        return without_folders(data)
    if isinstance(data, Mapping):
        return {without_folders(str(name)): _shareable(value) for name, value in data.items()}
    return [_shareable(value) for value in data] if isinstance(data, list | tuple) else data


def _policy(scripts: Sequence[str]) -> str:
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts]
    run = "".join(f" 'sha256-{digest}'" for digest in digests) or " 'none'"
    return f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src{run}"


@cache
def _asset(name: str) -> str:
    return resources.files("zoolens.base.present").joinpath("assets", name).read_text(encoding="utf-8")
