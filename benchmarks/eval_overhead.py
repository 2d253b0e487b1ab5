"""What zoolens costs: our evaluation against a hand-written loop over the same runtime and decoder, in the same run.

    python benchmarks/eval_overhead.py [--rounds 3] [--images 50000]

Three parts: throughput on JPEG files and on in-memory images (rounds of the two ways take turns, the best round of
each counts, so that other load on the machine hits both alike), resident memory over many images, and what the
latency harness adds to a call.
"""

from __future__ import annotations

import argparse
import csv
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
from PIL import Image

from zoolens.base.progress import Silent
from zoolens.base.store.store import open_store
from zoolens.findings.measure.job_runner import run_job
from zoolens.findings.measure.jobs import Job
from zoolens.findings.measure.latency import LatencySettings, measure_latency
from zoolens.findings.measure.plan import EvaluationPlan
from zoolens.inventory.catalog.lookup import find
from zoolens.inventory.datasets.opening import open_dataset
from zoolens.inventory.runtimes.onnxruntime.onnxruntime_runtime import OnnxRuntime
from zoolens.inventory.runtimes.runtime import Options
from zoolens.inventory.zoos.zoo import Entry

MEAN, STD = 0.2860, 0.3530
THREADS = 1


def make_photos(folder: Path, distinct: int, total: int) -> None:
    """`total` JPEG files of 227×227, `distinct` of them different, the rest hard links."""
    generator = np.random.default_rng(0)
    for label in range(10):
        (folder / str(label)).mkdir(parents=True)
    for index in range(total):
        path = folder / str(index % 10) / f"{index:06}.jpg"
        if index < distinct:
            small = generator.integers(0, 255, (12, 12, 3), np.uint8)
            Image.fromarray(small).resize((227, 227), Image.Resampling.BICUBIC).save(path, quality=88)
        else:
            first = index % distinct
            path.hardlink_to(folder / str(first % 10) / f"{first:06}.jpg")


def photo_model(folder: Path) -> Entry:
    """A demo model with a resize step before it: what an image-folder evaluation does."""
    entry = find("demo:lenet-wide")
    data = entry.manifest.model_dump()
    resize = {"op": "resize", "size": (28, 28), "method": "bilinear", "library": "pil"}
    data["inputs"][0]["preprocess"] = [resize, *data["inputs"][0]["preprocess"]]
    return Entry(entry.zoo, type(entry.manifest).model_validate(data), entry.weights, entry.folder)


def job_of(entry: Entry) -> Job:
    asset = next(one for one in entry.manifest.assets if one.format == "onnx")
    return Job(entry, asset, OnnxRuntime(), Options(threads=THREADS))


def ours(entry: Entry, data: str, folder: Path, decode_threads: int) -> float:
    """Seconds for predictions and metrics of one whole evaluation, into a real store."""
    store = open_store(folder / f"{time.monotonic_ns()}.sqlite")
    dataset = open_dataset(data)
    dataset.fingerprint()  # hashed once and cached; the loop below does not hash either
    plan = EvaluationPlan(models=[], data=data, batches=(), cold=False, decode_threads=decode_threads)
    job = job_of(entry)
    started = time.perf_counter()
    outcome = run_job(job, plan, dataset, store, Silent())
    seconds = time.perf_counter() - started
    assert not outcome.errors, outcome.errors
    return seconds


def by_hand_photos(entry: Entry, folder: Path) -> float:
    """What one writes in an afternoon: list, decode, resize, normalise, run in batches of 32, count."""
    import onnxruntime

    started = time.perf_counter()
    session = _session(onnxruntime, entry)
    name = session.get_inputs()[0].name
    files = [(path, int(path.parent.name)) for path in sorted(folder.rglob("*.jpg"))]
    right = 0
    for start in range(0, len(files), 32):
        chunk = files[start : start + 32]
        images = []
        for path, _ in chunk:
            with Image.open(path) as image:
                grey = image.convert("RGB").convert("L").resize((28, 28), Image.Resampling.BILINEAR)
                images.append((np.asarray(grey, np.float32) / 255 - MEAN) / STD)
        scores = session.run(None, {name: np.stack(images)})[0]
        right += int((scores.argmax(1) == np.array([label for _, label in chunk])).sum())
    return time.perf_counter() - started


