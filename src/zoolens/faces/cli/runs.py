"""`zoolens runs`: what was measured, as a list or one run in full."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import click

from zoolens.base.present.figures import (
    count,
    disturbed_mark,
    figure,
    provenance_mark,
    scope_words,
    stack_label,
    with_interval,
)
from zoolens.base.present.tables import Column
from zoolens.base.present.terminal import echo_json, make_console, plain, print_blocks, print_facts, print_table
from zoolens.base.store.records import MEASURED_KINDS, Observation, Provenance, Run, RunKind, StageState
from zoolens.faces.cli.completed_names import complete_runs
from zoolens.faces.cli.options import json_option, wide_option
from zoolens.faces.cli.stores import store_option
from zoolens.inventory.manifests.twins import origin_of_twin

if TYPE_CHECKING:
    from rich.console import Console

    from zoolens.base.store.store import Store

LIST_METRICS: Final = ("top1", "latency_p50")
SCOPES_SHOWN: Final = 10  # of one metric, such as the recall of each class
ENTRIES_SHOWN: Final = 16  # of one part of the lock
_ONLY_TRIALS: Final = "Only trials of the doctor match: --all lists them."


@click.group(invoke_without_command=True)
@click.option("--model", metavar="PATTERN", help="Only runs of models like this: 'torchvision:*'.")
@click.option("--dataset", metavar="PATTERN", help="Only runs on datasets like this.")
@click.option("--runtime", metavar="PATTERN", help="Only runs in runtimes like this.")
@click.option(
    "--kind", type=click.Choice([kind.value for kind in RunKind]),
    help="Only runs of this kind, such as verification (of endpoints) or trace.  [default: evaluation]",
)  # fmt: skip
@click.option("--all", "trials", is_flag=True, help="List also the trials of the doctor.")
@click.option("--pool", is_flag=True, help="Join repeated runs of one kind of machine where they agree.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="Number of runs, newest first.")
@store_option(None)
@json_option
@click.pass_context
@wide_option
def command(
    ctx: click.Context,
    model: str | None,
    dataset: str | None,
    runtime: str | None,
    kind: str | None,
    trials: bool,
    pool: bool,
    limit: int,
    store: str | None,
    as_json: bool,
) -> None:
    """List runs, newest first. `zoolens runs show RUN` shows one in full."""
    if ctx.invoked_subcommand is not None:
        ctx.obj = {**(ctx.obj or {}), "store": store}
        return
    from zoolens.base.present.bars import spinner
    from zoolens.base.store.store import RUNS_AT_ONCE, open_store

    if pool:
        if kind not in (None, RunKind.EVALUATION):
            raise click.UsageError(f"Only evaluations are pooled, not runs of the kind {kind}.")
        _list_pooled(store, {"model": model, "dataset": dataset, "runtime": runtime}, limit, as_json=as_json)
        return
    chosen = None if kind is None else RunKind(kind)
    others = trials or kind not in (None, RunKind.EVALUATION)
    narrowed = bool(model or dataset or runtime or trials or kind)
    with open_store(store, must_exist=True) as opened:
        if not as_json and limit > RUNS_AT_ONCE:
            ids = opened.run_ids(model=model, dataset=dataset, runtime=runtime, kind=chosen, trials=trials, limit=limit)
            if len(ids) > RUNS_AT_ONCE:
                _print_many(opened, ids, purpose=others)
                return
        with spinner("runs", "read the store"):
            from zoolens.findings.measure.class_order import judged_right

            runs = opened.runs(model=model, dataset=dataset, runtime=runtime, kind=chosen, trials=trials, limit=limit)
            stored = opened.observations_by_run([run.id for run in runs], metrics=_listed_metrics(runs))
            hidden = not runs and kind is None and _trials_match(opened, model, dataset, runtime)
            kinds = Counter[str]() if runs or narrowed else _other_kinds(opened)
    observations = {run.id: judged_right(run, stored.get(run.id, [])) for run in runs}
    if as_json:
        echo_json([_listed(run, observations.get(run.id, [])) for run in runs])
    elif runs:
        _print_list(runs, observations, purpose=others)
        _print_misjudged([run for run in runs if len(observations[run.id]) < len(stored.get(run.id, []))])
    else:
        none = "No runs match." if narrowed else "No evaluations yet: try `zoolens demo`."
        click.echo(_ONLY_TRIALS if hidden else none, err=True)
        if kinds:
            click.echo(f"Other kinds of runs: {_counted(kinds)}. --kind lists them.", err=True)


@command.command()
@click.argument("run", shell_complete=complete_runs)
@store_option(None)
@json_option
@click.pass_context
@wide_option
def show(ctx: click.Context, run: str, store: str | None, as_json: bool) -> None:
    """Show everything about RUN: an id, a prefix of one, 'last' or 'last~1'."""
    from zoolens.base.present.bars import spinner

    with spinner("runs", "read the store"):
        from zoolens.base.store.store import open_store
        from zoolens.findings.measure.class_order import judged_right
        from zoolens.findings.measure.run_data import run_data

        with open_store(store or (ctx.obj or {}).get("store"), must_exist=True) as opened:
            shown = opened.run(run)
            observations = opened.observations(shown.id)
            stages = opened.stages(shown.id)
        right = judged_right(shown, observations)
    if as_json:
        echo_json(run_data(shown, stages, observations))
    else:
        _print_run(shown, stages, right)
        _print_misjudged([shown] if len(right) < len(observations) else [])


# --- the list


def _trials_match(opened: Store, model: str | None, dataset: str | None, runtime: str | None) -> bool:
    return bool(opened.run_ids(model=model, dataset=dataset, runtime=runtime, trials=True, limit=1))


def _other_kinds(opened: Store) -> Counter[str]:
    """How many runs there are that are neither evaluations nor trials."""
    kinds = [kind for kind in RunKind if kind not in MEASURED_KINDS]
    counts = {kind.value: len(opened.run_ids(kind=kind)) for kind in kinds}
    return Counter({name: many for name, many in counts.items() if many})


def _counted(kinds: Counter[str]) -> str:
    return ", ".join(f"{many:,} {name}" for name, many in kinds.most_common())


def _state(run: Run) -> str:
    failed = run.failures
    done = len(run.stages) - len(failed)
    if not run.stages:
        return "begun"
    return f"{done} done" + (f", failed: {', '.join(failed)}" if failed else "")


def _listed_metrics(runs: Sequence[Run]) -> list[str]:
    from zoolens.findings.measure.run_data import judging_metrics

    return sorted({*LIST_METRICS, *judging_metrics(runs)})


def _listed(run: Run, observations: Sequence[Observation]) -> dict[str, Any]:
    from zoolens.findings.measure.run_data import main_figure, main_metric, run_facts

    figures = {metric: main_figure(observations, metric) for metric in dict.fromkeys((*LIST_METRICS, main_metric(run)))}
    shown = {name: asdict(observation) if observation else None for name, observation in figures.items()}
    return {
        **run_facts(run),
        "model": run.ref,
        "dataset": run.dataset.name,
        "stages": dict(run.stages),
        "main_metric": main_metric(run),
        **shown,
    }


def _list_pooled(store: str | None, wanted: Mapping[str, str | None], limit: int, *, as_json: bool) -> None:
    from zoolens.base.present.bars import spinner
    from zoolens.faces.cli.pooled_output import pooled_data, print_pooled
    from zoolens.findings.comparisons.pooled_runs import pooled_runs

    with spinner("runs", "read and join"):
        pooled = pooled_runs(store, **wanted, limit=limit)
    if as_json:
        echo_json(pooled_data(pooled))
    elif pooled:
        print_pooled(pooled)
    else:
        click.echo("No runs match." if any(wanted.values()) else "No evaluations yet: try `zoolens demo`.", err=True)


def _print_many(opened: Store, ids: Sequence[str], *, purpose: bool) -> None:
    """Prints runs as they are read: so many would not fit in memory together."""
    from zoolens.base.store.store import RUNS_AT_ONCE
    from zoolens.findings.measure.class_order import judged_right

    misjudged: list[Run] = []

    def blocks() -> Iterator[list[list[str]]]:
        for start in range(0, len(ids), RUNS_AT_ONCE):
            runs = opened.runs_of(ids[start : start + RUNS_AT_ONCE])
            stored = opened.observations_by_run([run.id for run in runs], metrics=_listed_metrics(runs))
            right: dict[str, list[Observation]] = {}
            for run in runs:
                known = stored.get(run.id, [])
                right[run.id] = judged_right(run, known)
                if len(right[run.id]) < len(known):
                    misjudged.append(run)
            yield _list_rows(runs, right, purpose=purpose)

    first = opened.runs_of(ids[:RUNS_AT_ONCE])
    print_blocks(_list_columns(first, purpose=purpose), blocks())
    _print_misjudged(misjudged)


def _print_list(
    runs: Sequence[Run], observations: Mapping[str, Sequence[Observation]], *, purpose: bool = False
) -> None:
    print_table(_list_columns(runs, purpose=purpose), _list_rows(runs, observations, purpose=purpose))


def _list_columns(runs: Sequence[Run], *, purpose: bool) -> list[Column]:
    """The columns of the list; `purpose` adds of which kind each run is, such as a trial of the doctor."""
    from zoolens.findings.measure.run_data import judged_heading

    columns = [
        Column("run", keep=8),
        Column("when", keep=2),
        Column("model", keep=10),
        Column("dataset", keep=3),
        Column("runtime", keep=9),
        Column(judged_heading(runs), "number", keep=7),
        Column("p50", "number", keep=6),
        Column("stages", keep=4),
    ]
    return [*columns[:2], Column("kind", keep=6), *columns[2:]] if purpose else columns


def _list_rows(
    runs: Sequence[Run], observations: Mapping[str, Sequence[Observation]], *, purpose: bool
) -> list[list[str]]:
    rows = [_list_row(run, observations.get(run.id, [])) for run in runs]
    if purpose:
        from zoolens.findings.measure import run_data

        return [[*row[:2], run_data.purpose(run), *row[2:]] for run, row in zip(runs, rows, strict=True)]
    return rows


def _print_misjudged(runs: Sequence[Run]) -> None:
    """Runs whose accuracy is left out, and why."""
    from zoolens.findings.measure.class_order import JUDGED_WRONGLY

    if runs:
        which = f"Run {runs[0].id[:8]}" if len(runs) == 1 else f"{len(runs):,} runs ({runs[0].id[:8]} the newest)"
        click.echo(f"{which}: no accuracy, since {JUDGED_WRONGLY}. `zoolens eval` measures it again.")


def _list_row(run: Run, known: Sequence[Observation]) -> list[str]:
    from zoolens.findings.measure.run_data import judged_figure, main_figure

    return [
        run.id[:8] + (f" #{run.key.attempt}" if run.key.attempt else ""),
        _when(run),
        run.ref,
        run.dataset.name,
        stack_label(run),
        judged_figure(run, known),
        _without_interval(main_figure(known, "latency_p50")),
        _state(run),
    ]


def _without_interval(observation: Observation | None) -> str:
    return "–" if observation is None else figure(observation.value, observation.unit) + disturbed_mark(observation)


def _when(run: Run) -> str:
    return run.created.astimezone().strftime("%Y-%m-%d %H:%M")


# --- one run


def _print_run(run: Run, stages: Mapping[str, StageState], observations: Sequence[Observation]) -> None:
    from zoolens.inventory.catalog.stored import guessed_of

    console = make_console()
    facts = {
        "run": run.id + (f" (attempt {run.key.attempt})" if run.key.attempt else ""),
        "when": _when(run),
        "model": f"{run.ref} ({run.model.format}, {run.model.fingerprint[:12]})",
        **origin_of_twin(run.model.manifest.get("attributes") or {}),
        **({"guessed": "; ".join(guessed)} if (guessed := guessed_of(run)) else {}),
        "dataset": f"{run.dataset.name} ({run.dataset.size:,} inputs, {run.dataset.fingerprint[:12]})",
        "runtime": f"{run.stack.runtime} {run.stack.version or ''}".rstrip(),
        "precision": run.precision or "the runtime does not report it",
    }
    _print_facts(console, facts)
    _print_section(console, "resolved", {name: value for name, value in run.resolved.items() if name != "origin"})
    _print_section(console, "origin", {name: value for name, value in run.origin.items() if name != "manifest"})
    _print_facts(console, {name: str(state) for name, state in stages.items()}, "stages")
    _print_observations(console, observations)
    _print_section(console, "lock", run.stack.lock)


def _print_facts(console: Console, facts: Mapping[str, str], title: str | None = None) -> None:
    if not facts:
        return
    if title is not None:
        console.print(f"\n[bold]{plain(title)}[/]")
    print_facts(facts, console)


def _print_section(console: Console, title: str, data: Mapping[str, Any]) -> None:
    """A nested mapping as lines; long lists are counted, and --json has them."""
    told = {name: value for name, value in data.items() if value not in (None, {}, [])}
    _print_facts(console, {name: _short(value) for name, value in told.items()}, title)


def _short(value: Any) -> str:
    if isinstance(value, Mapping):
        if len(value) > ENTRIES_SHOWN:
            return f"{len(value)} entries (--json lists them)"
        return ", ".join(f"{name} {_short(item)}" for name, item in value.items() if item is not None)
    if isinstance(value, list):
        if len(value) > ENTRIES_SHOWN:
            return f"{len(value)} entries (--json lists them)"
        return ", ".join(_short(item) for item in value)
    return str(value)


def _print_observations(console: Console, observations: Sequence[Observation]) -> None:
    if not observations:
        return
    rows = []
    for metric, group in _by_metric(observations).items():
        for position, shown in enumerate(group[:SCOPES_SHOWN]):
            name = metric if position == 0 else ""
            n = "" if shown.n is None else f"{shown.n:,}"
            rows.append([name, scope_words(shown), _value(shown), n, _remark(shown)])
        if len(group) > SCOPES_SHOWN:
            rows.append(["", f"… and {len(group) - SCOPES_SHOWN} more (--json lists them)", "", "", ""])
    columns = [Column("metric", keep=9), Column("scope", keep=8), Column("value", "number", keep=9)]
    columns += [Column("n", "number", keep=5), Column("", keep=6, folds=True)]
    console.print("\n[bold]observations[/]")
    print_table(columns, rows, console)


def _by_metric(observations: Iterable[Observation]) -> dict[str, list[Observation]]:
    groups: dict[str, list[Observation]] = {}
    for observation in observations:
        groups.setdefault(observation.metric, []).append(observation)
    return groups


def _value(observation: Observation) -> str:
    return count(observation.value) if observation.metric == "parameters" else with_interval(observation)


def _remark(observation: Observation) -> str:
    if observation.provenance is Provenance.UNAVAILABLE:
        return f"unavailable: {observation.details.get('reason', 'no reason given')}"
    lost = observation.details.get("not_finite")
    text = ""
    if isinstance(lost, Mapping):
        text = ", ".join(f"{name} was {was}" for name, was in lost.items())
    return (text + provenance_mark(observation)).strip()
