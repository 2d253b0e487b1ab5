"""A draft as a file of Keras code: a function for each block, and net(), which makes the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from zoolens.findings.graph.ir.model import Node
from zoolens.training.port.scaffolds.blocks import Arrangement
from zoolens.training.port.scaffolds.body import NAME, CodeLoop, Statement, argument_texts, assigned_variables, rolled
from zoolens.training.port.scaffolds.code_text import call, docstring, fitted, indented
from zoolens.training.port.scaffolds.functions import Function, functions_of, step_names
from zoolens.training.port.scaffolds.keras_code import KerasWriter
from zoolens.training.port.scaffolds.layouts import channels_last, turned
from zoolens.training.port.scaffolds.names import identifier, layer_name, unique
from zoolens.training.port.scaffolds.parts import (
    called_again,
    first_calls,
    input_names,
    places,
    results,
    step_texts,
    todo_function,
)
from zoolens.training.port.scaffolds.steps import CodeStep, literal

HELPERS: Final = {
    "LearnedTensor": '''\
class LearnedTensor(layers.Layer):
    """A tensor that is learned by itself, such as a class token: the same for each example."""

    def __init__(self, shape, **options):
        super().__init__(**options)
        self.shape = tuple(shape)

    def build(self, input_shape):
        initializer = keras.initializers.RandomNormal(stddev=0.02)
        self.value = self.add_weight(name="value", shape=(1, *self.shape), initializer=initializer)

    def call(self, x):
        return ops.broadcast_to(self.value, (ops.shape(x)[0], *self.shape))

    def get_config(self):
        return {**super().get_config(), "shape": self.shape}''',
    "ChannelScale": '''\
class ChannelScale(layers.Layer):
    """Multiplies each channel by a learned number, and adds another."""

    def __init__(self, axis=-1, scale=True, shift=False, **options):
        super().__init__(**options)
        self.axis, self.has_scale, self.has_shift = axis, scale, shift

    def build(self, input_shape):
        shape = [1] * len(input_shape)
        if self.axis is not None:
            shape[self.axis] = input_shape[self.axis]
        if self.has_scale:
            self.scale = self.add_weight(name="scale", shape=shape, initializer="ones")
        if self.has_shift:
            self.shift = self.add_weight(name="shift", shape=shape, initializer="zeros")

    def call(self, x):
        x = x * self.scale if self.has_scale else x
        return x + self.shift if self.has_shift else x

    def get_config(self):
        own = {"axis": self.axis, "scale": self.has_scale, "shift": self.has_shift}
        return {**super().get_config(), **own}''',
    "attention": '''\
def attention(q, k, v, scale, bias=None):
    """Scaled dot-product attention; each is (batch, heads, tokens, width)."""
    scores = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) * scale
    scores = scores if bias is None else scores + bias
    return ops.matmul(ops.softmax(scores, axis=-1), v)''',
}


def keras_file(
    writer: KerasWriter, arranged: Arrangement, outputs: Sequence[str], header: Sequence[str], module_name: str
) -> str:
    functions = functions_of(arranged.blocks, writer.source.classes)
    parts = [HELPERS[name].splitlines() for name in writer.helpers]
    parts += [todo_function(todo) for todo in writer.todos]
    parts += [_function(made, functions, writer.source.framework) for made in functions]
    parts.append(_net(writer.graph.inputs, arranged.steps, outputs, functions, writer, module_name))
    lines = [*docstring(header), "", "import keras", "from keras import layers"]
    body = [line for part in parts for line in ("", "", *part)]
    if any("ops." in line for line in body):
        lines[-1] = "from keras import layers, ops"
    return "\n".join(fitted([*lines, *body])) + "\n"


def _function(made: Function, functions: Sequence[Function], framework: str) -> list[str]:
    model = made.block.model
    names = step_texts(made.names, model.steps)
    given = dict(zip(model.inputs, input_names(len(model.inputs)), strict=True))
    rows = assigned_variables(model.steps, given, model.outputs)
    named = any(step.maker or step.is_call for step in model.steps)
    arguments = [*given.values(), *(argument.name for argument in made.arguments), *(["name"] if named else [])]
    lines, offset = [], 0
    layers = _layer_variables(model.steps, names, [*arguments, *(other.name for other in functions)])
    for number, (step, (inputs, values), name) in enumerate(zip(model.steps, rows, names, strict=True)):
        base = offset
        texts = _texts(step, functions, inputs, lambda slot, base=base: made.argument_of(base + slot), layers[number])  # type: ignore[misc]
        lines += [text.replace(NAME, f'f"{{name}}_{name}"') for text in _assigned(values, texts)]
        offset += len(step.settings)
    returned = results(model.steps, rows, given, model.outputs)
    return [
        f"def {made.name}({', '.join(arguments)}):",
        f'    """{places(made, framework)}"""',
        *indented([*lines, f"return {', '.join(returned)}"]),
    ]


@dataclass(frozen=True)
class _Layer:
    """A layer that several steps call: the variable that holds it, and whether this step makes it."""

    variable: str
    is_made: bool


def _layer_variables(steps: Sequence[CodeStep], names: Sequence[str], taken: Sequence[str]) -> list[_Layer | None]:
    """For each step whose layer is called again, the layer's variable."""
    again, first = called_again(steps), first_calls(steps)
    variables: dict[int, str] = {}
    for number in sorted(again):
        if first[number] == number:
            wanted = identifier([*names[number].split("_"), "layer"], "layer")
            variables[number] = unique(wanted, {*variables.values(), *taken})
    return [
        _Layer(variables[first[number]], first[number] == number) if number in again else None
        for number in range(len(steps))
    ]


