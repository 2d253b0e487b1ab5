"""Small files that would fill the memory, and files that never end: one sentence each, in little memory and time."""

import os
import struct
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

MEMORY = 6 << 30  # of addresses, which frameworks reserve freely; each bomb below would need more than that
SECONDS = 120


@pytest.fixture
def run(command_server):
    def limited(*arguments, code=None):
        """A zoolens command, or code, in a process that may not grow; what it says, and how it ends."""
        done = command_server.run(*arguments, code=code, memory=MEMORY, timeout=SECONDS)
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, " ".join((done.stdout + done.stderr).split())

    return limited


OPEN_DATA = """
import sys
from zoolens.inventory.datasets.opening import open_dataset
from zoolens.base.errors import ZoolensError
try:
    data = open_dataset(sys.argv[1])
    data.fingerprint()
    data.read(0)
except ZoolensError as error:
    sys.exit(str(error))
"""
OPEN_MODEL = """
import sys
from pathlib import Path
from zoolens.base import plugins
from zoolens.base.errors import ZoolensError
from zoolens.inventory.runtimes.runtime import ModelFiles
try:
    plugins.load(plugins.RUNTIMES, sys.argv[1])().open(ModelFiles(sys.argv[2], {"model": Path(sys.argv[3])}))
except ZoolensError as error:
    sys.exit(str(error))
"""


def stretched(path, name, size):
    """Zeros that unpack to `size`, at the end of a deflated archive."""
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as archive, archive.open(name, "w") as entry:
        for _ in range(size >> 24):
            entry.write(bytes(1 << 24))
    return path


@pytest.mark.parametrize(("runtime", "format_", "name"), [
    ("torch", "torchscript", "m.pt"),
    ("torch", "torch-export", "m.pt2"),
    ("tensorflow", "keras", "m.keras"),
])  # fmt: skip
def test_archives_of_models(run, tmp_path, runtime, format_, name):
    path = tmp_path / name
    with zipfile.ZipFile(path, "w") as archive:
        for entry in ("m/constants.pkl", "m/models/model.json", "config.json", "model.weights.h5"):
            archive.writestr(entry, b"{}")
    stretched(path, "m/data/0", 1 << 28)
    assert path.stat().st_size < 4 << 20
    code, said = run(runtime, format_, path, code=OPEN_MODEL)
    assert code == 1
    assert f"{name} cannot be read: it unpacks to more than 67,108,864 bytes" in said


def parquet(path, **columns):
    pq.write_table(pa.table(columns), path, compression="zstd", row_group_size=1 << 30)
    return path


def test_parquet_labels_and_images(run, tmp_path):
    count = 20_000_000  # equal values take no room
    labels = parquet(tmp_path / "labels.parquet", x=pa.array(np.zeros(count, "u1")), y=pa.array(np.zeros(count, "i8")))
    assert labels.stat().st_size < 2 << 20
    code, said = run(labels, code=OPEN_DATA)
    assert code == 1
    assert "more than the 16,777,216 that are evaluated" in said
    word = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1 << 14, "i4")), pa.array(["x" * (1 << 20)]))  # 16 GiB
    image = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1 << 14, "i4")), pa.array([bytes(1 << 20)]))
    words = parquet(tmp_path / "words.parquet", image=image, label=word)
    code, said = run(words, code=OPEN_DATA)
    assert code == 1
    assert "Row 0 of words is not an image" in said


def test_images_that_are_devices_and_pipes(run, tmp_path):
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "0.png").symlink_to("/dev/zero")
    code, said = run(tmp_path, code=OPEN_DATA)
    assert code == 1
    assert "0.png cannot be read: it is a device, not a regular file" in said
    (tmp_path / "cat" / "0.png").unlink()
    os.mkfifo(tmp_path / "cat" / "0.png")
    code, said = run(tmp_path, code=OPEN_DATA)
    assert code == 1
    assert "it is a pipe, not a regular file" in said


@pytest.mark.parametrize("place", ["model", "labels", "manifest", "classes", "table", "plan"])
def test_pipes_do_not_hang(run, tmp_path, place):
    pipe = tmp_path / {"model": "m.onnx", "labels": "labels.txt", "manifest": "m.yaml", "plan": "p.yaml"}.get(
        place, "p"
    )
    os.mkfifo(pipe)
    manifest = tmp_path / "m.yaml"
    if place != "manifest":
        manifest.write_text(
            "zoolens: 1\nname: m\nassets:\n- format: onnx\n  files:\n  - location: m.onnx\n"
            "inputs:\n- shape: [1, 3, 8, 8]\noutputs:\n- labels_file: labels.txt\n"
        )
    if place == "labels":
        (tmp_path / "m.onnx").write_bytes(b"")
    image = tmp_path / "data" / "cat" / "0.png"
    image.parent.mkdir(parents=True)
    Image.new("RGB", (8, 8)).save(image)
    commands = {
        "model": ["manifest", "init", pipe],
        "labels": ["manifest", "validate", manifest],
        "manifest": ["manifest", "validate", manifest],
        "classes": ["eval", "demo:resnet-tiny", "--data", f"{image.parent.parent}?classes={pipe}"],
        "table": ["eval", "demo:resnet-tiny", "--data", f"{image.parent.parent}?labels=../p"],
        "plan": ["crosstrain", "run", pipe],
    }
    code, said = run(*commands[place])
    assert code != 0
    assert said


def test_a_labels_file_that_claims_little_and_unpacks_to_much(run, tmp_path):
    """An .npz whose index claims a small array: counted, not believed."""
    path = tmp_path / "d.npz"
    np.savez_compressed(path, x=np.zeros((1 << 14, 1 << 12), "u1"), y=np.zeros(1 << 14, "i8"))
    data = bytearray(path.read_bytes())
    at = data.index(b"PK\x01\x02")
    struct.pack_into("<I", data, at + 24, 1000)
    path.write_bytes(data)
    code, said = run(path, code=OPEN_DATA)
    assert code == 1
    assert "d.npz" in said
