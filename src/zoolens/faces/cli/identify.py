"""`zoolens identify FILE_OR_MODEL`: what a network is by structure, whatever it is called."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zoolens.base.errors import ZoolensError
from zoolens.base.present.terminal import echo_json, make_console, plain, print_table
from zoolens.base.verdicts import NotKnown, Outcome
from zoolens.faces.cli.completed_names import complete_models
from zoolens.faces.cli.exit_codes import trouble
from zoolens.faces.cli.options import Size, json_option, shape_option, trust_option, wide_option
from zoolens.faces.cli.stores import store_option

if TYPE_CHECKING:
    from zoolens.findings.audit.folder_identification import IdentifiedFile
    from zoolens.findings.audit.identification import Identification
    from zoolens.findings.graph.structures.structure import Structure


class NameContradicted(ZoolensError):
    """The name of a model says one thing, its structure another."""


@click.command()
@click.argument("model", metavar="FILE_OR_MODEL_OR_FOLDER", shell_complete=complete_models)
@click.option("-n", "shown", type=click.IntRange(1), default=5, show_default=True, help="How many networks to list.")
@click.option("--size", type=Size(), help="Image size, such as 224 or 480x640, where the file leaves it open.")
@shape_option
@click.option("--like", is_flag=True, help="Let relatives of an architecture go by its name, too.")
@store_option("keeps")
@json_option
@click.pass_context
@trust_option
@wide_option
def command(ctx: click.Context, /, model: str, store: str | None, as_json: bool, **chosen: Any) -> None:
    """Name the architecture of a model by its structure, and the members of zoos that are nearest to it.

    A name claims an architecture: exits with 1 if the structure is not exactly that of a network of this name, with 2
    if the file cannot be read, and with 4 if that is not known (operators that are not understood, a name whose
    structure is not known here). Of a FOLDER, every model file in it is looked at, one line each, and the exit code is
    the gravest: 1 counts more than 4.
    """
    from zoolens.inventory.manifests.formats import guess_format

    folder = Path(model).expanduser()
    if folder.is_dir() and guess_format(folder) is None:
        ctx.exit(_folder(folder, store, chosen, as_json=as_json))
    result = _identified(model, store, chosen)
    if as_json:
        echo_json(result.as_data())
    else:
        _print(result)
        _print_own_words(result, model)
    _refuse(result)


def _identified(model: str, store: str | None, chosen: dict[str, Any]) -> Identification:
    from zoolens.base.present.bars import spinner
    from zoolens.base.store.store import borrowed_store
    from zoolens.findings.audit.identification import identify, stored
    from zoolens.findings.graph.structures.structure import structure_of

    with trouble(), spinner(model, "read its structure and look for the nearest"), borrowed_store(store) as opened:
        structures = structure_of(model, store=opened, size=chosen["size"], extents=chosen["extents"])
        if len(structures) != 1:
            raise ZoolensError(f"{model} names {len(structures)} models.", hint="Name a single model, or a folder.")
        graph = structures[0].graph
        further = list(stored(opened, besides=_own_refs(structures[0])))
        subject, names = _subject(structures[0], model), _names(structures[0], model)
        return identify(graph, subject, names=names, n=chosen["shown"], further=further, like=chosen["like"])


def _refuse(result: Identification) -> None:
    """The guard: an error for a name that is wrong, and another for one that cannot be judged."""
    if result.judgement is None:
        return
    verdict = result.judgement.verdict
    if verdict.outcome is Outcome.DIFFERENT:
        raise NameContradicted(result.judgement.sentence)
    if verdict.outcome is Outcome.NOT_KNOWN:
        raise NotKnown(result.judgement.sentence, hint=" ".join(verdict.coverage.remedies) or None)


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
    from zoolens.findings.audit.identification_page import matches_table

    console = make_console()
    console.print(f"[bold]{plain(result.sentence)}[/]\n", soft_wrap=True)
    table = matches_table(result)
    print_table(table.columns, table.rows)


def _print_own_words(result: Identification, model: str) -> None:
    """Where to read on about a file of a language model that is like nothing known: vision models are what zoos list,
    and a likeness of 17 % to one of them says nothing."""
    from zoolens.findings.graph.signatures.nearest_networks import NEAR

    near = bool(result.matches) and result.matches[0].similarity >= NEAR
    if not near and Path(model).suffix.lower() == ".gguf":
        click.echo(
            "Likeness this low says nothing of a language model. `zoolens show` says what the file states of itself, "
            "and `zoolens diff --weights` whether another file has the same weights."
        )


# --- a folder


def _folder(folder: Path, store: str | None, chosen: dict[str, Any], *, as_json: bool) -> int:
    from zoolens.base.present.bars import Bars
    from zoolens.findings.audit.folder_identification import as_data, exit_code, identified_files

    with trouble(), Bars() as bars:
        if chosen["extents"]:
            raise ZoolensError("--shape is for one model; models of a folder have inputs of their own.")
        files = identified_files(folder, store=store, size=chosen["size"], like=chosen["like"], progress=bars)
    if as_json:
        echo_json(as_data(folder, files))
    else:
        _print_files(files)
    return exit_code(files)


def _print_files(files: list[IdentifiedFile]) -> None:
    console = make_console()
    colours = {"same": "green", "different": "bold red", "not known": "yellow"}
    for file in files:
        colour = colours.get(file.state, "dim")
        console.print(f"[{colour}]{file.state:>10}[/]  {plain(file.path)}: {plain(file.sentence)}", soft_wrap=True)
    states = [file.state for file in files]
    counted = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    console.print(f"\n{len(files):,} model file{'' if len(files) == 1 else 's'}: {plain(counted)}.")
