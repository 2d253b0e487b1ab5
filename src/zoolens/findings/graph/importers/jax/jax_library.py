"""Any function of JAX as a graph: the program that JAX traces of it is walked, operation by operation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any, Final

import numpy as np

from zoolens.base.errors import ModelError, first_line
from zoolens.findings.graph.importers.jax.primitives import PRIMITIVES
from zoolens.findings.graph.importers.jax.programs import inner_program, visited_answers
from zoolens.findings.graph.importers.jax.scans import recurrent_scan
from zoolens.findings.graph.importers.jax.walk import JaxCall, JaxWalk, Leaf, Operand
from zoolens.findings.graph.ir.model import Array, Graph
from zoolens.findings.graph.ir.vocabulary import OPAQUE

_ARRANGING: Final = frozenset({"gather", "rev", "dynamic_slice", "split"})  # they only choose and order numbers


def graph_of_jax_function(
    function: Callable[..., Any],
    parameters: Sequence[tuple[str, Array]],
    example_inputs: Sequence[Any],
    name: str,
    *,
    channels_last: bool = True,
    maps: Sequence[bool] = (),
    answers: dict[str, Array] | None = None,
) -> Graph:
    """The raw graph of `function(values, *inputs)`, where `values` are those of the named parameters, in order.

    Inputs are for a batch of 1; their numbers do not matter. `maps`: of each input, whether its last axis has the
    channels of a map, though it is no image. `answers` is filled with what the operations answer to
    these inputs that nobody here computes, by the names of their nodes.
    """
    import jax

    values = [array for _, array in parameters]
    try:
        program = jax.make_jaxpr(function)(values, *example_inputs)
    except jax.errors.ConcretizationTypeError as error:
        raise ModelError(
            f"{name} decides by numbers what it computes, so that it has no one structure: {first_line(error)}",
            hint="Use jax.lax.cond or jnp.where, or remove the decision.",
        ) from error
    walk = JaxWalk(name, weights=True)
    leaves: list[Operand] = [Leaf(np.asarray(array), key, learned=True) for key, array in parameters]
    inputs: list[Operand] = [
        _input(walk, array, place, channels_last, is_map=place < len(maps) and maps[place])
        for place, array in enumerate(example_inputs)
    ]
    outputs = _walked(walk, program.jaxpr, [walk.constant(value) for value in program.consts], [*leaves, *inputs])
    if answers is not None:
        opaque = {node.name for node in walk.builder.nodes if node.op in OPAQUE}
        visits = [tuple(name if name in opaque else None for name in names) for names in walk.visits]
        answers.update(visited_answers(program, [*values, *example_inputs], visits))
    facts = {
        "library": "jax", "name": name, "version": version("jax"),
        "parameters_total": sum(int(array.size) for array in values),
    }  # fmt: skip
    return walk.builder.finish([walk.node(output) for output in outputs], facts)


def _input(walk: JaxWalk, array: Any, place: int, channels_last: bool, *, is_map: bool) -> str:
    axes = ("NHWC" if channels_last else "NCHW") if array.ndim == 4 else "NWC" if is_map else ""
    return walk.builder.add("input", (), array.shape, name=f"input{place}", source=f"input{place}", axes=axes)


def _walked(walk: JaxWalk, program: Any, constants: Sequence[Operand], given: Sequence[Operand]) -> list[Operand]:
    values: dict[int, Operand] = {}
    values.update((id(variable), operand) for variable, operand in zip(program.constvars, constants, strict=True))
    values.update((id(variable), operand) for variable, operand in zip(program.invars, given, strict=True))

    def operand(variable: Any) -> Operand:
        if hasattr(variable, "val"):
            return walk.constant(variable.val)
        return values[id(variable)]

    for equation in program.eqns:
        operands = [operand(variable) for variable in equation.invars]
        inner = inner_program(equation)
        if inner is not None:
            made = _walked(walk, inner[0], [walk.constant(value) for value in inner[1]], operands)
        else:
            made = _computed(walk, equation, operands)
            walk.visits.append(tuple(result if isinstance(result, str) else None for result in made))
        values.update((id(variable), result) for variable, result in zip(equation.outvars, made, strict=True))
    return [operand(variable) for variable in program.outvars]


def _computed(walk: JaxWalk, equation: Any, operands: list[Operand]) -> list[Operand]:
    if all(isinstance(each, Leaf) and not each.learned for each in operands):
        folded = _folded(walk, equation, operands)
        if folded is not None:
            return folded
    arranged = _arranged(equation, operands) if equation.primitive.name in _ARRANGING else None
    if arranged is not None:
        return arranged
    shapes = tuple(tuple(variable.aval.shape) for variable in equation.outvars)
    given = tuple(tuple(variable.aval.shape) for variable in equation.invars)
    kinds = "".join(_kind(variable.aval.dtype) for variable in equation.invars)
    call = JaxCall(walk, equation.primitive.name, tuple(operands), dict(equation.params), given, kinds, shapes)
    handler = PRIMITIVES.get(equation.primitive.name)
    if handler is not None and len(shapes) == 1:
        return [handler(call)]
    if call.primitive == "split":
        return _split(call)
    if call.primitive == "scan":
        layer = recurrent_scan(call, _walked)
        if layer is not None:
            return layer
    first = call.unknown()
    rest = enumerate(shapes[1:], start=1)
    return [first, *(call.add("output_of", first, shape=shape, index=index) for index, shape in rest)]


def _kind(dtype: Any) -> str:
    """The kind of number, as numpy writes it. Types that JAX adds, as bfloat16, are of the kind that they extend."""
    import jax.numpy as jnp

    if jnp.issubdtype(dtype, jnp.floating):
        return "f"
    return str(getattr(dtype, "kind", "V"))


def _split(call: JaxCall) -> list[Operand]:
    axis = int(call.settings["axis"])
    start = 0
    parts = list[Operand]()
    for shape in call.shapes:
        parts.append(call.add("slice", call.value(), shape=shape, axis=axis, start=start, stop=start + shape[axis]))
        start += shape[axis]
    return parts


def _arranged(equation: Any, operands: list[Operand]) -> list[Operand] | None:
    """One learned leaf, put into another order by constants, is a learned leaf."""
    learned = [each for each in operands if isinstance(each, Leaf) and each.learned]
    if len(learned) != 1 or not all(isinstance(each, Leaf) for each in operands):
        return None
    shapes = [tuple(variable.aval.shape) for variable in equation.invars]
    arrays = [each.full(shape) for each, shape in zip(operands, shapes, strict=True) if isinstance(each, Leaf)]
    results = equation.primitive.bind(*arrays, **equation.params)
    listed = results if equation.primitive.multiple_results else [results]
    return [Leaf(np.asarray(result), learned[0].key, learned=True) for result in listed]


def _folded(walk: JaxWalk, equation: Any, operands: list[Operand]) -> list[Operand] | None:
    """What is computed from constants alone is a constant; None where there is nothing to compute from, or it fails."""
    shapes = [tuple(variable.aval.shape) for variable in equation.invars]
    arrays = [
        each.values.reshape(shape) for each, shape in zip(operands, shapes, strict=True) if isinstance(each, Leaf)
    ]
    try:
        results = equation.primitive.bind(*arrays, **equation.params)
        listed = results if equation.primitive.multiple_results else [results]
        return [walk.constant(np.asarray(result)) for result in listed]  # keys of random numbers cannot be arrays
    except Exception:  # a primitive of somebody else's may raise anything: it is then translated as the others are
        return None
