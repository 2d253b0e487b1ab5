"""A detector on COCO: our whole command against a loop by hand with pycocotools, and memory over 50,000 images.

    ZOOLENS_ASSETS=… python benchmarks/detection.py [--peer FOLDER] [--images 400] [--rounds 3]
    python benchmarks/detection.py --memory 50000 [--task segmentation] [--boxes 10]

Speed: SSD MobileNet v1 in LiteRT with one thread on the 50 images of the reference folder in several brightnesses,
until there are as many as asked for. Both are whole commands in fresh processes (start, imports, decoding, running,
judging), in turns, after a first run of each on a few images that compiles the Python files; the best of all rounds
counts. Ours also keeps all answers and gives intervals by 1,000 resamples, which the loop does not. `--peer`: where
`pip install --target FOLDER pycocotools` has put it, if it is not installed.

Memory: a network that costs next to nothing, images of 32 × 32 pixels, and the peak of resident memory of the whole
evaluation, judgement included, on a tenth of the images, on two fifths and on all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from PIL import Image, ImageEnhance

HERE = Path(__file__).parent
MODEL = "ssd_mobilenet_v1_coco_300_uint8"
SIDE, THREADS, GOAL = 300, 1, 0.95
_FEW = 5  # images of the first run


# --- speed


def varied(assets: Path, folder: Path, images: int) -> Path:
    """The annotations of so many images: the 50 of the reference folder, again and again, each time a bit brighter.

    Plain copies would be read twice, since zoolens looks for copies where answers are the same.
    """
    source = assets / "tasks" / "detection" / "data"
    known = json.loads((source / "instances_val50.json").read_text(encoding="utf-8"))
    (folder / "images").mkdir(parents=True)
    listed: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for number in range(images):
        image = known["images"][number % len(known["images"])]
        name = f"{number:06}.jpg"
        with Image.open(source / "val2017" / image["file_name"]) as picture:
            brighter = ImageEnhance.Brightness(picture).enhance(0.9 + 0.01 * (number // len(known["images"])))
            brighter.save(folder / "images" / name, quality=90)
        listed.append({**image, "id": number + 1, "file_name": name})
        own = [each for each in known["annotations"] if each["image_id"] == image["id"]]
        annotations += [
            {**each, "id": len(annotations) + place + 1, "image_id": number + 1} for place, each in enumerate(own)
        ]
    path = folder / "instances.json"
    path.write_text(json.dumps({**known, "images": listed, "annotations": annotations}), encoding="utf-8")
    return path


def whole_command(command: list[str], environment: dict[str, str]) -> tuple[float, float, str]:
    """Seconds of a fresh process, seconds of processor time of it and its children, and what it printed."""
    begun, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{command[1]} failed: {done.stderr[-2000:]}")
    seconds, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def speed(images: int, rounds: int, peer: str | None) -> None:
    assets = Path(os.environ.get("ZOOLENS_ASSETS", ""))
    model = assets / "tasks" / "detection" / "models" / f"{MODEL}.tflite"
    if not model.is_file():
        raise SystemExit("Set ZOOLENS_ASSETS to the folder of the reference models.")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        few, all_of_them = (_commands(model, varied(assets, folder / str(count), count)) for count in (_FEW, images))
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "compiled")}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        if peer:
            environment["PYTHONPATH"] = os.pathsep.join([peer, os.environ.get("PYTHONPATH", "")])
        best = dict.fromkeys(all_of_them, float("inf"))
        spent, figures = dict(best), {}
        for turn in range(rounds + 1):
            for what, command in (all_of_them if turn else few).items():
                fresh = {**environment, "ZOOLENS_HOME": str(folder / f"home-{turn}-{what[-5:]}")}
                seconds, computing, printed = whole_command(command, fresh)
                if not turn:
                    continue
                best[what], figures[what] = min(best[what], seconds), average_precision(printed)
                spent[what] = min(spent[what], computing)
                shown = f"AP {100 * figures[what]:.4f}   load {os.getloadavg()[0]:.1f}"
                print(f"{what:16} {seconds:7.2f} s, processor {computing:7.2f} s   {shown}", flush=True)
    for what in ("zoolens", "zoolens --trust"):
        ratio, of_processor = best["by hand"] / best[what], spent["by hand"] / spent[what]
        print(f"{images} images: by hand {best['by hand']:.2f} s, {what} {best[what]:.2f} s, ratio {ratio:.3f}")
        print(f"{'':7} processor time {spent['by hand']:.2f} s and {spent[what]:.2f} s, ratio {of_processor:.3f}")
    print(f"goal: ≥ {GOAL}")


def _commands(model: Path, annotations: Path) -> dict[str, list[str]]:
    pictures = annotations.parent / "images"
    by_hand = [str(HERE / "plain_detection.py"), str(model), str(annotations), str(pictures), str(SIDE), str(THREADS)]
    manifest = HERE.parent / "tests" / "task_zoo" / f"{MODEL}.yaml"
    ours = [str(Path(__file__).resolve()), "--evaluate", str(manifest), f"coco:{annotations}?images={pictures}"]
    commands = {"by hand": by_hand, "zoolens": ours, "zoolens --trust": [*ours, "trust"]}
    return {what: [sys.executable, *command] for what, command in commands.items()}


def average_precision(printed: str) -> float:
    found = re.search(r"^AP ([\d.]+)$", printed, re.M)
    assert found is not None, printed
    return float(found[1])


def evaluate_once(manifest: str, data: str, trust: bool) -> None:
    """What `zoolens eval` does without timing the model, into a store of its own."""
    import zoolens

    with zoolens.open_store() as store:
        (outcome,) = zoolens.evaluate(
            [manifest], data, runtimes=["litert"], threads=THREADS, batches=(), cold=False, trust=trust, store=store
        )
        if outcome.run is None or outcome.errors:
            raise SystemExit(str(outcome.errors))
        (found,) = store.observations(outcome.run.id, metric="ap")
    print(f"AP {found.value:.10f}")


# --- memory


def made_up(folder: Path, task: str, images: int, boxes: int) -> tuple[Path, str]:
    """A manifest and the data: as many file names as images, which are 200 different files."""
    import onnx

    random = np.random.default_rng(0)
    (folder / "images").mkdir()
    (folder / "masks").mkdir()
    for number in range(images):
        picture, mask = folder / "images" / f"{number:06}.png", folder / "masks" / f"{number:06}.png"
        if number < 200:
            classes = np.kron(random.integers(0, 3, (4, 4)), np.ones((8, 8), int))
            Image.fromarray((80 * classes[..., None] + random.integers(0, 60, (32, 32, 3))).astype(np.uint8)).save(
                picture
            )
            Image.fromarray(classes.astype(np.uint8)).save(mask)
        else:
            picture.hardlink_to(folder / "images" / f"{number % 200:06}.png")
            mask.hardlink_to(folder / "masks" / f"{number % 200:06}.png")
    network = _boxes_network(boxes, random) if task == "detection" else _MASKS
    onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]>\n{network}'), str(folder / "net.onnx"))
    if task == "detection":
        output = {
            "task": "detection",
            "parts": {"boxes": "b", "scores": "s"},
            "postprocess": [{"op": "boxes", "format": "xyxy", "units": "pixels"}],
            "labels": ["a", "b", "c"],
        }
        data = f"coco:{_annotations(folder, images, random)}?images={folder / 'images'}"
    else:
        output = {"task": "segmentation", "postprocess": [{"op": "masks", "layout": "NCHW"}], "labels": ["a", "b", "c"]}
        data = f"masks:{folder}?classes=a,b,c"
    manifest = {
        "zoolens": 1,
        "name": task,
        "inputs": [{"shape": [None, 3, 32, 32], "preprocess": [{"op": "resize", "size": [32, 32]}]}],
        "outputs": [output],
        "assets": [{"format": "onnx", "files": [{"location": "net.onnx"}]}],
    }
    (folder / "net.yaml").write_text(yaml.safe_dump(manifest, sort_keys=False))
    return folder / "net.yaml", data


_MASKS = "net (float[N, 3, 32, 32] x) => (float[N, 3, 32, 32] y) { y = Identity (x) }"


def _boxes_network(boxes: int, random: np.random.Generator) -> str:
    """The same boxes for every image, moved and scored by its brightness."""
    corners = random.uniform(0, 16, (boxes, 2))
    places = np.concatenate([corners, corners + random.uniform(4, 16, (boxes, 2))], axis=1)
    scores = random.uniform(0.01, 0.7, (boxes, 3)) * (random.random((boxes, 3)) < 0.4)
    listed_places, listed_scores = (", ".join(f"{value:.4f}" for value in each.ravel()) for each in (places, scores))
    return f"""net (float[N, 3, 32, 32] x) => (float[N, {boxes}, 4] b, float[N, {boxes}, 3] s)
        <float less = {{0.002}}, int64[3] flat = {{-1, 1, 1}}, float[1, {boxes}, 4] places = {{{listed_places}}},
        float[1, {boxes}, 3] sure = {{{listed_scores}}}> {{
        m = ReduceMean <axes = [1, 2, 3]> (x)
        z = Mul (m, less)
        r = Reshape (z, flat)
        b = Add (r, places)
        t = Mul (r, sure)
        s = Add (t, sure)
        }}"""


def _annotations(folder: Path, images: int, random: np.random.Generator) -> Path:
    annotations: list[dict[str, Any]] = []
    for number in range(images):
        for _ in range(int(random.integers(1, 5))):
            left, top, width, height = (float(side) for side in np.round(random.uniform(2, 16, 4), 1))
            about = {"image_id": number, "category_id": int(random.integers(1, 4)), "bbox": [left, top, width, height]}
            annotations.append({"id": len(annotations) + 1, **about, "area": width * height, "iscrowd": 0})
    content = {
        "images": [{"id": n, "file_name": f"{n:06}.png", "width": 32, "height": 32} for n in range(images)],
        "categories": [{"id": place + 1, "name": name} for place, name in enumerate("abc")],
        "annotations": annotations,
    }
    path = folder / "boxes.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def memory(task: str, images: int, boxes: int) -> None:
    peaks = []
    for count in (images // 10, 2 * images // 5, images):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            manifest, data = made_up(folder, task, count, boxes)
            command = [sys.executable, str(Path(__file__).resolve()), "--measure", str(manifest), data, str(count)]
            _, _, printed = whole_command(command, {**os.environ, "ZOOLENS_HOME": str(folder / "home")})
        print(printed, end="", flush=True)
        peaks.append(float(re.search(r"peak ([\d.]+) MB", printed)[1]))  # type: ignore[index]
    print(f"{task}, {images:,} images: peak {peaks[-1]:.0f} MB, {peaks[-1] - peaks[0]:+.0f} MB against a tenth of them")


def measure(manifest: str, data: str, limit: int) -> None:
    """Evaluates in this process, and prints its memory after the answers and the peak of all."""
    from zoolens.base.progress import Silent
    from zoolens.base.store.store import open_store
    from zoolens.findings.measure.evaluate import evaluate

    peak_of_answers = 0.0

    class Watch(Silent):
        def end(self) -> None:
            nonlocal peak_of_answers
            peak_of_answers = peak()

    begun = time.perf_counter()
    with open_store() as store:
        (outcome,) = evaluate(
            [manifest], data, runtimes=["onnxruntime"], batches=(), cold=False, trust=True, limit=limit, store=store,
            progress=Watch(),
        )  # fmt: skip
        if outcome.run is None or outcome.errors:
            raise SystemExit(str(outcome.errors))
        (main,) = (each for each in store.observations(outcome.run.id) if each.metric in ("ap", "miou"))
    seconds = time.perf_counter() - begun
    print(
        f"{limit:7,} images: {main.metric} {main.value:.4f} in {seconds:.0f} s; "
        f"{peak_of_answers:.0f} MB after the answers, peak {peak():.0f} MB"
    )


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def main() -> None:
    if sys.argv[1:2] == ["--measure"]:
        measure(sys.argv[2], sys.argv[3], int(sys.argv[4]))
        return
    if sys.argv[1:2] == ["--evaluate"]:
        evaluate_once(sys.argv[2], sys.argv[3], trust=len(sys.argv) > 4)
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer", help="a folder with pycocotools in it")
    parser.add_argument("--memory", type=int, help="measure memory over so many images instead")
    parser.add_argument("--task", choices=["detection", "segmentation"], default="detection")
    parser.add_argument("--boxes", type=int, default=20, help="of each image, for --memory")
    chosen = parser.parse_args()
    if chosen.memory:
        memory(chosen.task, chosen.memory, chosen.boxes)
    else:
        speed(chosen.images, chosen.rounds, chosen.peer)


if __name__ == "__main__":
    main()
