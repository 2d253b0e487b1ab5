"""Take a whole run from one store to another: as plain data, which a machine far away can send.

The run keeps its key, so that merging it twice, or into a store that has part of it already, adds what is missing and
changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from zoolens.base.errors import ZoolensError
from zoolens.base.store.records import (
    EVALUATED,
    EVALUATED_ORDER,
    DatasetRecord,
    ModelRecord,
    Observation,
    Provenance,
    Run,
    RunKind,
    StackRecord,
)
from zoolens.base.store.store import Store

_INDEX: Final = "index"  # the column of predictions that numbers the inputs


def pack_run(store: Store, run: Run) -> dict[str, Any]:
    """Everything that the store has of a run, as JSON values and bytes."""
    facts = store.observations_by_stage(run.id)
    return {
        **pack_identity(run),
        "stages": {
            stage: {
                "done": state.done,
                "error": state.error,
                "details": dict(state.details),
                "observations": [_plain(observation) for observation in facts.get(stage, ())],
            }
            for stage, state in store.stages(run.id).items()
        },
        "parts": [
            {"kind": kind, "part": part.part, "table": _written(store.part_table(part))}
            for kind in store.kinds(run.id)
            for part in store.parts(run.id, kind)
        ],
    }


def pack_identity(run: Run) -> dict[str, Any]:
    """What a run is about, packed without its facts."""
    return {
        "model": asdict(run.model),
        "dataset": asdict(run.dataset),
        "stack": asdict(run.stack),
        "kind": run.kind.value,
        "attempt": run.key.attempt,
        "resolved": {name: value for name, value in run.resolved.items() if name != EVALUATED_ORDER},
        "stages": {},
        "parts": [],
    }


def merge_run(store: Store, packed: Mapping[str, Any], *, fresh: bool = False) -> Run:
    """Add a packed run to a store, or what is missing of it, and return it as the store has it then. `fresh`: as a new
    attempt, with the next number of this store."""
    model, dataset = ModelRecord(**packed["model"]), DatasetRecord(**packed["dataset"])
    stack, kind = StackRecord(**packed["stack"]), RunKind(packed["kind"])
    if fresh:
        run = store.begin_attempt(model, dataset, stack, kind=kind)
    else:
        run = store.begin_run(model, dataset, stack, kind=kind, attempt=int(packed["attempt"]))
    _check_parts(store, run, packed["parts"])
    resolved = dict(packed["resolved"])
    # Another stamp than ours, and not a later one: clocks differ.
    if resolved.get(EVALUATED) and resolved[EVALUATED] != run.evaluated:
        store.mark_evaluated(run.id, {})
    # It keeps the time at which it was evaluated there.
    store.set_resolved(run.id, resolved)
    # After what is resolved, which says what the parts mean: we may be killed in between.
    added = [store.add_part(run.id, part["kind"], part["part"], read_table(part["table"])) for part in packed["parts"]]
    if not all(added):
        _check_parts(store, run, packed["parts"])  # somebody may have written others since
    for stage, state in packed["stages"].items():
        if state["done"]:
            observations = [_observation(fields) for fields in state["observations"]]
            store.finish_stage(run.id, stage, observations, details=state["details"])
        else:
            store.fail_stage(run.id, stage, str(state["error"]))
    return store.run(run.id)


def _check_parts(store: Store, run: Run, parts: Sequence[Mapping[str, Any]]) -> None:
    """Refuse parts that were cut at other rows than those of the store: together they would hold rows twice."""
    theirs = {(part["kind"], part["part"]): part["table"] for part in parts}
    for kind in {kind for kind, _ in theirs}:
        for known in store.parts(run.id, kind):
            table = theirs.get((kind, known.part))
            if table is None or _rows(read_table(table)) != _rows(store.part_table(known)):
                raise ZoolensError(
                    f"Run {run.id} was also measured here in the meantime, in different parts.",
                    hint="Run the same command again: it goes on with what is here.",
                )


def _rows(table: Any) -> Any:
    """Returns what identifies the rows of a part: their numbers among the inputs, or their count."""
    return table.column(_INDEX).to_pylist() if _INDEX in table.column_names else table.num_rows


def _plain(observation: Observation) -> dict[str, Any]:
    return {**asdict(observation), "provenance": observation.provenance.value}


def _observation(fields: Mapping[str, Any]) -> Observation:
    return Observation(**{**fields, "provenance": Provenance(fields["provenance"])})


def _written(table: Any) -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def read_table(content: bytes) -> Any:
    """The rows of a part that was packed."""
    import pyarrow as pa

    with pa.ipc.open_stream(content) as reader:
        return reader.read_all()
