"""A first manifest for the weights of a language model in a folder of transformers, built as config.json describes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from zoolens.base.errors import ModelError
from zoolens.base.safety.untrusted import is_file, read_text
from zoolens.inventory.catalog.drafted import DraftedFile
from zoolens.inventory.catalog.folder_guesses import CAUSAL, ModelFolder, folder_of
from zoolens.inventory.catalog.text_inputs import find_tokenizer, text_input
from zoolens.inventory.manifests.chat_template import MAX_LETTERS, ChatTemplate
from zoolens.inventory.manifests.digests import digest, size_on_disk
from zoolens.inventory.manifests.formats import legal_name, location_of
from zoolens.inventory.manifests.schema import Architecture, Asset, AssetFile, Framework, Manifest, Output
from zoolens.inventory.manifests.schema_texts import PREDICTING
from zoolens.inventory.manifests.tokenizer import Tokenizer
from zoolens.inventory.runtimes.runtime import TensorSpec
from zoolens.inventory.zoos.undescribed import DRAFT_VERSION

# What says nothing of the network: where it came from, with which version, and in which type it was saved.
_NO_PART: Final = frozenset(
    {"architectures", "auto_map", "_name_or_path", "transformers_version", "torch_dtype", "dtype", "use_cache"}
)
_NAMED: Final = ("bos_token", "eos_token", "unk_token", "pad_token")
_END: Final = "eos_token_id"
_MOST_ENDS: Final = 64
_LONGEST_TOKEN: Final = 200  # characters
_QUANTISED: Final = "quantization_config"


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
    written = {"chat_template": _chat_template(folder, settings), "end_ids": _end_ids(folder, given.tokenizer)}
    given = given.model_copy(update={"tokenizer": given.tokenizer.model_copy(update=written)})
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


def _model_name(place: Path) -> str:
    """The folder's name, or the repository's in the cache of the Hugging Face hub, whose folders are called by
    revisions: models--OWNER--NAME/snapshots/REVISION."""
    repository = place.parent.parent.name
    in_cache = place.parent.name == "snapshots" and repository.startswith("models--")
    return repository.rsplit("--", 1)[-1] if in_cache else place.name


def _chat_template(folder: ModelFolder, settings: Mapping[str, Any]) -> ChatTemplate | None:
    """The template in a file of its own, as transformers writes it today, or in tokenizer_config.json; the one called
    default where there are several."""
    template = settings.get("chat_template")
    if isinstance(template, list):
        named = {each.get("name"): each.get("template") for each in template if isinstance(each, dict)}
        template = named.get("default")
    try:
        own = folder.place / "chat_template.jinja"
        text = read_text(own, 4 * MAX_LETTERS) if is_file(own) else template
    except (OSError, ValueError) as error:
        raise ModelError(f"The chat template of {folder.place.name} cannot be read: {error}.") from error
    if not isinstance(text, str) or not text:
        return None
    if len(text) > MAX_LETTERS:
        raise ModelError(f"The chat template of {folder.place.name} is longer than {MAX_LETTERS:,} characters.")
    return ChatTemplate(template=text, tokens=_named_tokens(settings))


def _end_ids(folder: ModelFolder, tokenizer: Tokenizer) -> tuple[int, ...] | None:
    """The tokens with which the model ends what it writes: of generation_config.json, or else of config.json."""
    generation = folder.content("generation_config.json")
    stated = generation.get(_END) if isinstance(generation, dict) else None
    found = folder.config.get(_END) if stated is None else stated
    numbers = found if isinstance(found, list) else [found]
    known = [number for number in numbers if type(number) is int and 0 <= number < tokenizer.vocabulary]
    return tuple(known[:_MOST_ENDS]) or None


def _named_tokens(settings: Mapping[str, Any]) -> dict[str, str]:
    found = {name: settings.get(name) for name in _NAMED}
    texts = {name: token.get("content") if isinstance(token, dict) else token for name, token in found.items()}
    return {name: text for name, text in texts.items() if isinstance(text, str) and len(text) <= _LONGEST_TOKEN}


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
