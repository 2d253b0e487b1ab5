"""What a model and a dataset consist of, as parcels that travel to another machine by their content.

In what is sent, the path of a travelled folder is written as one below `TRAVELLED`; the machine that receives it puts
its own path in that place (`arrival.py`).
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from zoolens.base.engine.sandbox import trusted
from zoolens.base.errors import AssetError, ZoolensError
from zoolens.base.safety.untrusted import open_regular, size_of
from zoolens.base.store.file_list import MOST_FILES, FileList, ListedFile, check_paths, read_file_list
from zoolens.inventory.datasets.classes import NAMES
from zoolens.inventory.datasets.opening import parse_spec
from zoolens.inventory.manifests.digests import sha256_file
from zoolens.inventory.manifests.locations import locate
from zoolens.inventory.manifests.schema import AssetFile, Manifest
from zoolens.inventory.zoos.zoo import Entry

TRAVELLED: Final = "/zoolens-travelled"
_FILE: Final = "file://"
_SMALL: Final = 1 << 20  # bytes; a smaller file is hashed sooner than its remembered digest is found
_BESIDE: Final = (*NAMES, "batches.meta.txt")  # files with names of classes, which readers look for beside a file
_AROUND: Final = ("coco", "yolo", "records")  # kinds whose one file names many others around it

Hashed = Callable[[int], None]  # told of bytes as they are hashed


class Stays(AssetError):
    """Something that does not travel, and why; a node needs it under the same path."""


@dataclass(frozen=True)
class Root:
    """A folder of the sender. `inside`: its path in the list. `whole`: all of its files are listed."""

    path: str
    inside: str
    whole: bool = False

    @property
    def sent(self) -> str:
        """How its path is written in what is sent."""
        return f"{TRAVELLED}/{self.inside}"


@dataclass(frozen=True)
class Parcel:
    """`written`: how the sender writes locations that do not follow from the roots, by how they are sent."""

    title: str
    roots: tuple[Root, ...]
    files: FileList
    written: tuple[tuple[str, str], ...] = ()

    def sources(self) -> dict[ListedFile, Path]:
        """Where the sender has each file."""
        return {file: self._source(file.path) for file in self.files.files}

    def _source(self, path: str) -> Path:
        root = next(root for root in self.roots if path.startswith(f"{root.inside}/"))
        return Path(root.path) / path[len(root.inside) + 1 :]

    def as_data(self) -> dict[str, Any]:
        roots = [[root.path, root.inside, root.whole] for root in self.roots]
        return {"title": self.title, "roots": roots, "list": self.files.as_data(), "written": list(self.written)}


def read_parcel(data: Mapping[str, Any]) -> Parcel:
    """The parcel that `as_data` wrote; AssetError where its list is refused."""
    roots = tuple(Root(str(path), str(inside), bool(whole)) for path, inside, whole in data["roots"])
    written = tuple((str(sent), str(own)) for sent, own in data["written"])
    parcel = Parcel(str(data["title"]), roots, read_file_list(data["list"]), written)
    # Those of the list were looked at: none leads out of its folder.
    known = {str(PurePosixPath(*PurePosixPath(file.path).parts[:2])) for file in parcel.files.files}
    for root in roots:
        if root.inside not in known and root.inside not in parcel.files.empty:
            raise AssetError(f"The list of files that came with the job is refused: it has no {root.inside[:200]!r}.")
    return parcel


# --- models


def model_parcel(entry: Entry, hashed: Hashed | None = None, prefix: str = "m") -> tuple[Entry, Parcel] | None:
    """The entry as it is sent, and its files. None: it has none on this machine but those of installed packages and
    downloads, which a node finds by itself. Stays: its files cannot travel. `prefix`: a letter of its own for each
    model of a job, neither d nor f."""
    packing, manifest = _Packing(prefix), entry.manifest
    home = None if entry.folder is None else packing.inside(entry.folder.absolute())
    outputs = [AssetFile(location=output.labels_file) for output in manifest.outputs if output.labels_file]
    for file in outputs:
        # How a manifest names its labels is part of the model's key, so that another path cannot stand there.
        if file.location.startswith(_FILE):
            raise Stays(f"{entry.ref} names its labels as {file.location}.", hint="Put the file into its folder.")
    for file in (*(file for asset in manifest.assets for file in asset.files), *outputs):
        packing.add_model_file(file, entry.folder)
    if not packing.paths:
        return None
    if home is not None and not any(path.startswith(f"{home}/") for path in packing.paths):
        packing.empty.append(home)  # its files lie elsewhere
    parcel = packing.parcel(entry.ref, hashed)
    folder = None if home is None else Path(f"{TRAVELLED}/{home}")
    sent = Entry(entry.zoo, _with_locations(manifest, packing.locations), entry.weights, folder, entry.file)
    return sent, parcel


def _with_locations(manifest: Manifest, locations: Mapping[str, str]) -> Manifest:
    """The manifest with some of its locations replaced."""
    if not locations:
        return manifest
    assets = [
        asset.model_copy(
            update={
                "files": tuple(
                    file.model_copy(update={"location": locations.get(file.location, file.location)})
                    for file in asset.files
                )
            }
        )
        for asset in manifest.assets
    ]
    return manifest.model_copy(update={"assets": tuple(assets)})


class _Packing:
    """Files by the folder that they are named from, each with its path in the list. `prefix`: a letter, so that the
    paths of two parcels of one job differ."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self.paths: dict[str, Path] = {}
        self.empty: list[str] = []
        self.locations: dict[str, str] = {}
        self._roots: dict[Path, Root] = {}

    def inside(self, folder: Path, *, whole: bool = False) -> str:
        if folder not in self._roots:
            inside = f"{self._prefix}{len(self._roots)}/{folder.name or 'root'}"
            self._roots[folder] = Root(str(folder), inside, whole)
        return self._roots[folder].inside

    def add_model_file(self, file: AssetFile, folder: Path | None) -> None:
        outside = file.location.startswith(_FILE)
        if "://" in file.location and not outside:
            return
        try:
            path = locate(file, folder)
        except AssetError as error:
            raise Stays(error.message, hint=error.hint) from error
        if path is None or not path.exists():
            return  # whoever opens the model says so
        before = set(self.paths)
        if outside:
            inside = f"{self.inside(path.parent)}/{path.name}"
            self.locations[file.location] = f"{_FILE}{TRAVELLED}/{inside}"
        else:
            assert folder is not None
            inside = f"{self.inside(folder.absolute())}/{os.path.normpath(file.location)}"
        self.add(path, inside)
        if outside and not trusted():
            _check_open_to_others([self.paths[inside] for inside in self.paths.keys() - before])

    def add(self, path: Path, inside: str) -> None:
        """A file, or a folder with all that it holds."""
        if not path.is_dir():
            self.paths[inside] = path
            return
        before = len(self.paths)
        for inner in _files_below(path, self.empty, inside):
            self.paths[f"{inside}/{inner.relative_to(path).as_posix()}"] = inner
            if len(self.paths) > MOST_FILES:
                raise Stays(f"{path} has more than {MOST_FILES:,} files.", hint="Pack them into .tar files.")
        if len(self.paths) == before and inside not in self.empty:
            self.empty.append(inside)

    def parcel(self, title: str, hashed: Hashed | None) -> Parcel:
        try:
            check_paths([*self.paths, *self.empty], len(self.paths))
        except AssetError as error:
            raise Stays(f"The files of {title} cannot travel: {error.message.partition(': ')[2]}") from error
        files = tuple(_listed(path, inside, hashed) for inside, path in self.paths.items())
        written = tuple((sent, own) for own, sent in self.locations.items())
        return Parcel(title, tuple(self._roots.values()), FileList(files, tuple(self.empty)), written)


