"""`zoolens query "SELECT …"`: the models that fit, or the nearest misses and exit 1."""

from __future__ import annotations

import sys
from typing import IO, TYPE_CHECKING, Any

import click

from zoolens.base.errors import ZoolensError
from zoolens.base.present.tables import Column
from zoolens.base.present.terminal import echo_json, echo_prose, print_table
from zoolens.faces.cli.options import json_option, trust_option, wide_option
from zoolens.faces.cli.stores import store_option

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zoolens.findings.queries.answers.matches import Match
    from zoolens.findings.queries.answers.query_answers import Answer
    from zoolens.findings.queries.language.syntax import Query
    from zoolens.findings.queries.planning.guarantees import Guarantee

_MOST_NOTES = 3
_KEYWORDS = (  # options that `zoolens.query` has under the same names
    "ref", "within", "task", "where", "order_by", "limit", "show", "confidence", "data", "bound", "segments", "nearest",
    "store",
)  # fmt: skip


class NothingFits(ZoolensError):
    """No model satisfies the query."""


@click.command()
@click.argument("text", metavar="[QUERY]", required=False)
@click.option("--file", "file", type=click.File("r", encoding="utf-8"), help="Read the query from a file; - is stdin.")
@click.option("--ref", help="The reference model, as after CORR.")
@click.option("--within", metavar="SHARE", help="Least agreement with the reference, such as 95%.")
@click.option("--on", "bounds", multiple=True, metavar="BOUND", help="A bound, such as 'memory <= 20%'. Repeatable.")
@click.option("--where", metavar="CONDITION", help="Condition on attributes, such as \"zoo = 'torchvision'\".")
@click.option("--order-by", metavar="EXPRESSION", help="Figure or expression to sort by, such as 'latency_p95'.")
@click.option("--show", metavar="NAMES", help="Figures and attributes to show: 'memory, latency, zoo'.")
@click.option("--limit", type=click.IntRange(1), help="Most models to list.  [default: 10]")
@click.option("--task", help="Take the task's most accurate model as the reference.")
@click.option(
    "--exec",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Setting of EXEC, such as runtime=onnxruntime. Repeatable.",
)
@click.option("--confidence", metavar="SHARE", help="Ask for --within with this confidence, such as 95%.")
@click.option("--data", metavar="NAME", help="Probe dataset.  [default: the one with most models]")
@click.option("--bound", metavar="off|NAME", help="Show no lower bounds, or those from another dataset.")
@click.option("--segments", is_flag=True, help="Stitched models are candidates too.")
@click.option("--nearest", is_flag=True, help="Where nothing fits, answer with the nearest misses.")
@click.option(
    "--fail-on",
    type=click.Choice(["unknown"]),
    help="Exit with code 4 where some models could not be judged, so that others may fit.",
)
@click.option("--explain", is_flag=True, help="Print the plan.")
@click.option("--analyze", is_flag=True, help="Print the plan, what it took, and why near misses were rejected.")
@store_option("reads")
@json_option
@click.option("--csv", "as_csv", is_flag=True, help="Print the models as CSV.")
@trust_option
@wide_option
def command(text: str | None, **options: Any) -> None:
    """Find the models most interchangeable with another within a budget.

    QUERY is in the language of docs/query-language.md, or - to read it from stdin; options say the same, and add to it:

    \b
    zoolens query "SELECT MODELS CORR resnet50 WITHIN 95% ON memory <= 20%"
    zoolens query --ref resnet50 --within 95% --on "memory <= 20%"

    Exits with 1 where nothing fits, and prints the nearest misses.
    """
    from zoolens.base.present.bars import Bars, spinner
    from zoolens.base.verdicts import refuse_unknown
    from zoolens.findings.queries.query import query

    with Bars() as bars:
        answer = query(
            _asked(_text(text, options["file"]), options["bounds"]),
            **{name: options[name] for name in _KEYWORDS},
            exec=_settings(options["settings"]),
            explain="analyze" if options["analyze"] else "plan" if options["explain"] else "",
            progress=bars,
        )
    with spinner("answer", "look whether files of its models have changed"):
        _ = answer.plan  # settled when it is looked at
    if options["as_json"]:
        echo_json(answer.as_data())
    elif options["as_csv"]:
        _print_csv(answer)
    elif answer.plan.query.explain:
        click.echo(answer.explanation)
        return
    else:
        print_answer(answer)
    if options["fail_on"]:
        refuse_unknown(answer.verdict, "which models fit")
    if not answer:
        raise NothingFits("No model fits.", hint=_advice(answer, shown=not options["as_csv"]))


