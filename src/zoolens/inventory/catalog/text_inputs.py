"""The input of a model that takes text, from the names of its tensors and the tokenizer that lies beside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from zoolens.base.safety.untrusted import is_file
from zoolens.inventory.catalog.drafted import UNCHECKED, DraftedFile
from zoolens.inventory.catalog.model_folder import causal
from zoolens.inventory.manifests.digests import digest, size_on_disk
from zoolens.inventory.manifests.formats import followed, location_of
from zoolens.inventory.manifests.schema import AssetFile, Input
from zoolens.inventory.manifests.schema_inputs import TOKEN_TYPES
from zoolens.inventory.manifests.tokenizer import ROLE, Tokenizer, TokenTensors
from zoolens.inventory.runtimes.outputs.lookup_tables import table_rows

_TOKENIZER: Final = "tokenizer.json"
_TENSORS: Final = ("input_ids", "attention_mask", "token_type_ids")
_USUAL_LENGTH: Final = 512
_LONGEST: Final = 4096  # tokens; a larger one is what a model could take, and not what anybody gives it
_AFTER_PADDING: Final = ("roberta", "xlm-roberta", "camembert", "mpnet")  # positions count from 2 on


def find_tokenizer(path: Path, folder: Path, said: list[str]) -> AssetFile | None:
    """The tokenizer.json of a model: one called as the model is, that of its folder, or one called as its name begins,
    which is a guess."""
    beside = sorted(path.parent.glob(f"*.{_TOKENIZER}"), key=lambda found: -len(found.name))
    begins = [found for found in beside if path.stem.startswith(found.name.removesuffix(f".{_TOKENIZER}"))]
    own = [path.parent / f"{path.stem}.{_TOKENIZER}", path.parent / _TOKENIZER, folder / _TOKENIZER]
    found = next((candidate for candidate in [*own, *begins] if is_file(candidate)), None)
    if found is None:
        return None
    if found not in own:
        said.append(f"{found.name} belongs to {path.name}, whose name begins alike ({UNCHECKED})")
    inside = found.parent == path.parent
    location = location_of(found, path.parent) if inside else f"file://{followed(found)}"
    return AssetFile(location=location, role=ROLE, sha256=digest(found), bytes=size_on_disk(found))  # type: ignore[arg-type]


def text_input(
    file: DraftedFile,
    config: Mapping[str, Any],
    settings: Mapping[str, Any],
    said: list[str],
    *,
    pair: str | None = None,
) -> Input | str:
    """The input as text; else why it is none. `config` and `settings`: config.json and tokenizer_config.json, with
    sentence_bert_config.json in it."""
    specs = {spec.name: spec for spec in file.inputs}
    first = specs.get("input_ids")
    unknown = [name for name in specs if name not in _TENSORS]
    if first is None or unknown or len(first.shape) != 2 or first.dtype not in TOKEN_TYPES:
        return f"what fills the input {(unknown or ['input_ids'])[0]} is unknown"
    rows = table_rows(file.format, file.path, "input_ids") or _count(config.get("vocab_size"))
    if rows is None:
        return "how many ids the model knows is unknown: declare the input as text, with its vocabulary"
    fixed = first.shape[1]
    length = fixed or _length(config, settings, said)
    masked = "attention_mask" in specs
    tokenizer = Tokenizer(
        max_length=length,
        vocabulary=rows,
        padding="max_length" if fixed else "longest" if masked else "none",
        padding_side="left" if settings.get("padding_side") == "left" else "right",
        pad_id=_count(config.get("pad_token_id"), least=0),
        tensors=TokenTensors(**{name: name for name in specs}),
        pair=pair,  # type: ignore[arg-type]
    )
    return Input(name="input_ids", modality="text", shape=first.shape, dtype=first.dtype, tokenizer=tokenizer)  # type: ignore[arg-type]


def _length(config: Mapping[str, Any], settings: Mapping[str, Any], said: list[str]) -> int:
    """The most tokens of a text: the least of what the network, the tokenizer (some have an endless number there) and
    sentence-transformers say. Texts of models of the next token are cut to a length that people give them."""
    positions = _count(config.get("max_position_embeddings"))
    if positions is not None and config.get("model_type") in _AFTER_PADDING:
        positions -= 2
    limits = (positions, _count(settings.get("model_max_length")), _count(settings.get("max_seq_length")))
    known = [count for count in limits if count is not None]
    known = [min(count, _LONGEST) if causal(config) else count for count in known]
    known = [count for count in known if 0 < count <= _LONGEST]
    if known:
        return min(known)
    said.append(f"texts have at most {_USUAL_LENGTH} tokens ({UNCHECKED})")
    return _USUAL_LENGTH


def _count(value: Any, least: int = 1) -> int | None:
    return value if type(value) is int and least <= value < 1 << 31 else None
