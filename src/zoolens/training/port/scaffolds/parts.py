"""Parts of a file that drafts for all frameworks have: what its reader has to write, docstrings and names of layers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from zoolens.training.port.scaffolds.functions import Function
from zoolens.training.port.scaffolds.names import comment, layer_name, unique
from zoolens.training.port.scaffolds.steps import CodeStep
from zoolens.training.port.scaffolds.writer import Todo


def todo_function(todo: Todo) -> list[str]:
    """A function that raises until the reader of the draft has written it."""
    shapes = [_size(shape) for shape in todo.inputs]
    tensors = f" It has learned tensors of {', '.join(map(_size, todo.tensors))}." if todo.tensors else ""
    inputs = [f"x{number}" for number in range(1, len(shapes) + 1)] if len(shapes) > 1 else ["x"][: len(shapes)]
    return [
        f"def {todo.function}({', '.join(inputs)}):",
        f'    """The layer {todo.source} of the source ({todo.op}).',
        "",
        f"    TODO: write it. Inputs of the source, channels first: {', '.join(shapes) or 'none'};",
        f"    output: {_size(todo.output)}.{tensors}",
        f"    Why it is not written: {todo.why}.",
        '    """',
        f'    raise NotImplementedError("{todo.source} ({todo.op})")',
    ]


def _size(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "one number"


def input_names(count: int) -> list[str]:
    """Variables for the inputs of a block."""
    return ["x", "y", "z", *(f"x{number}" for number in range(1, count))][:count]


def places(made: Function, framework: str) -> str:
    """Where the source has the block."""
    separator = "_" if framework == "keras" else "."
    names = [comment(separator.join(instance.path)) for instance in made.block.instances]
    more = len(names) - 1
    return f"The block {names[0]} of the source and {more} more like it."


def step_texts(names: Sequence[tuple[str, ...]], steps: Sequence[CodeStep]) -> list[str]:
    """The name of each step within its block; those of layers are unique."""
    return unique_names([layer_name(parts) or step.label for parts, step in zip(names, steps, strict=True)], steps)


def unique_names(wanted: Sequence[str], steps: Sequence[CodeStep], reserved: Iterable[str] = ()) -> list[str]:
    """These names, where those of layers and of calls of blocks become unique."""
    taken = set(reserved)
    names: list[str] = []
    first = first_calls(steps)
    for number, (name, step) in enumerate(zip(wanted, steps, strict=True)):
        if first[number] != number:
            names.append(names[first[number]])
            continue
        own = unique(name, taken) if step.maker or step.is_call else name
        if step.maker or step.is_call:
            taken.add(own)
        names.append(own)
    return names


def first_calls(steps: Sequence[CodeStep]) -> list[int]:
    """For each step the place of the step that makes its layer: an earlier one where both call one layer."""
    makers: dict[str, int] = {}
    return [makers.setdefault(step.shared, number) if step.shared else number for number, step in enumerate(steps)]


def called_again(steps: Sequence[CodeStep]) -> set[int]:
    """The places of steps whose layer several steps call."""
    first = first_calls(steps)
    return {number for number in range(len(steps)) if first.count(first[number]) > 1}


def results(
    steps: Sequence[CodeStep],
    rows: Sequence[tuple[list[str], list[str]]],
    given: Mapping[str, str],
    outputs: Sequence[str],
) -> list[str]:
    """The variables that hold the outputs at the end."""
    variables = dict(given)
    for step, (_, values) in zip(steps, rows, strict=True):
        variables.update(zip(step.values, values, strict=True))
    return [variables[name] for name in outputs]