# --- files


def files_parcel(title: str, paths: Iterable[str], hashed: Hashed | None = None) -> tuple[dict[str, str], Parcel]:
    """By each of these files and whole folders, which are named by absolute paths, how it is sent; and their parcel."""
    packing, sent = _Packing("f"), {}
    for text in paths:
        path = Path(text)
        inside = f"{packing.inside(path.parent)}/{path.name}"
        packing.add(path, inside)
        sent[text] = f"{TRAVELLED}/{inside}"
    return sent, packing.parcel(title, hashed)


# --- datasets


def data_parcel(spec: str, hashed: Hashed | None = None) -> tuple[str, Parcel] | None:
    """A dataset that is named as `absolute_spec` does, as it is sent, and its files. None: it has none of its own."""
    kind, location, options = parse_spec(spec)
    path = Path(location)
    if not location.startswith("/") or not path.exists():
        return None
    packing, folder = _Packing("d"), path if path.is_dir() else path.parent
    if not path.is_dir() and kind in _AROUND:
        folder = folder.parent if folder.name == "annotations" else folder
        packing.add(folder, packing.inside(folder, whole=True))
    elif path.is_dir():
        packing.add(folder, packing.inside(folder, whole=True))
    else:
        for file in _beside(path, kind, options.values()):
            packing.add(file, f"{packing.inside(folder)}/{file.relative_to(folder).as_posix()}")
    _check_options(options, folder, packing)
    parcel = packing.parcel(path.name, hashed)
    sent = f"{TRAVELLED}/{packing.inside(folder)}{str(path)[len(str(folder)) :]}"
    return spec.replace(location, sent, 1), parcel


