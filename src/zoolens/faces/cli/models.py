"""`zoolens models`: what there is."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, Final

import click

from zoolens.base.present.figures import count, figure
from zoolens.base.present.tables import Column
from zoolens.base.present.terminal import echo_json, print_table
from zoolens.faces.cli.options import TaskName, json_option, wide_option
from zoolens.inventory.manifests.schema import Manifest
from zoolens.inventory.zoos.listing import Listing, as_data, listing, params_of, task_of
from zoolens.inventory.zoos.zoo import Entry, Weights

LARGE = 100  # a zoo with more models gets one line until it is asked for
COLUMNS = (
    Column("model", keep=9, folds=True), Column("task", keep=5), Column("weights", keep=7), Column("formats", keep=4),
    Column("params", "number", keep=8), Column("claimed top-1", "number", keep=6),
)  # fmt: skip
_OTHER_CLAIMS: Final = ("box_map", "miou")  # of detectors and segmenters
_WEIGHTS = {str(state).replace(" ", "-"): state for state in Weights}
_SCALES = {"k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9}


class ParameterCount(click.ParamType[float]):
    """A number such as 25.6M, 500k or 1e6."""

    name = "count"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value).strip().lower()
        scale = _SCALES.get(text[-1:], 1.0)
        try:
            return float(text[:-1] if text[-1:] in _SCALES else text) * scale
        except ValueError:
            self.fail(f"{value!r} is not a count such as 25.6M or 500k", param, ctx)


@click.command("models")
@click.option("--zoo", help="Only this zoo; needed for zoos that are searched on a server (huggingface).")
@click.option("--task", type=TaskName(), help="Only models that do this, such as classification.")
@click.option("--max-params", type=ParameterCount(), help="Only models with at most this many parameters, such as 5M.")
@click.option("--weights", type=click.Choice(list(_WEIGHTS)), help="Only models whose weights are in this state.")
@click.option("--search", help="Only models whose name has this part.")
@click.option("--all", "show_all", is_flag=True, help=f"List also zoos with more than {LARGE} models in full.")
@json_option
@wide_option
def command(
    zoo: str | None,
    task: str | None,
    max_params: float | None,
    weights: str | None,
    search: str | None,
    show_all: bool,
    as_json: bool,
) -> None:
    """List the models of every zoo on this machine."""
    from zoolens.base.present.bars import Bars

    state = _WEIGHTS[weights].value if weights else None
    with Bars() as bars:
        listed = listing(zoo=zoo, task=task, max_params=max_params, search=search, weights=state, progress=bars)
    if as_json:
        echo_json([as_data(entry) for entry in listed.entries])
    else:
        filtered = any(option is not None for option in (zoo, task, max_params, weights, search))
        _print(listed, in_full=show_all or filtered)
    for note in listed.notes:
        click.echo(note, err=True)


def _print(listed: Listing, *, in_full: bool) -> None:
    sizes = Counter(entry.zoo for entry in listed.entries)
    large = {name for name, size in sizes.items() if size > LARGE and not in_full}
    shown = [entry for entry in listed.entries if entry.zoo not in large]
    if shown:
        mixed = any(_claims_another(entry.manifest) for entry in shown)
        columns = (*COLUMNS[:-1], replace(COLUMNS[-1], name="claimed")) if mixed else COLUMNS
        print_table(columns, [[entry.ref, *_cells(entry), _claimed(entry.manifest, named=mixed)] for entry in shown])
    for name in sorted(large):
        click.echo(f"{name}: {sizes[name]:,} models; list them with --zoo {name}, or narrow with --search.")
    if not listed.entries:
        click.echo("No model fits.")


def _cells(entry: Entry) -> list[str]:
    manifest = entry.manifest
    formats = dict.fromkeys(asset.format for asset in manifest.assets) or [manifest.attributes.get("format", "–")]
    return [
        task_of(manifest) if entry.described else "no manifest",
        str(entry.weights),
        ", ".join(formats),
        count(params_of(manifest)),
    ]


def _claims_another(manifest: Manifest) -> bool:
    """Whether the figure that stands for a model is that of another task than classification."""
    return any(manifest.claimed(metric) is not None for metric in _OTHER_CLAIMS)


def _claimed(manifest: Manifest, *, named: bool) -> str:
    """The figure that stands for a model, by its name where the column has figures of several tasks."""
    for metric in (*_OTHER_CLAIMS, "top1"):
        if (value := manifest.claimed(metric)) is not None:
            return f"{metric} {figure(value, 'fraction')}" if named else figure(value, "fraction")
    return figure(None, "fraction")
