"""What two stores know of the same run: where they differ, and how the one gets what only the other has.

A run has the same id in every store, since the id is a digest of its content and attempt. So the two may hold the same
facts, each a part of them, or facts that contradict each other, when it was measured twice.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any, Final

from sqlalchemy import Connection, update

from zoolens.base.store import schema
from zoolens.base.store.checksums import COLUMN, checksum
from zoolens.base.store.commands import change_run, lock_run, note_change
from zoolens.base.store.figures import keep_figures
from zoolens.base.store.queries import load_rows
from zoolens.base.store.records import DONE, EVALUATED, EVALUATED_ORDER, MACHINES, RunKey, RunKind, joined_machines
from zoolens.base.store.row_copies import Row, insert_rows, parsed, without

# What is said of a run by who measured it, and is no finding: of two words the one that is there stays.
_DESCRIBING: Final = frozenset({EVALUATED, EVALUATED_ORDER, MACHINES, "origin", "sandbox", "details"})
_FIGURES: Final = ("stage", "value", "low", "high", "unit", "n", "provenance")
_ONE_KIND: Final = frozenset({RunKind.TRIAL.value, RunKind.EVALUATION.value})  # a trial becomes an evaluation


@dataclass(frozen=True)
class RunFacts:
    """The rows of one run; JSON as text."""

    run: Row
    stages: dict[str, Row] = field(default_factory=dict)
    observations: dict[tuple[str, str], Row] = field(default_factory=dict)  # by metric and scope, in their order
    parts: dict[tuple[str, int], Row] = field(default_factory=dict)  # by kind and number

    @property
    def id(self) -> str:
        return str(self.run["id"])

    @property
    def has_its_key(self) -> bool:
        """Whether the id is that of model, dataset, stack and attempt, so that the same run has it everywhere."""
        run = self.run
        return RunKey(run["model"], run["dataset"], run["stack"], run["attempt"]).id == self.id


def load_facts(connection: Connection, ids: Collection[str]) -> dict[str, RunFacts]:
    """What is known of the runs that are there, in the order in which they were begun."""
    runs = load_rows(connection, schema.runs, schema.runs.c.id.in_(ids))
    facts = {str(row["id"]): RunFacts(row) for row in sorted(runs, key=lambda row: int(row["seq"]))}
    for row in load_rows(connection, schema.stages, schema.stages.c.run_id.in_(ids)):
        facts[row["run_id"]].stages[row["stage"]] = row
    found = load_rows(connection, schema.observations, schema.observations.c.run_id.in_(ids))
    for row in sorted(found, key=lambda row: int(row["seq"])):
        facts[row["run_id"]].observations[row["metric"], row["scope"]] = row
    for row in load_rows(connection, schema.parts, schema.parts.c.run_id.in_(ids)):
        facts[row["run_id"]].parts[row["kind"], row["part"]] = row
    return facts


def with_adopted_order(facts: RunFacts, adopted: int) -> RunFacts:
    """The facts with a place among the evaluations of the store into which they are copied, which has adopted so many
    of the other store (`recent.adopt_evaluations`). Those that came later share the last place, and times decide."""
    resolved = json.loads(facts.run["resolved"])
    if int(resolved.get(EVALUATED_ORDER) or 0) <= adopted:
        return facts
    placed = {**resolved, EVALUATED_ORDER: adopted} if adopted else without(resolved, EVALUATED_ORDER)
    return replace(facts, run={**facts.run, "resolved": json.dumps(placed)})


def lost_observations(facts: RunFacts) -> str | None:
    """Which stage has lost observations, as a clause; None: none has."""
    for stage, row in facts.stages.items():
        there = sum(fact["stage"] == stage for fact in facts.observations.values())
        if row["facts"] != there:
            return f"its stage {stage} has {there} observations instead of {row['facts']}"
    return None


def difference(theirs: RunFacts, ours: RunFacts) -> str | None:
    """Where the rows contradict each other, as a clause; None: nowhere. The content of parts is not looked at."""
    kinds = {str(theirs.run["kind"]), str(ours.run["kind"])}
    if len(kinds) > 1 and kinds != _ONE_KIND:
        return f"it is of kind {theirs.run['kind']} there and {ours.run['kind']} here"
    said, known = json.loads(theirs.run["resolved"]), json.loads(ours.run["resolved"])
    for name in said.keys() & known.keys() - _DESCRIBING:
        if said[name] != known[name]:
            return f"its {name!r} is another one"
    for (metric, scope), row in theirs.observations.items():
        other = ours.observations.get((metric, scope))
        if other is None:
            continue
        named = f"{metric} ({scope})" if scope else metric
        if row["value"] != other["value"]:
            return f"{named} is {row['value']} there and {other['value']} here"
        same_figures = all(row[name] == other[name] for name in _FIGURES)
        if not same_figures or json.loads(row["details"]) != json.loads(other["details"]):
            return f"what is said of {named} is not the same"
    return divided_otherwise(theirs, ours)


def divided_otherwise(theirs: RunFacts, ours: RunFacts) -> str | None:
    """Which bulk facts may overlap: each side has a part that the other has not, so that rows might be held twice."""
    for kind in {kind for kind, _ in theirs.parts}:
        there = {part for name, part in theirs.parts if name == kind}
        here = {part for name, part in ours.parts if name == kind}
        if there - here and here - there:
            return f"its {kind} are divided into other parts"
    return None


def has_everything(ours: RunFacts, theirs: RunFacts) -> bool:
    """Whether nothing of a run is missing here."""
    facts = theirs.observations.keys() <= ours.observations.keys() and theirs.parts.keys() <= ours.parts.keys()
    stages = all(
        name in ours.stages and _kept(row, ours.stages[name]) is not row for name, row in theirs.stages.items()
    )
    return facts and stages and _description(theirs, ours) == (json.loads(ours.run["resolved"]), ours.run["kind"])


def add_run(connection: Connection, theirs: RunFacts, compared: RunFacts | None) -> bool:
    """Add a run, or what is missing of it, as it is in the other store; whether anything was missing. The caller has
    found no difference to what was here (`compared`) and has written the files of its parts."""
    is_new = not load_rows(connection, schema.runs, schema.runs.c.id == theirs.id)
    insert_rows(connection, schema.runs, [without(theirs.run, "seq", COLUMN)])
    lock_run(connection, theirs.id)  # two who end a stage do so one after the other
    # Also where it was not there a moment ago: the insert may have waited for somebody who adds the same run.
    ours = load_facts(connection, [theirs.id])[theirs.id]
    clause = difference(theirs, ours) or _new_parts(theirs, ours, compared)
    if clause is not None:
        raise ChangedMeanwhile(clause)
    new = [row for key, row in theirs.observations.items() if key not in ours.observations]
    insert_rows(connection, schema.observations, [without(row, "seq", COLUMN) for row in new])
    parts = [row for key, row in theirs.parts.items() if key not in ours.parts]
    insert_rows(connection, schema.parts, [without(row, COLUMN) for row in parts])
    changed = _add_stages(connection, theirs, ours)
    described = _describe(connection, theirs, ours)
    if new:
        keep_figures(connection, [theirs.id])
    if anything := bool(is_new or new or parts or changed or described):
        note_change(connection, theirs.id)
    return anything


def _new_parts(theirs: RunFacts, ours: RunFacts, compared: RunFacts | None) -> str | None:
    """Which part, as a clause, came here with other content since the two were compared."""
    before = {} if compared is None else compared.parts
    for key, row in ours.parts.items():
        if key in theirs.parts and key not in before and row["sha256"] != theirs.parts[key]["sha256"]:
            return f"part {key[1]} of its {key[0]} was written here meanwhile"
    return None


class ChangedMeanwhile(Exception):
    """Somebody else has written facts of this run that contradict ours."""


def _add_stages(connection: Connection, theirs: RunFacts, ours: RunFacts) -> bool:
    """A stage that is done here stays; a failed one is replaced by one that is done there."""
    everything = {**theirs.observations, **ours.observations}
    changed = False
    for name, row in theirs.stages.items():
        known = ours.stages.get(name)
        kept = row if known is None else _kept(row, known)
        facts = sum(fact["stage"] == name for fact in everything.values())
        stage = parsed(schema.stages, {**without(kept, COLUMN), "facts": facts})
        if known is None:
            insert_rows(connection, schema.stages, [{**without(row, COLUMN), "facts": facts}])
        elif kept is not known or facts != known["facts"]:
            same = (schema.stages.c.run_id == theirs.id, schema.stages.c.stage == name)
            stage[COLUMN] = checksum(schema.stages.name, stage)
            connection.execute(update(schema.stages).where(*same).values(**stage))
        else:
            continue
        changed = True
    return changed


def _kept(row: Row, known: Row) -> Row:
    return row if known["state"] != DONE and row["state"] == DONE else known


def _describe(connection: Connection, theirs: RunFacts, ours: RunFacts) -> bool:
    """Adds what the other store says of the run as a whole."""
    resolved, kind = _description(theirs, ours)
    if resolved == json.loads(ours.run["resolved"]) and kind == ours.run["kind"]:
        return False
    change_run(connection, ours.run, resolved=resolved, kind=kind)
    return True


def _description(theirs: RunFacts, ours: RunFacts) -> tuple[dict[str, Any], str]:
    """What is resolved of the run, and its kind, when both are taken together."""
    said, known = json.loads(theirs.run["resolved"]), json.loads(ours.run["resolved"])
    resolved = {**said, **known}
    if MACHINES in said:
        resolved[MACHINES] = joined_machines(known, said)
    if EVALUATED in said:
        resolved[EVALUATED] = max(str(said[EVALUATED]), str(known.get(EVALUATED) or ""))
    if EVALUATED_ORDER in said:
        resolved[EVALUATED_ORDER] = max(int(said[EVALUATED_ORDER]), int(known.get(EVALUATED_ORDER) or 0))
    asked_for = RunKind.EVALUATION.value in (theirs.run["kind"], ours.run["kind"])
    return resolved, RunKind.EVALUATION.value if asked_for else str(ours.run["kind"])
