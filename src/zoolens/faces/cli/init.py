"""`zoolens init`: from a folder of models and pictures to the model to ship."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zoolens.base.errors import ZoolensError
from zoolens.faces.cli.asking import on_terminal
from zoolens.faces.cli.options import listed_names, trust_option, wide_option
from zoolens.faces.cli.stores import store_option

if TYPE_CHECKING:
    from zoolens.faces.cli.init_models import DescribedModel
    from zoolens.findings.measure.plan import Outcome
    from zoolens.inventory.datasets.found_data import DataSearch, FoundData

_NONE = "none"
_MOST_LISTED = 20
_MANY = 10_000  # pictures, from which on it is said that a part of them would do


@dataclass(frozen=True)
class _Asked:
    """What the user said, and what was found out since: enough to write the command again."""

    folder: Path  # as it was given
    data: FoundData
    options: dict[str, Any]

    def command(self, *more: str, data: str | None = None) -> str:
        """The command that asks the same again, with these options besides, or with these data."""
        chosen, spec = self.options, data or self.data.spec
        words = ["zoolens", "init", *([] if self.folder == Path() else [str(self.folder)]), "--data", spec]
        words += [part for name in chosen["runtimes"] for part in ("-r", name)]
        words += [] if chosen["limit"] is None else ["--limit", str(chosen["limit"])]
        words += [] if chosen["lose"] == 1 else ["--lose", f"{chosen['lose']:g}"]
        words += [] if chosen["store"] is None else ["--store", chosen["store"]]
        return shlex.join([*words, *more])


@click.command("init")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=".")
@click.option("--data", "-d", help="The labelled pictures, where several are found: a path, or kind:path?key=value.")
@click.option("--labels", help="CSV file with the columns file and label; none: go on where no labels are found.")
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
    if chosen["example"]:
        _make_example(folder)
        return
    from zoolens.base.present.bars import Bars
    from zoolens.faces.cli.init_models import corrected_model, described_models

    root = _folder(folder)
    asked = _Asked(folder, _opened(_choose_data(root, data, labels)), chosen)
    click.echo(f"Data: {asked.data.spec} ({asked.data.reason}).")
    with Bars() as bars:
        models = described_models(root, asked.data, bars)
    checked = _checked_by_doctor(models, asked.data, chosen["doctor"])
    if checked:
        with Bars() as bars:
            models = [corrected_model(model, asked.data, chosen, bars) for model in models]
    outcomes = _evaluate(models, asked)
    if asked.data.labelled:
        asked, outcomes = _with_known_order(models, asked, outcomes)
    _conclude(asked, models, outcomes, checked=checked)
    failed = [outcome for outcome in outcomes if outcome.errors]
    if failed and len(failed) == len(outcomes):
        raise ZoolensError("No model could be evaluated; see above.")


def _make_example(folder: Path) -> None:
    from zoolens.faces.cli.init_example import write_example

    write_example(folder)
    click.echo(f"{folder} has five models and 1,000 labelled pictures. Next: zoolens init {shlex.quote(str(folder))}")


def _folder(folder: Path) -> Path:
    if not folder.exists():
        raise ZoolensError(
            f"There is no folder {folder}.",
            hint="Name the folder of your models; `zoolens init --example FOLDER` makes one to try this on.",
        )
    return folder.resolve()


# --- data


def _choose_data(root: Path, data: str | None, labels: str | None) -> FoundData:
    from zoolens.base.present.bars import spinner
    from zoolens.inventory.datasets.found_data import find_data, labelled_by, named_by_user

    if data is not None and labels is not None:
        raise click.UsageError("--data and --labels name the same thing twice; write --data 'FOLDER?labels=FILE.csv'.")
    with spinner(str(root), "look for pictures and labels"):
        if data is not None:
            return named_by_user(data)
        if labels is not None and labels != _NONE:
            return labelled_by(Path(labels).resolve(), root)
        search = find_data(root)
    for reason in search.left_out[:_MOST_LISTED]:
        click.echo(f"Not taken: {reason}.")
    if not search.found:
        raise ZoolensError(
            f"There are no pictures in {root} that zoolens can read.",
            hint="Name the data: zoolens init --data PATH (pictures, a table, arrays; see docs/datasets.md).",
        )
    return _ask_which(_ask_labels(search, root, labels))


def _opened(found: FoundData) -> FoundData:
    from zoolens.base.present.bars import spinner
    from zoolens.inventory.datasets.found_data import opened_data

    with spinner(found.spec, "list"):
        return opened_data(found)


def _ask_labels(search: DataSearch, root: Path, labels: str | None) -> Sequence[FoundData]:
    """What was found, with labels if there are any or a user names them."""
    from zoolens.inventory.datasets.found_data import labelled_by

    if search.found[0].labelled or labels == _NONE:
        return search.found
    what = "; ".join(_listed(search.found))
    if not on_terminal():
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
    listed = "\n".join(f"  {number}  {line}" for number, line in enumerate(_listed(found), 1))
    if not on_terminal():
        raise ZoolensError(
            f"There are {len(found)} datasets, and which one counts is for you to say:\n{listed}",
            hint=f"Name one, for example: --data {shlex.quote(found[0].spec)}",
        )
    click.echo(listed, err=True)
    number = click.prompt("Which dataset counts?", type=click.IntRange(1, len(found)), err=True)
    return found[number - 1]


def _listed(found: Sequence[FoundData]) -> Iterator[str]:
    yield from (f"{data.spec}: {data.reason}" for data in found[:_MOST_LISTED])
    if len(found) > _MOST_LISTED:
        yield f"and {len(found) - _MOST_LISTED:,} more"


# --- models


def _checked_by_doctor(models: Sequence[DescribedModel], data: FoundData, wanted: bool | None) -> bool:
    guessed = [model for model in models if model.guesses]
    if not guessed or not data.labelled or wanted is not None:
        return bool(wanted and guessed and data.labelled)
    if not on_terminal():
        return False
    return click.confirm(
        f"How {len(guessed)} of the models want their pictures is guessed. Try other ways on your pictures, and "
        "correct the manifests? It takes minutes",
        default=True,
        err=True,
    )


def _evaluate(models: Sequence[DescribedModel], asked: _Asked) -> list[Outcome]:
    from zoolens.base.present.bars import Bars
    from zoolens.base.store.store import open_store
    from zoolens.faces.cli.eval import outcome_line
    from zoolens.faces.cli.evaluation_table import print_outcomes
    from zoolens.findings.measure.evaluate import carry_out
    from zoolens.findings.measure.jobs import RunOptions
    from zoolens.findings.measure.latency import LatencySettings
    from zoolens.findings.measure.plan import EvaluationPlan

    chosen = asked.options
    plan = EvaluationPlan(
        models=[str(model.manifest) for model in models],
        data=asked.data.spec,
        limit=chosen["limit"],
        seed=None if chosen["limit"] is None else 0,
        wanted=RunOptions(runtimes=chosen["runtimes"]),
        latency=LatencySettings(max_seconds=chosen["latency_seconds"]),
        cold_repeats=1,
    )
    store = open_store(chosen["store"])
    outcomes = []
    with Bars() as bars:
        if asked.data.size > _MANY and chosen["limit"] is None:
            bars.say(f"Every model answers all {asked.data.size:,} inputs; --limit 2000 draws so many at random.")
        for outcome in carry_out(plan, store, bars):
            outcomes.append(outcome)
            bars.show(outcome_line(outcome, guesses_shown=True))
    print_outcomes(store, outcomes, plan.batches)
    return outcomes


def _with_known_order(
    models: Sequence[DescribedModel], asked: _Asked, outcomes: list[Outcome]
) -> tuple[_Asked, list[Outcome]]:
    """Ask whether the classes are the models' outputs in the order of the alphabet, where an accuracy rests on that,
    and look at the evaluations again in the order that is then known."""
    from zoolens.faces.cli.init_conclusion import in_this_order, order_guesses

    guesses = order_guesses(outcomes)
    spec = in_this_order(asked.data.spec) if guesses else None
    if spec is None or not on_terminal():
        return asked, outcomes
    click.echo(f"Only the alphabet says which class is which output: {guesses[0]}.", err=True)
    if not click.confirm("Are the outputs of your models in this order?", default=False, err=True):
        return asked, outcomes
    known = replace(asked, data=replace(asked.data, spec=spec))
    return known, _evaluate(models, known)


def _conclude(asked: _Asked, models: Sequence[DescribedModel], outcomes: Sequence[Outcome], *, checked: bool) -> None:
    from zoolens.faces.cli.init_conclusion import Question, conclude, conclude_without_labels

    if not asked.data.labelled:
        conclude_without_labels(outcomes)
        return
    question = Question(asked.options["store"], asked.options["lose"], asked.data.spec, asked.command, checked)
    conclude(outcomes, question)
