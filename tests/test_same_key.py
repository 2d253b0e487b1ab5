"""The same model, data and software have the same key: whoever asks, wherever the files lie, whatever is set there."""

import os
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

# The model, the data in several forms, and the stack, as one machine names them.
KEYS = """
import sys
from pathlib import Path
from zoolens.inventory.catalog.lookup import find
from zoolens.inventory.catalog.stored import contents_of
from zoolens.inventory.datasets.opening import open_dataset
from zoolens.findings.measure.lock import resolve_stack
from zoolens.inventory.runtimes.runtime import Options
from zoolens.inventory.runtimes.runtime_names import runtime_named

place = Path(sys.argv[1])
print(sorted(contents_of(find(str(place / "net.yaml")))))
for data in ("folder", "table", "texts.jsonl", "arrays.npz", "boxes"):
    print(data, open_dataset(str(place / data)).fingerprint())
print(resolve_stack(runtime_named("fake"), Options(), None).fingerprint)
"""
MANIFEST = """
name: net
version: 1.0.0
description: Größe und Maß
assets:
  - format: onnx
    files: [{role: model, location: net.onnx}]
inputs: [{shape: [null, 1, 8, 8], layout: NCHW, color: gray}]
outputs: [{task: classification}]
"""
CLASSES = ("äpfel", "Zebra", "apfel", "été")
ELSEWHERE = {  # another user, on another machine
    "TZ": "Pacific/Kiritimati",
    "LC_ALL": "C",
    "LANG": "C",
    "PYTHONUTF8": "0",
    "PYTHONCOERCECLOCALE": "0",
    "PYTHONHASHSEED": "77",
    "USER": "someone",
    "LOGNAME": "someone",
}


def write(folder, *, backwards):
    """The same files, written in one order or in the other, which file systems remember."""
    random = np.random.default_rng(5)
    pictures = random.integers(0, 255, (8, 8, 8), dtype=np.uint8)
    boxes = '{{"images": [{images}], "annotations": [], "categories": [{{"id": 1, "name": "été"}}]}}'
    entries = ", ".join(f'{{"id": {n}, "file_name": "{n}.png", "width": 8, "height": 8}}' for n in range(8))
    files = [
        ("net.yaml", MANIFEST),
        ("net.onnx", "the weights"),
        ("boxes/instances.json", boxes.format(images=entries)),
    ]
    files += [(f"folder/{CLASSES[n % 4]}/{n}.png", picture) for n, picture in enumerate(pictures)]
    files += [(f"table/{n}.png", picture) for n, picture in enumerate(pictures)]
    files += [(f"boxes/{n}.png", picture) for n, picture in enumerate(pictures)]
    files += [("table/labels.csv", "file,label\n" + "".join(f"{n}.png,{CLASSES[n % 4]}\n" for n in range(8)))]
    files += [("texts.jsonl", "".join(f'{{"text": "Satz {n} über Maß", "label": {n % 2}}}\n' for n in range(8)))]
    for name, content in reversed(files) if backwards else files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            path.write_text(content, encoding="utf-8")
        else:
            Image.fromarray(content).save(path)
    np.savez(folder / "arrays.npz", x=pictures, y=np.arange(8) % 2)


def keys(folder, home, **environment):
    home.mkdir(parents=True)
    around = {**os.environ, "HOME": str(home), "ZOOLENS_HOME": str(home / "zoolens"), **environment}
    command = [sys.executable, "-c", KEYS, str(folder)]
    done = subprocess.run(command, env=around, cwd=home, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
def test_the_same_content_has_the_same_key_everywhere(tmp_path):
    ours, theirs = tmp_path / "here", tmp_path / "somewhere else" / "mit Größe"
    write(ours, backwards=False)
    write(theirs, backwards=True)
    here = keys(ours, tmp_path / "home", TZ="UTC", PYTHONHASHSEED="1")
    assert len(here) == 7
    assert here[0] != "[]"
    assert keys(theirs, tmp_path / "heim", **ELSEWHERE) == here
