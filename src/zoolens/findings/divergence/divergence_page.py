"""A divergence as one page that needs nothing else: verdict, figures, causes, the growth curve and all layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from zoolens.base.present.charts import Chart, Spec, axis, heading, series, values
from zoolens.base.present.pages import Page, Section, Tile, page_html
from zoolens.base.present.text import shareable
from zoolens.findings.divergence.divergence_words import FLOOR_IN_WORDS, as_data, coverage_lines, headline, lines, table
from zoolens.findings.divergence.result import Divergence

_LEAST: Final = 1e-9  # drawn in the place of 0 on a logarithmic scale


def html(divergence: Divergence) -> str:
    return page_html(divergence_page(divergence))


def divergence_page(divergence: Divergence) -> Page:
    answers = divergence.answers
    beyond = sum(fact.layer.beyond for fact in divergence.layers)
    tiles = (
        Tile(f"{len(answers.flipped):,}", f"of {len(answers.rows):,} answers differ"),
        Tile(f"{answers.max_error:.2g}", f"largest difference of {answers.compared}"),
        Tile(f"{beyond}", f"of {len(divergence.layers)} layers beyond rounding"),
    )
    coverage = set(coverage_lines(divergence))  # stands below the verdict
    found = tuple(line.strip() for line in lines(divergence) if line not in coverage)
    sections = [Section("What was found", items=found)]
    if divergence.layers:
        layers = table(divergence)
        sections.append(
            Section(
                "Layer by layer",
                (FLOOR_IN_WORDS,),
                charts=(growth_chart(as_data(divergence)["layers"]),),
                tables=(("", layers),),
            )
        )
    return Page(
        f"{divergence.a.title} and {divergence.b.title}",
        f"{len(answers.rows):,} inputs of {divergence.data}",
        headline(divergence),
        tiles=tiles,
        sections=tuple(sections),
        judged=divergence.verdict,
    )


def growth_chart(layers: Sequence[Mapping[str, Any]]) -> Chart:
    """Return the relative difference by layer, with the rounding floor, on a logarithmic scale. `layers`: as
    `words.as_data` makes them."""
    names = ("A and B", "floor of rounding", "A by itself", "B by itself")
    rows: list[dict[str, Any]] = []
    for place, layer in enumerate(layers, 1):
        own = [side["local"] if (side := layer["sides"].get(label)) else None for label in "ab"]
        rows += [
            {"place": place, "layer": shareable(layer["layer"], 200), "series": name, "error": max(error, _LEAST)}
            for name, error in zip(names, (layer["error"], layer["floor"], *own), strict=True)
            if error is not None  # it is not known, or infinite
        ]
    spec: Spec = {
        "title": heading(
            "How the difference grows", f"relative, layer after layer as computed; 0 is drawn at {_LEAST:g}"
        ),
        "data": values(rows),
        "width": 720,
        "height": 280,
        "mark": {"type": "line", "point": {"size": 24}, "strokeWidth": 1.5},
        "encoding": {
            "x": {
                "field": "place",
                "type": "quantitative",
                "axis": axis("layer", tickMinStep=1),
                "scale": {"zero": False},
            },
            "y": {
                "field": "error",
                "type": "quantitative",
                "scale": {"type": "log"},
                "axis": axis("relative difference", tickCount=6),
            },
            "color": series("series", names),
            "tooltip": [{"field": "layer"}, {"field": "series"}, {"field": "error", "format": ".2e"}],
        },
    }
    return Chart("growth", "Difference of two environments by layer, with the rounding floor", spec)
