"""A user's JAX network: a function of parameters and inputs, with its parameters.

The parameters may be any tree, also a module of Flax or Equinox: its arrays of floating numbers are the tensors, and
what else it holds stays as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from zoolens.base.errors import ZoolensError
from zoolens.findings.graph.ir.model import Graph
from zoolens.training.pairs.networks.framework import Array, LiveNetwork, checked_assignment, joined, no_gpu, plain
from zoolens.training.pairs.reading.side_facts import SideFacts


class JaxNetwork(LiveNetwork):
    framework: ClassVar[str] = "jax"

    def __init__(
        self,
        function: Callable[..., Any],
        parameters: Any,
        shapes: Sequence[tuple[int, ...]],
        kinds: Sequence[str],
        name: str,
        *,
        channels_first: bool = False,
    ) -> None:
        """`channels_first`: where images have their channels if the function takes both orders."""
        import jax

        self.function, self._name, self._kinds = function, name, kinds
        paths, self.tree = jax.tree_util.tree_flatten_with_path(parameters)
        self.leaves = [leaf for _, leaf in paths]
        self._paths = [path for path, _ in paths]
        self.names = _names(self._paths, self.leaves, "f")
        self._takes_both = False
        self._run_with: Callable[..., Any] | None = None
        self._last, self._orders = self._order(shapes, channels_first)
        self._shapes = [tuple(shape[axis] for axis in order) for shape, order in zip(shapes, self._orders, strict=True)]

    def _order(self, shapes: Sequence[tuple[int, ...]], first: bool) -> tuple[bool, list[tuple[int, ...]]]:
        """Whether the function takes its images with the channels last, and the order of axes of each input: where
        both orders fit, the one that its library has."""
        fitting: list[tuple[bool, list[tuple[int, ...]]]] = []
        problems = []
        for last, lines in ((not first, False), (not first, True), (first, False), (first, True)):
            orders = [_order(shape, kind, last, lines) for shape, kind in zip(shapes, self._kinds, strict=True)]
            if any(orders == known for _, known in fitting):
                continue
            turned = [tuple(shape[axis] for axis in order) for shape, order in zip(shapes, orders, strict=True)]
            try:
                self._program([leaf for _, leaf in self._arrays()], *self._examples(turned), shape_only=True)
            except ZoolensError:
                raise
            except Exception as error:
                problems.append(error)
            else:
                fitting.append((last, orders))
        if not fitting:
            raise problems[0]
        self._takes_both = len(fitting) > 1
        return fitting[0]

    def notes(self) -> list[str]:
        if not self._takes_both:
            return []
        if any(len(order) == 3 for order in self._orders):
            places = ("last", "first") if self._last else ("first", "last")
            return [
                f"{self._name} takes images with their channels {places[0]} and with their channels {places[1]}; it "
                f"was given them {places[0]}. If that is wrong, let it refuse such a shape."
            ]
        return [
            f"{self._name} takes its inputs with their axes in both orders; it was given them as --input has them. If "
            "that is wrong, let it refuse such a shape."
        ]

    def _arrays(self) -> list[tuple[str, Any]]:
        return [(name, self.leaves[place]) for name, place in self.names.items()]

    def examples(self) -> list[Any]:
        """Inputs of one sample, as the function takes them."""
        return self._examples(self._shapes)

    def _examples(self, shapes: Sequence[tuple[int, ...]]) -> list[Any]:
        return [
            np.zeros((1, *shape), np.int32 if kind == "int" else np.float32)
            for shape, kind in zip(shapes, self._kinds, strict=True)
        ]

    def _applied(self, values: Sequence[Any], *inputs: Any) -> Any:
        import jax

        leaves = list(self.leaves)
        for place, value in zip(self.names.values(), values, strict=True):
            leaves[place] = value
        return self.function(jax.tree_util.tree_unflatten(self.tree, leaves), *inputs)

    def _program(self, values: Sequence[Any], *inputs: Any, shape_only: bool) -> Any:
        import jax

        return jax.eval_shape(self._applied, values, *inputs) if shape_only else self._applied(values, *inputs)

    def tensors(self) -> dict[str, Array]:
        return {name: np.array(plain(leaf)) for name, leaf in self._arrays()}

    def assign(self, values: Mapping[str, Array]) -> None:
        import jax.numpy as jnp

        checked_assignment({name: tuple(leaf.shape) for name, leaf in self._arrays()}, values)
        for name, array in values.items():
            place = self.names[name]
            self.leaves[place] = jnp.array(array, self.leaves[place].dtype)

    def graph(self) -> Graph:
        return self._traced(self._examples(self._shapes), None)

    def opaque_answers(self, inputs: Sequence[Array]) -> tuple[Graph, dict[str, Array]]:
        answers: dict[str, Array] = {}
        return self._traced(self.turned(inputs), answers), {name: plain(array) for name, array in answers.items()}

    def _traced(self, inputs: Sequence[Any], answers: dict[str, Array] | None) -> Graph:
        from zoolens.findings.graph.importers.jax.jax_library import graph_of_jax_function

        named = [(name, np.asarray(leaf)) for name, leaf in self._arrays()]
        maps = [order == (1, 0) for order in self._orders]
        return graph_of_jax_function(
            self._applied, named, inputs, self._name, channels_last=self._last, maps=maps, answers=answers
        )

    def turned(self, inputs: Sequence[Array]) -> list[Array]:
        """Inputs with their channels first, as the function takes them."""
        return [
            np.ascontiguousarray(array.transpose(0, *(axis + 1 for axis in order)))
            for array, order in zip(inputs, self._orders, strict=True)
        ]

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        import jax

        answer = self._function()([leaf for _, leaf in self._arrays()], *self.turned(inputs))
        return [plain(leaf) for leaf in jax.tree_util.tree_leaves(answer)]

    def _function(self) -> Callable[..., Any]:
        """What runs: a function with a loop is compiled, for JAX compiles its loops anew in every call otherwise.

        Whatever it draws from generators of Python or numpy would then be drawn once only: such a function is not.
        """
        if self._run_with is None:
            import jax

            given = [leaf for _, leaf in self._arrays()], *self._examples(self._shapes)
            loops = any(f"{name}[" in str(jax.make_jaxpr(self._applied)(*given)) for name in ("scan", "while"))
            before = self.generator_states()
            if loops:
                self._applied(*given)
            steady = self.generator_states() == before
            self._run_with = jax.jit(self._applied) if loops and steady else self._applied
        return self._run_with

    def facts(self) -> SideFacts:
        import jax

        return SideFacts(
            versions={"jax": str(jax.__version__)},
            network=getattr(self.function, "__qualname__", type(self.function).__name__),
            layers=(),
            drawn=(),
            norms=(),
            channels="last" if self._last else "first",
        )

    def move_to_gpu(self) -> None:
        """What the user's function made lies there already, unless it is numpy's."""
        import jax

        if jax.default_backend() == "cpu":
            raise no_gpu("JAX")
        self.leaves = [jax.device_put(leaf) if _kind(leaf) == "f" else leaf for leaf in self.leaves]

    def dtype(self) -> str:
        types = Counter(str(leaf.dtype) for _, leaf in self._arrays())
        return ", ".join(name for name, _ in types.most_common()) or "float32"

    def load(self, path: Path) -> None:
        """A tree of arrays in a .msgpack file, as Flax writes it. Whole numbers, such as counters, may be missing."""
        from zoolens.training.pairs.networks.msgpack_trees import read_tree

        given, others = read_tree(path), self._whole_numbers()
        learned = {name: array for name, array in given.items() if name not in others}
        joined(self.names, learned, path.name)
        counted = {name: array for name, array in given.items() if name in others}
        checked_assignment({name: self.leaves[place].shape for name, place in others.items()}, counted)
        self.assign({name: plain(array) for name, array in learned.items()})
        for name, array in counted.items():
            self.leaves[others[name]] = array.astype(self.leaves[others[name]].dtype)

    def save(self, path: Path) -> None:
        from zoolens.training.pairs.networks.msgpack_trees import write_tree

        others = {name: np.asarray(self.leaves[place]) for name, place in self._whole_numbers().items()}
        write_tree(path, {**self.tensors(), **others})

    def _whole_numbers(self) -> dict[str, int]:
        """The places of arrays of whole numbers and truth values, by name: they belong to a checkpoint, and no weights
        are moved into them."""
        return _names(self._paths, self.leaves, "iub", taken=self.names)


def _order(shape: Sequence[int], kind: str, last: bool, lines: bool) -> tuple[int, ...]:
    """The order of axes of an input that is given with its channels first: images have them last where `last` says
    so, and inputs of two axes where `lines` does."""
    axes = tuple(range(len(shape)))
    turned = kind == "float" and ((last and len(shape) == 3) or (lines and len(shape) == 2))
    return (*axes[1:], 0) if turned else axes


def _names(
    paths: Sequence[Any], leaves: Sequence[Any], kinds: str, taken: Mapping[str, int] | None = None
) -> dict[str, int]:
    """The names of the arrays of a tree whose numbers are of these kinds, each with its place among the leaves."""
    names: dict[str, int] = {}
    for place, (path, leaf) in enumerate(zip(paths, leaves, strict=True)):
        if _kind(leaf) in kinds:
            first = name = _readable(path)
            count = 2
            while name in names or name in (taken or ()):  # keys may have slashes in them
                name, count = f"{first}#{count}", count + 1
            names[name] = place
    return names


def _kind(leaf: Any) -> str:
    """The kind of an array's numbers as numpy has it; "-" for anything else, such as the key of a generator."""
    name = str(getattr(leaf, "dtype", "")) if hasattr(leaf, "shape") else ""
    if "float" in name:
        return "f"  # also bfloat16, which numpy does not have
    return "i" if name.startswith(("int", "uint")) else "b" if name == "bool" else "-"


def _readable(path: Sequence[Any]) -> str:
    """The keys, fields and places that lead to a leaf: "conv1/kernel". Variables of flax.nnx hold it as their value."""
    path = path[:-1] if len(path) > 1 and getattr(path[-1], "name", None) == "value" else path
    parts = (getattr(step, "key", getattr(step, "name", getattr(step, "idx", step))) for step in path)
    return "/".join(str(part) for part in parts) or "parameters"
