"""Evaluate the reference models of `tests/task_zoo` in every installed runtime that can run them, and write
docs/reference-models.md.

    ZOOLENS_ASSETS=../shared/assets python scripts/measure_tasks.py [--store FILE] [--only NAME] [--write]

Resumes: a second run measures only what is missing. "Stated" figures were measured independently of zoolens.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from zoolens.base.present.bars import Bars
from zoolens.base.present.figures import with_interval
from zoolens.base.store.store import Store, open_store
from zoolens.findings.measure.evaluate import carry_out
from zoolens.findings.measure.jobs import RunOptions
from zoolens.findings.measure.plan import EvaluationPlan, Outcome
from zoolens.inventory.catalog.lookup import find
from zoolens.inventory.manifests.schema import Claim, Manifest

REPO = Path(__file__).parent.parent
ZOO = REPO / "tests" / "task_zoo"
PAGE = REPO / "docs" / "reference-models.md"
BEGIN, END = "<!-- tasks -->", "<!-- end of tasks -->"
HEAD = "| model | dataset | runtime | precision | metric | ours [95 %] | stated | difference | note |"
TOLERANCE = 1.0  # points: see the page for what moves them by less
_MOST_LETTERS = 120  # of an error

# By the name that claims call them; `{labels}` are the labels of the manifest.
DATA = {
    "coco_val50": "coco:{tasks}/detection/data/instances_val50.json?images=val2017",
    "coco_masks50": "masks:{tasks}?images=detection/data/val2017&masks=segmentation/data/masks"
    "&classes=segmentation/data/classes.json%23voc21&ids=segmentation/data/classes.json%23coco_to_voc21"
    "&others=background&ignore=0",
    "tweets": "text:{tasks}/text/data/sentiment_tweets.tsv?classes={labels}",
    "amazon": "text:{tasks}/text/data/sentiment_amazon.tsv?classes={labels}",
    "imdb400": "text:{tasks}/text/data/sentiment_imdb400.tsv?classes={labels}",
    "tweets_intensity": "text:{tasks}/text/data/sentiment_intensity_tweets_regression.tsv?value=mean_rating_-4_to_4",
    "stsb": "text:{tasks}/embeddings/data/stsb-en-test.csv?columns=a,b,score&text=a,b&similarity=score",
    "factru": "tagged:{tasks}/ner/data/factrueval2016_test.jsonl",
    "keywords": "raw:{tasks}/audio/data/kws01?shape=49x10x1&dtype=int8&labels=y_labels.csv&label=2",
    "conversation": "sounds:{tasks}/audio/data/vad/sample.wav?rttm=beside",
    "clips": "sounds:{tasks}/audio/data/vad?active=speech",
}


def data_of(name: str, manifest: Manifest, assets: Path) -> str:
    """The dataset that claims call so, as `--data` takes it."""
    return DATA[name].format(tasks=assets / "tasks", labels=",".join(manifest.outputs[0].labels or ()))


def measured(path: Path, assets: Path, store: Store, bars: Bars) -> Iterator[tuple[str, Sequence[Claim], Outcome]]:
    """What became of a model on each dataset that it has claims about, in each runtime."""
    manifest = find(str(path)).manifest
    for name in dict.fromkeys(claim.dataset for claim in manifest.claims):
        assert name is not None
        claims = [claim for claim in manifest.claims if claim.dataset == name]
        data = data_of(name, manifest, assets)
        plan = EvaluationPlan(models=[str(path)], data=data, wanted=RunOptions(), batches=(), cold=False)
        for outcome in carry_out(plan, store, bars):
            yield name, claims, outcome


def rows(store: Store, model: str, data: str, claims: Sequence[Claim], outcome: Outcome) -> Iterator[str]:
    if outcome.run is None or outcome.errors:
        runtime, reason = outcome.title.rpartition(" in ")[2], (*outcome.errors, outcome.skipped)[0]
        yield f"| {model} | {data} | {runtime} | – | – | – | – | – | {_short(str(reason))} |"
        return
    run = outcome.run
    found = {one.metric: one for one in store.observations(run.id) if not one.scope}
    for claim in claims:
        ours = found.get(claim.metric)
        if ours is None or ours.value is None:
            raise SystemExit(f"{model} on {data} has no {claim.metric}, which is stated.")
        gap = 100 * (ours.value - claim.value)
        note = "" if abs(gap) <= TOLERANCE else "**differs**"
        yield (
            f"| {model} | {data} | {run.stack.runtime} {run.stack.version} | {run.precision or 'unknown'} "
            f"| {claim.metric} | {_whole(with_interval(ours))} | {100 * claim.value:.2f} | {gap:+.2f} | {note} |"
        )


def _short(reason: str) -> str:
    """The beginning of an error, on one line and without what would end a cell."""
    line = " ".join(reason.replace("|", "/").split())
    return line if len(line) <= _MOST_LETTERS else f"{line[:_MOST_LETTERS]} …"


def _whole(text: str) -> str:
    """A figure that no page breaks over two lines."""
    return text.replace(" ", "\u00a0")


def write(lines: Sequence[str]) -> None:
    table = "\n".join([HEAD, "| --- | --- | --- | --- | --- | --- | --- | --- | --- |", *lines])
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{table}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", default=None)
    parser.add_argument("--write", action="store_true", help="Put the table into the documentation.")
    parser.add_argument("--only", default="", help="Models whose name holds this.")
    chosen = parser.parse_args()
    assets = Path(os.environ.get("ZOOLENS_ASSETS") or REPO.parent / "shared" / "assets").resolve()
    os.environ["ZOOLENS_ASSETS"] = str(assets)
    lines: list[str] = []
    with open_store(chosen.store) as store, Bars() as bars:
        for path in sorted(ZOO.glob("*.yaml")):
            if chosen.only not in path.stem:
                continue
            for data, claims, outcome in measured(path, assets, store, bars):
                found = list(rows(store, path.stem, data, claims, outcome))
                lines += found
                bars.say("\n".join(found))
    if chosen.write:
        write(lines)


if __name__ == "__main__":
    main()
