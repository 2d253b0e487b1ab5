"""A trace in words: tables for a terminal or a page, sentences about what the layers do not cover, and plain data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from zoolens.base.present.figures import NOTHING, figure, with_interval
from zoolens.base.present.tables import Column, Table
from zoolens.findings.tracing.spans import Level
from zoolens.findings.tracing.stored import Overhead, Trace
from zoolens.findings.tracing.trace_coverage import coverage_sentences, layer_coverage
from zoolens.findings.tracing.trace_layers import Timing, TracedLayer

TOP: Final = 15  # layers that a terminal shows
BELOW: Final = 3  # of what is below each of them
LONGEST: Final = 46  # characters of a layer's name


def indent(depth: int) -> str:
    """What stands before the name of something below something else. Pages drop spaces at the beginning."""
    return f"└{'──' * (depth - 1)} " if depth else ""


def timing_words(timing: Timing | None) -> str:
    """0.41 ms [0.40, 0.42], marked where too few repetitions were undisturbed."""
    return NOTHING if timing is None else with_interval(timing.observation("time"))


def median_words(timing: Timing | None) -> str:
    """0.41 ms, marked where too few repetitions were undisturbed."""
    if timing is None:
        return NOTHING
    return figure(timing.median, "s") + (" (disturbed)" if timing.disturbed else "")


def share_words(share: float | None) -> str:
    return NOTHING if share is None else f"{100 * share:.1f} %"


def levels_table(trace: Trace) -> Table:
    """One row for each level: what was timed, and by how much observing it slows the call down."""
    rows = []
    overheads = {overhead.level: overhead for overhead in trace.overheads}
    if trace.request is not None:
        rows.append(("pipeline", "request", timing_words(trace.request), _overhead_words(overheads, Level.PIPELINE)))
        for step in trace.steps:
            mark = f"{indent(2)}in the worker" if step.inside else f"{indent(1)}{step.name}"
            rows.append(("", mark, timing_words(step.timing), ""))
    if trace.model is not None:
        rows.append(("model", "predict", timing_words(trace.model), NOTHING))
    for level, observed in ((Level.LAYER, trace.layer), (Level.LIBRARY, trace.library)):
        if observed is not None:
            layers = "1 layer" if len(observed.layers) == 1 else f"{len(observed.layers)} layers, sum"
            words = layers if level is Level.LAYER else "predict, with kernels"
            times = observed.total if level is Level.LAYER else observed.calls
            rows.append((level, words, timing_words(times), _overhead_words(overheads, level)))
    if Level.SYSTEM in overheads:
        system = overheads[Level.SYSTEM]
        rows.append(("system", "predict", timing_words(system.observed), _overhead_words(overheads, Level.SYSTEM)))
    columns = (
        Column("level", "key", keep=9),
        Column("what", "key", keep=8),
        Column("median [95 %]", "number", keep=9),
        Column("observing adds", "number", keep=7),
    )
    return Table("levels", columns, tuple(rows))


def _overhead_words(overheads: dict[Level, Overhead], level: Level) -> str:
    if level not in overheads:
        return NOTHING
    overhead = overheads[level]
    # Observing cannot make a call quicker: a sentence below the table says what was measured.
    if overhead.share < 0:
        return "not known"
    words, interval = f"{100 * overhead.share:+.1f} %", overhead.interval
    if interval is not None:
        words += f" [{100 * interval.low:+.0f}, {100 * interval.high:+.0f}]"
    return words.replace("-", "−")


def layers_table(trace: Trace, top: int | None = TOP) -> Table:
    """The hottest layers first, each with the hottest of what is below it. `top` None: all of them."""
    layers = merged_layers(trace)
    total = sum(layer.timing.median for layer in layers) or 1.0
    hottest = sorted(layers, key=lambda layer: -layer.timing.median)
    shown = hottest if top is None else hottest[:top]
    rows: list[tuple[Any, ...]] = []
    for layer in shown:
        rows += _rows(layer, total, 0, None if top is None else BELOW)
    if len(shown) < len(hottest):
        rest = sum(layer.timing.median for layer in hottest[len(shown) :])
        row = (f"{len(hottest) - len(shown)} more layers", "", figure(rest, "s"), share_words(rest / total))
        rows.append((*row, "", "", ""))
    columns = (
        Column("layer", keep=9),
        Column("kind", "key", keep=4),
        Column("median [95 %]", "number", keep=9),
        Column("share", "number", keep=8),
        Column("kernel", "key", keep=7),
        Column("precision", "key", keep=6),
        Column("output", "key", keep=2),
    )
    table = Table("layers", columns, tuple(rows))
    filled = table.filled
    return Table("layers", tuple(columns[i] for i in filled), tuple(tuple(row[i] for i in filled) for row in rows))


def _rows(layer: TracedLayer, total: float, depth: int, most: int | None) -> Iterator[tuple[Any, ...]]:
    yield (
        indent(depth) + short_name(layer.name),
        layer.kind,
        timing_words(layer.timing),
        share_words(layer.timing.median / total),
        layer.kernel or "",
        layer.precision or "",
        ", ".join("×".join(map(str, shape)) for shape in layer.shapes[:2]),
    )
    below = sorted(layer.children, key=lambda child: -child.timing.median)
    for child in below if most is None else below[:most]:
        yield from _rows(child, total, depth + 1, most)


def short_name(name: str, longest: int = LONGEST) -> str:
    """A name that fits a table: its end tells layers apart, so the beginning is cut."""
    return name if len(name) <= longest else f"…{name[1 - longest :]}"


def merged_layers(trace: Trace) -> list[TracedLayer]:
    """Layers with times from calls in which nothing deeper was observed, and below them the kernels of other calls."""
    layers = [layer for layer in trace.layers if layer.level == Level.LAYER] or list(trace.layers)
    if trace.library is None:
        return layers
    kernels = dict(_keyed(trace.library.layers))
    return [layer if key not in kernels else _with_kernels(layer, kernels[key]) for key, layer in _keyed(layers)]


def _keyed(layers: Sequence[TracedLayer]) -> Iterator[tuple[tuple[str, str, int], TracedLayer]]:
    seen: dict[tuple[str, str], int] = defaultdict(int)
    for layer in layers:
        key = (layer.name, layer.kind)
        yield (*key, seen[key]), layer
        seen[key] += 1


def _with_kernels(layer: TracedLayer, with_kernels: TracedLayer) -> TracedLayer:
    """The layer with what is known of its kernels. Layers inside it keep their own times, too."""
    from dataclasses import replace

    inner = any(child.level == Level.LAYER for child in layer.children)
    return replace(
        layer,
        children=layer.children if inner else with_kernels.children,
        kernel=with_kernels.kernel or layer.kernel,
        precision=layer.precision or with_kernels.precision,
    )


def sentences(trace: Trace) -> Iterator[str]:
    """What the tables do not say: how much of the call the layers explain, and where the rest is."""
    yield from coverage_sentences(trace)
    if trace.layer is not None and any(layer.synthetic for layer in trace.layers):
        yield (
            f"{trace.runtime} reports how long each layer took and not when it began: on a timeline they are laid out "
            "one behind the other."
        )
    yield from disturbed_words(name for name, times in _all_timings(trace) if times.disturbed)
    if not trace.judged:
        yield "This kernel does not report whether other processes disturbed a repetition: all of them count."
    yield from _changed_load(trace)
    for reason in dict.fromkeys(trace.missing.values()):
        levels = [level for level, why in trace.missing.items() if why == reason]
        yield f"No level{'' if len(levels) == 1 else 's'} {', '.join(levels)}: {reason}"


def _changed_load(trace: Trace) -> Iterator[str]:
    """Calls that were timed at different moments and do not agree."""
    before, beside = trace.model, trace.unlayered
    if before is not None and beside is not None and before is not beside:
        apart = max(before.median, beside.median) / max(min(before.median, beside.median), 1e-12) - 1
        if apart > 0.1:
            yield (
                "Machine load changed during the measurement: a call without a profiler took "
                f"{figure(before.median, 's')} when the model was timed, and {figure(beside.median, 's')} beside the "
                "profiled calls."
            )
    for overhead in trace.overheads:
        if overhead.level is not Level.LAYER and overhead.share < 0:
            yield (
                f"What observing the level {overhead.level} adds is not known: the observed calls took "
                f"{figure(overhead.observed.median, 's')} and the others {figure(overhead.unobserved.median, 's')}."
            )


def disturbed_words(names: Iterable[str]) -> Iterator[str]:
    """What figures are of whose repetitions were nearly all disturbed; nothing where there are none."""
    if disturbed := ", ".join(dict.fromkeys(names)):
        yield (
            f"Other processes disturbed all but a few repetitions ({disturbed}): these figures are of all repetitions."
        )


def _all_timings(trace: Trace) -> Iterator[tuple[str, Timing]]:
    if trace.request is not None:
        yield "pipeline", trace.request
    if trace.model is not None:
        yield "model", trace.model
    for name, observed in (("layer", trace.layer), ("library", trace.library)):
        if observed is not None:
            yield name, observed.calls


def counters_table(trace: Trace) -> Table:
    columns = (
        Column("in one call", keep=9),
        Column("median", "number", keep=8),
        Column("most", "number", keep=7),
        Column("provenance", "key", keep=6),
        Column("", folds=True),
    )
    rows = [
        (
            counter.name,
            figure(counter.median, counter.unit),
            figure(counter.largest, counter.unit),
            counter.provenance,
            counter.reason,
        )
        for counter in trace.counters
    ]
    for row in trace.hardware:
        reason = str(row.details.get("reason") or row.details.get("what") or row.details.get("clock") or "")
        name = row.metric.removesuffix("_p50").replace("_", " ")
        rows.append((name, figure(row.value, row.unit), figure(row.high, row.unit), str(row.provenance), reason))
    return Table("system", columns, tuple(rows))


def trace_as_data(trace: Trace) -> dict[str, Any]:
    """The trace as plain data for JSON."""
    return {
        "run": trace.run.id,
        "model": trace.run.ref,
        "runtime": trace.runtime,
        "version": trace.run.stack.version,
        "precision": trace.run.precision,
        "batch": trace.batch,
        "inputs": trace.inputs,
        "threads": trace.threads,
        "device": trace.device,
        "machine": trace.run.stack.identity.get("machine"),
        "when": trace.run.created.isoformat(),
        "request": _data(trace.request),
        "steps": [{"name": step.name, "in_worker": step.inside, **step.timing.as_data} for step in trace.steps],
        "predict": _data(trace.model),
        "layers": [_layer_data(layer) for layer in merged_layers(trace)],
        "layers_sum": _data(trace.layer.total if trace.layer else None),
        "layers_share": trace.covered,
        "coverage": layer_coverage(trace).as_data(),
        "profiled_call": _data(trace.layer.calls if trace.layer else None),
        "in_no_layer": _data(trace.layer.rest if trace.layer else None),
        "framework_run": _data(trace.layer.run if trace.layer else None),
        "gaps": {name: gap.as_data for name, gap in trace.layer.gaps.items()} if trace.layer else {},
        "overlap": trace.layer.overlap if trace.layer else None,
        "overheads": [
            {
                "level": str(overhead.level),
                "share": overhead.share,
                "interval": None if overhead.interval is None else list(overhead.interval),
                "with": overhead.observed.as_data,
                "without": overhead.unobserved.as_data,
            }
            for overhead in trace.overheads
        ],
        "system": [
            {
                "name": counter.name,
                "median": counter.median,
                "most": counter.largest,
                "unit": counter.unit,
                "provenance": counter.provenance,
                "reason": counter.reason or None,
            }
            for counter in trace.counters
        ],
        "hardware": [
            {
                "name": row.metric,
                "value": row.value,
                "low": row.low,
                "high": row.high,
                "unit": row.unit,
                "provenance": str(row.provenance),
                "details": dict(row.details),
            }
            for row in trace.hardware
        ],
        "disturbances_known": trace.judged,
        "missing": {str(level): reason for level, reason in trace.missing.items()},
        "notes": list(sentences(trace)),
    }


def _data(timing: Timing | None) -> dict[str, Any] | None:
    return None if timing is None else timing.as_data


def _layer_data(layer: TracedLayer) -> dict[str, Any]:
    return {
        "name": layer.name,
        "kind": layer.kind,
        "level": layer.level,
        **layer.timing.as_data,
        "started": layer.started,
        "synthetic": layer.synthetic,
        "nodes": list(layer.nodes),
        "kernel": layer.kernel,
        "precision": layer.precision,
        "shapes": [list(shape) for shape in layer.shapes],
        "device": layer.device,
        "children": [_layer_data(child) for child in layer.children],
    }
