"""The TF Model Garden's own vision models (tf-models-official). Nothing is imported: they need an old Keras.

The manifests' `arguments` say how each is built: take the registered experiment (or, where there is none, the
package's default model configuration) and set the backbone to what is given. EfficientNet has no experiment, and the
package's default for it has neither squeeze-and-excitation nor swish: it is listed as the package builds it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Final

from zoolens.inventory.manifests.guesses import IMAGENET_NORMALIZE
from zoolens.inventory.manifests.schema import Framework, Input, Manifest, Output
from zoolens.inventory.manifests.schema_steps import CenterCrop, DropLeading, Resize, Step
from zoolens.inventory.zoos.data import table
from zoolens.inventory.zoos.published import accuracy_claims
from zoolens.inventory.zoos.zoo import Entry, Weights, Zoo

_CLASSES: Final = 1001  # of every registered ImageNet experiment: class 0 is the background


class OfficialZoo(Zoo):
    name: ClassVar[str] = "official"
    summary: ClassVar[str] = "TF Model Garden, official vision models: structure and the README's claims"

    def entries(self, search: str | None = None) -> Iterator[Entry]:
        for name, facts in table("official")["models"].items():
            if search is None or search.lower() in name:
                yield Entry(self.name, _manifest(name, *facts), Weights.ABSENT)


def _manifest(
    name: str, size: int, experiment: str | None, backbone: dict[str, Any], top1: float | None, top5: float | None
) -> Manifest:
    build = {"experiment": experiment, "backbone": backbone, "num_classes": _CLASSES}
    return Manifest(
        name=name,
        description="" if experiment else "No experiment is registered for it: built with the package's defaults.",
        license="Apache-2.0",
        references=(table("official")["source_url"],),
        framework=Framework(name="tensorflow"),
        inputs=(Input(shape=(None, size, size, 3), layout="NHWC", preprocess=tuple(_steps(size))),),
        outputs=(Output(postprocess=(DropLeading(op="drop_leading"),)),),
        attributes={"library": "official", "architecture": name, "arguments": build},
        claims=tuple(accuracy_claims(table("official")["source"], top1, top5)),
    )


def _steps(size: int) -> Iterator[Step]:
    """The package's evaluation parser with its default configuration."""
    yield CenterCrop(op="center_crop", fraction=0.875)
    yield Resize(op="resize", size=(size, size), library="tensorflow")
    # As official.vision.ops.preprocess_ops has it.
    yield IMAGENET_NORMALIZE
