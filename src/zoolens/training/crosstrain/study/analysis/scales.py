"""On which scale a hyperparameter is seen: as the study's plan says, and where there is none as its values suggest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from zoolens.training.crosstrain.study.study_plan import Dimension
from zoolens.training.crosstrain.training.trials import Study

DECADES: Final = 100.0  # a number is seen on a logarithmic scale where its middle 90 % span this factor
LARGEST: Final = 1e150  # beyond it a difference is no longer a number
_SPACE: Final = TypeAdapter(tuple[Dimension, ...])


def logarithmic(columns: Mapping[str, NDArray[Any]], study: Study | None = None) -> frozenset[str]:
    """Names of the hyperparameters that are seen on a logarithmic scale."""
    planned_scales = {} if study is None else planned(study)
    numbers = {name: column for name, column in columns.items() if column.dtype.kind == "f"}
    return frozenset(
        name
        for name, column in numbers.items()
        if (planned_scales.get(name) and _above_zero(column)) or (name not in planned_scales and spans_decades(column))
    )


def planned(study: Study) -> dict[str, bool]:
    """Whether the plan's range of each hyperparameter is logarithmic. Lists of choices are none; a stranger's details
    may hold anything where a plan has its space."""
    try:
        space = _SPACE.validate_python(study.details.get("space", ()))
    except ValidationError:
        return {}
    return {dimension.name: dimension.log for dimension in space if not dimension.choices}


def spans_decades(values: NDArray[Any]) -> bool:
    """Whether a logarithmic scale shows these values better. A single value near zero does not make it so."""
    if not _above_zero(values):
        return False
    low, high = np.quantile(usable(values), [0.05, 0.95])
    return bool(high >= DECADES * low)


def usable(values: NDArray[Any]) -> NDArray[np.float64]:
    numbers = np.asarray(values, np.float64)
    return numbers[np.abs(numbers) < LARGEST]


def _above_zero(values: NDArray[Any]) -> bool:
    known = usable(values)
    return bool(len(known)) and bool(known.min() > 0)
