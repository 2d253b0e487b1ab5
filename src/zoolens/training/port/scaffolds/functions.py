"""From blocks to functions: their names, and which settings are arguments."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from zoolens.training.port.scaffolds.blocks import CodeBlock, Instance, relative
from zoolens.training.port.scaffolds.names import identifier, snake_case, unique
from zoolens.training.port.scaffolds.steps import CodeStep, literal

_RESERVED: Final = frozenset(
    {"x", "y", "z", "name", "self", "super", "net", "Net", "inputs", "layers", "layer", "ops", "keras", "nn", "torch",
     "F", "i", "math", "attention", "LearnedTensor", "ChannelScale"}
)  # fmt: skip
_WORDY: Final = 3
_MANY: Final = 5


@dataclass(frozen=True)
class Argument:
    name: str
    slots: tuple[int, ...]  # of the block's settings, in order


@dataclass
class Function:
    """A block as a function."""

    block: CodeBlock
    name: str
    arguments: list[Argument] = field(default_factory=list)
    names: list[tuple[str, ...]] = field(default_factory=list)  # what its layers are called in it, one for each step
    labels: list[str] = field(default_factory=list)  # what they are

    def argument_of(self, slot: int) -> str | None:
        return next((argument.name for argument in self.arguments if slot in argument.slots), None)


def functions_of(blocks: Sequence[CodeBlock], classes: Mapping[str, str]) -> list[Function]:
    """Returns the functions in the order of the blocks, so that a function calls only earlier ones."""
    functions: list[Function] = []
    names = _names(blocks, classes)
    for block in blocks:
        made = Function(block, names[block.number])
        made.labels = [step_label(step, functions) for step in block.model.steps]
        made.names = step_names([(relative(step, block.model), step) for step in block.model.steps])
        made.arguments = _arguments(block, made, functions)
        functions.append(made)
    return functions


def step_label(step: CodeStep, functions: Sequence[Function]) -> str:
    """One word for what a step is."""
    return snake_case(step.label if step.body is None else functions[step.body].name).partition("_")[0]


def rendered_slots(step: CodeStep, functions: Sequence[Function]) -> list[tuple[int, str]]:
    """The settings of a step that are written, by number, with their keywords: of a call those that are arguments."""
    if step.body is None:
        return [(number, setting.keyword) for number, setting in enumerate(step.settings)]
    return [(argument.slots[0], argument.name) for argument in functions[step.body].arguments]


def step_names(steps: Sequence[tuple[tuple[str, ...], CodeStep]]) -> list[tuple[str, ...]]:
    """A name in parts for each step that needs one; the second of one name has a number."""
    taken: Counter[tuple[str, ...]] = Counter()
    names = []
    for parts, step in steps:
        own = parts if step.is_leaf or step.is_call else (*parts, snake_case(step.label))
        own = own or (snake_case(step.label),)
        if step.maker or step.is_call:
            taken[own] += 1
            own = own if taken[own] == 1 else (*own[:-1], f"{own[-1]}_{taken[own]}")
        names.append(own)
    return names


def _arguments(block: CodeBlock, made: Function, functions: Sequence[Function]) -> list[Argument]:
    """One for each settings' vector over the instances that is not the same value everywhere."""
    columns = [instance.slots() for instance in block.instances]
    groups: dict[tuple[str, tuple[str, ...]], list[tuple[int, str, str]]] = {}
    offset = 0
    for place, step in enumerate(block.model.steps):
        for slot, keyword in rendered_slots(step, functions):
            number = offset + slot
            vector = tuple(literal(column[number].value) for column in columns)
            if len(set(vector)) > 1:
                family = step.settings[slot].family or step.settings[slot].keyword
                owner = identifier(made.names[place], made.labels[place])
                groups.setdefault((family, vector), []).append((number, keyword, owner))
        offset += len(step.settings)
    wanted = Counter(members[0][1] for members in groups.values())
    taken: set[str] = set(_RESERVED)
    arguments = []
    for members in groups.values():
        number, keyword, owner = members[0]
        name = keyword if wanted[keyword] == 1 else f"{owner}_{keyword}"
        name = unique(name, taken)
        taken.add(name)
        arguments.append(Argument(name, tuple(slot for slot, _, _ in members)))
    return arguments


def _names(blocks: Sequence[CodeBlock], classes: Mapping[str, str]) -> list[str]:
    bases = [_base(block, classes) for block in blocks]
    names: dict[int, str] = {}
    taken: set[str] = set(_RESERVED)
    for base in dict.fromkeys(bases):
        same = [block for block, own in zip(blocks, bases, strict=True) if own == base]
        first = max(same, key=lambda block: (len(block.instances), "depthwise_conv" not in _labels(block.model)))
        for block in [first, *(other for other in same if other is not first)]:
            wanted = base if block is first else f"{base}{_difference(block.model, first.model)}"
            names[block.number] = unique(wanted, taken)
            taken.add(names[block.number])
    return [names[block.number] for block in blocks]


def _base(block: CodeBlock, classes: Mapping[str, str]) -> str:
    """The class of the source's modules, or what its names or layers have in common."""
    kinds = {classes.get(".".join(instance.path), "") for instance in block.instances}
    if len(kinds) == 1 and (kind := kinds.pop()):
        return snake_case(kind)
    labels = [snake_case(step.label) for step in block.model.steps]
    if "add" in labels and len(labels) >= _MANY:
        adding = block.model.steps[labels.index("add")]
        return "residual_block" if set(adding.inputs) & set(block.model.inputs) else "projection_block"
    stems = {tuple(_stem(part) for part in instance.path) for instance in block.instances}
    words = next(iter(stems)) if len(stems) == 1 else ("",)
    if len(words[-1]) >= _WORDY:
        return identifier([word for word in words[-2:] if word], "block")
    if len(labels) < _MANY:
        return identifier([_stem(label) or label for label in labels], "block")
    return "block"


def _stem(part: str) -> str:
    """A part of a name without its number: block of block1a and block_2."""
    return re.sub(r"\d+[a-z]?$", "", part)


def _difference(variant: Instance, usual: Instance) -> str:
    """What tells a variant of a block from the usual one."""
    mine, theirs = _labels(variant), _labels(usual)
    more, less = (
        sorted(labels.elements(), key=lambda label: label == "zero_padding")
        for labels in (mine - theirs, theirs - mine)
    )
    if more:
        return f"_with_{more[0]}"
    return f"_without_{less[0]}" if less else ""


def _labels(instance: Instance) -> Counter[str]:
    """Names of submodules where they have letters, otherwise the layers."""
    counter: Counter[str] = Counter()
    for step in instance.steps:
        parts = relative(step, instance)
        word = _stem(parts[0]) if len(parts) > 1 else ""
        counter[identifier([word], "part") if len(word) >= _WORDY else snake_case(step.label)] += 1
    return counter
