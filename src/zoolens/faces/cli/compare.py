"""`zoolens compare A B`: two runs, input by input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from zoolens.base.present.figures import class_words, with_interval
from zoolens.base.present.tables import Column
from zoolens.base.present.terminal import echo_json, make_console, plain, print_table
from zoolens.base.present.text import clean
from zoolens.base.verdicts import enforce
from zoolens.faces.cli.completed_names import complete_runs
from zoolens.faces.cli.options import json_option, wide_option
from zoolens.faces.cli.stores import store_option
from zoolens.findings.comparisons.wording import (
    agreement_words,
    continuation_words,
    metric_words,
    next_token_words,
    sample_words,
    silence_words,
    uncompared_words,
)

if TYPE_CHECKING:
    from zoolens.findings.comparisons.compare import AnswerComparison, Report
    from zoolens.findings.comparisons.vector_changes import VectorChange

_LONGEST = 120  # characters of a fact of the environment; --json has all of it


@click.command()
@click.argument("run_a", metavar="A", shell_complete=complete_runs)
@click.argument("run_b", metavar="B", shell_complete=complete_runs)
@click.option(
    "--fail-on",
    "conditions",
    multiple=True,
    help="Exit with 3 if it holds: 'top1 drop > 1%'; 'unknown': with 4. Repeatable.",
)
@click.option(
    "--runtime", "-r", "runtimes", multiple=True, help="Runtime of the runs of both models; twice: of A, then of B."
)
@click.option(
    "--inputs", "shown", type=click.IntRange(0), default=5, show_default=True, help="Number of disagreements to list."
)
@store_option("reads")
@json_option
@wide_option
def command(
    run_a: str,
    run_b: str,
    conditions: tuple[str, ...],
    runtimes: tuple[str, ...],
    shown: int,
    store: str | None,
    as_json: bool,
) -> None:
    """Compare A and B on the same inputs: accuracy (exact McNemar), answers, speed, size, environment.

    A and B are models (a path or zoo:name, as they are now): their newest runs on the same dataset are compared, in the
    same runtime where there are such. Or runs: an id, a prefix of one, 'last' (what you evaluated last) or 'last~1'.
    """
    from zoolens.base.present.bars import spinner
    from zoolens.findings.comparisons.compare import as_data, compare
    from zoolens.findings.comparisons.gate import parse_gate

    gates = [parse_gate(text) for text in conditions]
    with spinner(f"{run_a} and {run_b}", "compare"):
        report = compare(run_a, run_b, runtimes=runtimes, store=store)
    if as_json:
        echo_json(as_data(report))
    else:
        print_report(report, shown)
    enforce(gates, report)


def print_report(report: Report, shown: int) -> None:
    from zoolens.inventory.catalog.stored import guessed_of

    console = make_console()
    same_name = report.a.ref == report.b.ref
    for side, run in (("A", report.a), ("B", report.b)):
        precision = run.resolved.get("precision") or "precision unknown"
        stack = f"{run.stack.runtime} {run.stack.version} ({precision})"
        name = f"{run.ref} ({run.origin['file']})" if same_name and run.origin.get("file") else run.ref
        console.print(f"[bold]{side}[/] {run.id[:8]}  {plain(name)}  {plain(stack)}")
    for side, run in (("A", report.a), ("B", report.b)):
        if guessed := guessed_of(run):
            console.print(f"  [yellow]{side} rests on guesses:[/] {plain('; '.join(guessed))}")
    console.print(f"  {report.a.inputs:,} inputs of {plain(report.a.dataset.name)}\n")
    if report.a.id == report.b.id:
        console.print("A and B are the same run: the same content, in the same environment.")
    if report.answers:
        _print_accuracy(console, report.answers)
    for change in report.vectors:
        _print_vectors(console, change)
    if report.uncompared:
        console.print(plain(uncompared_words(report.uncompared)))
    elif not report.answers and not report.vectors:
        console.print("Answers: none to compare (one of the runs was measured with --no-accuracy).")
    _print_figures(console, report)
    if report.answers:
        _print_classes(console, report.answers)
        _print_disagreements(console, report, report.answers, shown)
    else:
        _print_class_figures(console, report)
    for change in report.vectors:
        _print_contested(console, change, shown)
    _print_environment(console, report)
    _print_shares(console, report)
    _print_repeated(console, report)
    if report.cause:
        console.print(f"\n[bold]Likely cause:[/] {plain(report.cause)}")
    if report.parts_by_stack:
        where = f"zoolens diverge {report.a.id[:8]} {report.b.id[:8]}"
        console.print(f"At which layer the two diverge, and why: [bold]{where}[/]")


def _print_accuracy(console: Any, answers: AnswerComparison) -> None:
    low, high = answers.difference
    if not answers.labelled:
        console.print("The dataset has no labels: only the answers are compared with each other.")
    else:
        console.print(
            f"top-1 B − A: [bold]{100 * answers.top1_change:+.2f}[/] points \\[{100 * low:+.2f}, {100 * high:+.2f}], "
            f"exact McNemar p = {answers.p_value:.3g} "
            f"(only A correct: {answers.only_a}, only B correct: {answers.only_b})"
        )
    console.print(f"{agreement_words(answers)}{_bit_equal(answers)}{_score_changes(answers)}")
    if answers.ties_a or answers.ties_b:
        console.print(
            f"exact ties between the two best classes: {answers.ties_a:,} in A, {answers.ties_b:,} in B (the class "
            "with the lower number is taken for the answer)"
        )


def _bit_equal(answers: AnswerComparison) -> str:
    share = answers.identical_outputs
    return "" if share is None else f", bit-equal outputs: {100 * share:.1f} %"


def _score_changes(answers: AnswerComparison) -> str:
    if answers.median_score_change is None:
        return " (no scores were kept)"
    return (
        f", score of the common answer changes by {answers.median_score_change:.2g} (median), "
        f"{answers.max_score_change:.2g} (largest)"
    )


def _print_vectors(console: Any, change: VectorChange) -> None:
    facts = [
        agreement_words(change),
        f"bit-equal outputs: {100 * change.identical_outputs:.1f} %",
    ]
    if change.unknown:
        facts.append(change.unknown)
    if silence := silence_words(change.silent, change.n):
        facts.append(silence)
    if change.median_distance is not None:
        facts.append(f"relative distance {change.median_distance:.2g} (median), {change.max_distance:.2g} (largest)")
    if change.cosine is not None:
        facts.append(f"cosine {change.cosine:.6g}")
    if change.next_tokens is not None:
        facts.append(next_token_words(change.next_tokens))
    if change.continuations is not None:
        facts.append(continuation_words(change.continuations))
    if change.samples is not None:
        facts.append(sample_words(change.samples))
    if change.score_a is not None and change.score_b is not None and change.difference is not None:
        low, high = change.difference
        facts.append(f"score {change.score_a:.4f} and {change.score_b:.4f}, B − A in \\[{low:+.4f}, {high:+.4f}]")
    if change.metric is not None:
        facts.append(plain(metric_words(change.metric)))
    console.print(f"{plain(change.output)} ({change.task}): {', '.join(facts)}")


def _print_figures(console: Any, report: Report) -> None:
    from zoolens.findings.comparisons.report_page import figures_table

    columns = [Column("metric", keep=9), Column("scope", keep=5), Column("A", "number", keep=7)]
    columns += [Column("B", "number", keep=7), Column("B vs A", "number", keep=8)]
    console.print()
    print_table(columns, figures_table(report).rows, console)


def _print_classes(console: Any, answers: AnswerComparison) -> None:
    if not answers.classes:
        return
    console.print("\n[bold]Classes that change most[/] (each p for itself)")
    for kind in answers.classes[:5]:
        change = f"{100 * kind.recall_a:.1f} % → {100 * kind.recall_b:.1f} %"
        console.print(f"  {plain(kind.name)}: {change} of {kind.n} (p = {kind.p_value:.2g})")


def _print_disagreements(console: Any, report: Report, answers: AnswerComparison, shown: int) -> None:
    from zoolens.findings.comparisons.report_charts import class_names

    if not answers.disagreements:
        return
    named = class_names(report)
    listed = ", the most confident first" if shown else ""
    console.print(f"\n[bold]{len(answers.disagreements):,} inputs are answered differently[/]{listed}")
    for pair in answers.disagreements[:shown]:
        truth = plain(named(pair.label)) if answers.labelled and pair.label >= 0 else "unknown"
        console.print(
            f"  {plain(pair.input)}: truth {truth}, A says {_scored(named(pair.answer_a), pair.score_a)}, "
            f"B says {_scored(named(pair.answer_b), pair.score_b)}"
        )


def _print_class_figures(console: Any, report: Report) -> None:
    """Figures of classes of a task that is not judged by classes, such as the AP of each class of boxes."""
    from zoolens.findings.comparisons.report_page import change_words, class_figures

    figures = class_figures(report)
    if not figures:
        return
    console.print(f"\n[bold]Classes that change most[/] ({figures[0].metric}; intervals of each run by itself)")
    for each in figures[:5]:
        sides = f"{with_interval(each.a)} → {with_interval(each.b)}"
        console.print(f"  {plain(class_words(each.a))}: {plain(sides)}, {change_words(each)}")


def _print_contested(console: Any, change: VectorChange, shown: int) -> None:
    listed = change.contested[:shown]
    if not listed:
        return
    console.print(f"\n[bold]Inputs on which the two agree least[/] (of {change.n - change.full:,} that differ)")
    for found in listed:
        console.print(
            f"  {plain(found.input)}: {100 * found.agreement:.1f} %, A: {plain(found.a)}; B: {plain(found.b)}"
        )


def _scored(answer: str, score: float | None) -> str:
    return plain(answer) if score is None else f"{plain(answer)} ({score:.2f})"


def _print_environment(console: Any, report: Report) -> None:
    if not report.environment:
        return
    console.print("\n[bold]Environment[/]")
    for item in report.environment:
        a, b = (clean(side, _LONGEST) for side in (item.a, item.b))
        console.print(f"  {'!' if item.telling else ' '} {plain(f'{item.what}: {a} → {b}')}")


def _print_repeated(console: Any, report: Report) -> None:
    from zoolens.findings.comparisons.pooled_runs import repeated_words

    if report.repeated:
        console.print("\n[bold]Repeated runs[/]")
    for repeated in report.repeated:
        console.print(f"  {plain(repeated_words(repeated))}")


def _print_shares(console: Any, report: Report) -> None:
    from zoolens.findings.comparisons.machine_share import share_words

    if report.shares:
        console.print("\n[bold]Machine and software[/]")
    for share in report.shares:
        console.print(f"  {plain(share_words(share))}")
