"""`zoolens crosstrain space`: the subspaces of a search, and the points that it begins with."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from zoolens.base.present.tables import Column
from zoolens.base.present.terminal import echo_json, print_table
from zoolens.faces.cli.crosstrain.options import yaml_file
from zoolens.faces.cli.crosstrain.trialtext import settings_line, value_text
from zoolens.faces.cli.options import OUT_FOLDER, json_option, wide_option

if TYPE_CHECKING:
    from zoolens.training.crosstrain.study.search.hyperspace import Axis, Point, Subspace
    from zoolens.training.crosstrain.study.study_plan import Dimension, Search


@click.command()
@click.argument("plan", type=yaml_file, required=False, metavar="[PLAN.yaml]")
@click.option("--published", is_flag=True, help="The space of the published study (CrossedWires).")
@click.option(
    "--overlap",
    type=click.FloatRange(0, 1, max_open=True),
    default=None,
    help="φ of the subspaces, instead of the plan's.",
)
@click.option(
    "--released", type=OUT_FOLDER, help="Folder of the published CSV files: says how many of the points are in them."
)
@click.option("--points", "show_points", is_flag=True, help="List the initial points.")
@json_option
@wide_option
def space(
    plan: Path | None, published: bool, overlap: float | None, released: Path | None, show_points: bool, as_json: bool
) -> None:
    """Show the overlapping subspaces of a PLAN, or of the published study, and their initial design."""
    if (plan is None) != published:
        raise click.UsageError("Give either PLAN.yaml or --published.")
    if released and not published:
        raise click.UsageError("--released belongs to --published.")
    dimensions, search = _searched(plan, overlap)
    designed = _designed(dimensions, search)
    hits_of = _hits(tuple(point for _, points in designed for point in points), released) if released else {}
    if as_json:
        listed = [{"subspace": subspace.index, "low": subspace.low, "points": points} for subspace, points in designed]
        echo_json({"overlap": search.overlap, "subspaces": listed, "released": hits_of})
        return
    _print_subspaces([subspace for subspace, _ in designed])
    if show_points:
        for subspace, points in designed:
            for point in points:
                click.echo(f"{subspace.index}: {settings_line(point)}")
    count = sum(len(points) for _, points in designed)
    click.echo(f"{len(designed)} subspaces with overlap {search.overlap:g}, {count} initial points ({search.design}).")
    for name, hits in hits_of.items():
        click.echo(f"{name}: {hits} of {count} are among the released trials.")


def _searched(plan: Path | None, overlap: float | None) -> tuple[tuple[Dimension, ...], Search]:
    from zoolens.training.crosstrain.study.published import published_study
    from zoolens.training.crosstrain.study.yaml_files import load_plan

    searched = published_study() if plan is None else load_plan(plan)
    changed = {} if overlap is None else {"overlap": overlap}
    return searched.space, searched.search.model_copy(update=changed)


def _designed(dimensions: tuple[Dimension, ...], search: Search) -> list[tuple[Subspace, list[Point]]]:
    from zoolens.training.crosstrain.study.search.designs import design
    from zoolens.training.crosstrain.study.search.hyperspace import subspaces

    return [(part, list(islice(design(search, part), search.initial))) for part in subspaces(dimensions, search)]


def _hits(points: tuple[Point, ...], released: Path) -> dict[str, int]:
    from zoolens.training.crosstrain.study.published import published_study

    published = published_study()
    return {study.name: published.hits(points, study) for study in published.read(released)}


def _print_subspaces(subspaces: list[Subspace]) -> None:
    columns = [Column("subspace", "number", keep=9), *(Column(axis.name, kind="number") for axis in subspaces[0].axes)]
    print_table(columns, [[str(subspace.index), *(_range(axis) for axis in subspace.axes)] for subspace in subspaces])


def _range(axis: Axis) -> str:
    if axis.choices:
        return ", ".join(map(value_text, axis.choices))
    return f"{value_text(axis.low)} to {value_text(axis.high)}{' (log)' if axis.log else ''}"
