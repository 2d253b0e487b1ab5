"""How fast language models read and write, as a table below that of an evaluation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from zoolens.base.present.figures import disturbed_mark, figure
from zoolens.base.present.metric_words import scope_title
from zoolens.base.present.tables import Column
from zoolens.base.present.terminal import print_table
from zoolens.base.store.records import Observation, Run
from zoolens.base.store.scopes import context_tokens, parse_scope
from zoolens.base.store.store import Store
from zoolens.findings.measure.generation_speed import DECODE, ENERGY, FIRST, MEMORY, PREFILL

_METRICS = (FIRST, PREFILL, DECODE)


def print_generation(store: Store, runs: Sequence[Run]) -> None:
    """Prints nothing where no run has such figures."""
    rows = [row for run in runs for row in _rows(run, store.observations(run.id))]
    if rows:
        columns = [
            Column("run", keep=8),
            Column("context", keep=7),
            Column("first token", "number", keep=6),
            Column("prompt", "number", keep=5),
            Column("writing clean / raw", "number", keep=9),
            Column("memory", "number", keep=4),
            Column("energy a token", "number", keep=1),
        ]
        print_table(columns, rows)


def _rows(run: Run, observations: Sequence[Observation]) -> Iterator[list[str]]:
    found = {(each.metric, each.scope): each for each in observations}
    scopes = [scope for metric, scope in found if metric == DECODE and not parse_scope(scope).raw]
    for scope in sorted(scopes, key=context_tokens):
        raw = f"{scope},raw"
        timed = [_value(found.get((metric, scope))) for metric in _METRICS]
        yield [
            run.id[:8],
            scope_title(scope),
            *timed[:2],
            f"{timed[2]} / {_value(found.get((DECODE, raw)))}",
            *(_value(found.get((metric, scope))) for metric in (MEMORY, ENERGY)),
        ]


def _value(observation: Observation | None) -> str:
    if observation is None or observation.value is None:
        return "–"
    return figure(observation.value, observation.unit) + disturbed_mark(observation)
