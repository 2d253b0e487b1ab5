"""The ladder of a service on a terminal: its tiers, what was left out and why, and what is promised."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from zoolens.base.present.figures import figure, percent
from zoolens.base.present.tables import Column
from zoolens.base.present.terminal import echo_prose, print_table
from zoolens.faces.serving.services.ladder_verdict import ladder_verdict
from zoolens.faces.serving.services.ladder_words import age, ages, left_out
from zoolens.faces.serving.services.service_ladder import EQUAL
from zoolens.findings.queries.answers.wording import lower_bound
from zoolens.inventory.tasks.judgement import FRACTION

if TYPE_CHECKING:
    from zoolens.faces.serving.contracts.ladder import Rung
    from zoolens.faces.serving.services.service_ladder import ServiceLadder

_UNKNOWN = "–"


def print_ladder(name: str, built: ServiceLadder) -> None:
    service, largest = built.service, built.service.largest
    texts = service.texts
    click.echo(f"{name}: {service.reference} within {service.within:.4g}, policy {service.policy_name}")
    columns = [
        Column("", "key", keep=9),
        Column("model", keep=9),
        Column("runtime", keep=5),
        Column(EQUAL if built.answers_classes else "agreement", "number", keep=8),
        Column("×1" if texts is None else "1 token", "number", keep=7),
        *([Column(f"×{largest}" if texts is None else f"{largest} tokens", "number", keep=6)] if largest > 1 else []),
        Column("memory", "number", keep=3),
        Column(built.quality, "number", keep=4),
        Column("timed", "number", keep=2),
    ]
    print_table(columns, [_row(place, rung, built) for place, rung in enumerate(built.ladder.rungs)])
    for sentence in left_out(built):
        echo_prose(f"  {sentence}")
    if built.confidence is not None and len(built.ladder.rungs) > 1:
        echo_prose(
            f"The lower bounds in brackets hold with {built.confidence:.4g} confidence for inputs drawn like the "
            f"{built.probes:,} of {built.dataset}."
        )
    inputs = ", ".join(f"{spec.name} {spec.datatype}{_shape(spec.shape)}" for spec in built.inputs)
    outputs = ", ".join(f"{spec.name} {spec.datatype}{_shape(spec.shape)}" for spec in built.outputs)
    if not built.answers_classes:
        echo_prose(f"Agreement with the reference: {built.agreement_name}.")
    documents = "" if built.answers_classes else ", a JSON document for each input"
    if texts is None:
        echo_prose(f"Clients send {inputs} and get {outputs}{documents}.")
    else:
        echo_prose(
            f"Clients send prompts of at most {texts.prompt:,} tokens to /v1/completions or /v1/chat/completions and "
            f"get texts of at most {texts.answer:,}. Times are of texts of so many tokens behind the longest prompt."
        )
    for note in (*built.notes, *ages(built, datetime.now(UTC))):
        echo_prose(note)
    for sentence in ladder_verdict(built).sentences:
        echo_prose(sentence)


def _row(place: int, rung: Rung, built: ServiceLadder) -> list[str]:
    largest, unit = built.service.largest, built.quality_unit
    agreement = f"{percent(rung.equivalence, 1)}{lower_bound(rung.equivalence_lower)}"
    quality = rung.figures.get(built.quality)
    return [
        str(place),
        rung.model,
        rung.runtime,
        agreement if place else "reference",
        figure(rung.profile.of(1), "s"),
        *([figure(rung.profile.of(largest), "s")] if largest > 1 else []),
        figure(float(rung.memory_bytes), "B") if rung.memory_bytes is not None else _UNKNOWN,
        _UNKNOWN if quality is None else percent(quality, 1) if unit == FRACTION else figure(quality, unit),
        _UNKNOWN if rung.profile.measured is None else age(rung.profile.measured, datetime.now(UTC)),
    ]


def _shape(shape: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, shape))}]"
