"""A run under load as words for a terminal, and as a folder with a page, its chart, JSON and every request."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from zoolens.base.present import images
from zoolens.base.present.figures import NOTHING, figure
from zoolens.base.present.pages import Page, Section, Tile, page_html
from zoolens.base.present.tables import Column, Table
from zoolens.faces.load.chart import latency_chart
from zoolens.faces.load.exchanges import Outcome
from zoolens.faces.load.results import AnsweredBy, Percentile, Results, Share, as_data
from zoolens.faces.load.run_load import LoadRun

INDEX: Final = "index.html"
_NEVER: Final = "not answered"


def run_as_data(run: LoadRun) -> dict[str, Any]:
    """The run as plain data for JSON."""
    target = run.target
    return {
        "address": str(target.address),
        "server": {"name": target.server.name, "version": target.server.version},
        "model": {"name": target.model.name, "versions": list(target.model.versions)},
        "arrivals": run.pattern,
        "inputs": run.sent,
        "started_ns": run.exchanges.started_ns,
        **as_data(run.results),
    }


def percentiles_table(results: Results) -> Table:
    columns = (
        Column("latency", "key", keep=9),
        Column("of the answered", "number", keep=8),
        Column("[95 %]", "number", keep=6),
        Column("of all requests", "number", keep=7),
    )
    return Table("latency", columns, tuple(_percentile_row(row) for row in results.percentiles))


def _percentile_row(row: Percentile) -> tuple[str, ...]:
    interval = NOTHING
    if row.low is not None and row.high is not None:
        interval = f"{_s(row.low)} – {_s(row.high)}"
    return row.name, _seconds(row.answered), interval, _seconds(row.asked)


def _seconds(value: float) -> str:
    if math.isinf(value):
        return _NEVER
    return NOTHING if math.isnan(value) else _s(value)


def models_table(results: Results) -> Table:
    columns = (
        Column("answered by", keep=9),
        Column("answers", "number", keep=8),
        Column("p50", "number", keep=6),
        Column("p99", "number", keep=7),
        Column("accuracy [95 %]", "number", keep=8),
    )
    return Table("models", columns, tuple(_model_row(row) for row in results.models))


def _model_row(row: AnsweredBy) -> tuple[str, ...]:
    accuracy = NOTHING if row.accuracy is None else share_words(row.accuracy)
    return row.model, f"{row.count:,}", _s(row.median), _s(row.p99), accuracy


def outcomes_table(results: Results) -> Table:
    columns = (Column("outcome", keep=9), Column("requests", "number", keep=8), Column("first reason", folds=True))
    rows = []
    for outcome, count in results.outcomes.items():
        share = 100 * count / results.requests
        rows.append((outcome.value, f"{count:,} ({share:.2f} %)", results.reasons.get(outcome, "")))
    return Table("outcomes", columns, tuple(rows))


def share_words(share: Share) -> str:
    text = f"{100 * share.value:.2f} %"
    if share.interval is None:
        return text
    return f"{text} [{100 * share.interval.low:.2f}, {100 * share.interval.high:.2f}]"


def sentences(run: LoadRun) -> Iterator[str]:
    """What the run says besides its tables."""
    results = run.results
    yield (
        f"{results.requests:,} requests in {results.seconds:g} s ({results.offered_rate:.1f}/s offered, "
        f"{results.answered_rate:.1f}/s answered); {run.pattern}; {run.sent}."
    )
    if results.goodput is not None and results.deadline is not None:
        yield f"Goodput: {share_words(results.goodput)} of all requests were answered within {_s(results.deadline)}."
    if results.accuracy is not None:
        accuracy, judged = share_words(results.accuracy), results.accuracy.total
        yield f"Accuracy: {accuracy} over the {judged:,} answers whose inputs have labels."
    if len(results.models) > 1:
        yield f"The answering model changed {len(results.switches):,} times."


def _s(seconds: float) -> str:
    return figure(seconds, "s")


def write_report(run: LoadRun, folder: Path) -> list[Path]:
    """Write the page, its chart as PNG where the extra `reports` is installed, results.json and requests.csv."""
    folder.mkdir(parents=True, exist_ok=True)
    chart, drawn = latency_chart(run.exchanges, run.results), images.can_draw()
    written = [folder / INDEX, folder / "results.json", folder / "requests.csv"]
    page = replace(load_page(run, files=("requests.csv", "results.json")), pictures=drawn)
    written[0].write_text(page_html(page), encoding="utf-8", errors="replace")
    written[1].write_text(json.dumps(run_as_data(run), indent=2, allow_nan=False), encoding="utf-8")
    _write_requests(run, written[2])
    if drawn:
        written.append(folder / f"{chart.name}.png")
        written[-1].write_bytes(images.png(chart))
    return written


def _write_requests(run: LoadRun, path: Path) -> None:
    import pyarrow.csv as pacsv

    pacsv.write_csv(run.exchanges.table(), path)


def load_page(run: LoadRun, files: tuple[str, ...] = ()) -> Page:
    """What `run_load` found. `files`: which lie beside the page."""
    results = run.results
    first, *rest = sentences(run)
    tables = [("Latency", percentiles_table(results)), ("What became of the requests", outcomes_table(results))]
    if results.models:
        tables.insert(1, ("Who answered", models_table(results)))
    target = run.target
    return Page(
        f"Load on {target.model.name}",
        first,
        verdict="" if results.valid else "This run is not valid: the driver itself was late.",
        tiles=tuple(_tiles(results)),
        sections=(
            Section(
                paragraphs=tuple(rest),
                warnings=results.invalid,
                items=results.notes,
                charts=(latency_chart(run.exchanges, results),),
                tables=tuple(tables),
                files=files,
            ),
        ),
        facts={
            "address": str(target.address),
            "server": f"{target.server.name} {target.server.version}",
            "model": f"{target.model.name} ({target.model.platform})",
            "arrivals": run.pattern,
            "inputs": run.sent,
            "latency": "from the intended time of each request to the end of its answer",
            "intervals": "95 %; the wider of order statistics and resampled stretches of the run",
        },
    )


def _tiles(results: Results) -> Iterator[Tile]:
    by_name = {row.name: row for row in results.percentiles}
    for name in ("p50", "p99"):
        yield Tile(_seconds(by_name[name].asked), f"{name} of all requests")
    if results.goodput is not None:
        yield Tile(f"{100 * results.goodput.value:.2f} %", "goodput", "" if results.goodput.value >= 0.99 else "high")
    if results.accuracy is not None:
        yield Tile(f"{100 * results.accuracy.value:.1f} %", "accuracy of the labelled answers")
    lost = results.requests - results.outcomes.get(Outcome.ANSWERED, 0)
    yield Tile(f"{lost:,}", "requests without an answer", "high" if lost else "")
