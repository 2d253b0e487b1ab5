"""Two runs side by side as pictures: their figures with intervals, and the inputs on which their answers flipped."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

from zoolens.base.present.charts import (
    DIM,
    INK,
    LABEL,
    SERIES,
    Chart,
    Spec,
    axis,
    heading,
    logarithmic_ticks,
    quantity,
    series,
    values,
)
from zoolens.base.present.figures import figure, p_value, percent, stack_label
from zoolens.base.present.text import shareable
from zoolens.base.store.records import Observation, Run
from zoolens.base.store.scopes import Dimension, is_of_part, parse_scope
from zoolens.findings.comparisons.compare import AnswerComparison, Disagreement, FigurePair, Report
from zoolens.findings.measure.class_order import data_classes
from zoolens.findings.measure.run_data import judging_beside, main_metric
from zoolens.inventory.catalog.names import bare

WIDTH: Final = 420
STEP: Final = 44  # pixels of a figure, which has a line for each run
MOST_FIGURES: Final = 16
MOST_FLIPS: Final = 2000
_ORDER: Final = (
    "top1", "top5", "score", "ece", "brier", "nll", "latency_p50", "latency_p95", "latency_p99", "roundtrip_p50",
    "roundtrip_p95", "throughput", "cold_start", "peak_memory", "file_size", "parameters", "energy",
)  # fmt: skip
_KEY: Final = ("latency_p50", "throughput", "peak_memory", "file_size", "energy")  # at a glance, after the main metric
_LARGEST_RATIO: Final = 100.0
_WORDS: Final = {"top1": "top-1", "top5": "top-5", "ece": "calibration error"}
_ONLY_A, _ONLY_B, _NEITHER, _UNJUDGED = "only A correct", "only B correct", "both wrong", "answers differ"


def side_names(report: Report) -> tuple[str, str]:
    """Return the names of the two runs: the model, with the environment where both are of one model."""
    if report.a.ref == report.b.ref:
        a, b = (
            f"{letter}: {bare(run.ref)} in {stack_label(run)}" for letter, run in zip("AB", _runs(report), strict=True)
        )
    else:
        a, b = (f"{letter}: {bare(run.ref)}" for letter, run in zip("AB", _runs(report), strict=True))
    return shareable(a, LABEL), shareable(b, LABEL)


def _runs(report: Report) -> tuple[Run, Run]:
    return report.a, report.b


# --- figures


def told_figures(report: Report) -> list[FigurePair]:
    """The figures that are worth a line: known in both runs, neither of single classes nor raw, usual ones first."""
    order = tuple(dict.fromkeys((main_metric(report.a), *_ORDER)))
    known = [
        each
        for each in report.figures
        if each.a.value is not None and each.b.value is not None and each.metric in order and not _detail(each)
    ]
    known.sort(key=lambda each: (order.index(each.metric), len(each.scope), each.scope))
    return known[:MOST_FIGURES]


def key_figures(report: Report) -> list[FigurePair]:
    """The few figures that decide between two runs: one of each kind, the smallest batch where there are several."""
    wanted = (*judging_beside(main_metric(report.a)), *_KEY)
    first: dict[str, FigurePair] = {}
    for each in told_figures(report):
        first.setdefault(each.metric, each)
    return [first[metric] for metric in dict.fromkeys(wanted) if metric in first]


def _detail(each: FigurePair) -> bool:
    scope = parse_scope(each.scope)
    phase = each.metric == "cold_start" and scope.value != "total"
    return phase or scope.raw or is_of_part(each.scope)


def figures_chart(report: Report) -> Chart | None:
    """Shares in points above A's, all other figures as multiples of A's; None where the runs have none in common."""
    figures = told_figures(report)
    shares = [each for each in figures if each.unit == "fraction"]
    others = [each for each in figures if each.unit != "fraction" and _has_ratio(each)]
    panels = [panel for panel in (_shares(report, shares), _ratios(report, others)) if panel is not None]
    if not panels:
        return None
    title = "Figures of both runs"
    spec = {"title": heading(title, _paired_words(report.answers)), "vconcat": panels, "spacing": 22}
    return Chart("figures", title, {**spec, "config": _BARE})


def _has_ratio(each: FigurePair) -> bool:
    """A multiple of next to nothing says nothing, and would press all others into one spot."""
    a, b = each.a.value, each.b.value
    if a is None or b is None or a <= 0:
        return False
    return 1 / _LARGEST_RATIO <= b / a <= _LARGEST_RATIO


def _paired_words(answers: AnswerComparison | None) -> str:
    if answers is None or not answers.labelled:
        return "Lines are intervals of each run by itself."
    low, high = answers.difference
    change = f"{100 * answers.top1_change:+.2f} points [{100 * low:+.2f}, {100 * high:+.2f}]".replace("-", "−")
    return f"Top-1 of B less that of A on the same inputs: {change}, p = {p_value(answers.p_value)}."


def _shares(report: Report, figures: Sequence[FigurePair]) -> Spec | None:
    rows = [row for each in figures for row in _rows(report, each, lambda value, a: 100 * (value - a))]
    if not rows:
        return None
    ends = [end for row in rows for end in (row["x"], row["low"], row["high"]) if end is not None]
    low, high = min(*ends, -0.1), max(*ends, 0.1)
    room = 0.08 * (high - low)
    points = {**axis(tickCount=6), "title": "points above A"}
    return _panel(report, rows, quantity("x", low - room, high + room, points))


def _ratios(report: Report, figures: Sequence[FigurePair]) -> Spec | None:
    rows = [row for each in figures for row in _rows(report, each, lambda value, a: value / a)]
    ends = [end for row in rows for end in (row["x"], row["low"], row["high"]) if end is not None and end > 0]
    if not ends:
        return None
    low, high = min(*ends, 1 / 1.05), max(*ends, 1.05)
    room = (high / low) ** 0.07
    low, high = low / room, high * room
    wide = high / low > 4
    ticks: Spec = {"values": logarithmic_ticks(low, high)} if wide else {"tickCount": 5}
    times = {**axis(expression="'×' + format(datum.value, '.3~g')", **ticks), "title": "times A"}
    return _panel(report, rows, quantity("x", low, high, times, type="log" if wide else "linear"))


def _rows(report: Report, each: FigurePair, relative: Callable[[float, float], float]) -> list[dict[str, Any]]:
    """A row for each run. `relative`: how a value is told relative to A's."""
    named, of_a = _figure_name(each), each.a.value or 0.0
    rows = []
    for name, observation in zip(side_names(report), (each.a, each.b), strict=True):
        low, high = observation.low, observation.high
        rows.append(
            {
                "figure": named,
                "of": name,
                "x": relative(observation.value or 0.0, of_a),
                "low": None if low is None else relative(low, of_a),
                "high": None if high is None else relative(high, of_a),
                "words": _value_words(observation),
                "hint": f"{named} of {name}: {_value_words(observation)}{_interval_words(observation)}",
            }
        )
    return rows


