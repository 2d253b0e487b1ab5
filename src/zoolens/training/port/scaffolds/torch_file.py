"""A draft as a file of PyTorch code: a module for each block, and net(), which makes the whole."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from zoolens.training.port.scaffolds.blocks import Arrangement
from zoolens.training.port.scaffolds.body import CodeLoop, Statement, argument_texts, assigned_variables, rolled
from zoolens.training.port.scaffolds.code_text import call, docstring, fitted, indented
from zoolens.training.port.scaffolds.functions import Function, functions_of, step_label, step_names
from zoolens.training.port.scaffolds.names import camel_case, identifier, unique
from zoolens.training.port.scaffolds.parts import (
    called_again,
    first_calls,
    input_names,
    places,
    results,
    todo_function,
    unique_names,
)
from zoolens.training.port.scaffolds.steps import CodeStep, literal
from zoolens.training.port.scaffolds.writer import Writer

HELPERS: Final = {
    "LearnedTensor": '''\
class LearnedTensor(nn.Module):
    """A tensor that is learned by itself, such as a class token."""

    def __init__(self, shape, trainable=True):
        super().__init__()
        self.value = nn.Parameter(torch.randn(shape) * 0.02, requires_grad=trainable)

    def forward(self):
        return self.value''',
    "ChannelScale": '''\
class ChannelScale(nn.Module):
    """Multiplies each channel by a learned number, and adds another."""

    def __init__(self, shape, scale=True, shift=False):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(shape)) if scale else None
        self.shift = nn.Parameter(torch.zeros(shape)) if shift else None

    def forward(self, x):
        x = x if self.scale is None else x * self.scale
        return x if self.shift is None else x + self.shift''',
    "FixedNorm": '''\
class FixedNorm(nn.BatchNorm2d):
    """Subtracts fixed means and divides by fixed deviations, in training, too."""

    def train(self, mode=True):
        return super().train(False)''',
    "DropBranch": '''\
class DropBranch(nn.Module):
    """In training, drops all of an example together with probability p."""

    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, x):
        if not self.training or self.p == 0:
            return x
        kept = x.new_empty((len(x), *[1] * (x.ndim - 1))).bernoulli_(1 - self.p)
        return x * kept / (1 - self.p)''',
}
_RESERVED: Final = frozenset(
    {"training", "forward", "train", "eval", "parameters", "modules", "children", "apply", "half", "float", "double",
     "type", "to", "buffers", "named_modules", "state_dict", "register_buffer", "extra_repr", "dump_patches", "cpu",
     "cuda", "share_memory", "requires_grad_", "zero_grad", "compile", "bfloat16", "add_module", "get_parameter"}
)  # fmt: skip


def torch_file(writer: Writer, arranged: Arrangement, outputs: Sequence[str], header: Sequence[str]) -> str:
    functions = functions_of(arranged.blocks, writer.source.classes)
    taken = {"Net", *writer.helpers}
    for made in functions:
        made.name = unique(camel_case(made.name), taken, "{}{}".format)
        taken.add(made.name)
    parts = [HELPERS[name].splitlines() for name in writer.helpers]
    parts += [todo_function(todo) for todo in writer.todos]
    parts += [_block(made, functions, writer.source.framework) for made in functions]
    names = [node.name for node in writer.graph.inputs]
    parts.append(_module("Net", "The whole network.", arranged.steps, names, outputs, functions))
    parts.append(["def net():", "    return Net()"])
    body = [line for part in parts for line in ("", "", *part)]
    functional = ["import torch.nn.functional as F"] if any("F." in line for line in body) else []
    plain = ["import torch"] if any("torch." in line for line in body) else []
    lines = [*docstring(header), "", *plain, *functional, "from torch import nn"]
    return "\n".join(fitted([*lines, *body])) + "\n"


def _block(made: Function, functions: Sequence[Function], framework: str) -> list[str]:
    model = made.block.model
    return _module(
        made.name, places(made, framework), model.steps, model.inputs, model.outputs, functions, function=made
    )


def _module(
    name: str,
    words: str,
    steps: Sequence[CodeStep],
    inputs: Sequence[str],
    outputs: Sequence[str],
    functions: Sequence[Function],
    function: Function | None = None,
) -> list[str]:
    given = dict(zip(inputs, input_names(len(inputs)), strict=True))
    rows = assigned_variables(steps, given, outputs)
    parts = function.names if function is not None else step_names([(step.path, step) for step in steps])
    names = _attributes(parts, [step_label(step, functions) for step in steps], steps)
    makers, statements = _statements(steps, rows, names, functions, function)
    body = list(_lists(rolled(statements), statements)) if function is None else list(statements)
    lists = _list_names([row for row in body if isinstance(row, CodeLoop)], names)
    made = [line for row in body for line in _made(row, makers, steps, lists)]
    run = [line for row in body for line in _run(row, lists)]
    returned = results(steps, rows, given, outputs)
    arguments = [argument.name for argument in function.arguments] if function is not None else []
    return [
        f"class {name}(nn.Module):",
        f'    """{words}"""',
        "",
        *indented(
            [
                f"def __init__({', '.join(['self', *arguments])}):",
                *indented(["super().__init__()", *_keeping(arguments, run), *made]),
            ]
        ),
        "",
        *indented([f"def forward({', '.join(['self', *given.values()])}):", *indented(run)]),
        *indented([f"return {', '.join(returned)}"], 2),
    ]


def _attributes(parts: Sequence[tuple[str, ...]], labels: Sequence[str], steps: Sequence[CodeStep]) -> list[str]:
    wanted = [identifier(own, label) for own, label in zip(parts, labels, strict=True)]
    return unique_names(wanted, steps, _RESERVED)


def _statements(
    steps: Sequence[CodeStep],
    rows: Sequence[tuple[list[str], list[str]]],
    names: Sequence[str],
    functions: Sequence[Function],
    function: Function | None,
) -> tuple[list[str], list[Statement]]:
    """For each step what makes its layer ("" where it has none), and its line of `forward`, with {layer}."""
    makers, statements, offset, again = [], [], 0, called_again(steps)
    for number, (step, (inputs, values), name) in enumerate(zip(steps, rows, names, strict=True)):

        def text_of(slot: int, base: int = offset) -> str | None:
            return function.argument_of(base + slot) if function is not None else None

        makers.append(_maker(step, functions, text_of))
        target = f"{', '.join(values)} = "
        if step.maker or step.is_call:
            pattern = step.pattern or f"{{layer}}({', '.join(f'{{{place}}}' for place in range(len(inputs)))})"
            text = pattern.format(*inputs, layer="{layer}")
        else:
            settings = {
                setting.keyword: _kept(argument) if (argument := text_of(slot)) else literal(setting.value)
                for slot, setting in enumerate(step.settings)
            }
            text = step.pattern.format(*inputs, **settings)
        named = name if makers[-1] else ""
        statements.append(Statement(f"{target}{text}\0{makers[-1]}", named, number, alone=number in again))
        offset += len(step.settings)
    return makers, statements


def _kept(argument: str) -> str:
    """An argument of the constructor as `forward` has it. No layer's name ends in an underscore."""
    return f"self.{argument}_"


