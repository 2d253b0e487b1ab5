"""The inputs of runs and comparisons in a bundle: none of them, unless whoever writes it says so."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from zoolens.base.errors import ZoolensError
from zoolens.base.progress import Progress
from zoolens.faces.ui.bundle.contents import BundleContents
from zoolens.faces.ui.bundle.recording import BundleRecorder, is_error
from zoolens.faces.ui.bundle.run_paths import paths_in
from zoolens.faces.ui.endpoint import Endpoint, File
from zoolens.faces.ui.jobs.outputs import printed_by
from zoolens.faces.ui.resources import divergences, run_answers, run_inputs
from zoolens.findings.comparisons.answer_pages import AnswerOrder
from zoolens.findings.comparisons.origins import data_origin

MOST_INPUTS: Final = 1_000  # of one run
_FIRST: Final = 300  # inputs in each order, where a run has more than can be taken
_PATIENCE: Final = 900.0  # seconds until large data are checked
_PAUSE: Final = 0.2
_LEFT_OUT: Final = "Whoever wrote this bundle left them out."
_PREDICTIONS: Final = "/runs/{run}/predictions"


@dataclass(frozen=True)
class _Subject:
    """A run or a comparison of two environments whose inputs can be shown."""

    endpoint: Endpoint
    picture: Endpoint
    # What a request names it by
    field: str
    id: str
    inputs: int

    def asked(self, **more: Any) -> dict[str, Any]:
        return {self.field: self.id, **more}


def data_folders(chosen: BundleContents) -> list[Path]:
    """The folders in which the data of the runs and comparisons lie: somebody who exports inputs may read them."""
    named: list[str] = []
    for run in chosen.runs:
        with suppress(ZoolensError):
            named.append(data_origin(run).data)
    origins = [printed_by(job).get("origin") for job in chosen.divergences]
    named += [str(origin["data"]) for origin in origins if isinstance(origin, dict)]
    folders: set[Path] = set()
    for data in named:
        paths = [path for path in paths_in(data) if path.exists()]
        folders |= {path if path.is_dir() else path.parent for path in paths}
    return sorted(folders)


def inputs_left_out(recorder: BundleRecorder) -> dict[str, Any]:
    """What the index says of inputs where there are none."""
    kept: dict[str, Any] = {}
    answer = {"state": "unavailable", "sentence": _LEFT_OUT, "rows": []}
    for subject in _subjects(recorder):
        _keep(kept, recorder, subject, answer)
    return kept


def recorded_inputs(recorder: BundleRecorder, progress: Progress) -> dict[str, Any]:
    """What the index says of inputs that were recorded."""
    kept: dict[str, Any] = {}
    for subject in _subjects(recorder):
        places = _places(recorder, subject)
        progress.begin("bundle", f"inputs of {subject.id[:8]}", len(places), "inputs")
        answer = _looked_at(recorder, subject, places, progress)
        _keep(kept, recorder, subject, answer)
        files = kept.setdefault(subject.picture.template, {"defaults": {}, "files": {}})["files"]
        for row in answer["rows"]:
            shown = recorder.asked(subject.picture, subject.asked(index=row["index"])) if row["picture"] else None
            if isinstance(shown, File):
                name = recorder.writer.add_file(shown.content, shown.media_type)
                files[recorder.key(subject.picture, subject.asked(index=row["index"]))] = name
        progress.end()
    return kept


def _keep(kept: dict[str, Any], recorder: BundleRecorder, subject: _Subject, answer: dict[str, Any]) -> None:
    template = subject.endpoint.template
    answers = kept.setdefault(template, {"defaults": {}, "picked": "index", "answers": {}})["answers"]
    answers[recorder.key(subject.endpoint, subject.asked())] = recorder.write(answer)


def _subjects(recorder: BundleRecorder) -> Iterator[_Subject]:
    for run in recorder.chosen.runs:
        yield _Subject(*run_inputs.ENDPOINTS, "run", run.id, run.inputs)
    several, single = (endpoint for endpoint in divergences.ENDPOINTS if "/inputs" in endpoint.template)
    for job in recorder.chosen.divergences:
        yield _Subject(several, single, "id", job.id, int(printed_by(job)["answers"]["inputs"]))


def _places(recorder: BundleRecorder, subject: _Subject) -> list[int]:
    """Which inputs are taken: all, or those that come first in each order in which somebody may look at them. Of a
    comparison, only those that are answered differently are shown."""
    if subject.field != "run":
        flipped = printed_by(recorder.context.jobs.job(subject.id))["answers"]["flipped"]
        return [row["index"] for row in flipped if row.get("index") is not None][:MOST_INPUTS]
    if subject.inputs <= MOST_INPUTS:
        return list(range(subject.inputs))
    endpoint = next(candidate for candidate in run_answers.ENDPOINTS if candidate.template == _PREDICTIONS)
    others = [b for a, b in recorder.chosen.pairs if a == subject.id]
    asked = [{"order": order, "shown": shown} for order in AnswerOrder for shown in ("all", "wrong")]
    asked += [{"other": b, "order": "disagreement", "shown": "disagreeing"} for b in others]
    first: dict[int, None] = {}
    for parameters in asked:
        answer = recorder.asked(endpoint, {"run": subject.id, "limit": _FIRST, **parameters})
        first |= dict.fromkeys(row["index"] for row in (() if is_error(answer) else answer["rows"]))
    return sorted(list(first)[:MOST_INPUTS]) or list(range(MOST_INPUTS))


def _looked_at(recorder: BundleRecorder, subject: _Subject, places: list[int], progress: Progress) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    answer: dict[str, Any] = {"state": "unavailable", "sentence": "", "rows": []}
    for some in _chunks(places):
        answer = _waited_for(recorder, subject.endpoint, subject.asked(index=some))
        if answer["state"] != "ready":
            break
        rows += answer["rows"]
        progress.advance(len(some))
    if rows and subject.field == "run" and len(places) < subject.inputs:
        answer["sentence"] = f"This bundle has {len(places):,} of {subject.inputs:,} inputs: the first of each order."
    return {**answer, "rows": rows}


def _waited_for(recorder: BundleRecorder, endpoint: Endpoint, parameters: dict[str, Any]) -> dict[str, Any]:
    """Data of many gigabytes are checked for minutes before any of them is shown."""
    until = time.monotonic() + _PATIENCE
    while True:
        answer: dict[str, Any] = recorder.asked(endpoint, parameters)
        if is_error(answer):
            return {"state": "unavailable", "sentence": answer["error"], "rows": []}
        if answer["state"] != "opening" or time.monotonic() > until:
            return answer
        time.sleep(_PAUSE)


def _chunks(places: list[int]) -> Iterator[list[int]]:
    for start in range(0, len(places), run_inputs.MOST_INPUTS):
        yield places[start : start + run_inputs.MOST_INPUTS]
