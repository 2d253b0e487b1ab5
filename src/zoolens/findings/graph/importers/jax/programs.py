"""The programs that JAX traces: programs within them, and what their operations answer when they are computed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from zoolens.findings.graph.ir.model import Array

# Calls of programs within a program, and the settings that may have the inner one.
_CALLS: Final = frozenset(
    {"jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr", "remat",
     "remat2", "checkpoint"}
)  # fmt: skip
_INNER: Final = ("jaxpr", "call_jaxpr", "fun_jaxpr")


def inner_program(equation: Any) -> tuple[Any, Sequence[Any]] | None:
    """The program that an operation calls, with its constants; None for an operation that calls none."""
    inner = next((equation.params[name] for name in _INNER if name in equation.params), None)
    if inner is None or equation.primitive.name not in _CALLS:
        return None
    return getattr(inner, "jaxpr", inner), getattr(inner, "consts", ())


def visited_answers(
    program: Any, given: Sequence[Any], visits: Sequence[tuple[str | None, ...]]
) -> Iterator[tuple[str, Array]]:
    """What operations answer, by the names in `visits`: those of each operation's results, in order of computation."""
    import jax.numpy as jnp

    answers: dict[str, Array] = {}
    fed = [jnp.asarray(array, variable.aval.dtype) for array, variable in zip(given, program.jaxpr.invars, strict=True)]
    _run(program.jaxpr, program.consts, fed, iter(visits), answers)
    yield from answers.items()


def _run(
    program: Any,
    constants: Sequence[Any],
    given: Sequence[Any],
    visits: Iterator[tuple[str | None, ...]],
    answers: dict[str, Array],
) -> list[Any]:
    import jax
    import jax.numpy as jnp

    values = dict(zip(map(id, (*program.constvars, *program.invars)), (*constants, *given), strict=True))

    def value(variable: Any) -> Any:
        return variable.val if hasattr(variable, "val") else values[id(variable)]

    for equation in program.eqns:
        fed = [value(variable) for variable in equation.invars]
        inner = inner_program(equation)
        if inner is not None:
            made = _run(*inner, fed, visits, answers)
        else:
            made = computed(equation, fed)
            names = next(visits)
            answers.update(
                (name, np.array(each))
                for name, each in zip(names, made, strict=True)
                if name is not None and not jnp.issubdtype(each.dtype, jax.dtypes.prng_key)  # a key is no number
            )
        values.update(zip(map(id, equation.outvars), made, strict=True))
    return [value(variable) for variable in program.outvars]


def computed(equation: Any, fed: Sequence[Any]) -> list[Any]:
    """What an operation answers."""
    bound = equation.primitive.get_bind_params(equation.params)
    functions, settings = bound if isinstance(bound, tuple) else ((), bound)  # older versions of JAX have both
    made = equation.primitive.bind(*functions, *fed, **settings)
    return list(made) if equation.primitive.multiple_results else [made]
