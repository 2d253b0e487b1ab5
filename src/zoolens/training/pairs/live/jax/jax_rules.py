"""The rule of an optimizer that is a pair of functions, as optax has it: measured by letting it take steps.

It takes them in float64 over a tree like the parameters', whose tensors are at most two numbers wide, and what was
measured must then predict a step over tensors of the parameters' own shapes. A mask or a label by name, depth or number
of axes works as it does in training.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np

from zoolens.training.pairs.optimizers.rule_fit import FittedOptimizer, fitted
from zoolens.training.pairs.optimizers.rule_probe import NotFitted
from zoolens.training.pairs.optimizers.update_rules import UpdateRule, clipped, empty_slots, updated

_WIDEST: Final = 2
_TINY: Final = 1e-6  # gradient that nothing clips
_LATER: Final = (10, 100, 1_000, 10_000, 100_000)  # steps at which a schedule is looked for
_REAL_STEPS: Final = 2
_REAL_ERROR: Final = 1e-4  # of moves in float32


class RuleState(NamedTuple):
    """The moments have the names that optax gives them. `source`: of the user's own optimizer, where it tells the
    learning rate of each step."""

    count: Any
    mu: Any
    nu: Any
    source: Any


class _Small:
    """The user's optimizer over a small tree, in float64; a Prober."""

    def __init__(self, optimizer: Any, trained: Any) -> None:
        import jax

        self._jax, self._optimizer = jax, optimizer
        leaves, self.tree = jax.tree_util.tree_flatten(trained)
        self.shapes: Sequence[tuple[int, ...]] = [
            tuple(min(extent, _WIDEST) for extent in leaf.shape) for leaf in leaves
        ]
        self._update = jax.jit(optimizer.update)

    def arrays(self, values: Sequence[Any]) -> Any:
        return self._jax.tree_util.tree_unflatten(self.tree, [self._jax.numpy.asarray(value) for value in values])

    def run(self, gradients: Sequence[Sequence[Any]], values: Sequence[Sequence[Any]]) -> list[list[Any]]:
        state, every_move = self._optimizer.init(self.arrays(values[0])), []
        for gradient, value in zip(gradients, values, strict=True):
            moves, state = self._update(self.arrays(gradient), state, self.arrays(value))
            every_move.append([np.asarray(leaf) for leaf in self._jax.tree_util.tree_leaves(moves)])
        return every_move

    def late_moves(self, steps: Sequence[int]) -> Any:
        """The moves of the first tensor in a second step before which its counters were set to each of these steps;
        None: it has no counters."""
        ones = [np.full(shape, 1e-6) for shape in self.shapes]
        given, still = self.arrays(ones), self.arrays([np.zeros(shape) for shape in self.shapes])
        _, state = self._update(given, self._optimizer.init(still), still)
        leaves, tree = self._jax.tree_util.tree_flatten(state)
        counters = [_is_counter(leaf) for leaf in leaves]
        if not any(counters):
            return None

        def moved(step: Any) -> Any:
            late = [
                step.astype(leaf.dtype) if counter else leaf for leaf, counter in zip(leaves, counters, strict=True)
            ]
            moves, _ = self._update(given, self._jax.tree_util.tree_unflatten(tree, late), still)
            return self._jax.tree_util.tree_leaves(moves)[0]

        # One program for all steps: a call for each would take up to a tenth of a second.
        return np.asarray(self._jax.lax.map(moved, self._jax.numpy.asarray(steps)))


def _is_counter(leaf: Any) -> bool:
    return getattr(leaf, "shape", None) == () and "int" in str(getattr(leaf, "dtype", ""))


