"""A timeline as a drawing (SVG): one call of each observed level, its spans below each other as they were called."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zoolens.present.charts import SERIES
from zoolens.present.figures import figure
from zoolens.present.text import shareable
from zoolens.tracing.spans import USER

if TYPE_CHECKING:
    import pyarrow as pa

WIDTH: Final = 1100
ROW: Final = 22
LEFT: Final = 8
LETTER: Final = 6.1  # pixels of a letter in a bar, about
MOST: Final = 4_000  # spans of one call that are drawn; the shortest of more are left out, and that is said
_LEVELS: Final = {"pipeline": SERIES[5], "model": SERIES[0], "library": SERIES[3], "user": SERIES[2]}


def timeline(table: pa.Table, observed: str) -> str:
    """The call during which this level was observed and whose time is nearest to the median, as SVG; empty: none."""
    rows = [row for row in table.to_pylist() if row["observed"] == observed]
    call = _typical(rows)
    if call is None:
        return ""
    spans = [row for row in rows if row["repeat"] == call["repeat"]]
    left_out = max(len(spans) - MOST, 0)
    if left_out:
        spans = sorted(spans, key=lambda row: -row["duration"])[:MOST]
    return _svg(call, sorted(spans, key=lambda row: row["time"]), left_out)


def _typical(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The outermost span of the undisturbed repetition whose duration is the median one."""
    numbers = {row["span_id"] for row in rows}
    roots = [row for row in rows if row["parent"] not in numbers]
    usable = [row for row in roots if row["clean"] is not False] or roots
    if not usable:
        return None
    median = float(np.median([row["duration"] for row in usable]))
    return min(usable, key=lambda row: abs(row["duration"] - median))


def _svg(call: Mapping[str, Any], spans: Sequence[Mapping[str, Any]], left_out: int) -> str:
    start = min(row["time"] for row in spans)
    end = max(row["time"] + row["duration"] for row in spans)
    scale = (WIDTH - 2 * LEFT) / max(end - start, 1)
    lanes = _lanes(spans)
    height = (max(lanes) + 1) * ROW + 34
    kinds = list(dict.fromkeys(row["kind"] for row in spans if row["level"] == "layer"))
    bars = [
        _bar(row, LEFT + (row["time"] - start) * scale, row["duration"] * scale, lane, kinds)
        for row, lane in zip(spans, lanes, strict=True)
    ]
    words = f"{figure((end - start) / 1e9, 's')} in all"
    if call["observed"] != USER:
        words += f", repetition {call['repeat'] + 1}"
    if left_out:
        words += f"; {left_out:,} of the shortest spans are not drawn"
    return "".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"',
            ' role="img" aria-label="Timeline of one call" font-family="system-ui, sans-serif" font-size="11">',
            *bars,
            *_ticks(end - start, scale, height),
            f'<text x="{WIDTH - LEFT}" y="{height - 4}" text-anchor="end" fill="currentColor">{escape(words)}</text>',
            "</svg>",
        ]
    )


def _lanes(spans: Sequence[Mapping[str, Any]]) -> list[int]:
    """The line of each span: below its caller, and one further down where another span is drawn there already."""
    ends: dict[int, int] = {}
    placed: dict[int, int] = {}
    lanes = []
    for row in spans:
        lane = placed.get(row["parent"], -1) + 1
        while ends.get(lane, -1) > row["time"]:
            lane += 1
        ends[lane], placed[row["span_id"]] = row["time"] + row["duration"], lane
        lanes.append(lane)
    return lanes


def _bar(row: Mapping[str, Any], x: float, width: float, lane: int, kinds: Sequence[str]) -> str:
    colour = _LEVELS.get(row["level"]) or SERIES[kinds.index(row["kind"]) % len(SERIES)]
    name = shareable(row["name"], 200)
    about = [f"{name} ({row['kind']})", figure(row["duration"] / 1e9, "s"), row["kernel"], row["precision"]]
    about += ["×".join(map(str, shape)) for shape in row["shapes"] or ()]
    about += ["start not measured"] if row["synthetic"] else []
    tip = escape("\n".join(shareable(text, 200) for text in about if text))
    y, drawn = lane * ROW, max(width, 0.6)
    dash = ' stroke="currentColor" stroke-dasharray="2 2" stroke-width="0.5"' if row["synthetic"] else ""
    room = int((width - 8) / LETTER)
    text = name if len(name) <= room else f"…{name[1 - room :]}" if room > 5 else ""
    label = f'<text x="{x + 4:.1f}" y="{y + 14}" fill="#fff">{escape(text)}</text>' if text else ""
    return (
        f'<g><title>{tip}</title><rect x="{x:.2f}" y="{y + 1}" width="{drawn:.2f}" height="{ROW - 3}" rx="2" '
        f'fill="{colour}"{dash}/>{label}</g>'
    )


def _ticks(length: int, scale: float, height: int) -> Iterator[str]:
    """Times below the bars, at round numbers."""
    step = 10 ** np.floor(np.log10(max(length, 10) / 4))
    step = next(step * factor for factor in (1, 2, 5, 10) if length / (step * factor) <= 8)
    for place in range(int(length / step) + 1):
        x = LEFT + place * step * scale
        if x > WIDTH - 200:  # the words about the whole stand there
            return
        yield (
            f'<line x1="{x:.1f}" y1="0" x2="{x:.1f}" y2="{height - 26}" stroke="currentColor" opacity="0.15"/>'
            f'<text x="{x:.1f}" y="{height - 16}" fill="currentColor" opacity="0.7">'
            f"{escape(figure(place * step / 1e9, 's') if place else '0')}</text>"
        )
