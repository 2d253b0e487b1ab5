"""`zoolens diff A B`: how two networks differ, layer by layer, and what each difference costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zoolens.base.errors import ModelError, ZoolensError
from zoolens.base.present.tables import Column
from zoolens.base.present.terminal import echo_json, make_console, plain, print_table
from zoolens.base.verdicts import at_least
from zoolens.faces.cli.completed_names import complete_models
from zoolens.faces.cli.exit_codes import trouble
from zoolens.faces.cli.options import OUT_FILE, Size, json_option, shape_option, trust_option
from zoolens.faces.cli.stores import check_store, store_option

if TYPE_CHECKING:
    from rich.console import Console

    from zoolens.findings.graph.cost.cost import Cost
    from zoolens.findings.graph.cost.held_parameters import HeldParameters
    from zoolens.findings.graph.diff.diff_findings import Difference
    from zoolens.findings.graph.diff.report import Diff
    from zoolens.findings.graph.weights.weight_diff import WeightDiff

SHOWN = 12  # differences, unless --all


@click.command("diff")
@click.argument("a", metavar="A", shell_complete=complete_models)
@click.argument("b", metavar="B", shell_complete=complete_models)
@click.option("--size", type=Size(), help="Image size of both, such as 224 or 480x640, instead of each model's own.")
@shape_option
@click.option("--html", type=OUT_FILE, help="Write a page with the picture.")
@click.option("--svg", type=OUT_FILE, help="Write the picture.")
@click.option("--weights", is_flag=True, help="Compare the values of all weights too (GGUF, safetensors, ONNX).")
@click.option("--all", "show_all", is_flag=True, help="Show every difference, with the layers it concerns.")
@json_option
@store_option(None)
@click.pass_context
@trust_option
def command(
    ctx: click.Context,
    a: str,
    b: str,
    size: tuple[int, int] | None,
    extents: dict[str, tuple[int, ...]],
    html: Path | None,
    svg: Path | None,
    weights: bool,
    show_all: bool,
    as_json: bool,
    store: str | None,
) -> None:
    """Compare the structure of two models, A and B (zoo:name, or the path of a manifest or model file).

    Says what differs and which share of the cost gap each difference has. Exits with 0 if they are the same network,
    1 if anything differs, 2 if one cannot be read or a file cannot be written, 4 if it is not known because operators
    are not understood. With --weights the values have to be equal too.
    """
    result = _diff(a, b, {"size": size, "extents": extents}, store)
    if html is not None:
        from zoolens.findings.graph.diff.diff_page import html as page

        _write(html, page(result))
    if svg is not None:
        from zoolens.findings.graph.diff.picture import svg as picture

        _write(svg, picture(result))
    found = _weight_diff(a, b, result) if weights else None
    if as_json:
        echo_json(result.as_data() | ({} if found is None else {"weights": found.as_data()}))
    else:
        _print(result, (a, b), show_all=show_all)
    if found is not None and not as_json:
        _print_weights(found, show_all=show_all, alone=result.same)
    status = result.decision.outcome.exit_code
    ctx.exit(1 if not status and found is not None and not found.equal else status)


def _weight_diff(a: str, b: str, compared: Diff) -> WeightDiff:
    from zoolens.base.present.bars import Bars
    from zoolens.findings.graph.structures.structure_sources import find_entries
    from zoolens.findings.graph.weights.tensor_pairs import tensor_pairs
    from zoolens.findings.graph.weights.weight_diff import weight_diff
    from zoolens.findings.graph.weights.weight_words import weight_files

    with trouble(), Bars() as bars:
        (own, *beside), (other, *more) = (weight_files(find_entries([ref])[0]) for ref in (a, b))
        by_structure = ".onnx" in (own.suffix, other.suffix)
        keys = tensor_pairs(compared) if by_structure else ()
        bars.begin("weights", "comparing", None)
        try:
            return weight_diff(own, other, keys=keys, beside=(*beside, *more))
        finally:
            bars.end()


def _diff(a: str, b: str, sized: dict[str, Any], store: str | None) -> Diff:
    from zoolens.base.present.bars import Bars
    from zoolens.findings.graph.diff.report import diff
    from zoolens.findings.graph.diff.side_names import short_names
    from zoolens.findings.graph.structures.structure import structure_of
    from zoolens.findings.graph.structures.structure_sources import find_entries

    with trouble(), Bars() as bars:
        check_store(store, "keeps")
        # To find a model of a zoo that was not listed yet takes seconds.
        sides = {ref: find_entries([ref]) for ref in (a, b)}
        for ref, named in sides.items():
            if len(named) != 1:
                raise ModelError(f"{ref} names {len(named)} models.", hint="Name one on each side.")
        structures = structure_of([sides[a][0], sides[b][0]], **sized, store=store, progress=bars)
        found = diff(structures[0].graph, structures[-1].graph, names=short_names(a, b))
        keys = [structure.source.key if structure.source else None for structure in (structures[0], structures[-1])]
        return replace(found, one_file=keys[0] is not None and keys[0] == keys[1])


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as problem:
        with trouble():
            raise ZoolensError(f"{path} cannot be written: {problem.strerror}.") from problem


def _print(result: Diff, refs: tuple[str, str], *, show_all: bool) -> None:
    console = make_console()
    for ref, cost, held in zip(refs, (result.cost_a, result.cost_b), result.held, strict=True):
        console.print(f"{plain(ref)}: {plain(_totals(cost, held))}")
    console.print(f"\n[bold]{plain(result.headline)}[/]")
    _list(console, result.differences, result, show_all=show_all)
    if result.unproved:
        console.print("\nNot proved, beside operators that are not understood:")
        _list(console, result.unproved, result, show_all=show_all)
    for remedy in result.coverage.remedies:
        console.print(f"[dim]{plain(remedy)}[/]")


def _print_weights(found: WeightDiff, *, show_all: bool, alone: bool) -> None:
    from zoolens.findings.graph.weights.weight_words import group_row, headline

    console = make_console()
    console.print(f"\n[bold]{plain(headline(found, alone=alone))}[/]")
    columns = (
        Column("values", keep=9),
        Column("in A", keep=7),
        Column("in B", keep=7),
        Column("tensors", "number", keep=5),
        Column("numbers", "number", keep=8),
        Column("relative error", "number", keep=8),
        Column("of rounding", "number", keep=6),
    )
    if found.pairs:
        print_table(columns, [group_row(pairs, found.values) for pairs in found.groups()])
    for pair in found.pairs if show_all else ():
        console.print(f"[dim]{plain(pair.name)}: {pair.kind.value}, relative error {pair.error:.3g}[/]")


def _totals(cost: Cost, held: HeldParameters | None) -> str:
    from zoolens.findings.graph.diff.phrases import unsigned

    macs = at_least(unsigned(cost.macs), "MACs", whole=cost.macs_whole)
    parameters = at_least(unsigned(cost.parameters), "parameters", whole=cost.parameters_whole)
    beside = f" ({unsigned(held.total)} held: {held.reason})" if held is not None else ""
    return f"{macs}, {parameters}{beside}"


def _list(console: Console, differences: Sequence[Difference], result: Diff, *, show_all: bool) -> None:
    shown = differences if show_all else differences[:SHOWN]
    for number, difference in enumerate(shown, 1):
        console.print(f"{number:3}. {plain(difference.text)} [dim]({plain(_figures(difference, result))})[/]")
        for line in _layers(difference) if show_all else ():
            console.print(f"       [dim]{plain(line)}[/]")
    if len(differences) > len(shown):
        console.print(f"[dim]… and {len(differences) - len(shown)} more; see all with --all.[/]")


def _figures(difference: Difference, result: Diff) -> str:
    from zoolens.findings.graph.diff.phrases import amount

    parts = [difference.cause]
    if difference.macs:
        share = f", {100 * difference.macs / result.macs_gap:.0f} % of the gap" if result.has_shares else ""
        parts.append(f"{amount(difference.macs)} MACs{share}")
    if difference.parameters:
        parts.append(f"{difference.parameters:+,} parameters")
    return "; ".join(parts)


def _layers(difference: Difference) -> Iterator[str]:
    for finding in difference.findings:
        names = [layer.node.source or layer.node.name if layer else "–" for layer in (finding.pair.a, finding.pair.b)]
        yield f"{names[0]} | {names[1]}"
