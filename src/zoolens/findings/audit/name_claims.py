"""What the name of a model claims: an architecture, a variant of one, only a family, or nothing.

"resnet18_final.onnx" claims a ResNet-18. "resnet50_vd.onnx" claims some variant of a ResNet-50, and "yolov5s.onnx" a
member of a family: of these the structure is not known here, so that a name is contradicted only by the structure of
another family. "resnet18_from_resnet50.onnx" speaks of two networks and claims the first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Final

from zoolens.findings.audit.naming import named_architectures

_ORIGIN: Final = re.compile(r"(?<![a-z])from(?![a-z])")  # what comes after it is where weights or answers came from
_ENDING: Final = re.compile(r"\.[a-z][a-z0-9]{1,7}$")  # of a file, and not the figure of "mobilenet_v2_0.35"
_SEPARATOR: Final = re.compile(r"[^a-z0-9]+")

# Words that make it another network than the one whose name they stand beside.
_OTHER_STRUCTURE: Final = frozenset({
    "wide", "se", "senet", "sk", "eca", "cbam", "bam", "gc", "ge", "ibn", "vd", "d", "t", "s", "c", "rs", "aa",
    "blur", "preact", "dilated", "deform", "dcn", "v1b", "v1c", "v1d", "v1e", "v1s", "elu", "selu", "gelu", "silu",
    "swish", "mish", "prelu", "leaky", "leakyrelu", "gn", "groupnorm", "5x5", "7x7",
})  # fmt: skip
# Words that may mean another structure, or data and use.
_MAYBE_OTHER: Final = frozenset({
    "pruned", "prune", "sparse", "slim", "slimmed", "thin", "half", "quarter", "tiny", "mini", "micro", "nano",
    "small", "lite", "light", "compact", "compressed", "reduced", "shallow", "deep", "cifar", "cifar10", "cifar100",
    "mnist", "fashion", "svhn", "clip", "dino", "moco", "simclr", "byol", "swav", "mae", "student", "teacher",
    "backbone", "features", "feature", "encoder", "extractor", "embedding", "embeddings", "headless", "notop",
    "trunk", "custom", "modified", "variant", "like", "based", "style", "ensemble", "dual", "siamese", "multi",
    "fpn", "ssd", "ssdlite", "rcnn", "faster", "mask", "retinanet", "deeplab", "deeplabv3", "fcn", "lraspp",
    "pspnet", "detr", "seg", "segmentation", "det", "detection", "detector", "pose", "keypoint", "coco", "voc",
    "ctc", "ocr", "lstm", "gru", "crnn", "unet", "gray", "grayscale",
})  # fmt: skip
_MULTIPLIED: Final = re.compile(r"x\d+|\d+x(\d+d)?|w\d+|os\d+")  # "x2", "32x4d", "w4", "os8"

# Families, each with the words that speak of it. Families whose members go by each other's names are one.
_FAMILIES: Final = {
    "ResNet": "resnet|resnext|resnest|(?<![a-z])senet|res2net|rexnet",
    "DenseNet": "densenet|condensenet",
    "MobileNet": "mobilenet",
    "EfficientNet": "efficientnet|mixnet|tinynet",
    "Inception": "inception|googlenet",
    "Xception": "xception",
    "SqueezeNet": "squeezenet|squeezenext",
    "ShuffleNet": "shufflenet",
    "MnasNet": "mnasnet|spnasnet",
    "NASNet": "(?<!m)(?<!sp)nasnet|amoebanet",
    "VGG": "vgg",
    "AlexNet": "alexnet|caffenet",
    "GhostNet": "ghostnet",
    "RegNet": "regnet",
    "ConvNeXt": "convnext",
    "DarkNet and YOLO": "darknet|yolo",
    "VoVNet": "vovnet",
    "HRNet": "hrnet",
    "Swin": "swin",
    "ViT": "(?<![a-z])(?:vit|deit|beit|cait|eva)(?![a-z]{2})|vision_?transformer",
    "MobileViT": "mobilevit",
    "MaxViT": "maxvit|maxxvit|coatnet",
    "LeViT": "levit",
    "PVT": "(?<![a-z])pvt",
    "MLP-Mixer": "mixer|gmlp|resmlp",
    "LeNet": "(?<![a-z])lenet",
    "BERT": "bert(?![a-z])|roberta|electra",
    "GPT": "(?<![a-z])gpt|llama|mistral|qwen",
    "T5": "(?<![a-z])t5(?![a-z])",
    "Whisper": "whisper",
    "wav2vec": "wav2vec|hubert",
    "U-Net": "(?<![a-z])u_?net(?![a-z])",
    "SSD": "(?<![a-z])ssd",
    "R-CNN": "rcnn",
    "RetinaNet": "retinanet",
    "DETR": "(?<![a-z])detr",
    "DeepLab": "deeplab",
    "SegFormer": "segformer",
}


@dataclass(frozen=True)
class NameClaim:
    """What the name of a model claims about its architecture."""

    name: str
    architectures: tuple[str, ...] = ()  # ids, any one of which the name may mean
    variant: str = ""  # the word that makes it a variant of unknown structure
    certainly: bool = False  # that word cannot mean anything else
    families: frozenset[str] = frozenset()  # what the name mentions beside or instead of architectures
    bare: bool = False  # it names no more than a family


def name_claim(names: Iterable[str]) -> NameClaim | None:
    """What the first of the names claims that claims anything."""
    claims = (_claim(name) for name in names)
    return next((claim for claim in claims if claim.architectures or claim.families), None)


@cache
def families_of(architecture: str, name: str) -> frozenset[str]:
    """The families that the names of a network speak of."""
    return _families(f"{architecture} {name}".lower())


def _claim(name: str) -> NameClaim:
    text = _without_origin(_ENDING.sub("", name.lower()))
    spans = named_architectures(text)
    ids = tuple(dict.fromkeys(id_ for _, id_ in spans))
    rest = _blanked(text, [span for span, _ in spans])
    words = [word for word in _SEPARATOR.split(rest) if word]
    certain = next((word for word in words if word in _OTHER_STRUCTURE or _MULTIPLIED.fullmatch(word)), "")
    maybe = next((word for word in words if word in _MAYBE_OTHER), "")
    further = min(_families(rest), default="") if ids else ""
    variant = certain or maybe or further
    bare = not ids and not variant and _is_bare(text)
    return NameClaim(name, ids, variant, bool(certain), _families(text), bare)


def _without_origin(text: str) -> str:
    """The name up to the word "from", if an architecture or a family stands before it."""
    origin = _ORIGIN.search(text)
    if origin is None or not _families(text[: origin.start()]):
        return text
    return text[: origin.start()]


def _blanked(text: str, spans: Iterable[tuple[int, int]]) -> str:
    for start, stop in spans:
        text = text[:start] + " " * (stop - start) + text[stop:]
    return text


def _families(text: str) -> frozenset[str]:
    return frozenset(family for family, pattern in _FAMILIES.items() if re.search(pattern, text))


def _is_bare(text: str) -> bool:
    """Whether nothing stands beside the word for a family that could choose one of its members."""
    words = _SEPARATOR.split(text)
    chosen = (word for word in words if _families(word) and not word.isalpha())
    sizes = {"tiny", "small", "base", "large", "huge", "xlarge", "mini", "nano", "medium"} & set(words)
    numbers = [word for word in words if re.fullmatch(r"v?\d+[a-z]?|[bslt]\d*", word)]
    return not sizes and not numbers and next(chosen, None) is None
