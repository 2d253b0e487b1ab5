"""How fast language models read and write, as a table: a row for each context length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from zoolens.base.present.figures import NOTHING, disturbed_mark, figure
from zoolens.base.present.metric_words import scope_title
from zoolens.base.present.tables import Column, Table
from zoolens.base.store.records import Observation
from zoolens.base.store.scopes import context_tokens, parse_scope
from zoolens.findings.measure.generation_speed import DECODE, ENERGY, FIRST, MEMORY, PREFILL

_COLUMNS: Final = (
    Column("context", keep=7),
    Column("first token", "number", keep=6),
    Column("prompt", "number", keep=5),
    Column("writing clean / raw", "number", keep=9),
    Column("memory", "number", keep=4),
    Column("energy a token", "number", keep=1),
)


def generation_table(observations: Sequence[Observation]) -> Table:
    """The speeds among the observations of a run; no rows where there are none."""
    return Table("speeds", _COLUMNS, tuple(_rows(observations)))


def _rows(observations: Sequence[Observation]) -> Iterator[tuple[str, ...]]:
    found = {(each.metric, each.scope): each for each in observations}
    scopes = [scope for metric, scope in found if metric == DECODE and not parse_scope(scope).raw]
    for scope in sorted(scopes, key=context_tokens):
        raw = f"{scope},raw"
        yield (
            scope_title(scope),
            _value(found.get((FIRST, scope))),
            _value(found.get((PREFILL, scope))),
            f"{_value(found.get((DECODE, scope)))} / {_value(found.get((DECODE, raw)))}",
            _value(found.get((MEMORY, scope))),
            _value(found.get((ENERGY, scope))),
        )


def _value(observation: Observation | None) -> str:
    if observation is None or observation.value is None:
        return NOTHING
    return figure(observation.value, observation.unit) + disturbed_mark(observation)
