"""What a user waits for: each line a whole command from a cold process, beside its goal, and before and after in turns.

    python benchmarks/waits.py --kept FOLDER [--before CHECKOUT] [--only NAME …] [--rounds 3] [--runs 100000] [--write]

`--before`: another checkout of zoolens, such as a git worktree of an earlier commit. Its code is run with a PYTHONPATH
and a home of its own, and the two take turns. `--kept`: where large stores are kept from one run of this script to the
next. `--only`: some lines, which `--list` names. `--write` puts the table into docs/benchmarks.md.

A figure is the median of the rounds, in seconds of the clock. Seconds of processor and the load of the machine stand
beside it, since the clock of a busy machine says little. Lines that compare us with something else in one run are
ratios, taken from the benchmark that makes them. Lines that cannot run here say why.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from checkouts import MOST_SECONDS, CannotRun, Figure, Side

ROOT: Final = Path(__file__).parent.parent
DOCS: Final = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- waits -->", "<!-- end of waits -->"
QUERY: Final = "CORR lenet-wide WITHIN 50% ON size <= 90% AND latency <= 200% LIMIT 5"
# A ResNet-18 with seeded weights, and random images for it.
MAKE_RESNET: Final = """
from pathlib import Path
import numpy as np
from zoolens.findings.graph.importers.importer import Request
from zoolens.findings.graph.importers.torch import TORCHVISION
from zoolens.findings.graph.onnx_writer.written_file import onnx_bytes
from zoolens.findings.graph.structures.weighted_graph import canonical_with_facts
folder = Path({folder!r})
graph = canonical_with_facts(TORCHVISION.load(Request("resnet18", weights=True)))
(folder / "resnet18.onnx").write_bytes(onnx_bytes(graph))
images = np.random.default_rng(0).standard_normal((60, 3, 224, 224)).astype(np.float32)
np.savez(folder / "images.npz", x=images, y=np.zeros(60, np.int64))
(folder / "resnet18.yaml").write_text({manifest!r})
"""
RESNET: Final = """\
zoolens: 1
name: resnet18
inputs:
- shape: [null, 3, 224, 224]
outputs:
- {}
assets:
- format: onnx
  files:
  - location: resnet18.onnx
"""
FIRST_EVALUATION: Final = (
    "import zoolens; zoolens.evaluate(['demo:mlp-small'], data='demo', limit=50, runtimes=['onnxruntime'], batches=(), "
    "cold=False, fresh=True, store={store!r})"
)
PORT_AGAIN: Final = """
import time
import psutil
import zoolens
def processor():
    me = psutil.Process()
    return sum(sum(each.cpu_times()[:4]) for each in (me, *me.children(recursive=True)))
for _ in range(2):
    started, used = time.perf_counter(), processor()
    zoolens.port.check({a!r}, {b!r}, ["3x32x32"])
print("again", time.perf_counter() - started, processor() - used)
"""
DECODING: Final = """
import sys, tempfile
from pathlib import Path
sys.path.insert(0, {benchmarks!r})
import eval_overhead as bench
with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    photos = folder / "photos"
    bench.make_photos(photos, 2000, 2000)
    entry, data = bench.photo_model(folder), f"imagefolder:{{photos}}"
    ways = lambda: bench.ours(entry, data, folder, 0), lambda: bench.by_hand_photos(entry, photos)
    ours, hand = bench.best_of(4, *ways)
print("ratio", hand / ours)
"""


def start(side: Side) -> Figure:
    return side.zoolens("--help")


def first_query(side: Side) -> Figure:
    store = side.store()
    with tempfile.TemporaryDirectory() as home:
        return side.zoolens("query", QUERY, "--store", str(store), home=Path(home))


def query_again(side: Side) -> Figure:
    store = side.store()
    if not (side.home / "queried").exists():
        side.zoolens("query", QUERY, "--store", str(store))
        side.home.mkdir(parents=True, exist_ok=True)
        (side.home / "queried").touch()
    return side.zoolens("query", QUERY, "--store", str(store))


def first_page(side: Side) -> Figure:
    """From the request after the server's start to the rows of the page *Runs*."""
    command = [sys.executable, "-m", "zoolens", "ui", "--no-browser", "--port", "0", "--store", str(side.store())]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=side.environment()
    ) as process:
        try:
            assert process.stdout is not None
            words = process.stdout.readline().split()
            if not words:
                raise CannotRun("the explorer did not start")
            began = time.perf_counter()
            for part in ("", "api/v1/runs?limit=100"):
                with urllib.request.urlopen(words[-1].split("#")[0] + part, timeout=300) as answer:
                    answer.read()
            return Figure(time.perf_counter() - began)
        finally:
            process.terminate()


def first_evaluation(side: Side) -> Figure:
    with tempfile.TemporaryDirectory() as folder:
        return side.python("-c", FIRST_EVALUATION.format(store=f"{folder}/some.sqlite"))[0]


