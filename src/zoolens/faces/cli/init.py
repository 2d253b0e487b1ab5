"""`zoolens init`: from a folder of models and pictures to the model to ship."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zoolens.base.errors import ZoolensError
from zoolens.faces.cli.options import listed_names, trust_option, wide_option
from zoolens.faces.cli.stores import store_option

if TYPE_CHECKING:
    from zoolens.base.present.bars import Bars
    from zoolens.findings.measure.plan import Outcome
    from zoolens.inventory.datasets.found_data import DataSearch, FoundData

_NONE = "none"
_MOST_LISTED = 20


@dataclass(frozen=True)
class _Model:
    """A model by its manifest; `guesses`: what the manifest only assumes."""

    manifest: Path
    guesses: tuple[str, ...]


@click.command("init")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=".")
@click.option("--data", "-d", help="The labelled pictures, where several are found: a path, or kind:path?key=value.")
@click.option("--labels", help="CSV file with the columns file and label, where no labels are found; none: without.")
@click.option(
    "--runtime", "-r", "runtimes", multiple=True, callback=listed_names,
    help="Runtimes; default: all that can run a model.",
)  # fmt: skip
@click.option("--limit", type=click.IntRange(1), help="Use this many pictures, drawn at random; default: all.")
@click.option(
    "--lose", type=click.FloatRange(0, 100), default=1.0, show_default=True,
    help="Points of accuracy that you give up for speed.",
)  # fmt: skip
@click.option(
    "--doctor/--no-doctor", "doctor", default=None, help="Check what manifests guess on your pictures, and correct it."
)
@click.option(
    "--latency-seconds", type=click.FloatRange(0.05), default=1.0, show_default=True,
    help="Time limit for the latency of each model in each runtime.",
)  # fmt: skip
@click.option("--example", is_flag=True, help="Make FOLDER to try this on: five models and 1,000 labelled pictures.")
@store_option("makes")
@trust_option
@wide_option
def command(folder: Path, data: str | None, labels: str | None, **chosen: Any) -> None:
    """Say which model of FOLDER to ship for the pictures in it: drafts manifests, finds labels, evaluates.

    FOLDER is the working directory unless you name another. Manifests are written beside the models; nothing else in
    FOLDER is changed. What is guessed is said with its reason. What cannot be known is asked on a terminal; elsewhere
    the error names the option that says it. The same command again goes on where it was stopped.
    """
    from zoolens.base.present.bars import Bars

    if chosen["example"]:
        from zoolens.faces.cli.init_example import write_example

        write_example(folder)
        click.echo(
            f"{folder} has five models and 1,000 labelled pictures. Next: zoolens init {shlex.quote(str(folder))}"
        )
        return
    root = _folder(folder)
    found = _choose_data(root, data, labels)
    click.echo(f"Data: {found.spec} ({found.reason}).")
    with Bars() as bars:
        models = _described_models(root, found, bars)
        if _checked_by_doctor(models, found, chosen["doctor"]):
            models = [_corrected(model, found, chosen, bars) for model in models]
    outcomes = _evaluate(models, found, chosen)
    if found.labelled:
        from zoolens.faces.cli.init_conclusion import conclude

        again = shlex.join(["zoolens", "init", *sys.argv[2:], "--doctor"])
        conclude(outcomes, chosen["store"], chosen["lose"], again)
    else:
        click.echo(
            "\nWithout labels nothing says which is right. How often any two give the same answer: "
            f"zoolens equiv {' '.join(str(model.manifest) for model in models[:2])}"
        )
    failed = [outcome for outcome in outcomes if outcome.errors]
    if failed and len(failed) == len(outcomes):
        raise ZoolensError("No model could be evaluated; see above.")


def _folder(folder: Path) -> Path:
    if not folder.exists():
        raise ZoolensError(
            f"There is no folder {folder}.",
            hint="Name the folder of your models; `zoolens init --example FOLDER` makes one to try this on.",
        )
    return folder.resolve()


def _on_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _choose_data(root: Path, data: str | None, labels: str | None) -> FoundData:
    from zoolens.inventory.datasets.found_data import FoundData, find_data, labelled_by

    if data is not None and labels is not None:
        raise click.UsageError("--data and --labels name the same thing twice; write --data 'FOLDER?labels=FILE.csv'.")
    if data is not None:
        return FoundData(data, Path(data.partition("?")[0].partition(":")[2] or data), "as --data says")
    if labels is not None and labels != _NONE:
        return labelled_by(Path(labels).resolve(), root)
    search = find_data(root)
    for reason in search.left_out[:_MOST_LISTED]:
        click.echo(f"Not taken for labels: {reason}")
    if not search.found:
        raise ZoolensError(
            f"There are no pictures in {root}.",
            hint="Name the data: zoolens init --data PATH (pictures, a table, arrays; see docs/datasets.md).",
        )
    return _ask_which(_ask_labels(search, root, labels))


def _ask_labels(search: DataSearch, root: Path, labels: str | None) -> Sequence[FoundData]:
    """What was found, with labels if there are any or a user names them."""
    from zoolens.inventory.datasets.found_data import labelled_by

    if search.found[0].labelled or labels == _NONE:
        return search.found
    what = "; ".join(f"{found.spec}: {found.reason}" for found in search.found[:_MOST_LISTED])
    if not _on_terminal():
        raise ZoolensError(
            f"Nothing says what is on the pictures ({what}).",
            hint="Sort them into one folder for each class, or give --labels FILE.csv with the columns file and label, "
            "or --labels none to see only how far models agree.",
        )
    click.echo(f"Nothing says what is on the pictures ({what}).", err=True)
    given = click.prompt("CSV file with the columns file and label, or none", err=True)
    return search.found if given.strip() == _NONE else [labelled_by(Path(given.strip()).expanduser().resolve(), root)]


def _ask_which(found: Sequence[FoundData]) -> FoundData:
    if len(found) == 1:
        return found[0]
    listed = "\n".join(f"  {number}  {data.spec} ({data.reason})" for number, data in enumerate(found, 1))
    if not _on_terminal():
        raise ZoolensError(
            f"There are {len(found)} datasets, and which one counts is for you to say:\n{listed}",
            hint=f"Name one, for example: --data '{found[0].spec}'",
        )
    click.echo(listed, err=True)
    number = click.prompt("Which dataset counts?", type=click.IntRange(1, len(found)), err=True)
    return found[number - 1]


def _described_models(root: Path, data: FoundData, bars: Bars) -> list[_Model]:
    """Every model below the folder that can be evaluated, with a manifest: its own, or one that is drafted now."""
    from zoolens.inventory.catalog.found_models import find_models
    from zoolens.inventory.manifests.files import read_manifest
    from zoolens.inventory.manifests.guesses import guesses_in

    searched = find_models(root, None if data.folder == root else data.folder)
    for reason in searched.left_out[:_MOST_LISTED]:
        bars.say(f"Left out: {reason}")
    if not searched.manifests and not searched.files:
        raise ZoolensError(
            f"There are no models in {root} that zoolens can open.",
            hint="It knows .onnx, .tflite, .keras, .pt2, SavedModel folders and more: `zoolens runtimes` lists them.",
        )
    models = [_Model(path, guesses_in(read_manifest(path).attributes)) for path in searched.manifests]
    for model in models:
        bars.say(f"Model: {_shown(model.manifest)}, described by its manifest.")
    bars.begin("manifests", "draft", len(searched.files))
    for path in searched.files:
        models += _drafted(path, bars)
        bars.advance(1)
    bars.end()
    if not models:
        raise ZoolensError("None of the models could be opened; see above.")
    return models


def _drafted(path: Path, bars: Bars) -> list[_Model]:
    """The model with a new manifest beside it; none where the file cannot be opened, which is said."""
    from zoolens.faces.cli.manifest import write_manifest
    from zoolens.inventory.catalog.draft import draft_manifest
    from zoolens.inventory.manifests.guesses import guesses_in

    try:
        manifest = draft_manifest(path)
        target = path.parent / f"{manifest.name}.yaml"
        if target.exists():  # of the same model in another format, say
            manifest = manifest.model_copy(update={"name": f"{manifest.name}-{manifest.assets[0].format}"})
            target = path.parent / f"{manifest.name}.yaml"
        write_manifest(manifest, path.parent, target)
    except ZoolensError as error:
        bars.say(f"Left out: {path.name}: {error}")
        return []
    bars.say(f"Model: {_shown(target)} written. {manifest.description}")
    return [_Model(target, guesses_in(manifest.attributes))]


def _checked_by_doctor(models: Sequence[_Model], data: FoundData, wanted: bool | None) -> bool:
    guessed = [model for model in models if model.guesses]
    if not guessed or not data.labelled or wanted is not None:
        return bool(wanted and guessed and data.labelled)
    if not _on_terminal():
        return False
    return click.confirm(
        f"How {len(guessed)} of the models want their pictures is guessed. Try other ways on your pictures, and "
        "correct the manifests? It takes minutes",
        default=True,
        err=True,
    )


def _corrected(model: _Model, data: FoundData, chosen: dict[str, Any], bars: Bars) -> _Model:
    """The model after the doctor tried what its manifest guesses."""
    from zoolens.findings.audit.doctor.correction import without_guesses, write_corrected
    from zoolens.findings.audit.doctor.diagnose import doctor
    from zoolens.findings.audit.doctor.diagnosis import Status
    from zoolens.inventory.manifests.files import read_manifest

    if not model.guesses:
        return model
    try:
        diagnosis = doctor(str(model.manifest), data.spec, limit=chosen["limit"], store=chosen["store"], progress=bars)
        bars.say(f"Doctor: {diagnosis.sentence}")
        if diagnosis.corrected is not None:
            write_corrected(diagnosis, str(model.manifest), model.manifest, force=True)
        elif diagnosis.status is Status.RIGHT:
            from zoolens.faces.cli.manifest import write_manifest

            kept = without_guesses(read_manifest(model.manifest))
            write_manifest(kept, model.manifest.parent, model.manifest, force=True)
    except ZoolensError as error:
        bars.say(f"Doctor: {_shown(model.manifest)} stays as it is: {error}")
    return model


def _evaluate(models: Sequence[_Model], data: FoundData, chosen: dict[str, Any]) -> list[Outcome]:
    from zoolens.base.present.bars import Bars
    from zoolens.base.store.store import open_store
    from zoolens.faces.cli.eval import outcome_line
    from zoolens.faces.cli.evaluation_table import print_outcomes
    from zoolens.findings.measure.evaluate import carry_out
    from zoolens.findings.measure.jobs import RunOptions
    from zoolens.findings.measure.latency import LatencySettings
    from zoolens.findings.measure.plan import EvaluationPlan

    plan = EvaluationPlan(
        models=[str(model.manifest) for model in models],
        data=data.spec,
        limit=chosen["limit"],
        seed=None if chosen["limit"] is None else 0,
        wanted=RunOptions(runtimes=chosen["runtimes"]),
        latency=LatencySettings(max_seconds=chosen["latency_seconds"]),
        cold_repeats=1,
    )
    store = open_store(chosen["store"])
    outcomes = []
    with Bars() as bars:
        for outcome in carry_out(plan, store, bars):
            outcomes.append(outcome)
            bars.show(outcome_line(outcome, guesses_shown=True))
    print_outcomes(store, outcomes, plan.batches)
    return outcomes


def _shown(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