@dataclass(frozen=True)
class MeasuredOptimizer:
    """The rules that an optimizer was seen to follow."""

    fit: FittedOptimizer | None  # None where no rule predicts the steps
    scheduled: bool = False
    why: str = ""  # what was seen, where no rule predicts the steps
    # The learning rates of steps by their numbers from 0, where there is a schedule and the optimizer counts its steps.
    later: Callable[[Sequence[int]], Sequence[float] | None] | None = None

    def rate(self, step: int) -> float | None:
        """The learning rate of a step that is counted from 0; None: not known."""
        rates = self.rates([step])
        return None if rates is None else rates[0]

    def rates(self, steps: Sequence[int]) -> tuple[float, ...] | None:
        """The learning rates of steps that are counted from 0; None: one of them is not known."""
        if self.fit is None:
            return None
        if not self.scheduled:
            return (self.fit.rates[0],) * len(steps)
        numbers = [step // self.fit.accumulation for step in steps]
        known = dict(enumerate(self.fit.rates))
        if late := [number for number in dict.fromkeys(numbers) if number not in known]:
            rates = None if self.later is None else self.later(late)
            if rates is None:
                return None
            known |= zip(late, rates, strict=True)
        return tuple(known[number] for number in numbers)


def measured_optimizer(optimizer: Any, trained: Any) -> MeasuredOptimizer:
    """`trained`: the tree that the optimizer sees."""
    import jax

    if isinstance(optimizer, RuleOptimizer):
        return optimizer.known()

    if not jax.tree_util.tree_leaves(trained):
        return MeasuredOptimizer(None, why="there is nothing to train")
    try:
        with jax.enable_x64(True):
            small = _Small(optimizer, trained)
            fit = fitted(small)
            late = _Late(small, fit)
            scheduled = late.changes()
        error = _real_error(optimizer, fit, trained)
    except NotFitted as problem:
        return MeasuredOptimizer(None, why=str(problem))
    except Exception as problem:  # the user's own code, on a tree that it did not expect
        return MeasuredOptimizer(None, why=f"it raises {type(problem).__name__} on a small tree: {str(problem)[:200]}")
    if error > _REAL_ERROR:
        return MeasuredOptimizer(None, why=f"what it does to small tensors is off by {error:.1g} for these")
    return MeasuredOptimizer(fit, scheduled, later=late.rates)


@dataclass(frozen=True)
class _Late:
    """Learning rates of steps that nobody takes: the counters in the optimizer's state are set."""

    small: _Small
    fit: FittedOptimizer

    def changes(self) -> bool:
        """Whether the learning rate is another one in the first steps or at a later one. An optimizer without a counter
        has nothing that a schedule could follow."""
        first = self.fit.rates[0]
        if any(abs(rate - first) > 1e-6 * abs(first) for rate in self.fit.rates):
            return True
        if self.fit.accumulation > 1:  # its counters count two things
            return False
        rates = self._there(_LATER)
        return rates is not None and any(abs(rate - first) > 1e-4 * abs(first) for rate in rates)

    def rates(self, steps: Sequence[int]) -> list[float] | None:
        """Counted from 0. None where setting the counters does not even tell the rates that are known."""
        import jax

        if self.fit.accumulation > 1:
            return None
        with jax.enable_x64(True):
            rates = self._there([3, *steps])
        if rates is None or abs(rates[0] - self.fit.rates[3]) > 1e-5 * abs(self.fit.rates[3]):
            return None
        return [float(f"{rate:.7g}") for rate in rates[1:]]

    def _there(self, steps: Sequence[int]) -> list[float] | None:
        moves = self.small.late_moves(steps)
        if moves is None:
            return None
        return [_rate_there(self.fit.rules[0], moved, step) for moved, step in zip(moves, steps, strict=True)]


def _rate_there(rule: UpdateRule, moved: Any, step: int) -> float:
    """The learning rate of a step that is the second by its moments and the next after `step` by its counter."""
    gradient, value = np.full(moved.shape, 1e-6), np.zeros(moved.shape)
    _, slots = updated(rule, gradient, empty_slots(rule, value, np), value, step=1, rate=1.0, xp=np)
    at_one, _ = updated(rule, gradient, slots, value, step=step + 1, rate=1.0, xp=np)
    return float(moved.reshape(-1)[0] / at_one.reshape(-1)[0])


def _real_error(optimizer: Any, fit: FittedOptimizer, trained: Any) -> float:
    """How far the moves of tensors in their own shapes and type are from what was measured."""
    import jax

    jnp, tree = jax.numpy, jax.tree_util
    leaves, structure = tree.tree_flatten(trained)
    random, stand_in = np.random.default_rng(0), RuleOptimizer(fit, fit.rates)

    def errors(trained: Any, gradients: Any) -> Any:
        ours, theirs, apart = stand_in.init(trained), optimizer.init(trained), []
        for step in range(_REAL_STEPS):
            given = tree.tree_map(lambda leaf, step=step: leaf[step], gradients)
            expected, ours = stand_in.update(given, ours, trained)
            for _ in range(fit.accumulation):
                moved, theirs = optimizer.update(given, theirs, trained)
            apart += [
                jnp.abs(predicted - actual).max() / jnp.maximum(jnp.abs(actual).max(), jnp.finfo(predicted.dtype).tiny)
                for predicted, actual in zip(tree.tree_leaves(expected), tree.tree_leaves(moved), strict=True)
                if predicted.size
            ]
        return apart

    drawn = [np.asarray(random.standard_normal((_REAL_STEPS, *leaf.shape)), leaf.dtype) for leaf in leaves]
    return max(map(float, jax.jit(errors)(trained, tree.tree_unflatten(structure, drawn))), default=0.0)


@dataclass(frozen=True)
class RuleOptimizer:
    """An optimizer of the same form that follows measured rules."""

    fit: FittedOptimizer
    rates: tuple[float, ...]  # the learning rate of each of the first steps, of which the last stays
    # The user's own optimizer with its measured rule, where it changes its learning rate: it takes steps over small
    # tensors beside, which tell the rate of each, however long the training is.
    schedule: tuple[Any, UpdateRule] | None = None
    factor: float = 1.0  # of every learning rate

    def known(self) -> MeasuredOptimizer:
        """What it does is known without a measurement."""
        rates = tuple(rate * self.factor for rate in self.rates)
        shares = zip(self.fit.rules, self.fit.shares, strict=True)
        rules = tuple(replace(rule, learning_rate=share * rates[0]) for rule, share in shares)
        scheduled = self.schedule is not None or len(set(rates)) > 1
        later = (lambda steps: [rates[-1]] * len(steps)) if self.schedule is None else None
        return MeasuredOptimizer(replace(self.fit, rates=rates, rules=rules), scheduled, later=later)

    def init(self, parameters: Any) -> RuleState:
        import jax

        jnp, tree = jax.numpy, jax.tree_util
        leaves, structure = tree.tree_flatten(parameters)
        slots = [empty_slots(rule, leaf, jnp) for rule, leaf in zip(self.fit.rules, leaves, strict=True)]
        first, second = (tree.tree_unflatten(structure, [slot[name] for slot in slots]) for name in ("first", "second"))
        source: Any = ()
        if self.schedule is not None:
            optimizer, rule = self.schedule
            source = optimizer.init(_small(parameters, 0.0)), empty_slots(rule, jnp.zeros(1), jnp)
        return RuleState(jnp.zeros((), jnp.int32), first, second, source)

    def update(self, gradients: Any, state: RuleState, parameters: Any) -> tuple[Any, RuleState]:
        """What is added to the parameters, and the new state."""
        import jax

        given, structure = jax.tree_util.tree_flatten(gradients)
        moves, after = self._updated(given, state, parameters)
        return jax.tree_util.tree_unflatten(structure, moves), after

    def _updated(self, gradients: Sequence[Any], state: RuleState, parameters: Any) -> tuple[list[Any], RuleState]:
        import jax

        jnp, tree = jax.numpy, jax.tree_util
        values, structure = tree.tree_flatten(parameters)
        step, (rate, source) = state.count + 1, self._rate(state, parameters)
        slots = zip(tree.tree_leaves(state.mu), tree.tree_leaves(state.nu), strict=True)
        moves, first, second = [], [], []
        cut = clipped(self.fit.clipping, gradients, jnp)
        for rule, share, gradient, value, (mu, nu) in zip(
            self.fit.rules, self.fit.shares, cut, values, slots, strict=True
        ):
            kept = {"first": mu, "second": nu}
            move, after = updated(rule, gradient, kept, value, step=step, rate=share * self.factor * rate, xp=jnp)
            moves.append(move.astype(value.dtype))
            first.append(after["first"])
            second.append(after["second"])
        mu, nu = (tree.tree_unflatten(structure, leaves) for leaves in (first, second))
        return moves, RuleState(step, mu, nu, source)

    def _rate(self, state: RuleState, parameters: Any) -> tuple[Any, Any]:
        """The learning rate of the next step, and what tells it, one step on."""
        import jax

        jnp = jax.numpy
        if self.schedule is None:
            return jnp.asarray(self.rates)[jnp.minimum(state.count, len(self.rates) - 1)], ()
        (optimizer, rule), (inner, slots) = self.schedule, state.source
        moves, inner = optimizer.update(_small(parameters, _TINY), inner, _small(parameters, 0.0))
        at_one, slots = updated(rule, jnp.full(1, _TINY), slots, jnp.zeros(1), step=state.count + 1, rate=1.0, xp=jnp)
        moved = jax.tree_util.tree_leaves(moves)[0].reshape(-1)[0]
        return moved / at_one[0], (inner, slots)


def _small(parameters: Any, value: float) -> Any:
    """A tree of the same form whose tensors are at most two numbers wide."""
    import jax

    def made(leaf: Any) -> Any:
        return jax.numpy.full(_small_shape(leaf), value, leaf.dtype)

    return jax.tree_util.tree_map(made, parameters)


def _small_shape(leaf: Any) -> tuple[int, ...]:
    return tuple(min(extent, _WIDEST) for extent in leaf.shape)
