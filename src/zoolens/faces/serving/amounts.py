"""Amounts in service definitions and in settings of policies: a plain number, or text with a unit such as "50 ms"."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from zoolens.base.errors import ZoolensError
from zoolens.findings.queries.language.quantities import quantity


def _reader(metric: str, example: str) -> Callable[[Any], Any]:
    """Read what people write for a metric of the query language; the result is in the store's unit."""

    def read(given: Any) -> Any:
        # pydantic would take it for 0 or 1.
        if isinstance(given, bool):
            raise ValueError(f"{given} is not an amount: write one such as {example}")  # noqa: TRY004 - pydantic explains only a ValueError
        if not isinstance(given, str):
            return given
        try:
            amount = quantity(given, metric)
        except ZoolensError as error:
            raise ValueError(error.message) from error
        if amount.relative:
            raise ValueError(f"{given!r} is relative: write an amount such as {example}")
        return amount.value

    return read


Seconds = Annotated[float, BeforeValidator(_reader("latency", "50 ms")), Field(gt=0, allow_inf_nan=False)]
Delay = Annotated[float, BeforeValidator(_reader("latency", "2 ms")), Field(ge=0, le=10, allow_inf_nan=False)]
Bytes = Annotated[int, BeforeValidator(lambda given: _whole(_reader("memory", "200 MB")(given))), Field(gt=0)]
Joules = Annotated[float, BeforeValidator(_reader("energy", "5 J")), Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, BeforeValidator(_reader("equivalence", "85%")), Field(ge=0, le=1, allow_inf_nan=False)]


def _whole(amount: Any) -> Any:
    return round(amount) if isinstance(amount, float) else amount