def _figure_name(each: FigurePair) -> str:
    scope = parse_scope(each.scope)
    name = _WORDS.get(each.metric, each.metric.replace("_", " "))
    where = f"batch {scope.value}" if scope.dimension is Dimension.BATCH else scope.value.replace("_", " ")
    return f"{name}, {where}" if where else name


def _value_words(observation: Observation) -> str:
    if observation.unit == "fraction":
        return percent(observation.value)
    return figure(observation.value, observation.unit)


def _interval_words(observation: Observation) -> str:
    if observation.low is None or observation.high is None:
        return ""
    if observation.unit == "fraction":
        return f" [{percent(observation.low)}, {percent(observation.high)}]"
    return f" [{figure(observation.low, observation.unit)}, {figure(observation.high, observation.unit)}]"


def _panel(report: Report, rows: Sequence[dict[str, Any]], x: Spec) -> Spec:
    names = list(side_names(report))
    figures = list(dict.fromkeys(str(row["figure"]) for row in rows))
    place: Spec = {
        "y": {
            "field": "figure", "type": "nominal", "sort": None, "scale": {"domain": figures, "paddingInner": 0.25},
            "axis": {"title": None, "labelLimit": 200, "labelOverlap": False},
        },
        "yOffset": {"field": "of", "sort": names, "scale": {"domain": names}},
    }  # fmt: skip
    colour = series("of", names, SERIES[:2], columns=1, symbolType="circle")
    hint = {"field": "hint", "type": "nominal", "title": "figure"}
    text = {"type": "text", "align": "left", "color": DIM, "fontSize": 11, "dx": 8}
    return {
        "width": WIDTH,
        "height": STEP * len(figures),
        "data": values(rows),
        "layer": [
            {
                "transform": [{"filter": "isValid(datum.low) && isValid(datum.high)"}],
                "mark": {"type": "rule", "strokeWidth": 2},
                "encoding": {**place, "x": {**x, "field": "low"}, "x2": {"field": "high"}, "color": colour},
            },
            {
                "mark": {"type": "circle", "size": 75, "opacity": 1},
                "encoding": {**place, "x": x, "color": colour, "tooltip": hint},
            },
            {"mark": text, "encoding": {**place, "x": {"value": WIDTH}, "text": {"field": "words"}}},
        ],
    }