def peaks(side: Side) -> Figure:
    with tempfile.TemporaryDirectory() as folder:
        return side.zoolens("machine", "peaks", "--fresh", "--store", f"{folder}/some.sqlite")


def audit(side: Side) -> Figure:
    """All zoos with nothing kept but the environments of MXNet and of TensorFlow's models: no package is fetched."""
    with tempfile.TemporaryDirectory() as home:
        _lend_environments(side, Path(home))
        return side.zoolens("audit", home=Path(home))


def audit_again(side: Side) -> Figure:
    home = side.home / "audited"
    if not home.exists():
        _lend_environments(side, home)
        side.zoolens("audit", home=home)
    return side.zoolens("audit", home=home)


def _lend_environments(side: Side, home: Path) -> None:
    """Link the environments of MXNet and of TensorFlow's models, which are made once, into another home."""
    kept = side.kept / "environments"
    if not kept.exists():
        with tempfile.TemporaryDirectory(dir=_new(side.kept)) as maker:
            side.zoolens("audit", "--zoo", "slim", "--zoo", "gluon", "--arch", "resnet50", home=Path(maker))
            # Scripts of an environment name its folder; its interpreter finds itself wherever it lies.
            shutil.move(Path(maker) / "cache" / "envs", kept)
    _new(home / "cache")
    (home / "cache" / "envs").symlink_to(kept.resolve())


