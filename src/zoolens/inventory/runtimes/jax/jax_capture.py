"""Values inside an exported JAX program.

To read them, the program is written once more with further results: that changes what XLA can fuse.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from zoolens.inventory.runtimes.jax.jax_instructions import short_name
from zoolens.inventory.runtimes.observing import CapturePoint
from zoolens.inventory.runtimes.runtime import Tensor

# Operations that arrange numbers of constants or repeat what was there before.
_NOTHING_COMPUTED: Final = frozenset({"stablehlo.constant", "stablehlo.iota", "func.return", "stablehlo.custom_call"})
_LOCATION: Final = re.compile(r'^loc\((?:callsite\()?"([^"]+)"')


class TappedProgram:
    """An exported program for inputs of one shape, in which the results of operations can be read."""

    def __init__(self, jax: Any, exported: Any, arrays: Sequence[Tensor], platform: str = "cpu") -> None:
        self._jax = jax
        args, kwargs = jax.tree_util.tree_unflatten(
            exported.in_tree, [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in arrays]
        )
        self._fixed = jax.export.export(jax.jit(exported.call), platforms=[platform])(*args, **kwargs)
        self._refined = _refined(self._fixed.mlir_module_serialized)
        self._tapped: tuple[tuple[str, ...], Any] | None = None
        self.values = dict(_described(self._module()))  # name -> (shape, type), in the order of the program

    def run(
        self, arrays: Sequence[Tensor], names: Sequence[str], arguments: Callable[[Sequence[Tensor]], Any]
    ) -> tuple[list[Tensor], list[Tensor]]:
        """The program's answers, and the wanted values. `arguments` makes of arrays what the program takes."""
        wanted = tuple(names)
        if self._tapped is None or self._tapped[0] != wanted:
            self._tapped = wanted, self._jax.jit(self._program(wanted).call)
        args, kwargs = arguments(arrays)
        results = [_array(result) for result in self._jax.tree_util.tree_leaves(self._tapped[1](*args, **kwargs))]
        count = len(self._fixed.out_avals)
        return results[:count], results[count:]

    def _module(self) -> Any:
        from jax.interpreters import mlir
        from jaxlib.mlir import ir

        with mlir.make_ir_context():
            return ir.Module.parse(self._refined)

    def _program(self, names: tuple[str, ...]) -> Any:
        """The program with these values as further results."""
        from jaxlib.mlir import ir
        from jaxlib.mlir.dialects import func, stablehlo

        module = self._module()
        known = dict(_computing(module))
        with module.context, ir.Location.unknown():
            main = _main(module)
            block = main.regions[0].blocks[0]
            last = list(block.operations)[-1].operation
            results = [*last.operands, *(known[name].results[0] for name in names)]
            with ir.InsertionPoint(last):
                func.ReturnOp(results)
            last.erase()
            kinds = [argument.type for argument in block.arguments], [result.type for result in results]
            main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(*kinds))
            if "res_attrs" in main.attributes:
                del main.attributes["res_attrs"]
            content = stablehlo.serialize_portable_artifact(module, stablehlo.get_current_version())
        aval = type(self._fixed.out_avals[0])
        taps = tuple(aval(shape, self._jax.numpy.dtype(kind)) for shape, kind in (self.values[name] for name in names))
        count = len(self._fixed.out_avals) + len(taps)
        nothing = (None,) * count
        return replace(
            self._fixed,
            mlir_module_serialized=content,
            out_avals=(*self._fixed.out_avals, *taps),
            out_tree=self._jax.tree_util.tree_structure([0] * count),
            **{
                field: nothing for field in ("out_shardings_hlo", "_out_named_shardings") if hasattr(self._fixed, field)
            },
        )


def capture_points(first: TappedProgram, other: TappedProgram | None) -> tuple[CapturePoint, ...]:
    """The points of a program; dimensions in which a program for another batch size differs are free."""
    points = []
    for name, (shape, kind) in first.values.items():
        theirs = other.values.get(name, (shape, kind))[0] if other else shape
        free = tuple(a if a == b else None for a, b in zip(shape, theirs, strict=False))
        points.append(CapturePoint(name, node=name, shape=free, dtype=_plain_type(kind)))
    return tuple(points)


def _refined(content: bytes) -> bytes:
    """The program with all shapes known and all functions inlined."""
    from jax._src.lib import _jax
    from jax.interpreters import mlir
    from jaxlib.mlir.dialects import stablehlo

    module = stablehlo.deserialize_portable_artifact(mlir.make_ir_context(), content)
    refined: bytes = _jax.mlir.refine_polymorphic_shapes(
        mlir.module_to_bytecode(module), enable_shape_assertions=True, validate_static_shapes=True
    )
    return refined


def _main(module: Any) -> Any:
    for operation in module.body.operations:
        name = str(operation.attributes["sym_name"]).strip('"')
        if name == "main":
            return operation.operation
    raise ValueError("the program has no function main")


def _computing(module: Any) -> Iterator[tuple[str, Any]]:
    """Operations of the program that depend on an input, by name: where they come from, and #2, #3 … for the same."""
    block = _main(module).regions[0].blocks[0]
    dependent = set(block.arguments)
    counts: dict[str, int] = {}
    for wrapped in block.operations:
        operation = wrapped.operation
        if not any(operand in dependent for operand in operation.operands):
            continue
        dependent.update(operation.results)
        if operation.name in _NOTHING_COMPUTED or not len(operation.results) or _changes_nothing(operation):
            continue
        source = _LOCATION.match(str(operation.location))
        name = (short_name(source.group(1)) if source else "") or operation.name.partition(".")[2]
        count = counts[name] = counts.get(name, 0) + 1
        yield name if count == 1 else f"{name}#{count}", operation


def _changes_nothing(operation: Any) -> bool:
    return bool(operation.name == "stablehlo.convert" and operation.operands[0].type == operation.results[0].type)


def _described(module: Any) -> Iterator[tuple[str, tuple[tuple[int, ...], str]]]:
    from jaxlib.mlir import ir

    kinds = {"f16": "float16", "f32": "float32", "f64": "float64", "bf16": "bfloat16", "i1": "bool"}
    for bits in (8, 16, 32, 64):
        kinds |= {f"i{bits}": f"int{bits}", f"ui{bits}": f"uint{bits}"}
    for name, operation in _computing(module):
        kind = ir.RankedTensorType(operation.results[0].type)
        if str(kind.element_type) in kinds:
            yield name, (tuple(kind.shape), kinds[str(kind.element_type)])


def _plain_type(kind: str) -> str:
    return "float32" if kind == "bfloat16" else kind


def _array(value: Any) -> Tensor:
    array: Tensor = np.array(value)
    return array if array.dtype.kind in "biufc" else array.astype(np.float32)
