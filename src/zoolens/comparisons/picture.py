"""The agreement matrix as a picture: a heat map with its numbers, families framed, as SVG or as a page.

Names may come from files of unknown origin: all text passes `safe`. Cells carry their own colours and are the same in
light and dark; everything around them follows the reader's scheme.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from itertools import groupby
from typing import Final

import numpy as np

from zoolens.comparisons.matrix import Matrix

CELL: Final = 46
SMALL_CELL: Final = 34  # from so many models on:
MANY: Final = 16
CHARACTER: Final = 6.9  # width of one, in pixels at 12 px
MARGIN: Final = 20
LONGEST: Final = 48
LEGEND: Final = 76
STEPS: Final = 24  # of the legend's bar
LOW, MIDDLE, HIGH = (68, 30, 112), (33, 120, 140), (250, 228, 80)  # dark to light: readable without colour too
FALL: Final = 0.7071  # of a line that goes up at 45 degrees, per pixel

STYLE: Final = """
text{font:12px system-ui,sans-serif;fill:#1f2933}.title{font-size:16px;font-weight:600}.dim{fill:#5f6b78}
.cell{text-anchor:middle;font-variant-numeric:tabular-nums}.row{text-anchor:end}.frame{fill:none;stroke:#1f2933;
stroke-width:2}.gap{fill:#e4e7eb}.page{fill:#fff}
@media (prefers-color-scheme:dark){text{fill:#e6e9ec}.dim{fill:#a3adb8}.frame{stroke:#fff}.gap{fill:#39424c}
.page{fill:#14181d}}
"""

PAGE_STYLE: Final = """
:root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;padding:0 1rem;
max-width:1400px;background:#fff;color:#1f2933}svg{max-width:100%;height:auto}li{color:inherit}
@media (prefers-color-scheme:dark){body{background:#14181d;color:#e6e9ec}}
"""


def safe(text: object, longest: int = LONGEST) -> str:
    """Text for SVG and HTML: no markup, no control characters, no line without end."""
    clean = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(text))
    return escape(clean if len(clean) <= longest else clean[: longest - 1] + "…")


def svg(matrix: Matrix) -> str:
    count, cell = len(matrix.names), _cell(matrix)
    longest = max(min(len(name), LONGEST) for name in matrix.names) * CHARACTER
    left, top = MARGIN + longest + 58, 64 + longest * FALL + 12  # the accuracy stands between name and cells
    width = max(left + count * cell + longest * FALL + MARGIN, left + 420)
    height = top + count * cell + LEGEND
    low, high = _range(matrix)
    parts = [
        *_heading(matrix),
        *_labels(matrix, left, top, cell),
        *_cells(matrix, left, top, cell, low, high),
        *_frames(matrix, left, top, cell),
        *_legend(matrix, left, top + count * cell + 22, low, high),
    ]
    title = safe(f"Agreement of {count} models on {matrix.dataset}", 200)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" role="img"><title>{title}</title><style>{STYLE}</style>'
        f'<rect class="page" width="100%" height="100%"/>{"".join(parts)}</svg>\n'
    )


def html(matrix: Matrix) -> str:
    """The picture as a page that needs nothing else."""
    notes = "".join(f"<li>{safe(note, 400)}</li>" for note in matrix.notes)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
        'content="width=device-width"><meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>Agreement on {safe(matrix.dataset, 200)}</title><style>{PAGE_STYLE}</style></head><body>"
        f"{svg(matrix)}{f'<ul>{notes}</ul>' if notes else ''}</body></html>\n"
    )


def _cell(matrix: Matrix) -> int:
    return CELL if len(matrix.names) < MANY else SMALL_CELL


def _range(matrix: Matrix) -> tuple[float, float]:
    """The colour scale: from the least agreement of two different models that is no outlier up to 1.

    One model that answers nonsense would otherwise make all others look the same.
    """
    pairs = matrix.agreement[~np.eye(len(matrix.names), dtype=bool)]
    known = pairs[~np.isnan(pairs)]
    if not len(known):
        return 0.0, 1.0
    quarter, half = np.quantile(known, [0.25, 0.5])
    return float(max(known.min(), quarter - 3 * max(half - quarter, 0.02))), 1.0


def _heading(matrix: Matrix) -> Iterator[str]:
    yield _text(MARGIN, 28, f"Same answer, % of {matrix.n:,} inputs of {matrix.dataset}", "title", 110)
    runtimes = ", ".join(dict.fromkeys(run.stack.runtime for run in matrix.runs))
    yield _text(MARGIN, 48, f"In {runtimes}. Frames: families by average linkage. Left: accuracy.", "dim", 110)


def _labels(matrix: Matrix, left: float, top: float, cell: int) -> Iterator[str]:
    for i, name in enumerate(matrix.names):
        middle = (i + 0.5) * cell
        accuracy = "" if np.isnan(matrix.accuracy[i]) else f"{100 * matrix.accuracy[i]:.1f} %"
        yield _text(left - 56, top + middle + 4, name, "row")
        yield _text(left - 6, top + middle + 4, accuracy, "row dim")
        x, y = left + middle + 3, top - 8
        yield f'<text x="{x:.1f}" y="{y:.1f}" transform="rotate(-45 {x:.1f} {y:.1f})">{safe(name)}</text>'


def _cells(matrix: Matrix, left: float, top: float, cell: int, low: float, high: float) -> Iterator[str]:
    digits = 1 if cell == CELL else 0
    for i, row in enumerate(matrix.agreement):
        for j, value in enumerate(row):
            x, y = left + j * cell, top + i * cell
            box = f'x="{x:.1f}" y="{y:.1f}" width="{cell - 1}" height="{cell - 1}"'
            if np.isnan(value):
                yield f'<rect class="gap" {box}><title>cannot be compared</title></rect>'
                continue
            colour = _colour(value, low, high)
            ink = "#fff" if _luminance(colour) < 0.45 else "#111"
            shown = f"{100 * value:.{digits}f}"
            if float(shown) == 100 and value < 1:
                shown = ">99.9" if digits else ">99"
            hint = safe(f"{matrix.names[i]} and {matrix.names[j]}: {100 * value:.2f} %", 200)
            yield (
                f'<g><title>{hint}</title><rect {box} fill="{_hex(colour)}"/><text class="cell" '
                f'x="{x + cell / 2 - 0.5:.1f}" y="{y + cell / 2 + 4:.1f}" style="fill:{ink}">{shown}</text></g>'
            )


def _frames(matrix: Matrix, left: float, top: float, cell: int) -> Iterator[str]:
    start = 0
    for _, members in groupby(matrix.groups):
        size = len(list(members))
        if size > 1:
            x, y, side = left + start * cell - 1, top + start * cell - 1, size * cell + 1
            yield f'<rect class="frame" x="{x:.1f}" y="{y:.1f}" width="{side}" height="{side}"/>'
        start += size


def _legend(matrix: Matrix, x: float, y: float, low: float, high: float) -> Iterator[str]:
    width = 200 / STEPS
    for step in range(STEPS):
        colour = _hex(_colour(low + (high - low) * step / (STEPS - 1), low, high))
        yield f'<rect x="{x + step * width:.1f}" y="{y:.1f}" width="{width + 0.5:.1f}" height="14" fill="{colour}"/>'
    beyond = "≤ " if np.nanmin(matrix.agreement) < low else ""
    yield _text(x, y + 30, f"{beyond}{100 * low:.0f} %", "dim")
    yield _text(x + 200, y + 30, f"{100 * high:.0f} %", "row dim")
    if np.isnan(matrix.agreement).any():
        yield f'<rect class="gap" x="{x + 240:.1f}" y="{y:.1f}" width="14" height="14"/>'
        yield _text(x + 260, y + 11, "cannot be compared", "dim")


def _colour(value: float, low: float, high: float) -> tuple[float, ...]:
    place = float(np.clip((value - low) / (high - low) if high > low else 1.0, 0, 1))
    start, end, part = (LOW, MIDDLE, 2 * place) if place < 0.5 else (MIDDLE, HIGH, 2 * place - 1)
    return tuple(one + (two - one) * part for one, two in zip(start, end, strict=True))


def _hex(colour: tuple[float, ...]) -> str:
    return "#" + "".join(f"{round(one):02x}" for one in colour)


def _luminance(colour: tuple[float, ...]) -> float:
    red, green, blue = (one / 255 for one in colour)
    return 0.299 * red + 0.587 * green + 0.114 * blue


def _text(x: float, y: float, text: str, style: str, longest: int = LONGEST) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{style}">{safe(text, longest)}</text>'
