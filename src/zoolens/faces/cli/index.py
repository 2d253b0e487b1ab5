"""`zoolens index`: the index that queries search."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from zoolens.base.errors import ZoolensError
from zoolens.base.present.tables import Column
from zoolens.base.present.terminal import echo_json, echo_prose, print_table
from zoolens.faces.cli.completed_names import complete_models
from zoolens.faces.cli.options import TaskName, json_option, on_option, trust_option, wide_option
from zoolens.faces.cli.stores import check_store, store_option

if TYPE_CHECKING:
    from zoolens.findings.index.index import Index

_data = click.option("--data", "-d", default=None, help="Probe dataset, by name; default: the one with most models.")
_task = click.option(
    "--task",
    type=TaskName(),
    default="classification",
    show_default=True,
    help="Which index: there is one for each task.",
)
_store = store_option("reads")


@click.group(name="index")
def command() -> None:
    """Keep the index that queries search.

    Queries bring it up to date by themselves. Everything in it comes from the store: deleting it loses nothing.
    """


@command.command()
@_data
@_task
@click.option("--structures/--no-structures", default=True, help="Read the structure of models that have none yet.")
@_store
@on_option
@trust_option
def build(data: str | None, task: str, structures: bool, store: str | None) -> None:
    """Bring the index up to date: signatures that are missing, structures (FLOPs, parameters) that were never read."""
    from zoolens.base.present.bars import Bars

    with Bars() as bars:  # before what takes seconds to import
        from zoolens.findings.index.opener import build_index

        index = build_index(store, data=data, task=task, refresh=structures, progress=bars)
    _print_summary(index)


@command.command()
@click.argument("models", nargs=-1, required=True, metavar="MODEL…", shell_complete=complete_models)
@click.option("--data", "-d", default=None, help="Dataset, as for `zoolens eval`; default: the probes of the index.")
@click.option("--limit", type=click.IntRange(1), default=None, help="Use this many inputs of --data.")
@click.option("--seed", type=int, default=None, help="Sample the inputs of --data at random.")
@click.option("--runtime", "-r", "runtimes", multiple=True, help="Runtimes; default: all that can run the model.")
@click.option("--device", default="cpu", show_default=True, help="Device: cpu, cuda, cuda:1, gpu (OpenVINO).")
@store_option(None)
@on_option
@trust_option
def add(
    models: tuple[str, ...],
    data: str | None,
    limit: int | None,
    seed: int | None,
    runtimes: tuple[str, ...],
    device: str,
    store: str | None,
) -> None:
    """Run MODEL… over the probes once, and index what it answered. Latency and memory are left to `zoolens eval`."""
    from zoolens.base.present.bars import Bars

    if data is None and (limit is not None or seed is not None):
        raise click.UsageError("--limit and --seed belong to --data.")
    check_store(store, "reads" if data is None else "makes")
    with Bars() as bars:  # before what takes seconds to import
        from zoolens.base.store.store import open_store
        from zoolens.findings.comparisons.origins import DataOrigin
        from zoolens.findings.index.maintenance import add_models

        probes = DataOrigin(data, limit, seed) if data else None
        with open_store(store) as opened:
            added = add_models(opened, models, probes=probes, runtimes=runtimes, device=device, progress=bars)
    for outcome in added.outcomes:
        state = outcome.errors[0] if outcome.errors else f"skipped, {outcome.skipped}" if outcome.skipped else "indexed"
        click.echo(f"{outcome.title}: {state}")
    _print_summary(added.index)
    failed = [outcome for outcome in added.outcomes if outcome.errors]
    if failed:
        raise ZoolensError(f"{len(failed)} of {len(added.outcomes)} could not be added; see above.")


@command.command()
@click.argument("models", nargs=-1, required=True, metavar="MODEL…", shell_complete=complete_models)
@_data
@_task
@_store
def remove(models: tuple[str, ...], data: str | None, task: str, store: str | None) -> None:
    """Take MODEL… out of the index. What was measured stays in the store; `zoolens index add` brings it back."""
    from zoolens.base.store.store import open_store
    from zoolens.findings.index.maintenance import remove_models

    with open_store(store) as opened:
        for ref in remove_models(opened, models, data=data, task=task):
            click.echo(f"Removed {ref}.")


@command.command()
@_data
@_task
@_store
@json_option
@trust_option
@wide_option
def show(data: str | None, task: str, store: str | None, as_json: bool) -> None:
    """Say what the index holds: models, probes, bytes, and what lacks a signature."""
    from zoolens.base.present.bars import spinner

    with spinner("index", "bring up to date"):
        from zoolens.findings.index.opener import build_index

        index = build_index(store, data=data, task=task)
    if as_json:
        echo_json(index.as_data())
        return
    _print_summary(index)
    _print_unsigned(index)


@command.command()
@click.argument("models", nargs=-1, metavar="[MODEL…]", shell_complete=complete_models)
@click.option("--runtime", "-r", default="onnxruntime", show_default=True, help="A runtime that runs ONNX.")
@_store
@trust_option
@wide_option
def estimate(models: tuple[str, ...], runtime: str, store: str | None) -> None:
    """Estimate the latency of MODEL… (patterns; default: all structures in the store) from their operators.

    Every kind of operator is timed once and kept. Queries use the estimates where nothing was measured, mark them,
    and correct them by the models that were measured as a whole in the same runtime.
    """
    from zoolens.base.present.bars import Bars
    from zoolens.base.present.figures import figure
    from zoolens.base.store.store import open_store
    from zoolens.findings.index.sources.latency_estimates import COVERED, estimate_operators

    with Bars() as bars, open_store(store) as opened:
        estimates = estimate_operators(opened, models or ("*",), runtime=runtime, progress=bars)
    columns = [Column("model", keep=3), Column("sum", "number", keep=2), Column("critical path", "number")]
    usable = [timed for timed in estimates if timed.raw.covered >= COVERED]
    rows = [(timed.ref, figure(timed.raw.seconds, "s"), figure(timed.raw.critical_path, "s")) for timed in usable]
    print_table(columns, list(dict.fromkeys(rows)))  # one content may have been read with and without its manifest
    if len(usable) < len(estimates):
        click.echo(f"{len(estimates) - len(usable):,} models have operators that could not be timed: no estimate.")


@command.command()
@_data
@_task
@_store
@trust_option
def rebuild(data: str | None, task: str, store: str | None) -> None:
    """Delete the index file and rebuild it from the store."""
    from zoolens.base.present.bars import Bars

    with Bars() as bars:  # before what takes seconds to import
        from zoolens.base.store.store import open_store
        from zoolens.findings.index.maintenance import rebuild as make_anew

        with open_store(store) as opened:
            index = make_anew(opened, data=data, task=task, progress=bars)
    _print_summary(index)


@command.command()
@_data
@_task
@_store
@trust_option
def verify(data: str | None, task: str, store: str | None) -> None:
    """Hold every signature of the index against the store; exit 1 where one differs."""
    from zoolens.base.present.bars import spinner
    from zoolens.base.store.store import open_store
    from zoolens.findings.index.maintenance import verify as hold_against

    with open_store(store) as opened, spinner("index", "hold signatures against the store"):
        verified = hold_against(opened, data=data, task=task)
    if verified.differing:
        raise ZoolensError(
            f"{len(verified.differing):,} of {verified.signatures:,} signatures differ from the store: "
            f"{', '.join(verified.differing[:5])}.",
            hint="Rebuild it with `zoolens index rebuild`.",
        )
    click.echo(f"All {verified.signatures:,} signatures in {verified.path} are those of the store.")


def _print_summary(index: Index) -> None:
    from zoolens.base.present.figures import figure

    about = index.as_data()
    echo_prose(
        f"{about['models']:,} models in {about['rows']:,} rows, {about['signatures']:,} of them with a signature "
        f"over {about['probes']:,} inputs of {index.dataset.name}."
    )
    if about["file"]:
        how = "sketches only, signatures in the file" if about["sketched"] else "whole signatures"
        echo_prose(f"File: {about['file']} ({figure(about['file_bytes'], 'B')}).")
        echo_prose(f"Memory: {figure(index.nbytes, 'B')} of {figure(index.memory, 'B')} ({how}).")
    for note in index.notes:
        echo_prose(f"Note: {note}")


def _print_unsigned(index: Index) -> None:
    from collections import Counter

    unsigned = [row for row in index.rows if not row.signature]
    if not unsigned:
        return
    click.echo(f"\nWithout a signature over these probes ({len(unsigned):,}):")
    known = Counter((row.ref, row.runtime or "never run") for row in unsigned)
    print_table([Column("model", keep=2), Column("runtime", keep=1)], [list(row) for row in list(known)[:20]])
    if len(known) > 20:
        click.echo(f"… and {len(known) - 20:,} more; --json lists them all.")
