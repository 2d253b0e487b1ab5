"""TF-slim's image classifiers: networks of the tf_slim package, with the figures of the slim README.

Nothing is imported: tf_slim needs a TensorFlow of its own. The README also describes networks whose code is not in
the package. They are listed with their claims alone, and have no `library` to be built with.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Final

from zoolens.inventory.manifests.schema import Framework, Input, Manifest, Output
from zoolens.inventory.manifests.schema_steps import CenterCrop, DropLeading, Normalize, Resize, Step
from zoolens.inventory.zoos.data import table
from zoolens.inventory.zoos.published import accuracy_claims
from zoolens.inventory.zoos.zoo import Entry, Weights, Zoo

_BACKGROUND: Final = DropLeading(op="drop_leading", count=1)  # class 0 of the 1001-class checkpoints


class SlimZoo(Zoo):
    name: ClassVar[str] = "slim"
    summary: ClassVar[str] = "TF-slim classifiers (TF Model Garden, research): structure and the README's claims"

    def entries(self, search: str | None = None) -> Iterator[Entry]:
        known = table("slim")
        for name, facts in {**known["models"], **known["claims_only"]}.items():
            if search is None or search.lower() in name:
                manifest = _manifest(name, facts, buildable=name in known["models"])
                yield Entry(self.name, manifest, Weights.ABSENT)


def _manifest(name: str, facts: list[Any], *, buildable: bool) -> Manifest:
    size, mode, outputs = facts[:3]
    return Manifest(
        name=name,
        description="" if buildable else f"Claims only: the network is not in {table('slim')['package']}.",
        license="Apache-2.0",
        references=(table("slim")["source_url"],),
        framework=Framework(name="tensorflow"),
        inputs=(Input(shape=(None, size, size, 3), layout="NHWC", preprocess=tuple(_steps(size, mode))),),
        outputs=(Output(postprocess=(_BACKGROUND,) if outputs == 1001 else ()),),
        attributes=_attributes(name, outputs, buildable),
        claims=tuple(accuracy_claims(table("slim")["source"], *facts[3:])),
    )


def _attributes(name: str, outputs: int, buildable: bool) -> dict[str, Any]:
    built_by = {"library": "slim"} if buildable else {"claims_only": True}
    return {**built_by, "architecture": name, "num_classes": outputs}


def _steps(size: int, mode: str | None) -> Iterator[Step]:
    """Evaluation preprocessing of research/slim; none where no checkpoint says which."""
    if mode == "inception":
        yield CenterCrop(op="center_crop", fraction=0.875)
        yield Resize(op="resize", size=(size, size), library="tensorflow")
        yield Normalize(op="normalize", scale=1 / 127.5, mean=(1.0,))
    elif mode == "vgg":
        yield Resize(op="resize", size=256, library="tensorflow")
        yield CenterCrop(op="center_crop", size=(size, size))
        yield Normalize(op="normalize", mean=(123.68, 116.78, 103.94))
