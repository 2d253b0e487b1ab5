"""The MXNet gluon model zoo: what MXNet 1.9.1 builds. Nothing is imported: MXNet needs an environment of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from zoolens.inventory.manifests.guesses import IMAGENET_NORMALIZE
from zoolens.inventory.manifests.schema import Framework, Input, Manifest, Output
from zoolens.inventory.zoos.data import table
from zoolens.inventory.zoos.zoo import Entry, Weights, Zoo


class GluonZoo(Zoo):
    name: ClassVar[str] = "gluon"
    summary: ClassVar[str] = "The MXNet gluon model zoo: structure, built in an environment of its own"

    def entries(self, search: str | None = None) -> Iterator[Entry]:
        for name, (size,) in table("gluon")["models"].items():
            if search is None or search.lower() in name:
                yield Entry(self.name, _manifest(name, size), Weights.ABSENT)


def _manifest(name: str, size: int) -> Manifest:
    return Manifest(
        name=name,
        description="MXNet publishes no accuracies in its package, so none is claimed here.",
        license="Apache-2.0",
        references=(table("gluon")["source_url"],),
        framework=Framework(name="mxnet"),
        # The docstring of mxnet.gluon.model_zoo.vision gives this for all of them, and says nothing about resizing.
        inputs=(Input(shape=(None, 3, size, size), preprocess=(IMAGENET_NORMALIZE,)),),
        outputs=(Output(),),
        attributes={"library": "gluon", "architecture": name, "num_classes": 1000},
    )
