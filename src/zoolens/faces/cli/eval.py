"""`zoolens eval`: measure models on data, in runtimes, on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from zoolens.base.errors import ZoolensError
from zoolens.faces.cli.completed_names import complete_models
from zoolens.faces.cli.options import json_option, listed_names, on_option, trust_option, wide_option
from zoolens.faces.cli.stores import store_option

if TYPE_CHECKING:
    from zoolens.findings.measure.plan import Outcome


def _numbers(_: click.Context, __: click.Parameter, value: str) -> tuple[int, ...]:
    try:
        numbers = tuple(dict.fromkeys(int(part) for part in value.split(",") if part.strip()))
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is not a list of numbers such as 1,8,32") from error
    if not numbers or min(numbers) < 1:
        raise click.BadParameter("numbers start at 1")
    return numbers


@click.command(name="eval")
@click.argument("models", nargs=-1, required=True, metavar="MODEL…", shell_complete=complete_models)
@click.option(
    "--data",
    "-d",
    default=None,
    help="Dataset: 'demo', a path, or kind:path?key=value. Not needed for --no-accuracy: inputs are then made up.",
)
@click.option(
    "--runtime",
    "-r",
    "runtimes",
    multiple=True,
    callback=listed_names,
    help="Runtimes; default: all that can run the model.",
)
@click.option(
    "--env", "environments", multiple=True, help="Packages of an isolated environment: mxnet==1.9.1,numpy<1.24."
)
@click.option("--require", default="", help="Constraints: 'onnxruntime>=1.20, avx512, memory>=8GB'.")
@click.option("--batch", "batches", default="1", callback=_numbers, help="Batch sizes to time, such as 1,8,32.")
@click.option(
    "--context",
    "contexts",
    default="128,512",
    show_default=True,
    callback=_numbers,
    help="Tokens, at which language models are timed that write.",
)
@click.option("--device", default="cpu", show_default=True, help="Device: cpu, cuda, cuda:1, gpu (OpenVINO).")
@click.option("--threads", type=click.IntRange(1), default=None, help="Threads inside the runtime.")
@click.option(
    "--precision", type=click.Choice(["default", "float32"]), default="default", help="Force float32 arithmetic."
)
@click.option("--mode", default="default", help="Runtime mode, such as compiled (torch); fastest times all.")
@click.option("--limit", type=click.IntRange(1), default=None, help="Use this many inputs; default: all.")
@click.option("--seed", type=int, default=None, help="Sample the inputs at random instead of taking the first.")
@click.option("--accuracy/--no-accuracy", default=True, help="Run the model over the dataset.")
@click.option("--cold/--no-cold", default=True, help="Measure cold starts in fresh processes.")
@click.option(
    "--latency-seconds",
    type=click.FloatRange(0.05),
    default=5.0,
    show_default=True,
    help="Time limit for each batch size.",
)
@click.option(
    "--decode-threads", type=click.IntRange(0), default=2, show_default=True, help="Threads that decode inputs."
)
@click.option(
    "--shards",
    type=click.IntRange(1, 10_000),
    default=1,
    show_default=True,
    help="With --on: answer the dataset in this many slices at the same time.",
)
@click.option(
    "--budget-time",
    metavar="TIME",
    default=None,
    help="With --on: begin no job that is not expected to end within this time, such as 90s, 45min or 2h.",
)
@click.option("--isolate", is_flag=True, help="Run each model in a process of its own.")
@click.option("--allow-code", is_flag=True, help="Run Python code that manifests carry (in a process of its own).")
@click.option(
    "--fail-on",
    multiple=True,
    type=click.Choice(["guessed"]),
    help="Exit with 4 where an accuracy rests on preprocessing that was only guessed.",
)
@click.option("--resume/--fresh", default=True, help="Keep finished work (default), or measure all again as a new run.")
@store_option("makes", described="SQLite file or postgresql:// URL. Default: $ZOOLENS_STORE or your data folder.")
@json_option
@on_option
@trust_option
@wide_option
def command(models: tuple[str, ...], data: str, **chosen: Any) -> None:
    """Measure MODEL… on a dataset: accuracy with intervals, latency, throughput, size, memory, cold start.

    A MODEL is zoo:name (globs allowed: 'demo:*'), or the path of a model file or manifest. What is measured is kept:
    the same command again only does what is missing, also after Ctrl-C or a crash.
    """
    from zoolens.base.present.bars import Bars
    from zoolens.base.store.store import open_store
    from zoolens.faces.cli.evaluation_table import print_json, print_outcomes
    from zoolens.findings.measure.evaluate import carry_out
    from zoolens.findings.measure.jobs import RunOptions
    from zoolens.findings.measure.latency import LatencySettings
    from zoolens.findings.measure.plan import EvaluationPlan
    from zoolens.inventory.fleet.budget import Budget, parse_duration
    from zoolens.inventory.runtimes.runtime import Options

    plan = EvaluationPlan(
        models=models,
        data=data,
        limit=chosen["limit"],
        seed=chosen["seed"],
        wanted=RunOptions(
            runtimes=chosen["runtimes"],
            environments=chosen["environments"],
            require=chosen["require"],
            options=Options(chosen["threads"], chosen["device"], chosen["precision"], chosen["mode"]),
            isolate=chosen["isolate"],
            allow_code=chosen["allow_code"],
        ),
        batches=chosen["batches"],
        contexts=chosen["contexts"],
        accuracy=chosen["accuracy"],
        cold=chosen["cold"],
        fresh=not chosen["resume"],
        latency=LatencySettings(max_seconds=chosen["latency_seconds"]),
        decode_threads=chosen["decode_threads"],
        shards=chosen["shards"],
        budget=Budget(parse_duration(chosen["budget_time"])) if chosen["budget_time"] else None,
    )
    store = open_store(chosen["store"])
    outcomes = []
    with Bars() as bars:
        for outcome in carry_out(plan, store, bars):
            outcomes.append(outcome)
            if not chosen["as_json"]:
                bars.show(outcome_line(outcome))
    (print_json if chosen["as_json"] else print_outcomes)(store, outcomes, plan.batches)
    _complain(outcomes, chosen["fail_on"])


def _complain(outcomes: Sequence[Outcome], fail_on: Sequence[str]) -> None:
    """Raise an error about evaluations that failed or look wrong. A guess may be why one looks wrong, so that the gate
    on guesses comes before that, but not before a failure."""
    guessed = [outcome.title for outcome in outcomes if outcome.guessed]
    if guessed and fail_on and not any(outcome.errors for outcome in outcomes):
        from zoolens.base.verdicts import NotKnown

        raise NotKnown(
            f"Gate failed: guessed: the accuracy of {', '.join(guessed)} rests on guesses.",
            hint="Write what the model wants into a manifest, and remove from its attribute `guessed` what is checked.",
        )
    failures = [outcome for outcome in outcomes if outcome.failed]
    if failures:
        raise ZoolensError(f"{len(failures)} of {len(outcomes)} evaluations failed or look wrong; see above.")
    refuse_not_done(outcomes)


def refuse_not_done(outcomes: Sequence[Outcome]) -> None:
    """Raise an error that names what a budget had no room for."""
    left = [outcome.title for outcome in outcomes if outcome.not_done]
    if left:
        from zoolens.base.phrases import first_few
        from zoolens.base.verdicts import NotKnown

        raise NotKnown(
            f"{len(left)} of {len(outcomes)} evaluations were not done for want of budget: {first_few(left, 20)}.",
            hint="The same command again does them.",
        )


def outcome_line(outcome: Outcome, *, guesses_shown: bool = False) -> str:
    """One line about an outcome. `guesses_shown`: what the manifest guesses was printed before."""
    from rich.markup import escape

    from zoolens.inventory.catalog.stored import guesses_in_words

    title = escape(outcome.title)
    if outcome.errors:
        return f"[red]✗[/] {title}: {escape(_all(outcome.errors))}"
    if outcome.skipped:
        return f"[dim]– {title}: skipped, {escape(outcome.skipped)}[/]"
    if outcome.not_done:
        return f"[yellow]–[/] {title}: {escape(outcome.not_done)}"
    in_words = "its accuracy rests on guesses" if guesses_shown else guesses_in_words(outcome.guessed)
    guesses = [in_words] if outcome.guessed else []
    if outcome.warnings:
        return f"[yellow]![/] {title}: {escape(_all((*outcome.warnings, *outcome.notes, *guesses)))}"
    count = len(outcome.measured)
    state = f"measured {count} stage{'s' if count > 1 else ''}" if count else "already measured"
    mark = "[yellow]?[/]" if guesses else "[green]✓[/]"
    return f"{mark} {title}: {escape('; '.join((state, *outcome.notes, *guesses)))}"


def _all(sentences: Sequence[str]) -> str:
    """All sentences, each once: a later one may be graver than the first."""
    *before, last = dict.fromkeys(sentences)
    return "; ".join([*(sentence.removesuffix(".") for sentence in before), last])
