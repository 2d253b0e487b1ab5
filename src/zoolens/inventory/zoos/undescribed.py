"""Entries for bare model files: name and format are known, everything else waits for a manifest."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from zoolens.base.errors import AssetError
from zoolens.inventory.manifests.formats import legal_name
from zoolens.inventory.manifests.locations import locate, presence
from zoolens.inventory.manifests.schema import Asset, AssetFile, Input, Manifest, Output
from zoolens.inventory.zoos.zoo import Weights

DRAFT_VERSION: Final = "0.1.0"  # of a bare file, listed or drafted: its runs are those of the model that is listed
_UNKNOWN_INPUT = Input(modality="array", shape=(None,))
_WEIGHTS_ONLY = "torch-state-dict"


def undescribed(name: str, format_: str, locations: Mapping[str, str], *, task: str = "other") -> Manifest:
    """A placeholder manifest; `locations` by role. It names the files, and claims nothing about the model."""
    files = tuple(AssetFile(location=location, role=role) for role, location in locations.items())  # type: ignore[arg-type]
    # Bare torch weights cannot even be an asset before someone says which network they belong to.
    assets = () if format_ == _WEIGHTS_ONLY else (Asset(format=format_, files=files),)
    return Manifest(
        name=legal_name(name),
        version=DRAFT_VERSION,
        description="A model file without a manifest.",
        inputs=(_UNKNOWN_INPUT,),
        outputs=(Output(task=task),),
        assets=assets,
        attributes={"undescribed": True, "format": format_, "files": dict(locations)},
    )


def weights_of(manifest: Manifest, folder: Path | None) -> Weights:
    """The best state among the assets."""
    states = {presence(asset, folder) for asset in manifest.assets}
    if "present" in states:
        return Weights.PRESENT
    return Weights.REMOTE if "remote" in states else Weights.ABSENT


def local_files(manifest: Manifest, folder: Path | None) -> set[Path]:
    """The files of a manifest that are on this machine: they need no entry of their own."""
    files: set[Path] = set()
    for file in (file for asset in manifest.assets for file in asset.files):
        try:
            path = locate(file, folder)
        except AssetError:
            # Absent or outside: `zoolens manifest validate` explains it.
            continue
        if path is not None:
            files.add(path)
    return files
