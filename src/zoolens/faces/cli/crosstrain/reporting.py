"""`zoolens crosstrain report STUDY`: a page, pictures and every number of a study."""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from zoolens.base.errors import DatasetError, UnknownName
from zoolens.faces.cli.options import OUT_FOLDER
from zoolens.faces.cli.stores import store_option

if TYPE_CHECKING:
    from zoolens.training.crosstrain.study.store_report import Reported

_LABELS: Final = ("y_test_full", "y_test", "y")  # of an .npz file, the first that is there
_MOST_CLASSES: Final = 1000
_LABEL_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="STUDY…")
@click.option(
    "--output",
    "-o",
    type=OUT_FOLDER,
    required=True,
    help="Folder to write to; of several studies, each gets a folder in it.",
)
@click.option(
    "--labels",
    type=_LABEL_FILE,
    help="Test labels of a published study, in their order (.npy or .npz): finds constant predictors.",
)
@store_option("reads")
def report(names: tuple[str, ...], output: Path, labels: Path | None, store: str | None) -> None:
    """Write one HTML page for each STUDY (patterns such as 'crossedwires-*' are fine), its pictures as PNG, and CSV.

    Of the published studies, it also says which figures of the paper they reproduce and which they do not.
    """
    from zoolens.base.present.images import can_draw
    from zoolens.base.store.store import open_store
    from zoolens.training.crosstrain.study.report.overview import write_overview
    from zoolens.training.crosstrain.study.store_report import report_study
    from zoolens.training.crosstrain.study.stored_studies import study_names

    truth = None if labels is None else _read_labels(labels)
    paper = None
    written = {}
    with open_store(store) as opened:
        chosen = _chosen(study_names(opened), names)
        for name in chosen:
            place = output / _folder_name(name) if len(chosen) > 1 else output
            reported = report_study(opened, name, place, labels=truth)
            _print(reported)
            written[place.name] = reported.study
            # It is about all published studies of the store.
            paper = reported.paper or paper
    if not can_draw():
        click.echo("The charts are in the page; as PNG too after: pip install 'zoolens[reports]'", err=True)
    if len(written) > 1:
        click.echo(f"All of them: {write_overview(written, output)}")
    if paper:
        click.echo("")
        for line in paper.words():
            click.echo(line)


def _print(made: Reported) -> None:
    study = made.study
    click.echo(f"{study.name}: {len(study.trials):,} trials, {len(made.files)} files, {made.files[0]}")
    if made.repeats:
        click.echo(f"  {made.repeats:,} more trials are the same trainings under other names, and do not count again.")
    certain = {flag.trial: flag for flag in made.flags if flag.certain}
    if certain:
        trials = [trial for trial in study.trials if trial.id in certain]
        worst = max(trials, key=lambda trial: trial.delta or 0.0)
        many = f"{len(certain)} trial{'s have' if len(certain) > 1 else ' has'} a collapsed side"
        click.echo(f"  {many}; furthest apart {worst.id}: {certain[worst.id]}.")


def _chosen(known: Sequence[str], names: Sequence[str]) -> list[str]:
    chosen: dict[str, None] = {}
    for name in names:
        matching = [study for study in known if study == name or fnmatchcase(study, name)]
        if not matching:
            raise UnknownName("study", name, known)
        chosen |= dict.fromkeys(matching)
    return list(chosen)


def _folder_name(study: str) -> str:
    """A submitted study may be named like a path that leads elsewhere."""
    return re.sub(r"[^\w.-]+", "-", study).lstrip(".") or "study"


def _read_labels(path: Path) -> Any:
    import numpy as np

    try:
        labels = np.load(path, allow_pickle=False)
        if isinstance(labels, np.lib.npyio.NpzFile):
            with labels as archive:
                labels = next((archive[name] for name in _LABELS if name in archive.files), np.empty(0))
    except (OSError, ValueError, EOFError, MemoryError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
        raise DatasetError(f"{path} holds no labels.", hint="Give an .npy or .npz file of whole numbers.") from error
    labels = np.ravel(labels)
    if not len(labels) or labels.dtype.kind not in "iu" or labels.min() < 0 or labels.max() >= _MOST_CLASSES:
        raise DatasetError(f"{path} holds no labels.", hint=f"An .npz file has them as {' or '.join(_LABELS)}.")
    return labels.astype(np.int64)
