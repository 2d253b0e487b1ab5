"""The explorer that is committed is built of the sources that are committed. No node is needed to see that."""

import gzip
import hashlib
import re
from pathlib import Path

REPO = Path(__file__).parents[2]
SOURCES = REPO / "explorer"
BUILT = REPO / "src" / "zoolens" / "faces" / "ui" / "assets"
STALE = "the explorer is stale: run `make ui` and commit what it writes"


def test_the_built_explorer_is_fresh():
    """As explorer/write-sources-hash.mjs computes it."""
    names = ["index.html", "favicon.svg", "package-lock.json", "tsconfig.json", "vite.config.js"]
    names += [path.relative_to(SOURCES).as_posix() for path in (SOURCES / "src").rglob("*") if path.is_file()]
    digest = hashlib.sha256()
    for name in sorted(names):
        digest.update(f"{name}\n".encode())
        digest.update((SOURCES / name).read_bytes())
    assert (BUILT / "sources.sha256").read_text().strip() == digest.hexdigest(), STALE
    for name in ("index.html", "favicon.svg"):
        assert (BUILT / name).read_bytes() == (SOURCES / name).read_bytes(), STALE


def test_the_types_of_the_client_are_those_of_the_api():
    from scripts.make_ui_types import COMMANDS, TARGET, commands, types

    assert TARGET.read_text(encoding="utf-8") == types(), STALE
    assert COMMANDS.read_text(encoding="utf-8") == commands(), STALE


def test_the_page_is_small_before_the_first_chart():
    sizes = {path.name: len(gzip.compress(path.read_bytes())) for path in BUILT.iterdir()}
    assert sum(sizes.values()) < 400_000, sizes


def test_no_component_makes_markup_or_code_of_a_text():
    """Preact writes texts as texts, unless it is told otherwise by one of these."""
    forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|srcdoc|document\.write|\beval\(|new Function"
    files = list((SOURCES / "src").rglob("*.ts*"))
    assert len(files) > 30
    for file in files:
        assert not re.findall(forbidden, file.read_text(encoding="utf-8"), re.IGNORECASE), file


def test_classes_have_the_same_colours_on_maps_and_on_the_page():
    from zoolens.inventory.datasets.previews import PALETTE

    style = (SOURCES / "src" / "style.css").read_text(encoding="utf-8")
    declared = dict(re.findall(r"--class-(\d): #([0-9a-f]{6});", style))
    assert [declared[str(place)] for place in range(len(PALETTE))] == [bytes(colour).hex() for colour in PALETTE]
