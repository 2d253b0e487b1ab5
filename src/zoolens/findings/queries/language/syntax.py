"""A query as data. The parser makes it from text, `zoolens.query` from keywords; `unparser` writes it back as text.

Quantities are in the store's units (seconds, bytes, counts, fractions of 1). A quantity with `relative` is a share of
the reference's own figure: 0.2 for "20%" of its memory. For metrics that are fractions themselves (accuracy,
equivalence) "95%" is absolute, and "95% OF REFERENCE" relative.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

EQUIVALENCE: Final = "equivalence"  # share of probe inputs with the same answer as the reference


@dataclass(frozen=True)
class Quantity:
    """`unit` is what was written, in its canonical spelling ("ms", "MB", "%", ""); `value` is in the store's unit, and
    meaningless until the metric is known where the unit does not show it (a bare number)."""

    value: float
    unit: str = ""
    relative: bool = False


@dataclass(frozen=True)
class Bound:
    """One predicate of the ON clause: a metric and a quantity, such as memory <= 20%."""

    metric: str
    comparison: Literal["<", "<=", ">", ">=", "="]
    quantity: Quantity


# --- WHERE: conditions on attributes (zoo, name, format, runtime, precision, license, …)


@dataclass(frozen=True)
class Comparison:
    """An attribute compared with one value; LIKE takes * and ? (and % and _), case does not matter."""

    attribute: str
    comparison: Literal["=", "!=", "<", "<=", ">", ">=", "LIKE"]
    value: str | float


@dataclass(frozen=True)
class OneOf:
    attribute: str
    values: tuple[str | float, ...]


@dataclass(frozen=True)
class Known:
    """`attribute IS KNOWN`: some value is there."""

    attribute: str


@dataclass(frozen=True)
class Not:
    term: Condition


@dataclass(frozen=True)
class AllOf:
    terms: tuple[Condition, ...]


@dataclass(frozen=True)
class AnyOf:
    terms: tuple[Condition, ...]


Condition = Comparison | OneOf | Known | Not | AllOf | AnyOf


# --- ORDER BY: expressions over metrics


@dataclass(frozen=True)
class Number:
    value: float


@dataclass(frozen=True)
class Metric:
    """The candidate's figure; `reference`: the reference's own, written REF.memory."""

    name: str
    reference: bool = False


@dataclass(frozen=True)
class Negative:
    term: Expression


@dataclass(frozen=True)
class Operation:
    operator: Literal["+", "-", "*", "/"]
    left: Expression
    right: Expression


@dataclass(frozen=True)
class FunctionCall:
    """A built-in (min, max, abs, log, sqrt) or a user's function, registered as a plug-in or passed to `query`."""

    function: str
    arguments: tuple[Expression, ...]


Expression = Number | Metric | Negative | Operation | FunctionCall


@dataclass(frozen=True)
class Order:
    expression: Expression
    descending: bool = False


DEFAULT_ORDER: Final = (Order(Metric(EQUIVALENCE), descending=True),)

# --- the whole


@dataclass(frozen=True)
class Query:
    """`reference` None: `task` chooses one, or the query is about resources only.

    `confidence` None: a candidate qualifies by what was measured on the probes. With it, by the lower confidence bound
    of its agreement, corrected for the number of candidates. `bound` is how that is computed.
    """

    reference: str | None = None
    task: str | None = None
    within: float | None = None  # least agreement with the reference, a fraction
    on: tuple[Bound, ...] = ()
    where: Condition | None = None
    order: tuple[Order, ...] = ()  # empty: by equivalence where there is a reference, else by the first ON metric
    limit: int | None = None
    show: tuple[str, ...] = ()  # figures and attributes; empty: the figures that are asked for, and accuracy
    exec: tuple[tuple[str, str], ...] = ()  # (key, value): device, runtime, batch, precision, threads
    confidence: float | None = None
    bound: str = "on"  # or "off", or the name of the dataset to take the bound from
    data: str | None = None  # probe dataset; None: the one with most models
    segments: bool = False  # stitched models are candidates too
    nearest: bool = False  # ELSE NEAREST: the nearest misses are the answer where nothing fits
    explain: Literal["", "plan", "analyze"] = ""


def metrics_of(expression: Expression) -> Iterator[Metric]:
    """Every metric an expression reads."""
    match expression:
        case Metric():
            yield expression
        case Negative(term):
            yield from metrics_of(term)
        case Operation(_, left, right):
            yield from metrics_of(left)
            yield from metrics_of(right)
        case FunctionCall(_, arguments):
            for argument in arguments:
                yield from metrics_of(argument)
        case Number():
            pass