def by_hand_turbo(entry: Entry, folder: Path) -> float:
    """The same by somebody who knows simplejpeg, which decodes into an array three times as fast."""
    import onnxruntime
    import simplejpeg

    started = time.perf_counter()
    session = _session(onnxruntime, entry)
    name = session.get_inputs()[0].name
    files = [(path, int(path.parent.name)) for path in sorted(folder.rglob("*.jpg"))]
    right = 0
    for start in range(0, len(files), 32):
        chunk = files[start : start + 32]
        images = []
        for path, _ in chunk:
            photo = Image.fromarray(simplejpeg.decode_jpeg(path.read_bytes()))
            grey = photo.convert("L").resize((28, 28), Image.Resampling.BILINEAR)
            images.append((np.asarray(grey, np.float32) / 255 - MEAN) / STD)
        scores = session.run(None, {name: np.stack(images)})[0]
        right += int((scores.argmax(1) == np.array([label for _, label in chunk])).sum())
    return time.perf_counter() - started


def by_hand_arrays(entry: Entry, images: np.ndarray, labels: np.ndarray) -> float:
    """The same over images already in memory, one at a time as a data loader does."""
    import onnxruntime

    started = time.perf_counter()
    session = _session(onnxruntime, entry)
    name = session.get_inputs()[0].name
    right = 0
    for start in range(0, len(images), 32):
        chunk = [(image.astype(np.float32) / 255 - MEAN) / STD for image in images[start : start + 32]]
        scores = session.run(None, {name: np.stack(chunk)})[0]
        right += int((scores.argmax(1) == labels[start : start + 32]).sum())
    return time.perf_counter() - started


def _session(onnxruntime: object, entry: Entry) -> object:
    settings = onnxruntime.SessionOptions()  # type: ignore[attr-defined]
    settings.intra_op_num_threads = THREADS
    settings.inter_op_num_threads = 1
    job = job_of(entry)
    return onnxruntime.InferenceSession(str(job.paths["model"]), settings)  # type: ignore[attr-defined]


def by_hand_imagenet(entry: Entry, folder: Path) -> float:
    """ImageNet-style: bicubic to 224×224, mean and deviation, batches of one as the file was exported."""
    import onnxruntime

    started = time.perf_counter()
    session = _session(onnxruntime, entry)
    name = session.get_inputs()[0].name
    mean = np.array([0.485, 0.456, 0.406], np.float32)[:, None, None]
    deviation = np.array([0.229, 0.224, 0.225], np.float32)[:, None, None]
    with (folder / "labels.csv").open() as table:
        rows = [(row["file"], int(row["class_index"])) for row in csv.DictReader(table)]
    right = 0
    for file, label in rows:
        with Image.open(folder / file) as image:
            pixels = np.asarray(image.convert("RGB").resize((224, 224), Image.Resampling.BICUBIC), np.float32)
        scores = session.run(None, {name: ((pixels.transpose(2, 0, 1) / 255 - mean) / deviation)[None]})[0]
        right += int(scores[0].argmax() == label)
    return time.perf_counter() - started


def best_of(rounds: int, *ways: Callable[[], float]) -> list[float]:
    times: list[list[float]] = [[] for _ in ways]
    for _ in range(rounds):
        for index, way in enumerate(ways):
            times[index].append(way())
    return [min(one) for one in times]


def throughput(rounds: int, folder: Path) -> None:
    photos = folder / "photos"
    count = 8000
    make_photos(photos, 300, count)
    entry = photo_model(folder)
    mine, threaded, hand, turbo = best_of(
        rounds,
        lambda: ours(entry, f"imagefolder:{photos}", folder, decode_threads=0),
        lambda: ours(entry, f"imagefolder:{photos}", folder, decode_threads=2),
        lambda: by_hand_photos(entry, photos),
        lambda: by_hand_turbo(entry, photos),
    )
    report("JPEG files, 1 thread", count, hand, mine)
    report("  loop with simplejpeg", count, turbo, mine)
    report("JPEG files, default", count, hand, threaded)
    demo = find("demo:lenet-wide")
    data = open_dataset("demo")
    images = np.stack([data.read(index).value[..., 0] for index in range(len(data))])
    repeat = 60
    images, labels = np.tile(images, (repeat, 1, 1)), np.tile(data.labels(), repeat)
    np.savez(folder / "demo.npz", x=images, y=labels)
    mine, hand = best_of(
        rounds,
        lambda: ours(demo, f"npz:{folder / 'demo.npz'}", folder, decode_threads=2),
        lambda: by_hand_arrays(demo, images, labels),
    )
    count = len(images)
    report("in-memory 28×28", count, hand, mine)


