"""The manifest of a GGUF file: a language model with the tokenizer that the file holds."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from zoolens.base.errors import ModelError
from zoolens.inventory.catalog.gguf_tokenizer import tokenizer_json
from zoolens.inventory.manifests.digests import digest, size_on_disk
from zoolens.inventory.manifests.formats import legal_name, model_stem
from zoolens.inventory.manifests.schema import Asset, AssetFile, Input, Manifest, Output
from zoolens.inventory.manifests.schema_texts import PREDICTING
from zoolens.inventory.manifests.tokenizer import ROLE, Tokenizer
from zoolens.inventory.runtimes.llamacpp.gguf_file import GgufFile, read_gguf
from zoolens.inventory.zoos.undescribed import DRAFT_VERSION

_LONGEST: Final = 4096  # tokens of a text; a longer context is what a model could take, and not what anybody gives it


def draft_gguf(path: Path) -> Manifest:
    """A manifest for a GGUF file, whose tokenizer is written beside it."""
    file = read_gguf(path)
    content = tokenizer_json(file)
    vocabulary = file.texts("tokenizer.ggml.tokens") or ()
    length = min(file.context_length or _LONGEST, _LONGEST)
    tokenizer = Tokenizer(max_length=max(length, 1), vocabulary=len(vocabulary), padding="none")
    written = _written(path, content)
    license_ = file.text("general.license")
    return Manifest(
        name=legal_name(model_stem(path)),
        version=DRAFT_VERSION,
        description=_description(file),
        license=license_[:80] if license_ else None,
        element_type=_element_type(file),
        inputs=(Input(name="tokens", modality="text", shape=(None, None), dtype="int32", tokenizer=tokenizer),),
        outputs=(Output(name="logits", task=PREDICTING),),
        assets=(Asset(format="gguf", files=(_listed(path, "model"), _listed(written, ROLE))),),
    )


def _written(path: Path, content: str) -> Path:
    """The tokenizer's file beside the model's. One that is there and says something else is left as it is."""
    target = path.with_name(f"{path.stem}.tokenizer.json")
    try:
        if target.exists():
            if target.read_text(encoding="utf-8") != content:
                raise ModelError(
                    f"{target} exists already and is not the tokenizer of {path.name}.", hint="Move it away."
                )
            return target
        target.write_text(content, encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(
            f"The tokenizer of {path.name} cannot be written to {target}: {error}.",
            hint="Copy the model into a folder that you can write to.",
        ) from error
    return target


def _listed(path: Path, role: str) -> AssetFile:
    return AssetFile(location=path.name, role=role, sha256=digest(path), bytes=size_on_disk(path))  # type: ignore[arg-type]


def _element_type(file: GgufFile) -> str:
    """The type of most values of the weights."""
    sizes: dict[str, int] = {}
    for tensor in file.tensors:
        sizes[tensor.type.name] = sizes.get(tensor.type.name, 0) + tensor.size
    most = max(sizes, key=lambda name: sizes[name], default="F32")
    return {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}.get(most, most)


def _description(file: GgufFile) -> str:
    name = file.text("general.name") or file.name
    types = ", ".join(f"{count} tensors in {kind}" for kind, count in file.types.items())
    context = f" Context of {file.context_length:,} tokens." if file.context_length else ""
    template = " It has a chat template, which is not applied." if file.text("tokenizer.chat_template") else ""
    return (
        f"Drafted from {file.name}: {name[:200]}, architecture {file.architecture[:80]}, "
        f"{file.parameters:,} parameters, {types}.{context}{template}"
    )