def _beside(path: Path, kind: str, options: Iterable[str]) -> Iterator[Path]:
    """The file of a dataset, and those beside it that its reader looks for."""
    yield path
    for beside in sorted(path.parent.iterdir()):
        labels = kind == "idx" and "label" in beside.name.lower()
        if beside != path and beside.is_file() and (labels or beside.name in _BESIDE or beside.name in options):
            yield beside


def _check_options(options: Mapping[str, str], folder: Path, packing: _Packing) -> None:
    """A file that an option names is listed, or the dataset stays."""
    for name, value in options.items():
        place = value.partition("#")[0]
        for path in (folder / place, Path(place).expanduser()):
            if place and _is_file(path) and path not in packing.paths.values():
                raise Stays(f"The option {name} of the dataset names {path}, outside of its folder.")


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


# --- reading files


def _check_open_to_others(paths: Sequence[Path]) -> None:
    """A manifest may be a stranger's, and name any file of this machine: what its user keeps from others stays."""
    if os.name != "posix":
        return
    folders = {folder for path in paths for folder in path.parents}
    closed = [folder for folder in folders if not folder.stat().st_mode & stat.S_IXOTH]
    for path in paths:
        if not path.stat().st_mode & stat.S_IROTH or any(folder in path.parents for folder in closed):
            raise Stays(
                f"The manifest names {path}, outside of its folder, which others may not read.",
                hint="Put it into that folder, or add --trust.",
            )


def _files_below(folder: Path, empty: list[str], inside: str) -> Iterator[Path]:
    """All files below a folder, in a fixed order. Links that lead out of it are no part of its content."""
    root = folder.resolve()

    def fail(error: OSError) -> None:
        raise Stays(f"{error.filename} cannot be read: {error.strerror}.")

    for place, folders, files in os.walk(folder, onerror=fail):
        folders.sort()
        for name in (*folders, *files):
            path = Path(place) / name
            if path.is_symlink() and (name in folders or not _leads_inside(path, root)):
                raise Stays(f"{path} is a link.", hint="Replace it by what it leads to.")
        if not folders and not files and Path(place) != folder:
            empty.append(f"{inside}/{Path(place).relative_to(folder).as_posix()}")
        yield from (Path(place) / name for name in sorted(files))


def _leads_inside(path: Path, root: Path) -> bool:
    try:
        return path.resolve(strict=True).is_relative_to(root)
    except (OSError, RuntimeError):
        return False


def _listed(path: Path, inside: str, hashed: Hashed | None) -> ListedFile:
    try:
        size = size_of(path)
        digest = sha256_file(path) if size >= _SMALL else _small_digest(path)
    except AssetError as error:
        raise Stays(error.message) from error
    except OSError as error:
        raise Stays(f"{path} cannot be read: {error.strerror or error}.") from error
    if hashed is not None:
        hashed(size)
    return ListedFile(inside, size, digest)


def _small_digest(path: Path) -> str:
    with open_regular(path) as stream:
        return hashlib.sha256(stream.read()).hexdigest()


def same_here(parcel: Parcel) -> bool:
    """Whether this machine has all files of a parcel under the sender's paths, and in whole folders no others."""
    try:
        return all(_same_root(parcel, root) for root in parcel.roots)
    except (ZoolensError, OSError, ValueError):
        return False


def _same_root(parcel: Parcel, root: Root) -> bool:
    listed = {file.path: file for file in parcel.files.files if file.path.startswith(f"{root.inside}/")}
    folder = Path(root.path)
    if not folder.is_dir():
        return False
    if root.whole:
        packing = _Packing("")
        packing.add(folder, root.inside)
        empty = [path for path in parcel.files.empty if path == root.inside or path.startswith(f"{root.inside}/")]
        if set(packing.paths) != set(listed) or set(packing.empty) != set(empty):
            return False
    paths = {inside: folder / inside[len(root.inside) + 1 :] for inside in listed}
    # The sizes first: they say at once that most other files are others.
    if any(size_of(paths[inside]) != file.size for inside, file in listed.items()):
        return False
    return all(_listed(paths[inside], inside, None).sha256 == file.sha256 for inside, file in listed.items())
