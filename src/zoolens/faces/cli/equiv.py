"""`zoolens equiv A B`: how interchangeable two models are; for more than two, a matrix."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zoolens.base.present.figures import percent_down, stack_label
from zoolens.base.present.tables import Column
from zoolens.base.present.terminal import echo_json, make_console, plain, print_table
from zoolens.base.verdicts import NotKnown, enforce
from zoolens.faces.cli.options import OUT_FILE, json_option, trust_option, wide_option
from zoolens.faces.cli.stores import check_store, store_option

if TYPE_CHECKING:
    from zoolens.findings.comparisons.behaviour import Accuracy, Behaviour
    from zoolens.findings.comparisons.equivalence import Bounds, Equivalence, ModelBounds, OnData
    from zoolens.findings.comparisons.matrix import Matrix


@click.command()
@click.argument("models", nargs=-1, required=True, metavar="A B…")
@click.option("--data", "-d", help="Dataset: the name of one in the store, or one to measure on now.")
@click.option("--runtime", "-r", help="Only runs in this runtime; for a matrix a pattern, '*' for all.")
@click.option(
    "--confidence",
    type=click.FloatRange(50, 99.999),
    default=95,
    show_default=True,
    help="Confidence of the bounds, in percent.",
)
@click.option(
    "--bound",
    type=click.Choice(["paired", "off", "arora"]),
    default="paired",
    show_default=True,
    help="'arora': the margin bound of Arora et al. 2018 as well, flagged where it is vacuous.",
)
@click.option(
    "--fail-on",
    "conditions",
    multiple=True,
    help="Exit with 3 if it holds: 'agreement < 95%'; 'unknown': with 4. Repeatable.",
)
@click.option("--picture", type=OUT_FILE, help="Write the matrix as .svg or .html.")
@click.option("--csv", "csv_file", type=OUT_FILE, help="Write the matrix as CSV.")
@store_option(None)
@json_option
@trust_option
@wide_option
def command(
    models: tuple[str, ...], data: str | None, runtime: str | None, store: str | None, as_json: bool, **chosen: Any
) -> None:
    """How interchangeable models A and B are, from what they answered to the same inputs.

    A model is named zoo:name, by a name that only one measured model has, by a path, or by a run's id. Without --data
    every dataset that both were measured on counts. More than two models, or a pattern such as 'demo:*': a matrix.
    """
    patterns = any(set(name) & set("*?") for name in models)
    wants_matrix = len(models) != 2 or patterns or chosen["picture"] or chosen["csv_file"]
    check_store(store, "reads" if wants_matrix or data is None else "makes")
    if wants_matrix and (chosen["conditions"] or chosen["bound"] == "arora"):
        raise click.UsageError("--fail-on and --bound are about two models, not about a matrix.")
    asked: dict[str, Any] = {"data": data, "runtime": runtime, "store": store}
    if wants_matrix:
        _show_matrix(models, asked, chosen["picture"], chosen["csv_file"], as_json)
    else:
        asked |= {"confidence": chosen["confidence"] / 100, "bound": chosen["bound"]}
        _show_pair(models, asked, chosen["conditions"], as_json)


# --- two models


def _show_pair(models: tuple[str, ...], asked: dict[str, Any], conditions: tuple[str, ...], as_json: bool) -> None:
    from zoolens.base.present.bars import Bars
    from zoolens.findings.comparisons.equivalence import as_data, equiv
    from zoolens.findings.comparisons.gate import parse_equivalence_gate

    gates = [parse_equivalence_gate(text) for text in conditions]
    with Bars() as bars:
        report = equiv(*models, **asked, progress=bars)
    if as_json:
        echo_json(as_data(report))
    else:
        print_report(report)
    if report.reasons:
        raise NotKnown(f"{report.a} (A) and {report.b} (B) cannot be compared: {'; '.join(report.reasons)}.")
    enforce(gates, report)


def print_report(report: Equivalence) -> None:
    console = make_console()
    for compared in report.on:
        _print_data(console, compared, report.tolerance)
    if len(report.comparable) > 1 and report.guarantee is not None:
        console.print(
            f"\n[bold]On every one of {len(report.comparable)} datasets[/] {_guaranteed(report)}: at least "
            f"{percent_down(report.guarantee.lower)} ({_percent(report.confidence, 0)} confidence; "
            f"least on {plain(report.guarantee.worst.name)})."
        )
    if report.arora is not None:
        _print_arora(console, report.arora)


def _guaranteed(report: Equivalence) -> str:
    outputs = [output for pair in report.comparable for output in pair.outputs]
    names = {output.agreement_name(report.tolerance) for output in outputs}
    return names.pop() if len(names) == 1 else "agreement"


def _print_data(console: Any, pair: OnData, tolerance: float) -> None:
    for side, run in (("A", pair.a), ("B", pair.b)):
        console.print(f"[bold]{side}[/] {run.id[:8]}  {plain(run.ref)}  {plain(stack_label(run))}")
    console.print(f"  {pair.n:,} inputs of {plain(pair.dataset)}\n")
    several = len(pair.outputs) > 1
    for output in pair.outputs:
        bounds = pair.bounds if output is pair.worst else None
        _print_output(console, output, bounds, tolerance, several)
    if pair.outputs and pair.outputs[0].accuracy is not None:
        _print_accuracy(console, pair.outputs[0].accuracy, pair.bounds)
    for note in pair.fit.notes:
        console.print(f"[dim]note: {plain(note)}[/]")


def _print_output(console: Any, output: Behaviour, bounds: Bounds | None, tolerance: float, named: bool) -> None:
    title = f"{plain(output.output)} ({plain(output.task)}): " if named else ""
    bound = ""
    if bounds is not None and not math.isnan(bounds.agreement):
        bound = (
            f", at least [bold]{percent_down(bounds.agreement)}[/] on inputs drawn like these "
            f"({_percent(bounds.confidence, 0)} confidence, {bounds.agreement_bound})"
        )
    what = plain(output.agreement_name(tolerance))
    agreement = "not known" if math.isnan(output.agreement) else _percent(output.agreement)
    console.print(f"{title}{what}: [bold]{agreement}[/]{bound}")
    low, high = output.l2
    facts = [f"full agreement on {_percent(output.full / output.n)} of the inputs"] if output.graded else []
    facts += [] if math.isnan(output.identical) else [f"bit-equal outputs {_percent(output.identical)}"]
    if output.top5_overlap is not None:
        facts.append(f"common classes among the five best {_percent(output.top5_overlap)}")
    # The task knows no distance, or only classes were kept.
    if math.isnan(low):
        facts += ["no scores were kept"] if output.top5_overlap is not None else []
    elif output.top5_overlap is not None:
        span = f"{low:.3g}" if f"{low:.3g}" == f"{high:.3g}" else f"{low:.3g} to {high:.3g}"
        facts.append(f"mean l2 distance of probabilities {span}")
    else:
        share = output.relative_l2 or 0
        shown = f"{_percent(share, 3)} of A's length" if math.isfinite(share) else "A gives zeros where B does not"
        facts.append(f"mean l2 distance {low:.3g} ({shown})")
    if output.cosine is not None:
        facts.append(f"mean cosine {output.cosine:.5f}")
    if facts:
        console.print("  " + ", ".join(facts))


def _print_accuracy(console: Any, accuracy: Accuracy, bounds: Bounds | None) -> None:
    a, b, difference = _percent(accuracy.a), _percent(accuracy.b), f"{100 * accuracy.difference:+.2f} points"
    if bounds is not None and bounds.accuracy_a and bounds.accuracy_b and bounds.difference:
        a = f"{a} {_interval(bounds.accuracy_a)}"
        b = f"{b} {_interval(bounds.accuracy_b)}"
        low, high = bounds.difference
        difference += f" \\[{100 * low:+.2f}, {100 * high:+.2f}]"
    console.print(
        f"accuracy: A {a}, B {b}\n  B − A [bold]{difference}[/] "
        f"(only A correct: {accuracy.only_a:,}, only B correct: {accuracy.only_b:,}; paired)"
    )
    if bounds is not None and bounds.accuracy_drop is not None:
        console.print(
            f"  B is {_promised_change(bounds.accuracy_drop)} on inputs drawn like these "
            f"({_percent(bounds.confidence, 0)} confidence, betting)"
        )


def _print_arora(console: Any, bounds: ModelBounds) -> None:
    console.print("\n[bold]Margin bound[/] (generalisation of each model by itself, not their agreement)")
    for side, bound in (("A", bounds.a), ("B", bounds.b)):
        console.print(f"  {side}: {plain(bound if isinstance(bound, str) else bound.sentence)}")


def _percent(value: float, digits: int = 1) -> str:
    return f"{_hundredths(value, digits)} %"


def _hundredths(value: float, digits: int = 1) -> str:
    """Nearly all is not shown as all: 99.96."""
    text = f"{100 * value:.{digits}f}"
    if value < 1 and float(text) == 100:
        return _hundredths(value, digits + 1)
    return text


def _promised_change(drop: float) -> str:
    """What an upper bound on the drop in accuracy says, rounded so that it still holds."""
    points = math.ceil(10_000 * drop) / 100
    if points < 0:
        return f"more accurate by at least [bold]{-points:.2f} points[/]"
    return f"less accurate by at most [bold]{points:.2f} points[/]"


def _interval(interval: tuple[float, float]) -> str:
    low, high = interval
    return f"\\[{100 * low:.1f}, {100 * high:.1f}]"


# --- many models


def _show_matrix(
    models: tuple[str, ...], asked: dict[str, Any], picture: Path | None, csv_file: Path | None, as_json: bool
) -> None:
    from zoolens.findings.comparisons.matrix import agreement_matrix, as_csv, as_data

    if picture is not None and picture.suffix not in (".svg", ".html"):
        raise click.UsageError(f"A picture is written as .svg or .html, not as {picture.name!r}.")
    matrix = agreement_matrix(models, **asked)
    if picture is not None:
        from zoolens.findings.comparisons import matrix_chart as drawing

        picture.write_text(drawing.svg(matrix) if picture.suffix == ".svg" else drawing.html(matrix), encoding="utf-8")
    if csv_file is not None:
        csv_file.write_text(as_csv(matrix), encoding="utf-8")
    if as_json:
        echo_json(as_data(matrix))
    else:
        print_matrix(matrix)


def print_matrix(matrix: Matrix) -> None:
    """Rows in the order of families; columns are numbered, so that they stay narrow."""
    console = make_console()
    console.print(f"{plain(matrix.title)}, % of {matrix.n:,} inputs of {plain(matrix.dataset)}; families together\n")
    numbers = [str(i + 1) for i in range(len(matrix.names))]
    columns = [
        Column("", "number", keep=1000),
        Column("model", keep=1000),
        Column("accuracy", "number", keep=999),
    ]
    columns += [Column(number, "number", keep=len(numbers) - i) for i, number in enumerate(numbers)]
    rows = [
        [
            numbers[i],
            name,
            "–" if matrix.accuracy[i] != matrix.accuracy[i] else _percent(matrix.accuracy[i]),
            *("–" if value != value else _hundredths(value) for value in matrix.agreement[i]),
        ]
        for i, name in enumerate(matrix.names)
    ]
    print_table(columns, rows)
    for note in matrix.notes:
        console.print(f"[dim]note: {plain(note)}[/]")
