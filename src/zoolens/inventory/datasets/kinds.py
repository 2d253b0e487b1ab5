"""The kinds of datasets by name: our own, and those of plug-ins (group `zoolens.datasets`)."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from zoolens.base import plugins

# Our own entry points, written out, so that a dataset can also be opened from a source tree whose installation is
# older than its newest kind. A test holds them equal to pyproject.toml.
BUILT_IN: Final = {
    "demo": "zoolens.inventory.datasets.demo:open_demo",
    "imagefolder": "zoolens.inventory.datasets.imagefolder:open_image_folder",
    "cifar10": "zoolens.inventory.datasets.cifar10:open_cifar10",
    "idx": "zoolens.inventory.datasets.idx:open_idx",
    "npz": "zoolens.inventory.datasets.npz:open_npz",
    "sounds": "zoolens.inventory.datasets.sound.soundfolder:open_sounds",
    "raw": "zoolens.inventory.datasets.rawfiles:open_raw",
    "parquet": "zoolens.inventory.datasets.arrow_columns:open_parquet",
    "text": "zoolens.inventory.datasets.texts:open_texts",
    "passages": "zoolens.inventory.datasets.passages:open_passages",
    "choices": "zoolens.inventory.datasets.choices:open_choices",
    "prompts": "zoolens.inventory.datasets.prompts:open_prompts",
    "coco": "zoolens.inventory.datasets.coco:open_coco",
    "masks": "zoolens.inventory.datasets.mask_folder:open_mask_folder",
    "voc": "zoolens.inventory.datasets.voc:open_voc",
    "tagged": "zoolens.inventory.datasets.tagged:open_tagged",
    "beir": "zoolens.inventory.datasets.beir:open_beir",
    "squad": "zoolens.inventory.datasets.squad:open_squad",
    "records": "zoolens.inventory.datasets.records:open_records",
    "yolo": "zoolens.inventory.datasets.yolo:open_yolo",
    "saved": "zoolens.inventory.datasets.saved:open_saved",
    "webdataset": "zoolens.inventory.datasets.webdataset:open_webdataset",
}


def kind_names() -> list[str]:
    """The names of all kinds, in the order of the alphabet."""
    return sorted({*BUILT_IN, *plugins.names(plugins.DATASETS)})


def load_kind(name: str) -> Any:
    """The function that opens datasets of a kind."""
    if name not in BUILT_IN:
        return plugins.load(plugins.DATASETS, name)
    module, _, function = BUILT_IN[name].partition(":")
    return getattr(import_module(module), function)