_BARE: Final[Spec] = {"axisY": {"grid": False, "labelColor": INK, "labelFontSize": 12}}


# --- flips


def flips(report: Report) -> dict[str, int]:
    """How many inputs got different answers, by who was right."""
    if report.answers is None:
        return {}
    counted = Counter(_judged(flip, labelled=report.answers.labelled) for flip in report.answers.disagreements)
    return {name: counted[name] for name in (_ONLY_A, _ONLY_B, _NEITHER, _UNJUDGED) if counted[name]}


def _judged(flip: Disagreement, *, labelled: bool) -> str:
    if not labelled or flip.label < 0:
        return _UNJUDGED
    if flip.answer_a == flip.label:
        return _ONLY_A
    return _ONLY_B if flip.answer_b == flip.label else _NEITHER


def class_names(report: Report) -> Callable[[int], str]:
    """What the dataset calls a class, or its number in words where it has no names."""
    names = data_classes(report.a) or ()
    return lambda number: names[number] if number < len(names) else f"class {number}"


def _flip_words(flip: Disagreement, named: Callable[[int], str]) -> str:
    label = f"label {named(flip.label)}, " if flip.label >= 0 else ""
    return f"{label}A {named(flip.answer_a)}, B {named(flip.answer_b)}"


def flips_chart(report: Report) -> Chart | None:
    """Every input with different answers by how sure each run was; None where there are none, or no scores were kept.
    The selection "picked" gives the inputs that are chosen."""
    if report.answers is None or not report.answers.disagreements:
        return None
    drawn = [flip for flip in report.answers.disagreements if flip.score_a is not None and flip.score_b is not None][
        :MOST_FLIPS
    ]
    if not drawn:
        return None
    counts, named = flips(report), class_names(report)
    legend = {name: f"{name}: {count:,}" for name, count in counts.items()}
    rows: list[dict[str, Any]] = [
        {
            "x": 100 * (flip.score_a or 0.0),
            "y": 100 * (flip.score_b or 0.0),
            "input": flip.input,
            "of": legend[_judged(flip, labelled=report.answers.labelled)],
            "words": _flip_words(flip, named),
        }
        for flip in drawn
    ]
    colours = {_ONLY_A: SERIES[0], _ONLY_B: SERIES[1], _NEITHER: SERIES[5], _UNJUDGED: SERIES[3]}
    n, different = report.answers.n, len(report.answers.disagreements)
    subtitle = f"{different:,} of {n:,} inputs ({percent(different / n, 1)})"
    if len(drawn) < different:
        subtitle += f"; the {len(drawn):,} with the highest confidence of both are drawn"
    least = min(min(row["x"], row["y"]) for row in rows)
    low = max(0.0, 10.0 * math.floor(min(least, 50.0) / 10))
    title = "Inputs with different answers"
    spec = {
        "title": heading(title, subtitle),
        "width": 400,
        "height": 400,
        "data": values(rows),
        "params": [{"name": "picked", "select": {"type": "point", "fields": ["input"]}}],
        "mark": {"type": "circle", "size": 46},
        "encoding": {
            "x": quantity("x", low, 101, axis("confidence of A in %", tickCount=6)),
            "y": quantity("y", low, 101, axis("confidence of B in %", tickCount=6)),
            "color": series("of", list(legend.values()), [colours[name] for name in legend], columns=2),
            "opacity": {"condition": {"param": "picked", "value": 0.75}, "value": 0.2},
            "tooltip": [
                {"field": "input", "type": "nominal"},
                {"field": "words", "type": "nominal", "title": "classes"},
            ],
        },
    }
    return Chart("flips", title, spec)
