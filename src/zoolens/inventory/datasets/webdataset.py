"""WebDataset: shards of tar archives in which the files of one sample follow each other and share their base name.

The headers are read once; what stays in memory is where each image lies. Labels are in a file .cls, in a field of a
file .json, or in a file .txt where that is asked for.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import DatasetError
from zoolens.base.safety.untrusted import Refused, open_regular, parse_json
from zoolens.inventory.datasets.arrays import check_samples
from zoolens.inventory.datasets.classes import NAMES, check_labels, class_indices, class_names
from zoolens.inventory.datasets.dataset import NO_LABELS, UNLABELLED, Sample
from zoolens.inventory.datasets.encoded_images import EncodedImages, keeps_gray
from zoolens.inventory.datasets.images import MAX_ENCODED, SUFFIXES
from zoolens.inventory.datasets.labelled_files import readable
from zoolens.inventory.datasets.tar_members import Member, tar_members

_IMAGES: Final = tuple(suffix[1:] for suffix in sorted(SUFFIXES))
_CLASS: Final = "cls"
_JSON: Final = "json"
_FIELDS: Final = ("label", "cls", "class", "class_index", "class_id", "target")  # of a .json, the likeliest first
_MAX_LABEL: Final = 1 << 20  # bytes of a file that holds a label
_LONGEST_WORD: Final = 200  # characters; more are a caption and no class


@dataclass(frozen=True)
class Parts:
    """Which files of a sample are read. `image`, `label`: what follows the base name and a dot; None: the usual ones.
    `field`: of a .json."""

    image: str | None = None
    label: str | None = None
    field: str | None = None


@dataclass
class _Index:
    """What was found of all samples. `words`: labels as they are written."""

    parts: Parts
    names: list[str] = field(default_factory=list)
    shards: array[int] = field(default_factory=lambda: array("q"))
    offsets: array[int] = field(default_factory=lambda: array("q"))
    sizes: array[int] = field(default_factory=lambda: array("q"))
    words: list[str] = field(default_factory=list)
    left_out: int = 0


class WebDataset(EncodedImages):
    """Images inside of archives; each read opens its shard, so that threads do not meet."""

    encoded = True

    def __init__(self, shards: list[Path], index: _Index, labels: NDArray[np.int64], *, name: str, gray: bool) -> None:
        super().__init__(keep_gray=gray)
        self.name = name
        self._shards, self._index, self._labels = shards, index, labels
        self._fingerprint: str | None = None

    def __len__(self) -> int:
        return len(self._index.names)

    def read(self, index: int) -> Sample:
        name = self._index.names[index]
        where = f"{name} in {self._shards[self._index.shards[index]]}"
        return Sample(name, self._pixels(self.read_encoded(index), where), int(self._labels[index]))

    def read_encoded(self, index: int) -> bytes:
        path = self._shards[self._index.shards[index]]
        offset, size = self._index.offsets[index], self._index.sizes[index]
        try:
            with open_regular(path) as file:
                return _content(file, Member(self._index.names[index], offset, size), MAX_ENCODED)
        except OSError as error:
            raise DatasetError(f"{path} cannot be read: {error.strerror or error}.") from error

    def labels(self) -> NDArray[np.int64]:
        return self._labels

    def fingerprint(self) -> str:
        """Digest of images and labels alone: an archive also has times and owners, which are no content."""
        if self._fingerprint is None:
            digest = hashlib.sha256(b"gray;" if self._keep_gray else b"rgb;")
            for place in range(len(self)):
                content = hashlib.sha256(self.read_encoded(place)).hexdigest()
                digest.update(f"{content} {self._labels[place]};".encode())
            self._fingerprint = digest.hexdigest()
        return self._fingerprint


def open_webdataset(
    location: str,
    *,
    image: str | None = None,
    label: str | None = None,
    field: str | None = None,
    classes: str | None = None,
    gray: str = "rgb",
) -> WebDataset:
    """A .tar archive, or a folder whose .tar archives are shards. image, label: the files of a sample by what follows
    their base name, such as jpg and cls; label=none for data without labels. field: of a .json that has the label.
    classes: a file with class names, or the names with commas between them. gray: "rgb" or "keep".
    """
    place = Path(location).expanduser()
    shards = sorted(place.glob("*.tar")) if place.is_dir() else [place]
    if not shards:
        raise DatasetError(f"{place} holds no .tar archives.", hint="Give a .tar archive or a folder of them.")
    keep_gray = keeps_gray(gray)
    index = _Index(Parts(image, _JSON if field is not None and label is None else label, field))
    for number, path in enumerate(shards):
        _read_shard(index, number, path, len(shards) > 1)
    names = class_names(classes, shards[0].parent, NAMES)
    labels, known = _labels(index.words, names, str(place), len(index.names))
    dataset = WebDataset(shards, index, labels, name=readable(place.stem), gray=keep_gray)
    dataset.classes, dataset.alphabetical = known, names is None and known is not None
    check_labels(dataset.name, labels.tolist(), known)
    if index.left_out:
        dataset.notes = (f"files in the archives that belong to no sample are left out: {index.left_out:,}",)
    return dataset


def _labels(
    words: list[str], names: tuple[str, ...] | None, where: str, samples: int
) -> tuple[NDArray[np.int64], tuple[str, ...] | None]:
    if not words:
        return np.full(samples, UNLABELLED, np.int64), names
    numbers, known = class_indices(sorted(set(words)), names, where)
    return np.array([numbers[word] for word in words], np.int64), known


def _read_shard(index: _Index, number: int, path: Path, several: bool) -> None:
    seen: set[str] = set()
    try:
        with open_regular(path) as file:
            for base, members in _samples(index, tar_members(path, file)):
                if base in seen:
                    raise Refused(f"the files of the sample {base[:80]!r} do not follow each other")
                seen.add(base)
                # Every shard may count its samples from 0.
                name = f"{path.stem}/{base}" if several else base
                _add(index, number, name, members, file)
                check_samples(str(path), len(index.names))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DatasetError(f"{path} cannot be read as a shard of WebDataset: {reason}.") from error
    if not seen:
        raise DatasetError(f"{path} holds no samples.", hint="Files are called by sample and kind, such as 0001.jpg.")


def _samples(index: _Index, members: Iterator[Member]) -> Iterator[tuple[str, dict[str, Member]]]:
    """The files of each sample by what follows their base name, which goes up to the first dot."""
    base = ""
    parts: dict[str, Member] = {}
    for member in members:
        folder, slash, file = member.name.rpartition("/")
        stem, dot, kind = file.partition(".")
        # Such as the ._0001.jpg of macOS.
        if not stem or not dot or file.startswith("__"):
            index.left_out += 1
            continue
        if folder + slash + stem != base and parts:
            yield base, parts
            parts = {}
        base = folder + slash + stem
        if kind.lower() in parts:
            raise Refused(f"it has two files {member.name[:80]!r}")
        parts[kind.lower()] = member
    if parts:
        yield base, parts


def _add(index: _Index, shard: int, name: str, members: dict[str, Member], file: BinaryIO) -> None:
    image = _image(index.parts.image, members, name)
    if not index.names:
        index.parts = _chosen(index.parts, members, name, file)
    if index.parts.label != NO_LABELS:
        index.words.append(_word(index.parts, members, name, file))
    index.names.append(readable(name))
    index.shards.append(shard)
    index.offsets.append(image.offset)
    index.sizes.append(image.size)


def _image(chosen: str | None, members: dict[str, Member], name: str) -> Member:
    fitting = [kind for kind in members if (kind == chosen if chosen is not None else kind in _IMAGES)]
    if len(fitting) != 1:
        kinds = ", ".join(sorted(members))[:200]
        what = "several images" if fitting else f"no {chosen or 'image'}"
        raise Refused(f"the sample {name[:80]!r} has {what} among its files ({kinds}); choose with image=…")
    return members[fitting[0]]


def _chosen(parts: Parts, members: dict[str, Member], name: str, file: BinaryIO) -> Parts:
    """Where labels are, as the first sample shows."""
    label = parts.label
    if label is None:
        label = next((kind for kind in (_CLASS, _JSON) if kind in members), NO_LABELS)
    if label != _JSON or parts.field is not None:
        return Parts(parts.image, label, parts.field)
    content = _json(members, name, file)
    fitting = next((word for word in _FIELDS if word in content), None)
    if fitting is None and parts.label is not None:
        raise Refused(f"the .json of {name[:80]!r} has {', '.join(content)[:200]}; choose with field=…")
    return Parts(parts.image, NO_LABELS if fitting is None else label, fitting)


def _word(parts: Parts, members: dict[str, Member], name: str, file: BinaryIO) -> str:
    assert parts.label is not None
    if parts.label not in members:
        raise Refused(f"the sample {name[:80]!r} has no .{parts.label[:20]}; label={NO_LABELS} reads it without labels")
    if parts.label == _JSON:
        found = _json(members, name, file).get(parts.field)
        if isinstance(found, bool) or not isinstance(found, int | str):
            raise Refused(f"the .json of {name[:80]!r} has no class in {parts.field!r}")
        word = str(found).strip()
    else:
        word = _content(file, members[parts.label], _MAX_LABEL).decode("utf-8-sig", "backslashreplace").strip()
    if not word or len(word) > _LONGEST_WORD or "\n" in word:
        raise Refused(f"the label of {name[:80]!r} is {word[:40]!r}, which is no class")
    return word


def _json(members: dict[str, Member], name: str, file: BinaryIO) -> dict[Any, Any]:
    if _JSON not in members:
        raise Refused(f"the sample {name[:80]!r} has no .json")
    try:
        content = parse_json(_content(file, members[_JSON], _MAX_LABEL))
    except ValueError as error:
        raise Refused(f"the .json of {name[:80]!r} is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise Refused(f"the .json of {name[:80]!r} is not an object")
    return content


def _content(file: BinaryIO, member: Member, limit: int) -> bytes:
    if member.size > limit:
        raise Refused(f"{member.name[:80]!r} has {member.size:,} bytes, more than the {limit:,} that are read")
    file.seek(member.offset)
    content = file.read(member.size)
    if len(content) < member.size:
        raise Refused(f"it ends in the middle of {member.name[:80]!r}")
    return content
