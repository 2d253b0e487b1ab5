"""Contested inputs as a contact sheet: one page with every picture, what it is, and what each model says."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

from numpy.typing import NDArray

from zoolens.base.present.pages import render
from zoolens.findings.comparisons.disagreements import Contested, Disagreements, readable
from zoolens.findings.comparisons.origins import open_inputs
from zoolens.findings.comparisons.runs import short_names
from zoolens.inventory.datasets.dataset import Dataset
from zoolens.inventory.datasets.previews import is_image, picture_of, png


def html(disagreements: Disagreements) -> str:
    """The page. The data are opened again where the run found them; refused where they have changed."""
    names = short_names([neighbour.run for neighbour in disagreements.panel])
    with closing(open_inputs(disagreements.run)) as dataset:
        cards = [_card(disagreements, names, contested, dataset) for contested in disagreements.inputs]
    agreement = [
        {"name": name, "share": f"{100 * neighbour.agreement:.1f} %"}
        for name, neighbour in zip(names[1:], disagreements.panel[1:], strict=True)
    ]
    return render(
        "contactsheet.html",
        title=f"Where {names[0]} and its nearest equivalents disagree",
        model=names[0],
        dataset=disagreements.dataset,
        contested=disagreements.total,
        size=disagreements.run.inputs,
        agreement=agreement,
        cards=cards,
    )


def _card(disagreements: Disagreements, names: Sequence[str], contested: Contested, dataset: Dataset) -> dict[str, Any]:
    value = dataset.read(contested.index).value
    return {
        "image": _image(value),
        "text": picture_of(value).words if value.dtype == object else None,
        "truth": disagreements.class_name(contested.label),
        "input": contested.input,
        "dissent": f"{contested.entropy:.2f}",
        "votes": list(_votes(disagreements, names, contested)),
    }


def _votes(disagreements: Disagreements, names: Sequence[str], contested: Contested) -> Iterator[dict[str, Any]]:
    for name, neighbour, vote in zip(names, disagreements.panel, contested.votes, strict=True):
        answer = disagreements.class_name(vote.answer)
        yield {
            "name": name,
            "ref": neighbour.run.ref,
            "answer": answer,
            "short_answer": readable(answer),
            "right": vote.answer == contested.label,
            "score": "" if vote.score is None else f"{100 * vote.score:.0f} %",
        }


def _image(value: NDArray[Any]) -> str | None:
    """The picture as base64, None where the input is no picture."""
    return base64.b64encode(png(value)).decode("ascii") if is_image(value) else None
