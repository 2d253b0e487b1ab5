"""Networks of Hugging Face transformers by model type: what the package builds from its default configurations.

A type without arguments is one particular network: "efficientnet" is an EfficientNet-B7, "resnet" a ResNet-50. The
package carries no weights, so entries are structure only; the `huggingface` zoo lists files of the hub.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, ClassVar, Final

from zoolens.inventory.frameworks.torchvision_shim import import_torchvision
from zoolens.inventory.manifests.schema import Framework, Input, Manifest, Output
from zoolens.inventory.zoos.zoo import Entry, Weights, Zoo

_REFERENCE: Final = "https://huggingface.co/docs/transformers"
_WRAPPERS: Final = frozenset({"timm_wrapper", "timm_backbone"})  # they stand for networks of timm, which has a zoo
_TOKENS: Final = Input(name="input_ids", modality="array", shape=(None, None), dtype="int64")
_DEFAULT_SIZE: Final = 224  # where a configuration names none
# What the answers of these heads mean is a matter of the model (softmax or sigmoid, boxes of which form), so that their
# manifests name the task without saying how it is read.
_HEADS: Final = {
    "token-classification": ("MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES", "input_ids"),
    "question-answering": ("MODEL_FOR_QUESTION_ANSWERING_MAPPING_NAMES", "input_ids"),
    "detection": ("MODEL_FOR_OBJECT_DETECTION_MAPPING_NAMES", "pixel_values"),
    "segmentation": ("MODEL_FOR_SEMANTIC_SEGMENTATION_MAPPING_NAMES", "pixel_values"),
}
_PLAIN: Final = "With the configuration that transformers has by default. It claims nothing about accuracy."


class TransformersZoo(Zoo):
    name: ClassVar[str] = "transformers"
    summary: ClassVar[str] = "Networks of Hugging Face transformers by model type, in their default configuration"
    distributions: ClassVar[tuple[str, ...]] = ("transformers", "torch")
    extra: ClassVar[str | None] = "transformers"

    def entries(self, search: str | None = None) -> Iterator[Entry]:
        with suppress(ImportError):
            # transformers imports it where it is installed.
            import_torchvision(with_compiler=False)
        from transformers import CONFIG_MAPPING
        from transformers.models.auto import modeling_auto

        images = [name for name in modeling_auto.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES if name not in _WRAPPERS]
        texts = {**modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES, **modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES}
        for name in images:
            if search is None or search.lower() in name.lower():
                yield Entry(self.name, _classifier(name, _default(CONFIG_MAPPING[name])), Weights.ABSENT)
        for name in texts:
            if name not in images and name not in _WRAPPERS and (search is None or search.lower() in name.lower()):
                yield Entry(self.name, _text_model(name), Weights.ABSENT)
        for task, (mapping, takes) in _HEADS.items():
            for kind, built in getattr(modeling_auto, mapping, {}).items():
                name = f"{kind}/{task}"
                if isinstance(built, str) and (search is None or search.lower() in name.lower()):
                    yield Entry(self.name, _headed(name, built, task, takes), Weights.ABSENT)

    def state(self) -> str:
        # Listings that were kept before these were listed are not used.
        return "with heads of four tasks"


def _default(configuration: Any) -> Any:
    """The default configuration, without the library's warnings about its own defaults."""
    from transformers import logging

    loudness = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        return configuration()
    finally:
        logging.set_verbosity(loudness)


def _classifier(name: str, config: Any) -> Manifest:
    size = getattr(config, "image_size", None) or _DEFAULT_SIZE
    height, width = (size, size) if isinstance(size, int) else tuple(size)
    channels = getattr(config, "num_channels", None) or 3
    classes = {"num_classes": int(config.num_labels)}
    return _manifest(name, Input(shape=(None, channels, height, width)), Output(), classes)


def _text_model(name: str) -> Manifest:
    return _manifest(name, _TOKENS, Output(task="other"), {})


def _headed(name: str, built: str, task: str, takes: str) -> Manifest:
    """A network with the head of a task, built by its class."""
    given = _TOKENS if takes == _TOKENS.name else Input(name=takes, shape=(None, 3, None, None))
    return _manifest(name, given, Output(task="other"), {"architecture": built, "task": task})


def _manifest(name: str, taken: Input, given: Output, attributes: dict[str, Any]) -> Manifest:
    return Manifest(
        name=name,
        description=_PLAIN,
        license="Apache-2.0",
        references=(_REFERENCE,),
        framework=Framework(name="torch"),
        inputs=(taken,),
        outputs=(given,),
        attributes={"library": "transformers", "architecture": name, **attributes},
    )
