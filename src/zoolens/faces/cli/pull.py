"""`zoolens pull`: fetch a model's files."""

from __future__ import annotations

from pathlib import Path

import click

from zoolens.base.errors import AssetError
from zoolens.base.present.bars import Bars
from zoolens.base.present.terminal import echo_json
from zoolens.base.progress import count_bytes
from zoolens.faces.cli.completed_names import complete_models
from zoolens.faces.cli.options import json_option
from zoolens.inventory.catalog.lookup import find_all
from zoolens.inventory.manifests.locations import presence, resolve_asset
from zoolens.inventory.manifests.schema import Asset
from zoolens.inventory.zoos.zoo import Entry


@click.command("pull")
@click.argument("models", nargs=-1, required=True, metavar="MODEL...", shell_complete=complete_models)
@click.option("--format", "format_", help="Only the files of this format.")
@json_option
def command(models: tuple[str, ...], format_: str | None, as_json: bool) -> None:
    """Fetch the files of each MODEL (zoo:name or a pattern), verify them, and say where they are."""
    pulled = {entry.ref: pull(entry, format_) for entry in find_all(models)}
    if as_json:
        paths = {ref: {role: str(path) for role, path in files.items()} for ref, files in pulled.items()}
        echo_json(paths)
        return
    for ref, files in pulled.items():
        for role, path in files.items():
            click.echo(f"{ref} {role}: {path}")


def pull(entry: Entry, format_: str | None = None) -> dict[str, Path]:
    """Local files of the first asset that is here or can be fetched."""
    asset = _choose(entry, format_)
    with Bars() as bars:
        return resolve_asset(asset, entry.folder, fetch=True, progress=count_bytes(bars, entry.ref))


def _choose(entry: Entry, format_: str | None) -> Asset:
    assets = [asset for asset in entry.manifest.assets if format_ in (None, asset.format)]
    if not assets:
        what = f"{format_} files" if format_ else "weights"
        raise AssetError(
            f"No {what} of {entry.ref} are to be had: only its structure is known.",
            hint="`zoolens models --weights remote` lists models that can be pulled.",
        )
    order = {"present": 0, "remote": 1, "absent": 2}
    return min(assets, key=lambda asset: order[presence(asset, entry.folder)])
