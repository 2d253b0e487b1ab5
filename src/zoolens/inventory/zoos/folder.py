"""Folders of models: every manifest below them is an entry, and every model file that no manifest describes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from zoolens.base.errors import ZoolensError, first_line
from zoolens.base.paths import holds_software
from zoolens.inventory.manifests.files import SUFFIXES, is_manifest, parse_manifest, read_text
from zoolens.inventory.manifests.formats import companions, guess_format
from zoolens.inventory.zoos.undescribed import local_files, undescribed, weights_of
from zoolens.inventory.zoos.zoo import Entry, Weights, Zoo

PATH_VARIABLE = "ZOOLENS_ZOO_PATH"


class FolderZoo(Zoo):
    name: ClassVar[str] = "folder"
    summary: ClassVar[str] = "Manifests and model files in the folders that ZOOLENS_ZOO_PATH names"

    def __init__(self, roots: Sequence[Path] | None = None) -> None:
        self._roots = list(roots) if roots is not None else _roots_from_environment()
        self._problems: list[str] = []
        self._places: dict[str, list[Path]] = {}

    def available(self) -> str | None:
        return None if self._roots else f"No folder to look into: set {PATH_VARIABLE}."

    def problems(self) -> list[str]:
        return self._problems

    def namesakes(self) -> dict[str, list[Path]]:
        return {reference: places for reference, places in self._places.items() if len(places) > 1}

    def entries(self, search: str | None = None) -> Iterator[Entry]:
        self._problems = []
        self._places = {}
        for root in self._roots:
            if not root.is_dir():
                self._problems.append(f"{root} is not a folder.")
                continue
            for entry, path in self.located(root):
                places = self._places.setdefault(entry.full_ref, [])
                places.append(path)
                if len(places) > 1:
                    self._problems.append(f"{entry.full_ref} is there twice; {path} is left out.")
                elif search is None or search.lower() in entry.manifest.name.lower():
                    yield entry

    def located(self, root: Path, besides: Path | None = None) -> Iterator[tuple[Entry, Path]]:
        """Each model below `root` with the path of its manifest, or of its file; the folder `besides` is passed
        over."""
        paths = sorted(_walk(root, besides))
        described: set[Path] = set()
        for path in paths:
            if path.suffix in SUFFIXES and (entry := self._described(path)) is not None:
                described |= local_files(entry.manifest, path.parent)
                yield entry, path
        for path in paths:
            if not _is_among(path, described) and (entry := self._bare(path, root)) is not None:
                yield entry, path

    def _described(self, path: Path) -> Entry | None:
        """The model that a manifest describes. Whatever is wrong with one is a problem, and the others are listed."""
        try:
            text = read_text(path)
            if not is_manifest(text):
                return None
            manifest = parse_manifest(text, str(path))
            return Entry(self.name, manifest, weights_of(manifest, path.parent), path.parent)
        except ZoolensError as error:
            self._problems.append(str(error))
        except Exception as error:
            # A stranger's file that nobody foresaw must not hide the models beside it.
            self._problems.append(f"{path} cannot be read as a manifest: {type(error).__name__}: {first_line(error)}")
        return None

    def _bare(self, path: Path, root: Path) -> Entry | None:
        format_ = guess_format(path)
        if format_ is None:
            return None
        try:
            files = companions(path, format_)
        except ZoolensError as error:
            self._problems.append(str(error))
            return None
        # The other half of a pair speaks for both.
        if files["model"] != path:
            return None
        locations = {role: file.relative_to(root).as_posix() for role, file in files.items()}
        manifest = undescribed(path.relative_to(root).as_posix(), format_, locations)
        return Entry(self.name, manifest, Weights.PRESENT, root)


def _is_among(path: Path, described: set[Path]) -> bool:
    try:
        return path.resolve() in described
    except (OSError, RuntimeError):  # links in a circle
        return True


def _roots_from_environment() -> list[Path]:
    value = os.environ.get(PATH_VARIABLE, "")
    return [Path(part).expanduser() for part in value.split(os.pathsep) if part]


def _walk(root: Path, besides: Path | None) -> Iterator[Path]:
    """Files and SavedModel folders; hidden folders and installed software are passed over, links to folders not
    followed."""
    for folder, names, files in os.walk(root):
        here = Path(folder)
        if here != root and holds_software(here.name, files):
            names.clear()
            continue
        saved = [name for name in names if guess_format(here / name) == "tf-savedmodel"]
        yield from (here / name for name in saved)
        names[:] = sorted(
            name for name in names if not name.startswith(".") and name not in saved and here / name != besides
        )
        yield from (here / name for name in files if not name.startswith("."))
