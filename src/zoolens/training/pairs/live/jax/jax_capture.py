"""What the layers of a JAX function answer, though it has no names for them: by the tensors that they take.

The function's program is run equation by equation. A value that was made of tensors of one layer alone still belongs to
that layer; where such a value meets what depends on the inputs, the layer answers, and the last such meeting (a bias
after its kernel) is its answer. A layer one of whose tensors meets inputs twice is called twice, and is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from zoolens.findings.graph.importers.jax.programs import computed, inner_program
from zoolens.training.pairs.mapping.tensor_names import owner

_CONTROL: Final = ("scan", "while", "cond")  # what happens within them is not seen


@dataclass(frozen=True)
class _Source:
    """Where a value comes from: `layer` None: no tensor, or tensors of several layers. `tensor`: where it is one."""

    depends_on_inputs: bool
    layer: str | None = None
    tensor: str | None = None


_CONSTANT: Final = _Source(depends_on_inputs=False)
_INPUT: Final = _Source(depends_on_inputs=True)


@dataclass
class LayerAnswers:
    """`found`: by the layer, in the order of computation."""

    found: dict[str, Any] = field(default_factory=dict)
    _meetings: Counter[str] = field(default_factory=Counter)
    _layers: dict[str, str] = field(default_factory=dict)

    def run(
        self, program: Any, constants: Sequence[Any], given: Sequence[Any], sources: Sequence[_Source]
    ) -> list[tuple[Any, _Source]]:
        """Run a program (a jaxpr); its results, each with where it comes from."""
        known: dict[Any, tuple[Any, _Source]] = {
            variable: (value, _CONSTANT) for variable, value in zip(program.constvars, constants, strict=True)
        }
        known |= {entry: pair for entry, *pair in zip(program.invars, given, sources, strict=True)}

        def read(atom: Any) -> tuple[Any, _Source]:
            return (atom.val, _CONSTANT) if hasattr(atom, "val") else known[atom]

        for equation in program.eqns:
            operands = [read(atom) for atom in equation.invars]
            for variable, result in zip(equation.outvars, self._computed(equation, operands), strict=True):
                known[variable] = result
        return [read(atom) for atom in program.outvars]

    def _computed(self, equation: Any, operands: Sequence[tuple[Any, _Source]]) -> list[tuple[Any, _Source]]:
        values, sources = [value for value, _ in operands], [source for _, source in operands]
        inner = inner_program(equation)
        if inner is not None:
            return self.run(*inner, values, sources)
        results, source = computed(equation, values), _of_all(sources)
        if source.depends_on_inputs and equation.primitive.name not in _CONTROL:
            self._meet([origin for origin in sources if not origin.depends_on_inputs], results[0])
        return [(result, source) for result in results]

    def _meet(self, tensors: Sequence[_Source], answer: Any) -> None:
        for source in tensors:
            if source.layer is None:
                continue
            if source.tensor is not None:
                self._meetings[source.tensor] += 1
                self._layers[source.tensor] = source.layer
            before = self.found.get(source.layer)
            if before is None or answer.size >= before.size:  # new statistics of a norm are no answer
                self.found.pop(source.layer, None)
                self.found[source.layer] = answer

    def once(self) -> dict[str, Any]:
        """The answers of layers that are called once."""
        again = {self._layers[tensor] for tensor, times in self._meetings.items() if times > 1}
        return {layer: answer for layer, answer in self.found.items() if layer not in again}


def _of_all(sources: Sequence[_Source]) -> _Source:
    if any(source.depends_on_inputs for source in sources):
        return _INPUT
    learned = [source for source in sources if source.layer is not None]
    layers, tensors = ({getattr(source, name) for source in learned} for name in ("layer", "tensor"))
    if len(layers) != 1:
        return _CONSTANT
    return _Source(False, layers.pop(), tensors.pop() if len(tensors) == 1 else None)


def layer_answers(closed: Any, given: Sequence[Any], tensors: Sequence[str | None]) -> dict[str, Any]:
    """`closed`: a closed jaxpr, whose first arguments are the network's arrays; `tensors`: the names of those that are
    tensors. `given`: all arguments."""
    sources = [_CONSTANT if name is None else _Source(False, owner(name), name) for name in tensors]
    answers = LayerAnswers()
    answers.run(closed.jaxpr, closed.consts, given, sources + [_INPUT] * (len(given) - len(sources)))
    return answers.once()
