"""`zoolens env`: runtime environments, and how to build a run's stack again elsewhere."""

from __future__ import annotations

from pathlib import Path

import click

from zoolens.faces.cli.completed_names import complete_runs
from zoolens.faces.cli.options import OUT_FOLDER
from zoolens.faces.cli.stores import store_option


@click.group(name="env")
def command() -> None:
    """Show, export and remove runtime environments."""


@command.command()
@click.argument("run", metavar="RUN", shell_complete=complete_runs)
@click.option("--output", "-o", type=OUT_FOLDER, default=None, help="Folder to write to.")
@store_option("reads")
def export(run: str, output: Path | None, store: str | None) -> None:
    """Write the requirements lock and a Dockerfile that reproduce RUN's software environment."""
    from zoolens.base.store.store import open_store
    from zoolens.findings.measure.containers import write_stack

    record = open_store(store).measured_run(run)
    folder = output or Path(f"zoolens-env-{record.id[:8]}")
    for path in write_stack(record, folder):
        click.echo(path)


@command.command(name="list")
def list_() -> None:
    """List the isolated environments that zoolens has built and cached."""
    from zoolens.base.engine.environments import list_environments

    environments = list_environments()
    for built in environments:
        click.echo(f"{built.key}  {', '.join(built.spec.requirements)}  ({len(built.freeze)} packages)")
    if not environments:
        click.echo("No environments yet. `zoolens eval … --env 'mxnet==1.9.1,numpy<1.24'` builds one.")


@command.command()
@click.argument("key")
def remove(key: str) -> None:
    """Delete a cached environment; it is built again when next needed."""
    from zoolens.base.engine.environments import remove_environment

    remove_environment(key)
    click.echo(f"Removed {key}.")
