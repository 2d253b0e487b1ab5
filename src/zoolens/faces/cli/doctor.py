"""`zoolens doctor MODEL --data …`: is the declared preprocessing right?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zoolens.base.errors import GateFailed
from zoolens.base.present.terminal import echo_json, make_console, plain, print_table
from zoolens.faces.cli.completed_names import complete_models
from zoolens.faces.cli.options import json_option, on_option, trust_option, wide_option
from zoolens.faces.cli.stores import store_option

if TYPE_CHECKING:
    from zoolens.findings.audit.doctor.diagnosis import Diagnosis


@click.command()
@click.argument("model", metavar="MODEL", shell_complete=complete_models)
@click.option("--data", "-d", required=True, help="Labelled dataset: 'demo', a path, or kind:path?key=value.")
@click.option("--runtime", "-r", default=None, help="Runtime; default: the first that can run the model.")
@click.option("--limit", type=click.IntRange(2), default=None, help="Use this many inputs, drawn at random.")
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed by which the inputs are drawn."
)
@click.option(
    "--screen", type=click.IntRange(10), default=64, show_default=True, help="Inputs on which every variant is tried."
)
@click.option("--threads", type=click.IntRange(1), default=None, help="Threads inside the runtime.")
@click.option("--allow-code", is_flag=True, help="Run Python code that builds the model (in a process of its own).")
@click.option("--all", "show_all", is_flag=True, help="List every variant, also combinations.")
@click.option("--write", type=click.Path(path_type=Path), default=None, help="Write the corrected manifest here.")
@click.option("--force", is_flag=True, help="Let --write overwrite a file.")
@click.option(
    "--fail-on",
    type=click.Choice(["wrong", "improvable"]),
    default=None,
    help="Exit with 3 if the manifest is wrong or nothing works, or also if another decoder, crop or resize is better.",
)
@store_option("makes")
@json_option
@on_option
@trust_option
@wide_option
def command(model: str, data: str, **chosen: Any) -> None:
    """Find out whether MODEL's manifest declares the right preprocessing and reading of answers, from its main metric
    on labelled data.

    Variants of resize, crop, scaling, colour order, layout, label offset, box order, tags, tokens, sample rate and more
    are evaluated and kept like any evaluation: the same command again, also after Ctrl-C, only does what is missing.
    """
    from zoolens.base.present.bars import Bars
    from zoolens.findings.audit.doctor.correction import as_data, write_corrected
    from zoolens.findings.audit.doctor.diagnose import doctor

    with Bars() as bars:
        diagnosis = doctor(
            model,
            data,
            runtime=chosen["runtime"],
            limit=chosen["limit"],
            seed=chosen["seed"],
            screen=chosen["screen"],
            threads=chosen["threads"],
            allow_code=chosen["allow_code"],
            store=chosen["store"],
            progress=bars,
        )
    if chosen["as_json"]:
        echo_json(as_data(diagnosis))
    else:
        print_diagnosis(diagnosis, chosen["show_all"])
    target = chosen["write"]
    if target is not None and diagnosis.corrected is not None:
        write_corrected(diagnosis, model, target, force=chosen["force"])
    if target is not None:
        done = f"{target} written." if diagnosis.corrected else "Nothing to correct, nothing written."
        click.echo(done, err=True)
    if _fails(diagnosis, chosen["fail_on"]):
        raise GateFailed(f"Gate failed: the manifest of {diagnosis.model} is {diagnosis.status}.")


def _fails(diagnosis: Diagnosis, condition: str | None) -> bool:
    return condition is not None and diagnosis.status in ("wrong", "suspicious", condition)


def print_diagnosis(diagnosis: Diagnosis, show_all: bool) -> None:
    from zoolens.findings.audit.doctor.diagnosis_page import NOT_SWEPT, not_swept_lines

    console = make_console()
    console.print(f"[bold]{plain(diagnosis.model)}[/] in {diagnosis.runtime} on {plain(diagnosis.data)}\n")
    _print_trials(diagnosis, show_all)
    _print_sensitivity(diagnosis, console)
    console.print(f"\n[bold]{NOT_SWEPT}[/]")
    for line in not_swept_lines(diagnosis):
        console.print(f"  {plain(line)}", soft_wrap=True)
    _print_verdict(diagnosis, console)


def _print_trials(diagnosis: Diagnosis, show_all: bool) -> None:
    from zoolens.findings.audit.doctor.diagnosis_page import hidden_words, trials_table

    table = trials_table(diagnosis, show_all=show_all)
    print_table(table.columns, table.rows)
    hidden = hidden_words(diagnosis, table)
    if hidden:
        click.echo(f"{hidden}; --all lists all.")


def _print_sensitivity(diagnosis: Diagnosis, console: Any) -> None:
    from zoolens.findings.audit.doctor.diagnosis_page import SENSITIVITY, sensitivity_lines, sensitivity_words

    if diagnosis.sensitivity:
        console.print(f"\n[bold]{SENSITIVITY}[/] ({sensitivity_words(diagnosis)})")
    for line in sensitivity_lines(diagnosis):
        console.print(f"  {plain(line)}", soft_wrap=True)


def _print_verdict(diagnosis: Diagnosis, console: Any) -> None:
    from zoolens.findings.audit.doctor.correction import fragment
    from zoolens.findings.audit.doctor.diagnosis_page import equals_lines

    if diagnosis.sense is not None:
        console.print(f"\n[bold]{plain(diagnosis.sense.sentence)}[/]", soft_wrap=True)
    console.print(f"\n[bold]{plain(diagnosis.sentence)}[/]", soft_wrap=True)
    for line in equals_lines(diagnosis):
        console.print(plain(line), soft_wrap=True)
    for note in diagnosis.notes:
        console.print(f"[yellow]Note:[/] {plain(note)}", soft_wrap=True)
    if diagnosis.corrected is not None:
        console.print("\nThe manifest should say\n")
        console.print(plain(fragment(diagnosis)), end="", soft_wrap=True)
