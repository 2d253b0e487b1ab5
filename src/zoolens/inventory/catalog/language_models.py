"""A first manifest for the weights of a language model in a folder of transformers, built as config.json describes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from zoolens.base.errors import ModelError
from zoolens.base.safety.untrusted import parse_json, read_text
from zoolens.inventory.catalog.drafted import UNCHECKED, DraftedFile
from zoolens.inventory.catalog.model_folder import CAUSAL, ModelFolder, folder_of
from zoolens.inventory.catalog.text_inputs import find_tokenizer, text_input
from zoolens.inventory.catalog.written_texts import writing_tokenizer
from zoolens.inventory.manifests.digests import digest, size_on_disk
from zoolens.inventory.manifests.formats import legal_name, location_of
from zoolens.inventory.manifests.schema import Architecture, Asset, AssetFile, Framework, Manifest, Output
from zoolens.inventory.manifests.schema_texts import PREDICTING
from zoolens.inventory.runtimes.runtime import TensorSpec
from zoolens.inventory.zoos.undescribed import DRAFT_VERSION

# What says nothing of the network: where it came from, with which version, and in which type it was saved.
_NO_PART: Final = frozenset(
    {"architectures", "auto_map", "_name_or_path", "transformers_version", "torch_dtype", "dtype", "use_cache"}
)
_QUANTISED: Final = "quantization_config"
_MOST_BYTES: Final = 1 << 26  # of a tokenizer.json; Gemma 3 has one of 33 MB


def language_model(path: Path) -> Manifest | None:
    """The manifest of `path` (.safetensors) in a folder of transformers; None where it is no language model of one."""
    folder = folder_of(path)
    if folder is None or folder.head != CAUSAL or path.suffix != ".safetensors":
        return None
    config = folder.config
    if _QUANTISED in config:
        raise ModelError(
            f"{path.name} holds weights that were quantised by another library (quantization_config), which zoolens "
            "does not read.",
            hint="Use the weights before they were quantised, or a GGUF file.",
        )
    said: list[str] = []
    tokenizer = find_tokenizer(path, folder.place, said)
    if tokenizer is None:
        raise ModelError(f"{folder.place.name} has no tokenizer.json, without which no text becomes numbers.")
    taken = TensorSpec("input_ids", (None, None), "int64")
    file = DraftedFile("torch-state-dict", path, (taken,), (TensorSpec("logits", (None, None, None), "float32"),))
    content = folder.content("tokenizer_config.json")
    settings = content if isinstance(content, dict) else {}
    given = text_input(file, config, settings, said)
    if isinstance(given, str):
        raise ModelError(f"{path.name}: {given}.")
    assert given.tokenizer is not None  # it is text
    said += _tokens_beyond(folder.place / "tokenizer.json", given.tokenizer.vocabulary)
    given = given.model_copy(update={"tokenizer": writing_tokenizer(given.tokenizer, folder, settings)})
    weights = AssetFile(location=location_of(path, path.parent), sha256=digest(path), bytes=size_on_disk(path))
    name = str(config["architectures"][0])
    return Manifest(
        name=legal_name(_model_name(folder.place)),
        version=DRAFT_VERSION,
        description=_description(path, name, said),
        framework=Framework(name="torch"),
        inputs=(given,),
        outputs=(Output(name="logits", task=PREDICTING),),
        assets=(
            Asset(
                format="torch-state-dict",
                files=(weights, tokenizer),
                architecture=Architecture(library="transformers", name=name, arguments=network_arguments(folder)),
            ),
        ),
    )


def _tokens_beyond(path: Path, vocabulary: int) -> list[str]:
    """What is to be said of a tokenizer with ids that the model does not have; it may be the one of another model."""
    try:
        content = parse_json(read_text(path, _MOST_BYTES))
        model, added = content["model"]["vocab"], content.get("added_tokens") or []
        ids = model.values() if isinstance(model, dict) else range(len(model))
        highest = max((*ids, *(token["id"] for token in added)), default=0)
        beyond = highest >= vocabulary
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        # Whoever splits texts says what is wrong with it.
        return []
    known = f"{path.name} has ids up to {highest:,}, and the model knows 0 to {vocabulary - 1:,}"
    return [f"{known}: it may be the tokenizer of another model ({UNCHECKED})"] if beyond else []


def _model_name(place: Path) -> str:
    """The folder's name, or the repository's in the cache of the Hugging Face hub, whose folders are called by
    revisions: models--OWNER--NAME/snapshots/REVISION."""
    repository = place.parent.parent.name
    in_cache = place.parent.name == "snapshots" and repository.startswith("models--")
    return repository.rsplit("--", 1)[-1] if in_cache else place.name


def network_arguments(folder: ModelFolder) -> dict[str, Any]:
    """What config.json says of the network, which its class in transformers is built with."""
    if "auto_map" in folder.config:
        raise ModelError(
            f"{folder.place.name} is built by code of its own (auto_map in config.json), which is not run.",
            hint="Use a version of the model that transformers builds by itself.",
        )
    return {key: value for key, value in folder.config.items() if key not in _NO_PART}


def _description(path: Path, name: str, said: list[str]) -> str:
    guessed = f" Guessed: {'; '.join(said)}." if said else ""
    return f"Drafted from {path.name}: {name} of transformers, as config.json describes it.{guessed}"