def _new(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _port_pair(side: Side) -> tuple[str, str]:
    nets = side.checkout / "examples" / "port"
    return f"{nets}/torch_net.py:net", f"{nets}/keras_net.py:first_try"


def port_check(side: Side) -> Figure:
    # 1: the two networks differ, as these do.
    return side.python("-m", "zoolens", "port", "check", *_port_pair(side), "--input", "3x32x32", codes=(1,))[0]


def port_again(side: Side) -> Figure:
    """The second check in one Python process."""
    a, b = _port_pair(side)
    _, text = side.python("-c", PORT_AGAIN.format(a=a, b=b))
    found = re.search(r"again ([\d.]+) ([\d.]+)", text)
    if found is None:
        raise CannotRun("the second check did not end")
    return Figure(float(found[1]), float(found[2]))


def diverge(side: Side) -> Figure:
    folder = side.kept / "resnet18"
    if not folder.exists():
        making = _new(side.kept / "unfinished-resnet18")
        side.python("-c", MAKE_RESNET.format(folder=str(making), manifest=RESNET))
        making.rename(folder)
    sides = (f"{folder}/resnet18.yaml@{runtime}" for runtime in ("onnxruntime", "openvino"))
    return side.zoolens("diverge", *sides, "--data", f"npz:{folder}/images.npz?layout=NCHW")


def decoding(side: Side) -> Figure:
    """Loop by hand ÷ evaluation, both in one process on one thread: above 1, we are the quicker."""
    return _ratio(side.python("-c", DECODING.format(benchmarks=str(ROOT / "benchmarks"))), r"ratio ([\d.]+)")


def grpc(side: Side) -> Figure:
    """What the server adds to a call ÷ what a bare gRPC echo adds, at the median or the 90th percentile, whichever is
    more."""
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "found.json"
        figure, _ = side.python(
            str(ROOT / "benchmarks" / "serve_overhead.py"), "--payload", "3 kB", "--json", str(found)
        )
        rows = json.loads(found.read_text())["3 kB"]
    added = [rows["gRPC"][at] / rows["bare gRPC"][at] for at in ("added_p50", "added_p90")]
    return Figure(max(added), figure.cpu)


def batching(side: Side) -> Figure:
    """Requests/s with dynamic batching ÷ without it, the least of two networks and three numbers of clients."""
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "found.json"
        models = [part for name in ("lenet-wide", "resnet-tiny") for part in ("--model", f"{name}@onnxruntime")]
        figure, _ = side.python(
            str(ROOT / "benchmarks" / "serve_batching.py"), *models, "--clients", "1", "8", "32", "--json", str(found)
        )
        return Figure(json.loads(found.read_text())["least"], figure.cpu)


def services(side: Side) -> Figure:
    """The second start of three services with ladders."""
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "found.json"
        side.python(str(ROOT / "benchmarks" / "serve_start.py"), "--again", "1", "--json", str(found))
        seconds, processor = json.loads(found.read_text())["again"]
        return Figure(seconds, processor)


def counting(side: Side) -> Figure:
    """The least of onnx-tool's and fvcore's times ÷ ours with reading."""
    return _ratio(side.python(str(ROOT / "benchmarks" / "cost_counting.py")), r"with reading .* =\s+([\d.]+)×")


def _ratio(measured: tuple[Figure, str], pattern: str) -> Figure:
    figure, text = measured
    found = [float(ratio) for ratio in re.findall(pattern, text)]
    if not found:
        raise CannotRun("the benchmark printed no ratio")
    return Figure(min(found), figure.cpu)


@dataclass(frozen=True)
class Line:
    """`goal`: at most so many seconds, or at least such a ratio."""

    title: str
    measure: Callable[[Side], Figure]
    goal: float
    ratio: bool = False
    largest: bool = False  # a ratio that is to be at most the goal

    def met(self, value: float) -> bool:
        return value >= self.goal if self.ratio and not self.largest else value <= self.goal

    def shown(self, value: float) -> str:
        return f"{value:.2f}" if self.ratio else f"{value:.2f} s"

    @property
    def goal_shown(self) -> str:
        return f"{'≥' if self.ratio and not self.largest else '≤'} {self.goal:g}{'' if self.ratio else ' s'}"


LINES: Final = {
    "help": Line("`zoolens --help`", start, 0.5),
    "first-query": Line("`query` over a store that was never opened here", first_query, 20),
    "query-again": Line("the same again", query_again, 0.4),
    "first-page": Line("explorer's first page after its start", first_page, 1),
    "evaluate": Line("first `zoolens.evaluate` of a Python process", first_evaluation, 1),
    "peaks": Line("`machine peaks`", peaks, 30),
    "audit": Line("`audit` of all zoos, nothing kept", audit, 60),
    "audit-again": Line("`audit`, nothing changed", audit_again, 5),
    "port": Line("`port check` of a small pair", port_check, 8),
    "port-again": Line("the same again in one Python process", port_again, 3),
    "diverge": Line("`diverge` of a ResNet-18 in two runtimes, 60 inputs", diverge, 20),
    "decoding": Line("JPEG evaluation, one thread: loop by hand ÷ ours", decoding, 1, ratio=True),
    "grpc": Line("gRPC, batch 1, 3 kB: added to a call ÷ bare echo", grpc, 1.3, ratio=True, largest=True),
    "batching": Line("requests/s with batching ÷ without", batching, 1, ratio=True),
    "services": Line("start of three services with ladders, again", services, 10),
    "counting": Line("`cost` with reading: others ÷ ours", counting, 1, ratio=True),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kept", type=Path, help="folder of stores that are kept; without it they are made again")
    parser.add_argument("--before", type=Path, help="another checkout, measured in turns with this one")
    parser.add_argument("--only", nargs="+", choices=LINES, default=list(LINES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--write", action="store_true", help="put the table into docs/benchmarks.md")
    chosen = parser.parse_args()
    if chosen.list:
        for name, line in LINES.items():
            print(f"{name:12} {line.goal_shown:>9}  {line.title}")
        return
    with tempfile.TemporaryDirectory(prefix="zoolens-waits-") as folder:
        kept = (chosen.kept or Path(folder)).resolve()
        # Before comes first: a store that it made can be read by both.
        checkouts = {**({"before": chosen.before.resolve()} if chosen.before else {}), "after": ROOT}
        sides = {name: Side(place, Path(folder) / name, kept, chosen.runs) for name, place in checkouts.items()}
        load = os.getloadavg()[0]
        rows = [row(LINES[name], sides, chosen.rounds) for name in chosen.only]
    table = [*_head(chosen.runs, load, rows), *rows]
    if chosen.write:
        write(table)


def _head(runs: int, load: float, rows: list[str]) -> list[str]:
    said = f"`python benchmarks/waits.py`, {os.cpu_count()} cores, {runs:,} runs, load {load:.1f} when it began"
    return [said + ":", "", "| what a user waits for | before | after | goal |", "| --- | --- | --- | --- |"]


def row(line: Line, sides: dict[str, Side], rounds: int) -> str:
    """One line of the table, printed when it is known: sides take turns, round by round."""
    found: dict[str, list[Figure]] = {name: [] for name in sides}
    reasons: dict[str, str] = {}
    for _ in range(rounds):
        for name, side in sides.items():
            if name in reasons:
                continue
            try:
                found[name].append(line.measure(side))
            except CannotRun as error:
                reasons[name] = str(error)
            except subprocess.TimeoutExpired:
                reasons[name] = f"more than {MOST_SECONDS} s"
    before = _cell(line, found.get("before", []), reasons.get("before"))
    after = _cell(line, found["after"], reasons.get("after"))
    verdict = ""
    if found["after"]:
        verdict = " met" if line.met(statistics.median(one.value for one in found["after"])) else " **missed**"
    text = f"| {line.title} | {before} | {after} | {line.goal_shown}{verdict} |"
    print(text, flush=True)
    return text


def _cell(line: Line, figures: list[Figure], reason: str | None) -> str:
    if not figures:
        return reason or "–"
    shown = line.shown(statistics.median(one.value for one in figures))
    cpu = statistics.median(one.cpu for one in figures)
    return f"{shown} (processor {cpu:.2f} s)" if cpu and not line.ratio else shown


def write(table: list[str]) -> None:
    text = DOCS.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    DOCS.write_text(f"{before}{BEGIN}\n" + "\n".join(table) + f"\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
