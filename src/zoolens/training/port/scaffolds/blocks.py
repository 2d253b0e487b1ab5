"""Finds the blocks of a draft: parts of the source that are written once, as a function, and called several times.

A part is what lies under one name of the source ("layer1.0", "conv2_block1"). Parts whose steps are the same up to
their settings are instances of one block. Inner parts come first, so that blocks may call blocks.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from zoolens.training.port.scaffolds.steps import CodeStep, Setting

Path = tuple[str, ...]
_LINES: Final = 3  # that a function has beside its steps
_FEW: Final = 2  # steps of a part beside those of its only child, which then is no block of its own


@dataclass(frozen=True)
class Instance:
    steps: tuple[CodeStep, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    path: Path

    def slots(self) -> list[Setting]:
        return [setting for step in self.steps for setting in step.settings]


@dataclass
class CodeBlock:
    """The first instance stands for all: they differ in the values of settings alone."""

    number: int
    instances: list[Instance] = field(default_factory=list)

    @property
    def model(self) -> Instance:
        return self.instances[0]


@dataclass(frozen=True)
class Arrangement:
    """`steps` call `blocks`, which are in an order in which each calls only earlier ones."""

    steps: tuple[CodeStep, ...]
    blocks: tuple[CodeBlock, ...]

    @property
    def size(self) -> int:
        """About how many lines it has."""
        return len(self.steps) + sum(len(block.model.steps) + _LINES for block in self.blocks)


def arranged(
    steps: Sequence[CodeStep],
    outputs: Iterable[str],
    eligible: Callable[[Path], bool],
    is_class: Callable[[Path], bool] = lambda _: False,
) -> Arrangement:
    """The steps with every block that saves lines taken out. What the source has a class for is written at once."""
    items, kept = list(steps), set(outputs)
    blocks: dict[Any, CodeBlock] = {}
    for depth in range(max((len(step.path) for step in items), default=0), 0, -1):
        by_key: dict[Any, list[Instance]] = {}
        for path in _parts(items, depth, eligible):
            instance = _instance(items, path, kept)
            if instance is not None:
                by_key.setdefault(_key(instance), []).append(instance)
        for key, instances in by_key.items():
            if key not in blocks and not _saves(instances, lines=0 if is_class(instances[0].path) else _LINES):
                continue
            block = blocks.setdefault(key, CodeBlock(len(blocks)))
            block.instances += instances
            for instance in instances:
                items = _collapsed(items, instance, block.number)
    return Arrangement(tuple(_named_after_makers(items)), tuple(blocks.values()))


def _named_after_makers(items: Sequence[CodeStep]) -> list[CodeStep]:
    """A concat that was taken out of a block is called after the block that it appends."""
    calls = {value: step for step in items if step.is_call for value in step.values}
    return [
        replace(step, path=(*calls[step.inputs[-1]].path, "concat"), is_leaf=True)
        if step.movable and not step.is_leaf and step.inputs[-1] in calls
        else step
        for step in items
    ]


def _saves(instances: Sequence[Instance], lines: int) -> bool:
    """Whether a function is shorter than its instances one after the other."""
    steps, count = len(instances[0].steps), len(instances)
    return count > 1 and steps > 1 and count * steps > count + steps + lines


def _parts(items: Sequence[CodeStep], depth: int, eligible: Callable[[Path], bool]) -> list[Path]:
    members: dict[Path, int] = {}
    around: dict[Path, int] = {}
    for step in items:
        if _inside(step, depth):
            members[step.path[:depth]] = members.get(step.path[:depth], 0) + 1
        if _inside(step, depth - 1):
            around[step.path[: depth - 1]] = around.get(step.path[: depth - 1], 0) + 1
    return [
        path
        for path, count in members.items()
        if count > 1
        and eligible(path)
        and not (depth > 1 and around[path[:-1]] - count <= _FEW and eligible(path[:-1]))
    ]


def _inside(step: CodeStep, depth: int) -> bool:
    return len(step.path) > depth or (len(step.path) == depth and not step.is_leaf and not step.is_call)


def _instance(items: Sequence[CodeStep], path: Path, kept: set[str]) -> Instance | None:
    """What lies under a name, unless something outside lies between."""
    inside = [step for step in items if _inside(step, len(path)) and step.path[: len(path)] == path]
    own = {value for step in inside for value in step.values}
    inside = [step for step in inside if not (step.movable and not own.intersection(step.inputs))]
    own = {value for step in inside for value in step.values}
    if len(inside) < 2 or not _convex(items, own) or _shares_with_others(items, inside):
        return None
    inputs = dict.fromkeys(name for step in inside for name in step.inputs if name not in own)
    used = {name for step in items if not own.issuperset(step.values) for name in step.inputs} | kept
    outputs = tuple(value for step in inside for value in step.values if value in used)
    return Instance(tuple(inside), tuple(inputs), outputs, path) if outputs and inputs else None


def _shares_with_others(items: Sequence[CodeStep], inside: Sequence[CodeStep]) -> bool:
    """Whether a layer of the part is called outside of it, too."""
    own = {step.values for step in inside}
    shared = {step.shared for step in inside if step.shared}
    return any(step.shared in shared and step.values not in own for step in items)


def _convex(items: Sequence[CodeStep], own: set[str]) -> bool:
    """Whether no step outside depends on the part and is needed by it."""
    behind: set[str] = set()
    for step in items:
        if own.issuperset(step.values):
            if behind.intersection(step.inputs):
                return False
        elif own.intersection(step.inputs) or behind.intersection(step.inputs):
            behind.update(step.values)
    return True


def _key(instance: Instance) -> Any:
    place: dict[str, tuple[Any, ...]] = {name: ("given", number) for number, name in enumerate(instance.inputs)}
    rows = []
    layers: dict[str, int] = {}  # the first step of each layer that is called again
    for number, step in enumerate(instance.steps):
        layer = layers.setdefault(step.shared, number) if step.shared else None
        kinds = tuple(setting.kind for setting in step.settings)
        wires = tuple(place[name] for name in step.inputs)
        rows.append(
            (step.pattern, step.maker, step.label, kinds, wires, relative(step, instance), step.body, step.after, layer)
        )
        place.update((value, ("made", number, which)) for which, value in enumerate(step.values))
    return tuple(rows), tuple(place[name] for name in instance.outputs)


def relative(step: CodeStep, instance: Instance) -> Path:
    """What a step is called within its part."""
    return step.path[len(instance.path) :]


def _collapsed(items: Sequence[CodeStep], instance: Instance, number: int) -> list[CodeStep]:
    own = {value for step in instance.steps for value in step.values}
    call = CodeStep(
        instance.outputs, instance.inputs, "", "call", settings=tuple(instance.slots()), path=instance.path,
        body=number, shape=instance.steps[-1].shape,
    )  # fmt: skip
    merged: list[CodeStep] = []
    for step in items:
        if own.issuperset(step.values):
            if call is not None:
                merged.append(call)
                call = None  # type: ignore[assignment]
        elif step.movable and len(step.path) >= len(instance.path) and step.path[: len(instance.path)] == instance.path:
            merged.append(replace(step, path=instance.path[:-1], is_leaf=False))
        else:
            merged.append(step)
    return _in_order(merged)


def _in_order(items: Sequence[CodeStep]) -> list[CodeStep]:
    """An order of computation that stays as near to the given one as it can."""
    maker = {value: number for number, step in enumerate(items) for value in step.values}
    needs = [{maker[name] for name in step.inputs if name in maker} for step in items]
    users: dict[int, list[int]] = {}
    for number, given in enumerate(needs):
        for source in given:
            users.setdefault(source, []).append(number)
    waiting = [len(given) for given in needs]
    ready = [number for number, count in enumerate(waiting) if not count]
    heapq.heapify(ready)
    ordered = []
    while ready:
        number = heapq.heappop(ready)
        ordered.append(items[number])
        for user in users.get(number, ()):
            waiting[user] -= 1
            if not waiting[user]:
                heapq.heappush(ready, user)
    return ordered


def without_aliases(steps: Sequence[CodeStep], outputs: Sequence[str]) -> tuple[list[CodeStep], list[str]]:
    """The steps without those that only give a value another name."""
    names: dict[str, str] = {}
    kept = []
    for step in steps:
        inputs = tuple(names.get(name, name) for name in step.inputs)
        if step.label == "alias":
            names[step.values[0]] = inputs[0]
        else:
            kept.append(replace(step, inputs=inputs))
    return kept, [names.get(name, name) for name in outputs]


def renamed(steps: Sequence[CodeStep], paths: Mapping[str, Path]) -> list[CodeStep]:
    """Steps under other names, by the first value that they make."""
    return [replace(step, path=paths.get(step.values[0], step.path), is_leaf=True) for step in steps]