def real_model(rounds: int, folder: Path) -> None:
    """A real classifier on real images, where the reference models are here."""
    assets = os.environ.get("ZOOLENS_ASSETS")
    if not assets:
        print("ShuffleNet v2 on ImageNet images: skipped, set ZOOLENS_ASSETS")
        return
    entry = find(str(Path(__file__).parent.parent / "tests/reference_zoo/imagenet/shufflenet-v2-12-int8.yaml"))
    images = Path(assets) / "data" / "imagenet_val"
    one, threaded, hand = best_of(
        rounds,
        lambda: ours(entry, f"imagefolder:{images}", folder, decode_threads=0),
        lambda: ours(entry, f"imagefolder:{images}", folder, decode_threads=2),
        lambda: by_hand_imagenet(entry, images),
    )
    report("ShuffleNet, 1 thread", 725, hand, one)
    report("ShuffleNet, default", 725, hand, threaded)


def report(what: str, count: int, hand: float, mine: float) -> None:
    print(f"{what:22} by hand {count / hand:7.0f} images/s   zoolens {count / mine:7.0f}   ratio {hand / mine:.3f}")


def memory(total: int, folder: Path) -> None:
    """Resident memory while evaluating `total` JPEG files, seen from the progress callback."""
    photos = folder / "many"
    make_photos(photos, 300, total)
    process = psutil.Process()
    seen: list[tuple[int, float]] = []

    class Watch(Silent):
        done = 0

        def advance(self, steps: int) -> None:
            self.done += steps
            if not seen or self.done - seen[-1][0] >= total // 10:
                seen.append((self.done, process.memory_info().rss / 1e6))

    store = open_store(folder / "memory.sqlite")
    data = f"imagefolder:{photos}"
    plan = EvaluationPlan(models=[], data=data, batches=(), cold=False, decode_threads=2)
    outcome = run_job(job_of(photo_model(folder)), plan, open_dataset(data), store, Watch())
    assert not outcome.errors, outcome.errors
    for done, megabytes in seen:
        print(f"  after {done:6} images: {megabytes:6.1f} MB resident")
    settled = [megabytes for done, megabytes in seen if done >= total // 5]
    print(f"memory over {total} images: grew by {settled[-1] - settled[0]:+.1f} MB after the first fifth")


def harness(calls: int = 20_000) -> None:
    """Per call: our harness against a loop that reads the clock twice and appends."""

    def nothing() -> None:
        return None

    best_hand = best_ours = float("inf")
    for _ in range(5):
        elapsed: list[int] = []
        started = time.perf_counter()
        for _ in range(calls):
            begun = time.perf_counter_ns()
            nothing()
            elapsed.append(time.perf_counter_ns() - begun)
        best_hand = min(best_hand, (time.perf_counter() - started) / calls)
        settings = LatencySettings(
            precision=0.0, min_samples=calls, max_samples=calls, max_seconds=60, warmup_seconds=0
        )
        started = time.perf_counter()
        samples = measure_latency(nothing, settings)
        # the 50 ms that find the busy threads are paid once, not per call
        best_ours = min(best_ours, (time.perf_counter() - started - 0.05) / len(samples))
    print(
        f"latency harness   by hand {best_hand * 1e6:.2f} µs a call   zoolens {best_ours * 1e6:.2f} µs   "
        f"adds {1e6 * (best_ours - best_hand):.2f} µs (goal ≤ 5)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--images", type=int, default=50_000)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        throughput(chosen.rounds, Path(name))
        real_model(chosen.rounds, Path(name))
        harness()
        memory(chosen.images, Path(name))


if __name__ == "__main__":
    main()
