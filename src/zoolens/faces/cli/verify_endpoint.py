"""`zoolens verify-endpoint URL --is MODEL`: does this endpoint have the model that it is said to have?"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from zoolens.base.present.terminal import echo_json, make_console, plain
from zoolens.faces.cli.completed_names import complete_models
from zoolens.faces.cli.exit_codes import trouble
from zoolens.faces.cli.options import json_option, trust_option
from zoolens.faces.cli.stores import store_option

if TYPE_CHECKING:
    from zoolens.findings.endpoints.verification import Verification


@click.command("verify-endpoint")
@click.argument("url")
@click.option("--is", "model", required=True, help="The model that it is said to have.", shell_complete=complete_models)
@click.option(
    "--or", "others", multiple=True, help="A model that it could have instead. May be given several times.",
    shell_complete=complete_models,
)  # fmt: skip
@click.option("--data", "-d", help="Texts that prompts are pieces of, as passages:FILE.txt.  [default: Python's help]")
@click.option("--chat", is_flag=True, help="Send conversations: the server's chat template is tested as well.")
@click.option(
    "--by", type=click.Choice(["logprobs", "tokens"]), help="What is compared.  [default: what the endpoint tells]"
)
@click.option("--context", type=click.IntRange(1), default=256, show_default=True, help="Tokens of the long prompts.")
@click.option("--most", type=click.IntRange(1), default=300, show_default=True, help="The most prompts to ask.")
@click.option(
    "--error", type=click.FloatRange(0, 0.5, min_open=True, max_open=True), default=0.01, show_default=True,
    help="Of taking a model that differs at 20 % of prompts or more, or of rejecting the right one.",
)  # fmt: skip
@click.option(
    "--allowance", type=click.FloatRange(0, 0.5, max_open=True), default=0.02, show_default=True,
    help="Total variation that other kernels may make.",
)  # fmt: skip
@click.option(
    "--seconds", type=click.FloatRange(0, min_open=True), default=60.0, show_default=True, help="For each answer."
)
@click.option("--runtime", "-r", help="Runtime in which the models are run here.")
@click.option("--threads", type=click.IntRange(1), help="Threads inside the runtime.")
@click.option("--seed", type=click.IntRange(0), help="Repeats the prompts of an earlier run.  [default: drawn anew]")
@store_option("makes")
@json_option
@trust_option
def command(
    url: str,
    model: str,
    others: tuple[str, ...],
    data: str | None,
    chat: bool,
    by: str | None,
    context: int,
    most: int,
    error: float,
    allowance: float,
    seconds: float,
    runtime: str | None,
    threads: int | None,
    seed: int | None,
    store: str | None,
    as_json: bool,
) -> None:
    """Asks the endpoint at URL for next tokens until it is known whether MODEL answers there, and keeps the evidence.

    Exits with 0 if it is the model, with 1 if it is not, and with 4 if that is not known.
    """
    from zoolens.base.present.bars import Bars
    from zoolens.findings.endpoints.verification_words import as_data
    from zoolens.findings.endpoints.verify_endpoint import verify_endpoint

    with trouble(), Bars() as bars:
        found = verify_endpoint(
            url, model, others, data=data, chat=chat, by=by, context=context, most=most, error=error,
            allowance=allowance, seconds=seconds, runtime=runtime, threads=threads, seed=seed, store=store,
            progress=bars,
        )  # fmt: skip
    if as_json:
        echo_json(as_data(found))
    else:
        print_verification(found)
    sys.exit(found.verdict.outcome.exit_code)


def print_verification(found: Verification) -> None:
    from zoolens.findings.endpoints.verification_words import limits, model_lines, sentence

    console = make_console()
    console.print(f"[bold]{plain(sentence(found))}[/]")
    for name, words in model_lines(found):
        console.print(f"  {plain(name)}: {plain(words)}")
    for limit in limits(found):
        console.print(f"[dim]{plain(limit)}[/]")
    if found.run is not None:
        console.print(f"[dim]run {found.run.id[:8]}; the same prompts again: --seed {found.settings['seed']}[/]")
