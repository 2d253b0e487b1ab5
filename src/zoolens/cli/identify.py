"""`zoolens identify FILE_OR_MODEL`: what a network is by structure, whatever it is called."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from zoolens.cli.options import Size, json_option, trust_option, wide_option
from zoolens.cli.stores import store_option
from zoolens.errors import ZoolensError
from zoolens.present.tables import Column
from zoolens.present.terminal import echo_json, make_console, plain, print_table

if TYPE_CHECKING:
    from zoolens.audit.identification import Identification
    from zoolens.graph.nearest_networks import NetworkMatch
    from zoolens.graph.structure import Structure


_SAME_LAYERS = {  # by how the padding compares
    "equal": "the same structure",
    "differs": "the same layers, other padding",
    "unknown": "the same layers; its padding at this image size is not known",
}


class NameContradicted(ZoolensError):
    """The name of a model says one thing, its structure another."""


@click.command()
@click.argument("model", metavar="FILE_OR_MODEL")
@click.option("-n", "shown", type=click.IntRange(1), default=5, show_default=True, help="How many networks to list.")
@click.option("--size", type=Size(), help="Image size, such as 224 or 480x640, where the file leaves it open.")
@store_option("keeps")
@json_option
@trust_option
@wide_option
def command(model: str, shown: int, size: tuple[int, int] | None, store: str | None, as_json: bool) -> None:
    """Name the architecture of a model by its structure, and the members of zoos that are nearest to it.

    Exits with 1 when the name of the file or model says something else than its structure.
    """
    from zoolens.audit.identification import identify, stored
    from zoolens.graph.structure import structure_of
    from zoolens.store.store import borrowed_store

    with borrowed_store(store) as opened:
        structures = structure_of(model, store=opened, size=size)
        if len(structures) != 1:
            raise ZoolensError(f"{model} names {len(structures)} models.", hint="Name a single model.")
        graph = structures[0].graph
        further = list(stored(opened, besides=_own_refs(structures[0])))
    result = identify(
        graph, _subject(structures[0], model), names=_names(structures[0], model), n=shown, further=further
    )
    if as_json:
        echo_json(result.as_data())
    else:
        _print(result)
    if result.contradiction:
        raise NameContradicted(result.contradiction)


def _subject(structure: Structure, model: str) -> str:
    return Path(model).name if Path(model).is_file() else structure.entry.ref


def _own_refs(structure: Structure) -> list[str]:
    refs = [structure.entry.ref, structure.source.ref if structure.source else ""]
    return [ref.partition("@")[0] for ref in refs]


def _names(structure: Structure, model: str) -> list[str]:
    """The names of a model: of its file, of its manifest, and of the architecture that its zoo lists it under."""
    manifest = structure.entry.manifest
    claimed = str(manifest.attributes.get("architecture") or "")
    return [Path(model).name if Path(model).is_file() else "", manifest.name, claimed]


def _print(result: Identification) -> None:
    console = make_console()
    console.print(f"[bold]{plain(result.sentence)}[/]\n", soft_wrap=True)
    columns = [
        Column("network", keep=9),
        Column("likeness", "number", keep=8),
        Column("this has", keep=5, folds=True),
    ]
    print_table(columns, [_row(match) for match in result.matches])


def _row(match: NetworkMatch) -> list[str]:
    from zoolens.graph.nearest_networks import NEAR

    if match.exact:
        words = _SAME_LAYERS[match.padding]
    else:
        words = "; ".join(match.differences) if match.similarity >= NEAR else "–"
    return [match.ref, f"{100 * match.similarity:.0f} %", words]
