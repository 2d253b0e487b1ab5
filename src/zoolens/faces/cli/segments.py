"""`zoolens segments A B`: the parts that two networks share, and stitched models made by exchanging them."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

import click

from zoolens.base.errors import ZoolensError
from zoolens.base.present.tables import Column
from zoolens.base.present.terminal import echo_json, make_console, plain, print_table
from zoolens.base.verdicts import NotKnown
from zoolens.faces.cli.completed_names import complete_models
from zoolens.faces.cli.options import OUT_FOLDER, json_option, shape_option, trust_option, wide_option
from zoolens.faces.cli.stores import check_store, store_option

if TYPE_CHECKING:
    from zoolens.findings.graph.cost.cost import Cost
    from zoolens.findings.graph.ir.model import Graph
    from zoolens.findings.graph.segments.segment import Common
    from zoolens.findings.twins.making import Twin
    from zoolens.findings.twins.theory import Theory

SHOWN = 20  # segments, unless --all


def _share(_: click.Context, __: click.Parameter, value: str) -> float:
    """1 % and 0.01 are the same share."""
    try:
        share = float(value.strip().rstrip("%")) / (100 if "%" in value else 1)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is not a share such as 1% or 0.01") from error
    if not 0 <= share < 1:
        raise click.BadParameter(f"{value} is not between 0% and 100%")
    return share


@click.command("segments")
@click.argument("a", metavar="A", shell_complete=complete_models)
@click.argument("b", metavar="B", shell_complete=complete_models)
@click.option(
    "--least",
    type=click.IntRange(1),
    default=2,
    show_default=True,
    help="Least number of nodes of a segment that is listed.",
)
@shape_option
@click.option("--all", "show_all", is_flag=True, help="List every segment.")
@click.option("--splice", is_flag=True, help="Stitch B's segments into A, run that model on --data, and measure it.")
@click.option(
    "--data",
    "-d",
    default=None,
    help="Dataset to measure stitched models on: 'demo', a path, or kind:path?key=value.",
)
@click.option(
    "--within",
    default="1%",
    callback=_share,
    show_default=True,
    help="Share of inputs a stitched model may answer differently.",
)
@click.option("--theory", is_flag=True, help="Beside the measured quality: the analytic bound and the noise estimate.")
@click.option("--runtime", "-r", default=None, help="Runtime to measure A and its stitched models in.")
@click.option(
    "--output",
    "-o",
    type=OUT_FOLDER,
    help="Folder for stitched models; default: your data folder.",
)
@store_option(None)
@json_option
@click.pass_context
@trust_option
@wide_option
def command(ctx: click.Context, /, a: str, b: str, **chosen: Any) -> None:
    """List the segments that networks A and B have in common: parts with one value going in and one coming out.

    With --splice, B's segments replace A's: the stitched model is exported as ONNX, run on the data, and its
    answers are compared with A's. Segments are dropped until the two agree within --within. Exits with 1 if no
    stitched model does.
    """
    check_store(chosen["store"], "makes" if chosen["splice"] else "keeps")
    if not chosen["splice"]:
        _list(a, b, chosen)
        return
    if chosen["data"] is None:
        raise ZoolensError(
            "Stitched models are measured on a dataset, and none was given.", hint="Add --data, such as --data demo."
        )
    twins = _twins(a, b, chosen)
    if chosen["as_json"]:
        from zoolens.findings.twins.making import as_data

        echo_json([as_data(twin) for twin in twins])
    else:
        _print_twins(twins)
    ctx.exit(0 if any(twin.within for twin in twins) else 1)


# --- segments


def _list(a: str, b: str, chosen: dict[str, Any]) -> None:
    from zoolens.base.present.bars import spinner

    with spinner("segments", "read and match both networks"):
        from zoolens.findings.graph.cost.cost import cost
        from zoolens.findings.graph.diff.report import diff
        from zoolens.findings.graph.segments.common_segments import common_segments

        graphs = _graphs(a, b, chosen["extents"], chosen["store"])
        commons = common_segments(*graphs, least=chosen["least"])
        costs = cost(graphs[0])
        rows = [_figures(number, common, costs, graphs[0]) for number, common in enumerate(commons, 1)]
    if chosen["as_json"]:
        echo_json({"a": a, "b": b, **diff(*graphs, names=("A", "B")).decision.as_data(), "segments": rows})
        return
    if not rows:
        raise _no_segment(f"{a} and {b} have no segment of {chosen['least']} nodes in common", *graphs)
    _print_segments(rows if chosen["show_all"] else rows[:SHOWN], len(rows))
    _print_coverage(*graphs)


def _graphs(a: str, b: str, extents: dict[str, tuple[int, ...]], store: str | None) -> tuple[Graph, Graph]:
    """Both graphs, with weights and folded norms where both have weights: only then can weights be compared."""
    from zoolens.base.errors import ModelError
    from zoolens.findings.graph.structures.structure import graph_of
    from zoolens.findings.graph.structures.weighted_graph import folded, weighted_graph

    try:
        return folded(weighted_graph(a, extents)), folded(weighted_graph(b, extents))
    except ModelError:
        return graph_of(a, store=store, extents=extents), graph_of(b, store=store, extents=extents)


def _figures(number: int, common: Common, costs: Cost, graph: Graph) -> dict[str, Any]:
    layers = {layer.name: layer for layer in costs.layers}
    macs = sum(layers[name].macs for name in common.a.nodes)
    return {
        "number": number,
        "kind": common.kind,
        "distance": common.distance if common.distance is None or isfinite(common.distance) else None,
        "nodes": len(common.a),
        "donor_nodes": len(common.b),
        "compared_by_name": _unknown(common, graph),
        "a": [common.a.entry, common.a.exit],
        "b": [common.b.entry, common.b.exit],
        "parameters": sum(layers[name].parameters for name in common.a.nodes),
        "macs": macs,
        "macs_share": _macs_share(macs, costs),
    }


def _macs_share(macs: int, costs: Cost) -> float | None:
    """The segment's share of A's MACs; None where their total is not known."""
    if not costs.macs_whole:
        return None
    return macs / costs.macs if costs.macs else 0.0


def _unknown(common: Common, graph: Graph) -> int:
    """The operators of a segment that are not understood: of these nothing but the name was compared."""
    return 0 if common.kind == "same interface" else sum(node.op == "unknown" for node in common.a.of(graph))


def _no_segment(sentence: str, a: Graph, b: Graph) -> ZoolensError:
    """Without a common segment, unless operators that are not understood may be a part of one."""
    from zoolens.findings.graph.cost.graph_coverage import pair_coverage

    coverage = pair_coverage(a, b)
    if coverage.whole:
        return ZoolensError(f"{sentence}.")
    hint = " ".join(coverage.remedies) or None
    return NotKnown(f"{sentence}, as far as they are understood. {coverage.text}", hint=hint)


def _print_coverage(a: Graph, b: Graph) -> None:
    from zoolens.findings.graph.cost.graph_coverage import pair_coverage

    coverage = pair_coverage(a, b)
    if not coverage.whole:
        make_console().print(plain(f"Unknown: {coverage.text}"))


def _print_segments(rows: Sequence[dict[str, Any]], total: int) -> None:
    from zoolens.base.present.figures import count

    columns = [
        Column("#", "number", keep=5), Column("kind", keep=9), Column("distance", "number", keep=6),
        Column("nodes", "number", keep=8), Column("parameters", "number", keep=4),
        Column("MACs of A", "number", keep=7), Column("in A", keep=3), Column("in B", keep=2),
    ]  # fmt: skip
    cells = [
        (
            str(row["number"]),
            row["kind"],
            _distance(row["distance"]),
            _both(row["nodes"], row["donor_nodes"]),
            count(row["parameters"]),
            "–" if row["macs_share"] is None else f"{100 * row['macs_share']:.1f} %",
            " → ".join(row["a"]),
            " → ".join(row["b"]),
        )
        for row in rows
    ]
    print_table(columns, cells)
    if total > len(rows):
        make_console().print(f"[dim]… and {total - len(rows):,} more; see all with --all.[/]")


def _distance(value: float | None) -> str:
    return "–" if value is None else f"{value:.2g}"


def _both(ours: int, theirs: int) -> str:
    return str(ours) if ours == theirs else f"{ours} | {theirs}"


# --- stitched models


def _twins(a: str, b: str, chosen: dict[str, Any]) -> list[Twin]:
    from zoolens.base.present.bars import Bars

    with Bars() as bars:  # before what takes seconds to import
        from zoolens.findings.twins.making import make_twins

        return make_twins(
            a, b, data=chosen["data"], epsilon=chosen["within"], theory=chosen["theory"], runtime=chosen["runtime"],
            store=chosen["store"], folder=chosen["output"], progress=bars,
        )  # fmt: skip


def _print_twins(twins: Sequence[Twin]) -> None:
    console = make_console()
    first = twins[0]
    console.print(f"[bold]{plain(first.reference)}[/] with parts of [bold]{plain(first.donor)}[/]")
    runtimes = " and ".join(dict.fromkeys(run.stack.runtime for run in (first.on.a, first.on.b)))
    console.print(f"  {first.on.n:,} inputs of {plain(first.on.dataset)}, {plain(runtimes)}\n")
    columns = [
        Column("pieces", "number", keep=9), Column("dropped", "number", keep=4),
        Column("MACs of A replaced", "number", keep=3),
        Column("agreement (measured)", "number", keep=8), Column("at least, 95 %", "number", keep=6),
        Column("top-1, stitched − A", "number", keep=7), Column("", keep=5),
    ]  # fmt: skip
    last = twins[-1]
    print_table(columns, [_twin_cells(twin, last=twin is last) for twin in twins])
    if last.theory is not None:
        _print_theory(console, last.theory, last)
    if last.within:
        console.print(f"\nWithin {100 * last.epsilon:g} %: {plain(last.manifest)}")
    else:
        console.print(f"\nNo stitched model answers like its reference within {100 * last.epsilon:g} %.")


def _print_theory(console: Any, theory: Theory, twin: Twin) -> None:
    """Print each figure with what it means: none of them is a measurement of the stitched model."""
    console.print(f"\n[bold]The last stitched model, on {theory.inputs} of these inputs[/]")
    bound = theory.bound
    if bound is not None:
        promise = "promises nothing about any answer" if bound.vacuous else _unchanged(bound.unchanged)
        console.print(
            f"  analytic bound: outputs at most {bound.value:.3g} apart (l2); measured {bound.measured:.3g}, so it is "
            f"{bound.looseness:,.0f} times too large at best and {plain(promise)} [dim]({plain(bound.meaning)})[/]"
        )
    if theory.noise_agreement is not None:
        console.print(
            f"  noise estimate: agreement {100 * theory.noise_agreement:.1f} %; measured on all inputs "
            f"{100 * twin.agreement:.1f} % [dim]({plain(theory.noise[0].meaning)})[/]"
        )
    for text in theory.refused:
        console.print(f"  {plain(text)}")


def _unchanged(share: float | None) -> str:
    return "bounds no classes" if share is None else f"proves {100 * share:.0f} % of the answers unchanged"


def _twin_cells(twin: Twin, *, last: bool) -> tuple[str, ...]:
    bounds, change = twin.on.bounds, twin.accuracy_difference
    return (
        str(len(twin.pieces)),
        str(twin.dropped),
        f"{100 * twin.replaced:.1f} %",
        f"{100 * twin.agreement:.2f} %",
        "–" if bounds is None else f"{100 * bounds.agreement:.2f} %",
        "–" if change is None else f"{100 * change:+.2f} pt",
        "within" if twin.within else "" if last else "dropped a piece and tried again",
    )
