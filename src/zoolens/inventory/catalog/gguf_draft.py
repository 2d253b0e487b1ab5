"""The manifest of a GGUF file: a language model with the tokenizer that the file holds."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from zoolens.base.engine.function_process import call_in_process
from zoolens.base.engine.policy import Rights
from zoolens.base.engine.sandbox import trusted
from zoolens.base.errors import ModelError, first_line
from zoolens.base.paths import cache_dir, replaced_file
from zoolens.inventory.catalog.gguf_tokenizer import tokenizer_json
from zoolens.inventory.manifests.chat_template import MAX_LETTERS, ChatTemplate
from zoolens.inventory.manifests.digests import digest, size_on_disk
from zoolens.inventory.manifests.formats import legal_name, location_of, model_stem
from zoolens.inventory.manifests.schema import Asset, AssetFile, Input, Manifest, Output
from zoolens.inventory.manifests.schema_texts import PREDICTING
from zoolens.inventory.manifests.tokenizer import ROLE, Tokenizer
from zoolens.inventory.runtimes.llamacpp.gguf_file import GgufFile, read_gguf
from zoolens.inventory.zoos.undescribed import DRAFT_VERSION

_LONGEST: Final = 4096  # tokens of a text; a longer context is what a model could take, and not what anybody gives it
_SECONDS: Final = 120.0
_MEMORY: Final = 4 << 30  # bytes; the largest headers have 16 MB
_LETTERS: Final = 200  # of a name
_PART_END, _RETURN = b"<|end|>", b"<|return|>"
_MOST_ENDS: Final = 64
_TEMPLATE: Final = "tokenizer.chat_template"
# As llama.cpp takes them for the end of a text, whatever the metadata say: many files name one end of several.
_ENDS: Final = (
    b"<|endoftext|>", b"<|end_of_text|>", b"<|im_end|>", b"<|eot_id|>", b"<|eom_id|>", b"<|end|>", b"<end_of_turn>",
    b"<EOT>", b"_<EOT>", b"[EOT]", b"[EOS]", b"[PAD]", b"<eos>", b"<end_of_utterance>", b"<turn|>", b"<|return|>",
    b"<|call|>",
)  # fmt: skip
_NAMED: Final = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}


@dataclass(frozen=True)
class GgufFacts:
    """What a header says that a manifest tells."""

    name: str
    license: str | None
    architecture: str
    context: int | None
    vocabulary: int
    parameters: int
    types: Mapping[str, int]  # tensors of each type, the most frequent first
    element_type: str  # of most values of the weights
    template: str | None  # of conversations
    tokens: Mapping[str, str]  # special ones, by the names that templates know them by
    ends: tuple[int, ...]  # tokens with which the model ends what it writes


def draft_gguf(path: Path, *, beside: bool = True) -> Manifest:
    """A manifest for a GGUF file. Its tokenizer is written beside it, or else into the folder of caches: where nobody
    asked for a manifest, nothing is put among a user's files."""
    facts, content = _read_apart(path)
    length = min(facts.context or _LONGEST, _LONGEST)
    chat = None if facts.template is None else ChatTemplate(template=facts.template, tokens=dict(facts.tokens))
    tokenizer = Tokenizer(
        max_length=max(length, 1),
        vocabulary=facts.vocabulary,
        padding="none",
        chat_template=chat,
        end_ids=facts.ends or None,
    )
    written = _written_beside(path, content) if beside else _cached(path, content)
    location = written.name if beside else f"file://{written}"
    return Manifest(
        name=legal_name(model_stem(path)),
        version=DRAFT_VERSION,
        description=_description(path, facts),
        license=facts.license,
        element_type=facts.element_type,
        inputs=(Input(name="tokens", modality="text", shape=(None, None), dtype="int32", tokenizer=tokenizer),),
        outputs=(Output(name="logits", task=PREDICTING),),
        assets=(
            Asset(
                format="gguf",
                files=(_listed(path, location_of(path, path.parent), "model"), _listed(written, location, ROLE)),
            ),
        ),
    )


def _read_apart(path: Path) -> tuple[GgufFacts, bytes]:
    """What the header says, and its tokenizer as a tokenizer.json. A stranger's header is read in a sandbox."""
    rights = None if trusted() else Rights((str(path),), memory=_MEMORY)
    answer: Mapping[str, Any] = call_in_process(
        f"{__name__}:read_header", {"path": str(path)}, f"reading {path.name}", timeout=_SECONDS, rights=rights
    )
    try:
        return _checked(answer["facts"]), str(answer["tokenizer"]).encode()
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelError(f"The process that reads {path.name} answered nonsense: {first_line(error)}.") from error


