"""Networks for pages: what was read last is kept, and what may take long is computed in a process of its own.

Only structures that are in the store are shown. To read one imports a framework, which is a job.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, replace
from itertools import groupby, pairwise
from typing import Any, Final

from zoolens.base.engine.executors.executor import Job
from zoolens.base.present.charts import themed
from zoolens.base.present.figures import count, figure
from zoolens.base.recent_values import RecentValues
from zoolens.base.store.json_columns import json_value
from zoolens.base.store.store import Store, open_store
from zoolens.base.verdicts import at_least
from zoolens.faces.ui.side_process import computed
from zoolens.findings.graph.cost.cost import cost
from zoolens.findings.graph.cost.cost_chart import cost_chart, layer_costs
from zoolens.findings.graph.diff.network_layout import (
    LIMITS,
    MEASURES,
    UNCOUNTED,
    Amounts,
    NetworkLayout,
    NetworkPart,
    PlacedBlock,
    PlacedLayer,
    heat,
    network_layout,
)
from zoolens.findings.graph.diff.phrases import amount
from zoolens.findings.graph.diff.picture_cards import PartCost
from zoolens.findings.graph.diff.report import Diff, diff
from zoolens.findings.graph.diff.side_by_side import PartBeside, side_by_side
from zoolens.findings.graph.ir.model import Graph
from zoolens.findings.graph.ir.serialisation import unpack
from zoolens.findings.graph.structures.structure import KIND, Structure, known_structure
from zoolens.inventory.zoos.zoo import Entry

KEPT: Final = 16
QUICK: Final = 400  # nodes of all networks that are looked at: more are laid out or compared in another process
MOST_DIFFERENCES: Final = 200
UNKNOWN_HEAT: Final = len(LIMITS) + 2  # behind those of shares: of a layer that nobody can count

Data = dict[str, Any]


class NetworkReader:
    """Threads share it."""

    def __init__(self, store: Store, target: str | None = None) -> None:
        """`target`: how the store is named, for processes that open it themselves."""
        self._store, self._target = store, target
        self._recent: RecentValues[tuple[str, ...], Data] = RecentValues(KEPT)

    def structure(self, entry: Entry) -> Structure:
        """What is known of the network of a model; nothing is read for it."""
        return known_structure(entry, self._store)

    def layout(self, structure: Structure, name: str) -> Data:
        """What `layout_data` says of a network that is known."""
        run = _run(structure)
        if _nodes(structure) <= QUICK:
            return self._recent.kept(("layout", run, name), lambda: layout_data(structure.graph, name))
        job = {"store": self._target, "run": run, "name": name}
        return self._recent.kept(
            ("layout", run, name), lambda: dict(computed(f"{__name__}:stored_layout", job, "laying out a network"))
        )

    def comparison(self, a: Structure, b: Structure, names: tuple[str, str]) -> Data:
        """What `comparison_data` says of two networks that are known."""
        runs = _run(a), _run(b)
        one_file = a.source is not None and b.source is not None and a.source.key == b.source.key
        if _nodes(a) + _nodes(b) <= QUICK:
            return self._recent.kept(
                ("comparison", *runs, *names),
                lambda: comparison_data(replace(diff(a.graph, b.graph, names=names), one_file=one_file)),
            )
        job = {"store": self._target, "runs": runs, "names": names, "one_file": one_file}
        return self._recent.kept(
            ("comparison", *runs, *names),
            lambda: dict(computed(f"{__name__}:stored_comparison", job, "comparing two networks")),
        )


def _run(structure: Structure) -> str:
    assert structure.run is not None  # only what the store has is shown
    return structure.run


def _nodes(structure: Structure) -> float:
    return structure.figures.get("nodes", float("inf"))


# --- in a process of their own


def stored_layout(job: Job) -> Data:
    with open_store(job["store"], must_exist=True) as opened:
        return layout_data(_stored(opened, job["run"]), job["name"])


def stored_comparison(job: Job) -> Data:
    with open_store(job["store"], must_exist=True) as opened:
        a, b = (_stored(opened, run) for run in job["runs"])
    name_a, name_b = job["names"]
    return comparison_data(replace(diff(a, b, names=(name_a, name_b)), one_file=job["one_file"]))


def _stored(store: Store, run: str) -> Graph:
    return unpack(store.table(run, KIND).column(KIND)[0].as_py())


# --- as data


def layout_data(graph: Graph, name: str) -> Data:
    """A network with what its layers cost, in words and as a chart."""
    layout = network_layout(graph)
    spent = cost(graph)
    costs = layer_costs(spent)
    return {
        "macs_words": at_least(count(layout.totals["macs"]), whole=spent.macs_whole),
        "parameters_words": at_least(count(layout.totals["parameters"]), whole=spent.parameters_whole),
        "layers": layout.layers,
        "unknown": [f"{operator} (×{times})" for operator, times in sorted(layout.unknown.items())],
        "whole": layout.whole,
        "measures": list(MEASURES.values()),
        "heats": [*heat_words(), *(["not known"] if layout.unknown else [])],
        "stages": list(_stages(layout)),
        "chart": themed(cost_chart(costs, name)),
    }


def heat_words() -> list[str]:
    """What each heat means, from none to the hottest."""
    percents = [f"{100 * limit:g}" for limit in LIMITS]
    between = [f"{low} to {high} %" for low, high in pairwise(percents)]
    return ["nothing", f"below {percents[0]} %", *between, f"{percents[-1]} % and more"]


def _stages(layout: NetworkLayout) -> Iterator[Data]:
    numbered = enumerate(layout.parts)
    for stage, group in groupby(numbered, key=lambda item: item[1].stage):
        members = list(group)
        yield {
            "name": stage,
            "layers": sum(block.count for _, part in members for block in part.blocks),
            "costs": _costs(layout, _added(part.amounts for _, part in members)),
            "parts": [_part(layout, place, part) for place, part in members],
        }


def _added(amounts: Iterable[Amounts]) -> Amounts:
    each = list(amounts)
    return {name: sum(amount[name] for amount in each) for name in (*MEASURES, UNCOUNTED)}


def _part(layout: NetworkLayout, place: int, part: NetworkPart) -> Data:
    blocks = []
    for block in part.blocks:
        layers = [_with_costs(layout, layer) for layer in block.layers]
        blocks.append(_with_costs(layout, block, layers=layers))
    data = _with_costs(layout, part, place=place, blocks=blocks)
    del data["stage"]  # of which the part is
    return data


def _with_costs(layout: NetworkLayout, placed: NetworkPart | PlacedBlock | PlacedLayer, **more: Any) -> Data:
    """The fields of something that is placed, with its costs in words instead of its amounts. `more` takes the place of
    fields."""
    names = [field.name for field in fields(placed) if field.name != "amounts" and field.name not in more]
    data = {name: json_value(getattr(placed, name)) for name in names}
    return {**data, **more, "costs": _costs(layout, placed.amounts)}


def _costs(layout: NetworkLayout, amounts: Amounts) -> list[Data | None]:
    """One for each measure; None where there is nothing of it."""
    return [_cost(layout, amounts, measure) for measure in MEASURES]


def _cost(layout: NetworkLayout, amounts: Amounts, measure: str) -> Data | None:
    """A share in percent only where the network is counted whole."""
    value, share = amounts[measure], layout.share(amounts, measure)
    uncounted = bool(amounts[UNCOUNTED]) and measure == "macs"
    if not value:
        return {"words": "not known", "share": "", "heat": UNKNOWN_HEAT} if uncounted else None
    words = figure(value, "B") if measure == "moved_bytes" else count(value)
    percent = f"{100 * share:.1f} %" if share >= 0.0005 else "< 0.1 %"
    # Nobody knows the whole.
    percent = "" if layout.unknown else percent
    return {"words": at_least(words, whole=not uncounted), "share": percent, "heat": heat(share)}


def comparison_data(diff: Diff) -> Data:
    """How two networks differ: in sentences, and part by part."""
    return {
        "same": diff.same,
        "headline": diff.headline,
        "judged": diff.decision.as_data(),
        "figures": [
            {
                "macs_words": at_least(count(spent.macs), whole=spent.macs_whole),
                "parameters_words": at_least(count(spent.parameters), whole=spent.parameters_whole),
            }
            for spent in (diff.cost_a, diff.cost_b)
        ],
        "held": [
            "" if held is None else f"{amount(held.total).lstrip('+')} parameters are held: {held.reason}"
            for held in diff.held
        ],
        "total": len(diff.differences),
        "differences": [
            {
                "number": number,
                "cause": difference.cause,
                "text": difference.text,
                "macs_words": _signed(difference.macs),
                "share_words": _share(difference.macs, diff.macs_gap) if diff.has_shares else "",
                "parameters_words": _signed(difference.parameters),
            }
            for number, difference in enumerate(diff.differences[:MOST_DIFFERENCES], 1)
        ],
        "not_proved": [difference.text for difference in diff.unproved[:MOST_DIFFERENCES]],
        "parts": [_beside(part) for part in side_by_side(diff)],
    }


def _signed(value: int) -> str:
    return f"{value:+,}".replace("-", "−") if value else ""


def _share(macs: int, gap: int) -> str:
    """Describes a share of the gap between the two; negative where a difference makes the gap smaller."""
    if not macs or not gap:
        return ""
    percent = round(100 * macs / gap)
    return f"{percent} %".replace("-", "−") if percent else "less than 1 %"


def _beside(part: PartBeside) -> Data:
    return {
        "stage": part.stage,
        "a": part.title_a,
        "b": part.title_b,
        "macs_a": _macs(part.cost_a),
        "macs_b": _macs(part.cost_b),
        "state": part.state.value,
        "marks": list(part.marks),
        "first_only": part.first_only,
        "left_out": part.left_out,
        "lines": json_value(part.lines),
    }


def _macs(cost: PartCost) -> str:
    return ", ".join(text for text in (cost.words(count(cost.macs)), cost.gap) if text)
