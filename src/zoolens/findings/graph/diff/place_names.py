"""Positions in words: "conv 2 of blocks 1 of stages 2–4"."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from zoolens.findings.graph.diff.alignment import Alignment, BlockRow, LayerPair
from zoolens.findings.graph.diff.diff_causes import LayerFinding
from zoolens.findings.graph.outline.blocks import Block, BlockLayer

MANY_LABELS = 3
MANY_STAGES = 3
LONG = 16  # characters of numbers


@dataclass(frozen=True)
class LayerPlace:
    stage: str
    block: int  # 0: outside blocks
    path: str
    kind: str
    index: int
    after: int = 0  # the block that a single layer comes after


def place_of(pair: LayerPair, row: BlockRow) -> LayerPlace:
    """Where a pair is, as side a counts; as b does, where a has nothing."""
    block = row.a if pair.a else row.b
    assert block is not None  # a layer lies in a block of its own side
    return position(pair.either, block)


def position(layer: BlockLayer, block: Block) -> LayerPlace:
    return LayerPlace(block.stage, block.index, layer.path, layer.kind, layer.index, block.after)


def where(findings: Iterable[LayerFinding], alignment: Alignment) -> str:
    """All positions of some findings, as short as they can be said."""
    placed = [(place_of(finding.pair, alignment.rows[finding.row]), finding) for finding in findings]
    places = list(dict.fromkeys(place for place, _ in placed))
    return described(places, alignment)


def described(places: Sequence[LayerPlace], alignment: Alignment) -> str:
    if all(place.after and place.kind == "pool" for place in places):
        spots = [(place.stage, place.after) for place in places]
        return f"the pool{'s' if len(spots) > 1 else ''} after {_joined([_exact_spot(*spot) for spot in spots])}"
    labels = list(dict.fromkeys((place.path, place.kind, place.index) for place in places))
    spots = list(dict.fromkeys((place.stage, place.block) for place in places))
    even = len(places) == len(labels) * len(spots)
    if not even and len(spots) <= MANY_STAGES and len(labels) <= MANY_LABELS:
        return _joined([described([p for p in places if (p.stage, p.block) == spot], alignment) for spot in spots])
    if len(labels) > MANY_LABELS or not even:
        what = f"{len(places)} {_plural(places)}"
    else:
        what = _joined([_label(*label) for label in labels])
    return f"{what} of {_spots(spots, alignment)}"


def _exact_spot(stage: str, block: int) -> str:
    return f"block {block} of {stage if stage.startswith('stage') else f'the {stage}'}"


def _plural(places: Sequence[LayerPlace]) -> str:
    kinds = {place.kind for place in places}
    return _plural_of(kinds.pop()) if len(kinds) == 1 else "layers"


def _plural_of(kind: str) -> str:
    return "dense layers" if kind == "dense" else f"{kind}s"


def _label(path: str, kind: str, index: int) -> str:
    if path == "shortcut":
        return f"the shortcut's {kind}{f' {index}' if index > 1 else ''}"
    name = f"{kind} {index}"
    if path == "transition":
        return f"{name} of the transition"
    return f"{name} of {path}" if path.startswith("branch") else name


def blocks_of(findings: Iterable[LayerFinding], alignment: Alignment, *, exact: bool = False) -> str:
    """The blocks in which some findings are; `exact`: by their numbers, each for itself."""
    places = (place_of(finding.pair, alignment.rows[finding.row]) for finding in findings)
    spots = list(dict.fromkeys((place.stage, place.block) for place in places))
    if exact:
        return _joined([_exact_spot(*spot) for spot in spots])
    return _spots(spots, alignment)


def _spots(spots: Sequence[tuple[str, int]], alignment: Alignment) -> str:
    by_stage: dict[str, list[int]] = {}
    for stage, block in spots:
        by_stage.setdefault(stage, []).append(block)
    numbered = {stage: blocks for stage, blocks in by_stage.items() if any(blocks) and stage.startswith("stage")}
    plain = [stage for stage in by_stage if stage not in numbered]
    parts = [f"the {stage}" if not stage.startswith("stage") else stage for stage in plain if stage[:5] != "stage"]
    if stages := [stage for stage in plain if stage.startswith("stage")]:
        parts.append(_stages(stages))
    if numbered:
        parts.append(_blocks(numbered, alignment))
    return _joined(parts)


def _blocks(numbered: dict[str, list[int]], alignment: Alignment) -> str:
    stages = _stages(list(numbered))
    every = [set(blocks) for blocks in numbered.values()]
    if every[0] == {1} and all(blocks == {1} for blocks in every):
        return f"block{'s' if len(every) > 1 else ''} 1 of {stages}"
    sizes = {stage: _size(stage, alignment) for stage in numbered}
    if all(blocks == set(range(1, sizes[stage] + 1)) for stage, blocks in zip(numbered, every, strict=True)):
        return f"all blocks of {stages}"
    if all(blocks == {sizes[stage]} for stage, blocks in zip(numbered, every, strict=True)):
        return f"the last block{'s' if len(every) > 1 else ''} of {stages}"
    if all(blocks == every[0] for blocks in every):
        plural = "s" if len(every) > 1 or len(every[0]) > 1 else ""
        numbers = ranges(sorted(every[0]))
        if len(numbers) < LONG:
            return f"block{plural} {numbers} of {stages}"
        return f"{len(every[0])} blocks of {stages}"
    if len(every) > MANY_STAGES:
        return f"{sum(map(len, every))} blocks of {stages}"
    return _joined([_blocks({stage: blocks}, alignment) for stage, blocks in numbered.items()])


def _size(stage: str, alignment: Alignment) -> int:
    counts = [
        max(
            (block.index for row in alignment.rows if (block := (row.a, row.b)[side]) and block.stage == stage),
            default=0,
        )
        for side in (0, 1)
    ]
    return max(counts)


def _stages(stages: Sequence[str]) -> str:
    numbers = sorted(int(stage.split()[1]) for stage in stages if stage.startswith("stage"))
    others = [f"the {stage}" for stage in stages if not stage.startswith("stage")]
    text = [f"stage{'s' if len(numbers) > 1 else ''} {ranges(numbers)}"] if numbers else []
    return _joined([*others, *text])


def ranges(numbers: Sequence[int]) -> str:
    """Writes sorted numbers with their runs joined, such as "1–3, 5"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs)


def _joined(parts: Sequence[str]) -> str:
    if len(parts) == 1:
        return parts[0]
    if parts:
        return f"{', '.join(parts[:-1])} and {parts[-1]}"
    return "the network"
