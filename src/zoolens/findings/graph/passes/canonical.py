"""From the raw graph of a source to the canonical one: the passes, in their order.

Three stages. First the source's layout is left behind. Then small rewrites, of which one may open the way for another,
run until nothing changes. Last, attributes and orders that mean nothing are settled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from zoolens.base.errors import ModelError
from zoolens.findings.graph.ir.model import Graph, checked
from zoolens.findings.graph.passes.activations import name_activations
from zoolens.findings.graph.passes.attention import name_attention
from zoolens.findings.graph.passes.attributes import settle_attributes
from zoolens.findings.graph.passes.axis_labels import Labels, labels
from zoolens.findings.graph.passes.common_subexpressions import share_values
from zoolens.findings.graph.passes.concats import flatten_concats
from zoolens.findings.graph.passes.constants import fold_constants, settle_leaves
from zoolens.findings.graph.passes.cuts import unify_cuts
from zoolens.findings.graph.passes.dense import name_dense, unjoin_rows
from zoolens.findings.graph.passes.layout import unify_layout
from zoolens.findings.graph.passes.merged_norms import merge_norms, name_affines
from zoolens.findings.graph.passes.noise import remove_identities, remove_noise
from zoolens.findings.graph.passes.order import settle_order
from zoolens.findings.graph.passes.pads import merge_pads
from zoolens.findings.graph.passes.pointwise_layers import join_places
from zoolens.findings.graph.passes.pools import unify_pools
from zoolens.findings.graph.passes.restored_batch_norms import restore_batch_norms
from zoolens.findings.graph.passes.restored_group_norms import restore_group_norms
from zoolens.findings.graph.passes.restored_layer_norms import name_normalisations
from zoolens.findings.graph.passes.shuffle import fuse_shuffles
from zoolens.findings.graph.passes.tokens import unify_tokens
from zoolens.findings.graph.passes.vectors import shrink_maps

_ROUNDS: Final = 8  # more than any network needs; a guard against two rewrites that undo each other


@dataclass(frozen=True)
class Pass:
    name: str
    apply: Callable[[Graph], Graph]


LAYOUT: Final = (
    Pass("identities", remove_identities),
    Pass("shuffle", fuse_shuffles),
    Pass("groups", restore_group_norms),
    Pass("noise", remove_noise),
    Pass("rows", unjoin_rows),
    Pass("cuts", unify_cuts),
    Pass("leaves", settle_leaves),
    Pass("decomposed", restore_batch_norms),  # before "constants" joins the statistics of a norm to one tensor
    Pass("places", join_places),
    Pass("layout", unify_layout),
)
REWRITES: Final = (
    Pass("noise", remove_noise),
    Pass("cuts", unify_cuts),
    Pass("leaves", settle_leaves),
    Pass("constants", fold_constants),
    Pass("affines", name_affines),
    Pass("activations", name_activations),
    Pass("normalisations", name_normalisations),
    Pass("dense", name_dense),
    Pass("norms", merge_norms),
    Pass("pads", merge_pads),
    Pass("pools", unify_pools),
    Pass("vectors", shrink_maps),
    Pass("concats", flatten_concats),
    Pass("tokens", unify_tokens),
    Pass("attention", name_attention),
)
SETTLING: Final = (
    Pass("attributes", settle_attributes),
    Pass("shared", share_values),
    Pass("order", settle_order),
)


def canonical(graph: Graph) -> Graph:
    """The form in which equal networks look equal; see the documentation of `graph` for what it promises."""
    result = graph
    for _, reached in steps(graph):
        result = reached
    return result


def steps(graph: Graph) -> Iterator[tuple[str, Graph]]:
    """The graph after each pass that changed it, with the pass's name; the last is the canonical one."""
    for step in LAYOUT:
        graph = _applied(step, graph)
        yield step.name, graph
    done: dict[str, Graph] = {}  # what each pass left as it was: it would again
    for _ in range(_ROUNDS):
        before = graph
        for step in REWRITES:
            if done.get(step.name) is graph:
                continue
            after = _applied(step, graph)
            if after is graph:
                done[step.name] = graph
            else:
                yield step.name, after
            graph = after
        if graph == before:
            break
    for step in SETTLING:
        graph = _applied(step, graph)
        yield step.name, graph


def before_layout(graph: Graph) -> tuple[Graph, Labels]:
    """A raw graph as it is when its axes are put into our order, and the axes of its values in the source's own."""
    for step in LAYOUT[:-1]:
        graph = _applied(step, graph)
    return graph, labels(graph)


def _applied(step: Pass, graph: Graph) -> Graph:
    try:
        after = step.apply(graph)
        return after if after is graph else checked(after)
    except ModelError as error:
        raise ModelError(f"The pass {step.name!r} cannot rewrite {graph.name}: {error.message}") from error
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise ModelError(
            f"The pass {step.name!r} cannot rewrite {graph.name}: {type(error).__name__} {error}.",
            hint="Its importer gave a node without an attribute it must have.",
        ) from error
