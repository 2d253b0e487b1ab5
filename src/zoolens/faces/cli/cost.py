"""`zoolens cost`: what a network costs, in our convention, and what public counters say of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from zoolens.base.errors import ModelError
from zoolens.base.present.figures import count, figure
from zoolens.base.present.tables import Column
from zoolens.base.present.terminal import echo_json, echo_prose, make_console, plain, print_table
from zoolens.base.verdicts import at_least, judged, refuse_unknown
from zoolens.faces.cli.completed_names import complete_models
from zoolens.faces.cli.options import Size, json_option, shape_option, trust_option, wide_option
from zoolens.faces.cli.stores import store_option

if TYPE_CHECKING:
    from zoolens.findings.graph.cost.cost import Cost
    from zoolens.findings.graph.cost.generation import Generation
    from zoolens.findings.graph.counters.runner import Count
    from zoolens.findings.graph.ir.model import Graph
    from zoolens.findings.graph.structures.structure import Structure
    from zoolens.findings.tracing.roofline.writing_share import WritingShare
    from zoolens.inventory.manifests.schema import Claim

CONVENTION: Final = (
    "MACs: multiply-accumulates of convolutions, dense layers, matrix products and attention. FLOPs: two per MAC, and "
    "biases, norms, activations, pooling and arithmetic."
)
_LONGEST: Final = 48  # characters of a layer's name


@click.command("cost")
@click.argument("model", shell_complete=complete_models)
@click.option("--size", type=Size(), help="Image size, such as 224 or 480x640, instead of the model's own.")
@shape_option
@click.option("--layers", is_flag=True, help="Show every layer that computes something.")
@click.option("--counters", is_flag=True, help="Run the installed public counters and explain what they say.")
@click.option(
    "--fail-on",
    type=click.Choice(["unknown"]),
    help="unknown: exit with 4 if operators are not counted, so that totals are lower bounds.",
)
@json_option
@store_option("keeps")
@trust_option
@wide_option
def command(
    model: str,
    size: tuple[int, int] | None,
    extents: dict[str, tuple[int, ...]],
    layers: bool,
    counters: bool,
    fail_on: str | None,
    as_json: bool,
    store: str | None,
) -> None:
    """Count what one MODEL costs (zoo:name, or the path of a manifest or model file). No weights are needed.

    A total with parts that nobody can count is a lower bound, printed as "≥ n".
    """
    from zoolens.findings.graph.cost.cost import cost

    structure = _structure(model, size, extents, store)
    total = cost(structure.graph)
    counts = _counts(structure) if counters else []
    if as_json:
        echo_json(_as_data(structure, total, counts, layers=layers))
    else:
        _print(structure, total, counts, store, layers=layers, counters=counters)
    if fail_on == "unknown":
        refuse_unknown(judged(total.coverage, different=False), f"what {structure.ref} costs")


def _print(
    structure: Structure, total: Cost, counts: Sequence[Count], store: str | None, *, layers: bool, counters: bool
) -> None:
    for line in _totals(structure, total):
        echo_prose(line)
    _print_generation(structure, store)
    if layers:
        click.echo()
        _print_layers(total)
    if counters:
        click.echo()
        _print_counters(total, counts, _claims(structure))


def _structure(
    model: str, size: tuple[int, int] | None, extents: dict[str, tuple[int, ...]], store: str | None
) -> Structure:
    from zoolens.base.present.bars import Bars
    from zoolens.findings.graph.structures.structure import structure_of

    with Bars() as bars:
        structures = structure_of(model, size=size, extents=extents, store=store, progress=bars)
    if len(structures) != 1:
        raise ModelError(f"{model} names {len(structures)} models.", hint="Name a single model.")
    _ = structures[0].graph  # what has none says why, here
    return structures[0]


def _counts(structure: Structure) -> list[Count]:
    from zoolens.base.present.bars import Bars
    from zoolens.findings.graph.counters.runner import run_counters

    assert structure.source is not None  # it has a graph
    with Bars() as bars:
        bars.begin(structure.ref, "running counters", None)
        try:
            return run_counters(structure.source)
        finally:
            bars.end()


def _claims(structure: Structure) -> list[Claim]:
    return [claim for claim in structure.entry.manifest.claims if claim.metric == "flops"]


# --- totals


def _totals(structure: Structure, total: Cost) -> Iterator[str]:
    yield f"{structure.ref}{_at(structure)}"
    bytes_held = f"({figure(total.parameter_bytes, 'B')} with statistics, in float32)"
    macs = f"{total.macs:,} ({count(total.macs)})"
    flops = f"{total.flops:,} ({count(total.flops)})"
    parameters = f"{total.parameters:,} {bytes_held}"
    yield f"MACs        {at_least(macs, whole=total.macs_whole)}"
    yield f"FLOPs       {at_least(flops, whole=total.whole)}"
    yield f"parameters  {at_least(parameters, whole=total.parameters_whole)}"
    from zoolens.findings.graph.cost.held_parameters import held_parameters

    held = held_parameters(structure.graph)
    if held is not None:
        yield f"held        {held.total:,} parameters: {held.reason}"
    values = at_least(figure(total.activation_bytes, "B"), whole=total.whole)
    yield f"values      {values} computed, {_peak(total)} at one time"
    intensity = f"{total.intensity:.1f} FLOPs a byte moved" if total.whole else "not known"
    yield f"intensity   {intensity}"
    yield from (_uncounted(name, times, total) for name, times in total.unknown.items())
    if not total.whole:
        yield f"coverage    {total.coverage.text}"
        yield from (f"            {sentence}" for sentence in total.coverage.remedies)
    yield CONVENTION


def _at(structure: Structure) -> str:
    inputs = ["×".join(map(str, node.shape)) or "one number" for node in structure.graph.inputs]
    return f", input {' and '.join(inputs)}" if inputs else ""


def _peak(total: Cost) -> str:
    bound = "at most" if total.whole else "at least"
    return f"{bound} {figure(total.peak_bytes, 'B')} with the parameters"


def _uncounted(name: str, times: int, total: Cost) -> str:
    from zoolens.findings.graph.cost.cost import holds_graph

    operators = "operator" if times == 1 else "operators"
    are = "is" if times == 1 else "are"
    inside = ", nor are the parameters inside" if holds_graph(name) else ""
    beside = "" if name in total.uncounted else ", except for the MACs"
    return f"uncounted   {times} {operators} of kind {name} {are} not counted{inside}{beside}"


# --- text that is written token by token


def _print_generation(structure: Structure, store: str | None) -> None:
    from zoolens.findings.graph.cost.generation import generation

    found = generation(structure.graph)
    if found is None:
        return
    click.echo()
    columns = (
        Column("tokens", "number", keep=9),
        Column("prompt, MACs", "number", keep=8),
        Column("next token, MACs", "number", keep=7),
        Column("cache", "number", keep=6),
        Column("next token reads", "number", keep=5),
    )
    rows = [
        (
            f"{length:,}",
            count(found.prefill_macs(length)),
            count(found.decode_macs(length)),
            figure(found.cache_bytes(length), "B"),
            figure(found.read_bytes(length), "B"),
        )
        for length in found.lengths
    ]
    print_table(columns, rows)
    weights = figure(found.weight_bytes, "B")
    kept = f"float{8 * found.cache_bytes_each}"
    echo_prose(f"The cache holds keys and values in {kept}. A next token reads it and {weights} of weights.")
    _print_writing(structure, found, store)


def _print_writing(structure: Structure, cost: Generation, store: str | None) -> None:
    """How fast it wrote on this machine, against the bandwidth of its memory; nothing where it was not timed."""
    from zoolens.base.store.store import borrowed_store
    from zoolens.findings.tracing.roofline.writing_share import writing_shares

    with borrowed_store(store) as opened:
        shares = list(writing_shares(opened, structure.entry, cost))
    if not shares:
        return
    click.echo()
    columns = (
        Column("run", keep=8),
        Column("threads", "number", keep=5),
        Column("tokens", "number", keep=9),
        Column("writing", "number", keep=7),
        Column("reads", "number", keep=6),
        Column("share of the bandwidth", "number", keep=10),
    )
    print_table(columns, [_writing_row(found) for found in shares])
    if any(found.share is None for found in shares):
        echo_prose("`zoolens machine peaks --threads N` measures the bandwidth of this machine with so many threads.")


def _writing_row(found: WritingShare) -> tuple[str, ...]:
    speed = figure(found.speed, "tokens/s")
    return (
        found.run[:8],
        "–" if found.threads is None else str(found.threads),
        f"{found.tokens:,}",
        f"{speed} (disturbed)" if found.disturbed else speed,
        f"{figure(found.bytes_per_second, 'B')}/s",
        "–" if found.share is None else f"{100 * found.share:.0f} %",
    )


# --- layers


def _print_layers(total: Cost) -> None:
    columns = (
        Column("layer", keep=9),
        Column("op", keep=7),
        Column("output", keep=3),
        Column("MACs", "number", keep=8),
        Column("share", "number", keep=6),
        Column("FLOPs", "number", keep=4),
        Column("parameters", "number", keep=5),
        Column("intensity", "number", keep=1),
    )
    counted = [layer for layer in total.layers if layer.flops or layer.parameters or layer.op == "unknown"]
    print_table(columns, [_layer_row(layer, total) for layer in counted])


def _layer_row(layer: Any, total: Cost) -> tuple[str, ...]:
    """A layer has a share where the whole is known; of an operator that is not understood nothing is zero."""
    opaque = layer.op == "unknown"
    none = "not known" if opaque else "–"
    return (
        shortened(layer.source or layer.name),
        layer.op,
        "×".join(map(str, layer.shape[1:])),
        count(layer.macs) if layer.macs else none,
        f"{100 * layer.macs / total.macs:.1f} %" if layer.macs and total.macs_whole else "–",
        count(layer.flops) if layer.flops else none,
        count(layer.parameters) if layer.parameters else "–",
        "–" if opaque else f"{layer.intensity:.1f}",
    )


def shortened(name: str) -> str:
    """A long name without its middle: its beginning tells where, its end what."""
    if len(name) <= _LONGEST:
        return name
    half = (_LONGEST - 1) // 2
    return f"{name[:half]}…{name[-half:]}"


# --- counters


def _print_counters(total: Cost, counts: Sequence[Count], claims: Sequence[Claim]) -> None:
    console = make_console()
    columns = (
        Column("counter", keep=9),
        Column("says", "number", keep=8),
        Column("of our MACs", "number", keep=7),
    )
    print_table(columns, list(_counter_rows(total, counts, claims)))
    console.print()
    for counted in counts:
        if counted.value is not None:
            console.print(plain(f"{counted.counter.name}: {explained(counted)}"))
    for line in _silent(counts):
        console.print(f"[dim]{plain(line)}[/]")


def _counter_rows(total: Cost, counts: Sequence[Count], claims: Sequence[Claim]) -> Iterator[tuple[str, ...]]:
    yield "zoolens, MACs", at_least(f"{total.macs:,}", whole=total.macs_whole), "1" if total.macs_whole else "–"
    yield "zoolens, FLOPs", at_least(f"{total.flops:,}", whole=total.whole), _ratio(total.flops, total)
    for claim in claims:
        yield f"claim: {claim.source} ({claim.unit or 'no unit'})", f"{claim.value:,.0f}", _ratio(claim.value, total)
    for counted in counts:
        if counted.value is not None:
            yield (
                f"{counted.counter.name} {counted.counter.version}",
                f"{counted.value:,.0f}",
                _ratio(counted.value, total),
            )


def _ratio(value: float, total: Cost) -> str:
    """No ratio to a lower bound."""
    return f"{value / total.macs:.3f}" if total.macs and total.whole else "–"


def explained(counted: Count) -> str:
    """Our MACs and the terms that make the difference, largest first, and what no term explains."""
    terms = sorted(counted.differences.items(), key=lambda item: -abs(item[1]))
    parts = [f"{_signed(amount)} {term}" for term, amount in terms]
    if counted.residual:
        parts.append(f"{_signed(counted.residual)} that no rule explains")
    return f"MACs {', '.join(parts)}" if parts else "the same as our MACs"


def _signed(amount: float) -> str:
    return f"{'−' if amount < 0 else '+'} {count(abs(amount))}"


def _silent(counts: Sequence[Count]) -> Iterator[str]:
    """Why the other counters say nothing."""
    others: dict[str, list[str]] = {}
    for counted in counts:
        if counted.value is None and counted.counter.version is not None:
            others.setdefault(counted.reason or "says nothing", []).append(counted.counter.name)
    yield from (f"{', '.join(names)}: {reason}." for reason, names in others.items())
    absent = dict.fromkeys(counted.counter.distribution for counted in counts if counted.counter.version is None)
    if absent:
        yield f"Not installed: {', '.join(absent)}. Get them with: pip install 'zoolens[counters]'"


# --- JSON


def _as_data(structure: Structure, total: Cost, counts: Sequence[Count], *, layers: bool) -> dict[str, Any]:
    from zoolens.findings.graph.cost.generation import generation
    from zoolens.findings.graph.cost.held_parameters import held_data

    data: dict[str, Any] = {
        "model": structure.ref,
        "inputs": [list(node.shape) for node in structure.graph.inputs],
        "convention": CONVENTION,
        "macs": total.macs,
        "flops": total.flops,
        "parameters": total.parameters,
        **held_data(structure.graph),
        "parameter_bytes": total.parameter_bytes,
        "activation_bytes": total.activation_bytes,
        "peak_bytes": total.peak_bytes,
        "intensity": total.intensity if total.whole else None,
        "unknown": dict(total.unknown),
        "coverage": total.coverage.as_data(),
    }
    generated = generation(structure.graph)
    if generated is not None:
        data["generation"] = generated.as_data()
    if layers:
        data["layers"] = [_layer_data(layer) for layer in total.layers if layer.flops or layer.parameters]
    if counts:
        data["claims"] = [claim.model_dump() for claim in _claims(structure)]
        data["counters"] = [_count_data(counted, structure.graph, total.macs) for counted in counts]
    return data


def _layer_data(layer: Any) -> dict[str, Any]:
    names = ("source", "op", "shape", "macs", "flops", "parameters", "output_bytes", "moved_bytes", "intensity")
    return {name: getattr(layer, name) for name in names}


def _count_data(counted: Count, graph: Graph, macs: int) -> dict[str, Any]:
    known = counted.value is not None
    return {
        "counter": counted.counter.name,
        "version": counted.counter.version,
        "counts": counted.counter.convention(graph).summary,
        "value": counted.value,
        "ratio": counted.value / macs if counted.value is not None and macs else None,
        "terms": dict(counted.terms) if known else None,
        "residual": counted.residual if known else None,
        "reason": counted.reason,
    }
