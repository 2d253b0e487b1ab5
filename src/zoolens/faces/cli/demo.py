"""`zoolens demo`: the main job on what is built in."""

from __future__ import annotations

import os
import shutil
import sys
import time

import click

from zoolens.base.errors import ZoolensError
from zoolens.faces.cli.options import trust_option, wide_option
from zoolens.faces.cli.stores import store_option

_NEXT = (
    ("ui", "all of it in a browser: the explorer"),
    ("runs", "what was measured, kept in your store"),
    ("compare {a} {b}", "two runtimes, one model, input by input"),
    ("runs show {a}", "everything about one run, and the environment it ran in"),
    ("eval your-model.onnx --data your/images", "your own model, on your own dataset"),
    ("models", "every zoo on this machine"),
)


@click.command()
@store_option("makes")
@trust_option
@wide_option
def command(store: str | None) -> None:
    """Evaluate twelve small classifiers on 2,000 Fashion-MNIST images in two runtimes, with no framework installed."""
    from zoolens.base import plugins
    from zoolens.base.present.bars import Bars
    from zoolens.base.store.store import open_store
    from zoolens.faces.cli.evaluation_table import print_outcomes
    from zoolens.findings.measure.evaluate import carry_out
    from zoolens.findings.measure.jobs import RunOptions
    from zoolens.findings.measure.latency import LatencySettings
    from zoolens.findings.measure.plan import EvaluationPlan

    runtimes = [name for name in ("onnxruntime", "litert") if plugins.load(plugins.RUNTIMES, name)().version()]
    if not runtimes:
        raise ZoolensError("The demo needs a small runtime.", hint="Run: pip install 'zoolens[demo]'")
    plan = EvaluationPlan(
        models=["demo:*"],
        data="demo",
        wanted=RunOptions(runtimes=runtimes),
        latency=LatencySettings(max_seconds=0.25),
        cold_repeats=1,
    )
    opened = open_store(store)
    started = time.monotonic()
    with Bars() as bars:
        outcomes = []
        for outcome in carry_out(plan, opened, bars):
            outcomes.append(outcome)
            if outcome.failed:
                bars.say(f"✗ {outcome.title}: {(outcome.errors + outcome.warnings)[0]}")
    print_outcomes(opened, outcomes, plan.batches)
    click.echo(
        f"\n{len(outcomes)} runs of 2,000 images in {time.monotonic() - started:.0f} s. Top-1 with its 95 % interval; "
        "p50 ×1: median latency of one image."
    )
    runs = [outcome.run.id[:8] for outcome in outcomes if outcome.run]
    if len(runs) > 1:
        click.echo("\nWhat to try next")
        for words, what in _NEXT:
            click.echo(f"  {_program()} {words.format(a=runs[0], b=runs[1]):40} {what}")
    if any(outcome.failed for outcome in outcomes):
        raise ZoolensError("Some evaluations failed; see above.")


def _program() -> str:
    """What a user types to call us: the bare name where the shell finds it, else the path that was used now."""
    return "zoolens" if shutil.which("zoolens") else os.path.relpath(sys.argv[0])