def _checked(said: Mapping[str, Any]) -> GgufFacts:
    """Facts of the types that they should have: a process that was taken over may say anything."""
    return GgufFacts(
        name=str(said["name"]),
        license=None if said["license"] is None else str(said["license"]),
        architecture=str(said["architecture"]),
        context=None if said["context"] is None else int(said["context"]),
        vocabulary=int(said["vocabulary"]),
        parameters=int(said["parameters"]),
        types={str(name): int(count) for name, count in said["types"].items()},
        element_type=str(said["element_type"]),
        template=None if said["template"] is None else str(said["template"]),
        tokens={str(name): str(token) for name, token in said["tokens"].items()},
        ends=tuple(int(number) for number in said["ends"]),
    )


def read_header(job: Mapping[str, Any]) -> dict[str, Any]:
    """Runs in the sandbox."""
    file = read_gguf(Path(job["path"]))
    content = tokenizer_json(file)
    license_ = file.text("general.license")
    facts = GgufFacts(
        name=(file.text("general.name") or file.name)[:_LETTERS],
        license=license_[:80] if license_ else None,
        architecture=file.architecture[:80],
        context=file.context_length,
        vocabulary=len(file.texts("tokenizer.ggml.tokens") or ()),
        parameters=file.parameters,
        types=file.types,
        element_type=_element_type(file),
        template=_template(file),
        tokens=_named_tokens(file),
        ends=_ends(file),
    )
    return {"facts": asdict(facts), "tokenizer": content}


def _template(file: GgufFile) -> str | None:
    template = file.text(_TEMPLATE) or None
    if template is not None and len(template) > MAX_LETTERS:
        raise ModelError(f"The chat template of {file.name} is longer than {MAX_LETTERS:,} characters.")
    return template


def _named_tokens(file: GgufFile) -> dict[str, str]:
    """The special tokens that the file names and templates use."""
    tokens = file.texts("tokenizer.ggml.tokens") or ()
    places = {name: file.number(f"tokenizer.ggml.{kind}_token_id") for name, kind in _NAMED.items()}
    return {
        name: tokens[place].decode(errors="replace")[:_LETTERS]
        for name, place in places.items()
        if place is not None and 0 <= place < len(tokens)
    }


def _ends(file: GgufFile) -> tuple[int, ...]:
    """The tokens with which a text or an answer ends: those that the metadata say, and those that are called so."""
    tokens = file.texts("tokenizer.ggml.tokens") or ()
    stated = [file.number(f"tokenizer.ggml.{kind}_token_id") for kind in ("eos", "eot", "eom")]
    known = {number for number in stated if number is not None and 0 <= number < len(tokens)}
    # Where a model has a token to return with, this one ends a part of what it writes.
    names = set(_ENDS) - ({_PART_END} if _RETURN in tokens else set())
    return tuple(sorted(known | {place for place, token in enumerate(tokens) if token in names}))[:_MOST_ENDS]


def _written_beside(path: Path, content: bytes) -> Path:
    """The tokenizer's file beside the model's. One that is there and says something else is left as it is."""
    target = path.with_name(f"{path.stem}.tokenizer.json")
    try:
        if target.exists():
            if target.read_bytes() != content:
                raise ModelError(
                    f"{target} exists already and is not the tokenizer of {path.name}.", hint="Move it away."
                )
            return target
        with replaced_file(target) as file:
            file.write(content)
    except OSError as error:
        raise ModelError(
            f"The tokenizer of {path.name} cannot be written to {target}: {error}.",
            hint="Copy the model into a folder that you can write to.",
        ) from error
    return target


def _cached(path: Path, content: bytes) -> Path:
    """The tokenizer's file in the folder of caches, named by what it says."""
    target = cache_dir() / "tokenizers" / f"{hashlib.sha256(content).hexdigest()}.json"
    try:
        if not target.exists() or target.read_bytes() != content:
            with replaced_file(target) as file:
                file.write(content)
    except OSError as error:
        raise ModelError(
            f"The tokenizer of {path.name} cannot be written to {target}: {error}.",
            hint="Set ZOOLENS_HOME to a folder that you can write to.",
        ) from error
    return target.resolve()


def _listed(path: Path, location: str, role: str) -> AssetFile:
    return AssetFile(location=location, role=role, sha256=digest(path), bytes=size_on_disk(path))  # type: ignore[arg-type]


def _element_type(file: GgufFile) -> str:
    """The type of most values of the weights."""
    sizes: dict[str, int] = {}
    for tensor in file.tensors:
        sizes[tensor.type.name] = sizes.get(tensor.type.name, 0) + tensor.size
    most = max(sizes, key=lambda name: sizes[name], default="F32")
    return {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}.get(most, most)


def _description(path: Path, facts: GgufFacts) -> str:
    types = ", ".join(f"{count} tensors in {kind}" for kind, count in facts.types.items())
    context = f" Context of {facts.context:,} tokens." if facts.context else ""
    template = " Conversations become texts by its chat template." if facts.template else ""
    return (
        f"Drafted from {path.name}: {facts.name}, architecture {facts.architecture}, "
        f"{facts.parameters:,} parameters, {types}.{context}{template}"
    )
