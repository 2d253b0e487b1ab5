"""A language model behind an OpenAI-compatible endpoint: what it says of the next token at every position of a text.

It is named with its address, as `openai:http://host:port/v1`. The manifest says how a text becomes tokens. Whether the
server's weights are those of the manifest cannot be seen from here, so that its runs are those of a model of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from zoolens.base.errors import ModelError
from zoolens.base.safety.untrusted import parse_json
from zoolens.inventory.runtimes.abilities import NO_SEQUENCES
from zoolens.inventory.runtimes.endpoint_file import check_described, endpoint_file
from zoolens.inventory.runtimes.model_files.model_reading import model_text
from zoolens.inventory.runtimes.openai.endpoint_address import parse_endpoint
from zoolens.inventory.runtimes.openai.endpoint_answers import NextToken, in_vocabulary
from zoolens.inventory.runtimes.openai.endpoint_client import EndpointClient
from zoolens.inventory.runtimes.runtime import (
    Effective,
    ModelFiles,
    Options,
    Runtime,
    Session,
    Tensor,
    Tensors,
    TensorSpec,
    check_feeds,
)
from zoolens.inventory.runtimes.sequences import check_texts

if TYPE_CHECKING:
    from zoolens.inventory.manifests.schema import Asset, Manifest

ENDPOINT: Final = "openai-endpoint"
OUTPUT: Final = "logits"
_TOKENIZER: Final = "tokenizer"
_USUAL_TOP: Final = 20  # what a manifest keeps of a distribution unless it says otherwise
_PROBES: Final = 4
_PROBE_TOKENS: Final = 6
_TOGETHER: Final = 16  # prompts in one request
_WIDER: Final = 1000  # likely tokens that are asked for where the text's own is not among the first
_LEAST_REST: Final = 1e-12  # of the probability that is left for the tokens that are not told
_DECIDES: Final = "the server decides"
_TEXTS_ONLY: Final = "the interface carries tokens and their probabilities only"


class OpenAi(Runtime):
    name = "openai"
    summary = "A language model behind an OpenAI-compatible endpoint"
    formats = (ENDPOINT,)
    plain = "the model runs in a server; what comes from there is JSON, which our own reader checks"
    addressed = "http://host:port/v1[/models/NAME]"
    cannot: ClassVar[Mapping[str, str]] = {
        "set_threads": _DECIDES,
        "force_precision": _DECIDES,
        "report_precision": "the interface does not report it",
        "count_parameters": "what some servers state of it cannot be checked from here",
        "compile_mode": _DECIDES,
        "run_here": "a server answers, and which weights and hardware are behind it cannot be seen from here; "
        "latencies include the network, the server's queue and one request for each token",
        "profile": _TEXTS_ONLY,
        "kernels": _TEXTS_ONLY,
        "capture": _TEXTS_ONLY,
        "extend": NO_SEQUENCES,
    }

    def __init__(self, address: str = "") -> None:
        super().__init__(str(parse_endpoint(address)) if address else "")

    def load_library(self) -> Any:
        return None  # HTTP and JSON are in Python's own library

    def version(self) -> str | None:
        return self._owner if self.address else "built-in"

    def asset_of(self, manifest: Manifest) -> Asset | None:
        from zoolens.inventory.manifests.schema import Asset
        from zoolens.inventory.manifests.schema_texts import PREDICTING

        tokenizer = manifest.inputs[0].tokenizer if manifest.inputs else None
        foresees = any(output.task == PREDICTING for output in manifest.outputs)
        if not self.address or tokenizer is None or not foresees:
            return None
        described = endpoint_file(self._document(tokenizer.vocabulary, _kept(manifest)))
        # Texts become tokens here, by the tokenizer that every asset of such a manifest lists.
        beside = [file for file in manifest.assets[0].files if file.role == _TOKENIZER] if manifest.assets else []
        return Asset(format=ENDPOINT, files=(described, *beside))

    def identity(self) -> Mapping[str, Any]:
        return {"address": self.address, "served_model": self._client.address.model, "stated": dict(self._client.about)}

    def load(self, model: ModelFiles, options: Options) -> Any:
        """Check that the server has what it had when the file was written."""
        path = model.path()
        try:
            document = parse_json(model_text(path))
            vocabulary, top = int(document["vocabulary"]), int(document["top"])
        except (ValueError, TypeError, KeyError) as error:
            raise ModelError(f"{path.name} does not describe a language model behind an endpoint.") from error
        # Asked again: ours may be old.
        check_described(path, document, OpenAi(self.address)._document(vocabulary, top), self.address)
        return vocabulary, top

    def compile(self, loaded: Any, model: ModelFiles, options: Options) -> Session:
        vocabulary, top = loaded
        declared = model.inputs[0] if model.inputs else TensorSpec("tokens", (None, None), "int32")
        return OpenAiSession(self._client, declared, vocabulary, top)

    def _document(self, vocabulary: int, top: int) -> dict[str, Any]:
        client = self._client
        stated = {"address": str(client.address), "stated": dict(client.about)}
        return {**stated, "vocabulary": vocabulary, "top": top, "answers": self._probed(vocabulary)}

    def _probed(self, vocabulary: int) -> list[Any]:
        """The most likely token after random ones: what a server states stays the same when it gets other weights."""
        random = np.random.default_rng(0)
        prompts = random.integers(0, vocabulary, (_PROBES, _PROBE_TOKENS)).tolist()
        told = [self._client.complete([prompt], top=1, temperature=0, fresh=True)[0] for prompt in prompts]
        in_vocabulary(told, vocabulary, self.address)
        return [each.top[0][0].id if each.top else None for each in told]

    @property
    def _owner(self) -> str:
        return str(self._client.about.get("owned_by") or "unknown server")[:80]

    @cached_property
    def _client(self) -> EndpointClient:
        return EndpointClient(parse_endpoint(self.address))


class OpenAiSession(Session):
    """Texts as numbers of tokens. Where the server can, a text is asked for at once, else each of its beginnings.

    Tokens that are not told share what is left of the probability equally; the text's own token is always told.
    """

    def __init__(self, client: EndpointClient, declared: TensorSpec, vocabulary: int, top: int) -> None:
        self._client, self._vocabulary, self._top = client, vocabulary, top
        self._echoes: bool | None = None
        self.inputs = (TensorSpec(declared.name, (None, None), declared.dtype),)
        self.outputs = (TensorSpec(OUTPUT, (None, None, vocabulary), "float32", likeliest_only=True),)

    def predict(self, feeds: Mapping[str, Tensor]) -> Tensors:
        check_feeds(self.inputs, feeds)
        ids = np.ascontiguousarray(feeds[self.inputs[0].name])
        check_texts(self.inputs[0].name, ids, self._vocabulary, "the manifest")
        answers = np.empty((*ids.shape, self._vocabulary), np.float32)
        for row, answer in zip(ids.tolist(), answers, strict=True):
            told = self._echoed(row) or self._one_by_one(row)
            for position, (each, following) in enumerate(zip(told, [*row[1:], None], strict=True)):
                answer[position] = self._scores(each, following, position)
        return {OUTPUT: answers}

    def _echoed(self, row: list[int]) -> list[NextToken] | None:
        """What is told of the positions behind each token, of a server that tells of all at once."""
        if self._echoes is False:
            return None
        told = self._client.echo(row, self._top)
        self._echoes = told is not None
        if told is None:
            return None
        in_vocabulary(told, self._vocabulary, str(self._client.address))
        for token, each in zip(row, told, strict=False):
            if each.token.id not in (None, token):
                raise ModelError(f"{self._client.address} echoes other tokens than it was given.")
        return told[1:]

    def _one_by_one(self, row: list[int]) -> list[NextToken]:
        told: list[NextToken] = []
        for start in range(1, len(row) + 1, _TOGETHER):
            ends = range(start, min(start + _TOGETHER, len(row) + 1))
            told += self._client.complete([row[:end] for end in ends], top=self._top, temperature=0)
        in_vocabulary(told, self._vocabulary, str(self._client.address))
        for place, following in enumerate(row[1:]):
            told[place] = self._with_own(told[place], row[: place + 1], following)
        return told

    def _with_own(self, told: NextToken, prompt: list[int], following: int) -> NextToken:
        """What is told of a position, the text's own token included: more is asked for until it is among them."""
        for wider in (_WIDER, self._vocabulary):
            if following in _by_id(told):
                break
            if wider > len(told.top):
                (told,) = self._client.complete([prompt], top=wider, temperature=0)
                in_vocabulary([told], self._vocabulary, str(self._client.address))
        return told

    def _scores(self, told: NextToken, following: int | None, position: int) -> Tensor:
        who = self._client.address
        known = _by_id(told)
        if len(known) < min(self._top, self._vocabulary):
            what = f"{len(known)} likely tokens" if known or not told.top else "likely tokens without their numbers"
            raise ModelError(
                f"{who} tells {what} at a position, and the manifest keeps {self._top}.",
                hint="`next_tokens: {top: N}` in the manifest keeps fewer; zoolens verify-endpoint takes what is told.",
            )
        least = min(known.values(), default=0.0)
        if following is not None and following not in known:
            if told.log is None or self._echoes is not True:
                raise ModelError(
                    f"{who} does not tell the log-probability of the text's own token at position {position + 1:,}, "
                    "without which nothing can be said of how well it foresees a text.",
                    hint="zoolens verify-endpoint takes what is told.",
                )
            known[following] = told.log
        rest = 1.0 - float(np.exp(list(known.values())).sum())
        others = self._vocabulary - len(known)
        # What was not told is less likely than what was: rounding of a sum must not turn that round.
        each = min(least, np.log(max(rest, _LEAST_REST) / max(others, 1)))
        scores = np.full(self._vocabulary, each, np.float32)
        scores[list(known)] = list(known.values())
        return scores

    def effective(self) -> Effective:
        client = self._client
        told = {key: str(value) for key, value in client.about.items()}
        return Effective(
            provider=told.pop("owned_by", "unknown server"),
            details={
                "address": str(client.address),
                "latency": "includes the network and the server's queue",
                **{f"stated {key}": value[:80] for key, value in told.items()},
            },
        )


def _by_id(told: NextToken) -> dict[int, float]:
    return {token.id: log for token, log in told.top if token.id is not None}


def _kept(manifest: Manifest) -> int:
    """How many of the most likely tokens the manifest keeps of each distribution."""
    from zoolens.inventory.manifests.schema_texts import NextTokens

    steps: Sequence[Any] = manifest.outputs[0].postprocess if manifest.outputs else ()
    return next((step.top for step in steps if isinstance(step, NextTokens)), _USUAL_TOP)