def _text(text: str | None, file: IO[str] | None) -> str | None:
    if text is not None and file is not None:
        raise click.UsageError("The query is given twice: as an argument and by --file.")
    source = sys.stdin if text == "-" else file
    try:
        return text if source is None else source.read()
    except UnicodeDecodeError:
        raise ZoolensError("The query is not text in UTF-8.", hint="Save it as UTF-8.") from None


def _asked(text: str | None, bounds: tuple[str, ...]) -> str | Query | None:
    """Text alone stays text, so that errors can point into it."""
    from dataclasses import replace

    from zoolens.findings.queries.language.parser import parse, parse_bounds
    from zoolens.findings.queries.language.syntax import Query

    if not bounds:
        return text
    added = tuple(bound for text_of_bound in bounds for bound in parse_bounds(text_of_bound))
    asked = Query() if text is None else parse(text)
    return replace(asked, on=asked.on + added)


def _settings(settings: tuple[str, ...]) -> dict[str, str] | None:
    given = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not (key.strip() and equals and value.strip()):
            raise click.UsageError(f"--exec takes KEY=VALUE, not {setting!r}.")
        given[key.strip()] = value.strip()
    return given or None


def _advice(answer: Answer, *, shown: bool) -> str:
    if answer.misses and not shown:
        return "--nearest (ELSE NEAREST) takes the nearest misses as the answer."
    if answer.misses:
        return "The nearest misses are above; --nearest (ELSE NEAREST) takes them as the answer."
    if not len(answer.plan.view):
        return "Nothing is indexed yet: measure models with `zoolens eval`."
    return f"The index on {answer.dataset} has no other candidate: evaluate more models with `zoolens eval`."


def _print_csv(answer: Answer) -> None:
    import csv

    from zoolens.base.store.spreadsheets import spreadsheet_cell

    records = [match.record() for match in answer.matches]
    writer = csv.DictWriter(sys.stdout, answer.columns, lineterminator="\n")
    writer.writerow({name: spreadsheet_cell(name) for name in answer.columns})
    writer.writerows({name: spreadsheet_cell(cell) for name, cell in record.items()} for record in records)


# --- the table


def print_answer(answer: Answer) -> None:
    matches = answer.matches or answer.misses
    shown = [*([answer.reference] if answer.reference else []), *matches]
    if shown:
        print_table(*_table(answer, shown))
    for line in _notes(answer):
        echo_prose(line)


def _table(answer: Answer, shown: list[Match]) -> tuple[list[Column], list[list[str]]]:
    metrics = list(dict.fromkeys(name for match in shown for name in match.figures))
    metrics.sort(key=lambda name: [*answer.plan.query.show, name].index(name))  # as SHOW has them
    compared = answer.reference is not None
    columns = [Column("model", keep=10), Column("runtime", keep=8)]
    alike = Column(answer.equivalence_name, "number", keep=9)  # the last to go, beside the name
    columns += [alike] if compared else []
    columns += [Column(name, "number", keep=6) for name in metrics]
    attributes = [name for name in shown[0].attributes if name != "runtime"]
    columns += [Column(name, keep=6) for name in attributes]
    columns += [] if answer.exact else [Column("why not", keep=7, folds=True)]
    rows = []
    namesakes = {match.ref for match in shown if len({_place(other) for other in shown if other.ref == match.ref}) > 1}
    for match in shown:
        cells = [_model(match, placed=match.ref in namesakes), match.runtime or "–"]
        cells += [_equivalence(answer, match)] if compared else []
        cells += [_figure(answer, match, name) for name in metrics]
        cells += [_attribute(match.attributes.get(name)) for name in attributes]
        cells += [] if answer.exact else ["; ".join(rejection.sentence for rejection in match.rejections)]
        rows.append(cells)
    return columns, rows


def _place(match: Match) -> tuple[object, object]:
    return match.row.attributes.get("folder"), match.row.attributes.get("file")