def _keeping(arguments: Sequence[str], run: Sequence[str]) -> list[str]:
    """Lines of `__init__` that keep the arguments that `forward` needs."""
    used = set(re.findall(r"self\.(\w+)_\b", "\n".join(run)))
    return [f"{_kept(argument)} = {argument}" for argument in arguments if argument in used]


def _maker(step: CodeStep, functions: Sequence[Function], text_of: Callable[[int], str | None]) -> str:
    if not step.maker and step.body is None:
        return ""
    kind = step.maker or functions[step.body].name  # type: ignore[index]
    return call(kind, argument_texts(step, functions, text_of))


def _made(
    row: Statement | CodeLoop, makers: Sequence[str], steps: Sequence[CodeStep], lists: Mapping[tuple[int, ...], str]
) -> list[str]:
    """The lines of `__init__`."""
    if isinstance(row, CodeLoop):
        maker = _layered(row).text.partition("\0")[2]
        return [f"self.{lists[row.steps]} = nn.ModuleList([{maker} for _ in range({row.rounds})])"]
    if not row.name or first_calls(steps)[row.step] != row.step:
        return []
    layer = f"self.{row.name}"
    after = [line.replace("{layer}", layer) for line in steps[row.step].after]
    return [f"{layer} = {makers[row.step]}", *after]


def _lists(rows: Sequence[Statement | CodeLoop], statements: Sequence[Statement]) -> Iterator[Statement | CodeLoop]:
    """Loops over one layer in each round, which then are a list of layers; others as statements."""
    for row in rows:
        if isinstance(row, CodeLoop) and sum(bool(statement.name) for statement in row.statements) != 1:
            yield from (statements[step] for step in row.steps)
        else:
            yield row


def _layered(row: CodeLoop) -> Statement:
    """The statement with the layer that each round has."""
    return next(statement for statement in row.statements if statement.name)


def _list_names(loops: Sequence[CodeLoop], names: Sequence[str]) -> dict[tuple[int, ...], str]:
    """An attribute for the list of layers of each loop, by the loop's steps."""
    taken = {*_RESERVED, *names}
    lists = {}
    for loop in loops:
        stem = loop.stems[loop.statements.index(_layered(loop))].replace("{i}", "_")
        words = [word for word in stem.split("_") if word] or ["layer"]
        plural = "_".join(words) if words[-1].endswith("s") else f"{'_'.join(words)}s"
        lists[loop.steps] = unique(identifier([plural], "layers"), taken)
        taken.add(lists[loop.steps])
    return lists


def _run(row: Statement | CodeLoop, lists: Mapping[tuple[int, ...], str]) -> list[str]:
    """The lines of `forward`."""
    if isinstance(row, Statement):
        return [row.text.partition("\0")[0].replace("{layer}", f"self.{row.name}")]
    lines = [statement.text.partition("\0")[0].replace("{layer}", "layer") for statement in row.statements]
    return [f"for layer in self.{lists[row.steps]}:", *indented(lines)]