def _texts(
    step: CodeStep,
    functions: Sequence[Function],
    inputs: Sequence[str],
    text_of: Callable[[int], str | None],
    layer: _Layer | None,
) -> tuple[str, str]:
    """The line that makes a layer which is called again, or "", and the expression of the step."""
    if step.body is not None:
        given = [*inputs, *argument_texts(step, functions, text_of), f"name={NAME}"]
        return "", call(functions[step.body].name, given)
    if step.maker:
        made = call(step.maker, [*argument_texts(step, functions, text_of), f"name={NAME}"])
        if layer is None:
            return "", step.pattern.format(*inputs, layer=made)
        line = f"{layer.variable} = {made}" if layer.is_made else ""
        return line, step.pattern.format(*inputs, layer=layer.variable)
    settings = {setting.keyword: text_of(slot) or literal(setting.value) for slot, setting in enumerate(step.settings)}
    return "", step.pattern.format(*inputs, **settings)


def _assigned(values: Sequence[str], texts: tuple[str, str]) -> list[str]:
    made, expression = texts
    return [*([made] if made else []), f"{', '.join(values)} = {expression}"]


def _net(
    inputs: Sequence[Node],
    steps: Sequence[CodeStep],
    outputs: Sequence[str],
    functions: Sequence[Function],
    writer: KerasWriter,
    module_name: str,
) -> list[str]:
    given = {node.name: "inputs" if len(inputs) == 1 else f"input_{number}" for number, node in enumerate(inputs, 1)}
    rows = assigned_variables(steps, given, [*outputs, *given])
    names = _free_of_each_other(step_names([(step.path, step) for step in steps]), steps, functions)
    layers = _layer_variables(steps, names, [*given.values(), *(made.name for made in functions)])
    statements = []
    for number, (step, (used, made), name) in enumerate(zip(steps, rows, names, strict=True)):
        texts = _texts(step, functions, used, lambda _: None, layers[number])
        alone = layers[number] is not None
        statements += [
            Statement(text, name if NAME in text else "", number, alone=alone) for text in _assigned(made, texts)
        ]
    body = [line for row in rolled(statements) for line in _row(row)]
    returned = results(steps, rows, given, outputs)
    made_inputs = [_input(node, given[node.name], writer.integers) for node in inputs]
    taken_inputs = next(iter(given.values())) if len(given) == 1 else f"[{', '.join(given.values())}]"
    many = returned[0] if len(returned) == 1 else f"[{', '.join(returned)}]"
    title = layer_name([module_name]) or "network"
    return [
        "def net():",
        '    """The whole network."""',
        *indented([*made_inputs, *body, f'return keras.Model({taken_inputs}, {many}, name="{title}")']),
    ]


def _input(node: Node, variable: str, integers: frozenset[str]) -> str:
    shape = node.shape[1:]
    if len(node.shape) == 4:
        shape = turned(node.shape, channels_last(4))[1:]
    kind = ', dtype="int32"' if node.name in integers else ""
    return f"{variable} = keras.Input({literal(tuple(shape))}{kind})"


def _row(row: Statement | CodeLoop) -> list[str]:
    if isinstance(row, Statement):
        return [row.text.replace(NAME, f'"{row.name}"')]
    bounds = str(row.rounds) if row.first == 0 else f"{row.first}, {row.first + row.rounds}"
    lines = [
        statement.text.replace(NAME, f'f"{stem}"') for statement, stem in zip(row.statements, row.stems, strict=True)
    ]
    return [f"for i in range({bounds}):", *indented(lines)]


def _free_of_each_other(
    names: Sequence[tuple[str, ...]], steps: Sequence[CodeStep], functions: Sequence[Function]
) -> list[str]:
    """A name for each step so that no two layers of the model have the same one."""
    taken: set[str] = set()
    free: list[str] = []
    first = first_calls(steps)
    for number, (parts, step) in enumerate(zip(names, steps, strict=True)):
        if first[number] != number:
            free.append(free[first[number]])
            continue
        wanted = layer_name(parts) or step.label
        name, count = wanted, 1
        while taken & (made := set(_layers(step, name, functions))):
            count += 1
            name = f"{wanted}_{count}"
        taken |= made
        free.append(name)
    return free


def _layers(step: CodeStep, name: str, functions: Sequence[Function]) -> list[str]:
    """The full names of all layers that a step makes."""
    if step.body is None:
        return [name] if step.maker else []
    made = functions[step.body]
    inner = step_texts(made.names, made.block.model.steps)
    return [
        full
        for own, inner_step in zip(inner, made.block.model.steps, strict=True)
        for full in _layers(inner_step, f"{name}_{own}", functions)
    ]