def _model(match: Match, *, placed: bool) -> str:
    """The name of a model; if `placed`, with its folder or file, since others have the same name."""
    name, twin_of = match.ref.partition("@")[0], match.row.twin_of
    if placed:
        folder, file = _place(match)
        name = f"{name} ({file or folder})"
    return f"{name} (twin of {twin_of.partition('@')[0]})" if twin_of else name


def _attribute(value: object) -> str:
    return "–" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _equivalence(answer: Answer, match: Match) -> str:
    from zoolens.base.present.figures import figure
    from zoolens.findings.queries.answers.wording import lower_bound

    if match is answer.reference:
        return "reference"
    return figure(match.equivalence, "fraction") + lower_bound(match.equivalence_lower)


def _figure(answer: Answer, match: Match, name: str) -> str:
    from zoolens.base.present.figures import count, figure
    from zoolens.findings.queries.answers.wording import at_least, at_most, mark
    from zoolens.findings.queries.planning.metrics import ACCURACY_DROP_UPPER, BOUNDED

    known = match.figures.get(name)
    if known is None:
        return "–"
    column = answer.plan.metric(name).column
    if column in BOUNDED:
        return at_most(known.value) if column == ACCURACY_DROP_UPPER else at_least(known.value)
    many = known.unit == "" and abs(known.value) >= 1000
    text = count(known.value) if many else figure(known.value, known.unit)
    ratio = f" ×{match.ratios[name]:.2f}" if match.ratios.get(name, 1.0) != 1.0 else ""
    return f"{text}{ratio}{mark(known)}"


def _notes(answer: Answer) -> Iterator[str]:
    if answer.exact and answer.fitting > len(answer.matches):
        yield f"{len(answer.matches):,} of {answer.fitting:,} models that fit."
    if not answer.exact and answer.matches:
        yield "Nothing fits; these come nearest."
    if answer.reference is not None:
        yield f"Answers are compared on {answer.n:,} inputs of {answer.dataset}."
    elif any(_is_accuracy(answer, name) for match in answer.matches for name in match.figures):
        yield f"Measured accuracies are of {answer.n:,} inputs of {answer.dataset}."
    yield from _about_memory(answer)
    yield from _about_index(answer.notes)
    if answer.guarantee is not None and (answer.matches or answer.misses):
        yield _promise(answer, answer.guarantee)


def _about_memory(answer: Answer) -> Iterator[str]:
    """Peak memory is of a whole process: the runtime's own part is no more than the least that any model took."""
    from zoolens.findings.queries.answers.matches import shown

    column = "peak_memory@process"
    if not any(metric.column == column for metric in shown(answer.plan).values()):
        return
    rows = answer.plan.view.index.rows
    runtime, values = rows.attribute("runtime"), rows.figures.values(column)
    measured = rows.figures.measured(column)
    least: dict[str, float] = {}
    for code, name in enumerate(runtime.values):
        if (of_it := measured & (runtime.codes == code)).any():
            least[str(name)] = float(values[of_it].min())
    there = {match.runtime for match in (*answer.matches, *([answer.reference] if answer.reference else []))}
    parts = [f"{value / 1e6:.3g} MB in {name}" for name, value in sorted(least.items()) if name in there]
    if parts:
        most = " and ".join(parts)
        yield f"memory is of the whole process; the runtime's part is at most {most}, the least that any model took."


def _about_index(notes: Sequence[str]) -> Iterator[str]:
    yield from notes[:_MOST_NOTES]
    if len(notes) > _MOST_NOTES:
        yield f"{len(notes) - _MOST_NOTES:,} more notes: `zoolens index show`."


def _promise(answer: Answer, guarantee: Guarantee) -> str:
    number, source = guarantee.comparisons, guarantee.agreement
    together = f" for all {number:,} comparisons together" if number > 1 else ""
    what, n, data = ("The bounds hold", answer.n, answer.dataset)
    if source is not None:
        what, n, data = ("The lower bounds in brackets hold", source.n, source.dataset)
    sentence = (
        f"{what} with {100 * guarantee.confidence:g} % confidence{together}, for inputs drawn like the {n:,} of {data}."
    )
    if answer.plan.query.confidence is None:
        return sentence
    return f"{sentence} Queries that are asked one after another are not corrected for each other."


def _is_accuracy(answer: Answer, name: str) -> bool:
    from zoolens.findings.queries.planning.metrics import ACCURACY, ACCURACY_LOWER

    return answer.plan.metric(name).column in (ACCURACY, ACCURACY_LOWER)
