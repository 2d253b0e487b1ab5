"""The inputs of runs in a bundle: none of them, unless whoever writes it says so."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl

from zoolens.comparisons.answer_pages import AnswerOrder
from zoolens.comparisons.origins import data_origin
from zoolens.errors import ZoolensError
from zoolens.progress import Progress
from zoolens.store.records import Run
from zoolens.ui.bundle.recording import Recorder, is_error
from zoolens.ui.endpoint import Endpoint, File
from zoolens.ui.resources import run_answers, run_inputs

MOST_INPUTS: Final = 1_000  # of one run
_FIRST: Final = 300  # inputs in each order, where a run has more than can be taken
_PATIENCE: Final = 900.0  # seconds until large data are checked
_PAUSE: Final = 0.2
_LEFT_OUT: Final = "Whoever wrote this bundle left them out."
_PREDICTIONS: Final = "/runs/{run}/predictions"


def data_folders(runs: Iterable[Run]) -> list[Path]:
    """The folders in which the data of these runs lie: somebody who exports inputs may read them."""
    folders: set[Path] = set()
    for run in runs:
        with suppress(ZoolensError):
            place, _, options = data_origin(run).data.partition("?")
            named = (place, place.partition(":")[2], *(value for _, value in parse_qsl(options)))
            paths = [path for path in map(Path, named) if path.is_absolute() and path.exists()]
            folders |= {path if path.is_dir() else path.parent for path in paths}
    return sorted(folders)


def inputs_left_out(recorder: Recorder) -> dict[str, Any]:
    """What the index says of inputs where there are none."""
    endpoint, _ = _endpoints()
    kept: dict[str, Any] = {"defaults": {}, "picked": "index", "answers": {}}
    for run in recorder.chosen.runs:
        answer = {"run": run.id, "state": "unavailable", "sentence": _LEFT_OUT, "rows": []}
        kept["answers"][recorder.key(endpoint, {"run": run.id})] = recorder.write(answer)
    return {endpoint.template: kept} if kept["answers"] else {}


def recorded_inputs(recorder: Recorder, progress: Progress) -> dict[str, Any]:
    """What the index says of inputs that were recorded."""
    endpoint, picture = _endpoints()
    kept: dict[str, Any] = {"defaults": {}, "picked": "index", "answers": {}}
    files: dict[str, str] = {}
    for run in recorder.chosen.runs:
        places = _places(recorder, run)
        progress.begin("bundle", f"inputs of {run.id[:8]}", len(places), "inputs")
        answer = _looked_at(recorder, endpoint, run, places, progress)
        kept["answers"][recorder.key(endpoint, {"run": run.id})] = recorder.write(answer)
        for row in answer["rows"]:
            if row["picture"]:
                asked = {"run": run.id, "index": row["index"]}
                shown = recorder.asked(picture, asked)
                if isinstance(shown, File):
                    name = recorder.writer.add_file(shown.content, shown.media_type)
                    files[recorder.key(picture, asked)] = name
        progress.end()
    return {endpoint.template: kept, picture.template: {"defaults": {}, "files": files}} if kept["answers"] else {}


def _endpoints() -> tuple[Endpoint, Endpoint]:
    several, one = run_inputs.ENDPOINTS
    return several, one


def _places(recorder: Recorder, run: Run) -> list[int]:
    """Which inputs are taken: all, or those that come first in each order in which somebody may look at them."""
    if run.inputs <= MOST_INPUTS:
        return list(range(run.inputs))
    endpoint = next(one for one in run_answers.ENDPOINTS if one.template == _PREDICTIONS)
    others = [b for a, b in recorder.chosen.pairs if a == run.id]
    asked = [{"order": order, "shown": shown} for order in AnswerOrder for shown in ("all", "wrong")]
    asked += [{"other": b, "order": "disagreement", "shown": "disagreeing"} for b in others]
    first: dict[int, None] = {}
    for parameters in asked:
        answer = recorder.asked(endpoint, {"run": run.id, "limit": _FIRST, **parameters})
        first |= dict.fromkeys(row["index"] for row in (() if is_error(answer) else answer["rows"]))
    return sorted(list(first)[:MOST_INPUTS]) or list(range(MOST_INPUTS))


def _looked_at(
    recorder: Recorder, endpoint: Endpoint, run: Run, places: list[int], progress: Progress
) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    answer: dict[str, Any] = {}
    for some in _chunks(places):
        answer = _waited_for(recorder, endpoint, {"run": run.id, "index": some})
        if answer["state"] != "ready":
            break
        rows += answer["rows"]
        progress.advance(len(some))
    if rows and len(places) < run.inputs:
        answer["sentence"] = f"This bundle has {len(places):,} of {run.inputs:,} inputs: the first of each order."
    return {**answer, "rows": rows}


def _waited_for(recorder: Recorder, endpoint: Endpoint, parameters: dict[str, Any]) -> dict[str, Any]:
    """Data of many gigabytes are checked for minutes before any of them is shown."""
    until = time.monotonic() + _PATIENCE
    while True:
        answer: dict[str, Any] = recorder.asked(endpoint, parameters)
        if is_error(answer):
            return {"run": parameters["run"], "state": "unavailable", "sentence": answer["error"], "rows": []}
        if answer["state"] != "opening" or time.monotonic() > until:
            return answer
        time.sleep(_PAUSE)


def _chunks(places: list[int]) -> Iterator[list[int]]:
    for start in range(0, len(places), run_inputs.MOST_INPUTS):
        yield places[start : start + run_inputs.MOST_INPUTS]
