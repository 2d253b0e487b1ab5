"""What a served language model needs beside its session: tokenizer, chat template, and the tensors that tokens fill."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from zoolens.base.errors import DatasetError, ModelError
from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.base.protocol.messages import Tensor
from zoolens.faces.serving.contracts.language import Conversation, Prompt
from zoolens.faces.serving.plane.served_model import OpenModel
from zoolens.inventory.manifests.schema import Manifest
from zoolens.inventory.manifests.schema_texts import PREDICTING
from zoolens.inventory.manifests.tokenizer import ROLE
from zoolens.inventory.preprocess.chat_rendering import ChatRenderer
from zoolens.inventory.preprocess.generating_tokenizer import GeneratingTokenizer

_SCORES: Final = ("FP64", "FP32", "FP16", "BF16")  # whole numbers stand for scores that a scale makes of them
_FILLED: Final = {"input_ids": None, "attention_mask": 1, "token_type_ids": 0}


def writes_text(manifest: Manifest) -> bool:
    """Whether the model answers with the next token of a text."""
    return manifest.task == PREDICTING and manifest.takes_text


class OpenLanguage:
    """Opened in a thread; its methods are called in threads, too. `model`: the open model that it belongs to."""

    def __init__(self, model: OpenModel) -> None:
        declared = model.entry.manifest.inputs[0].tokenizer
        assert declared is not None  # it takes text
        if declared.padding == "max_length":
            raise ModelError(
                f"{model.reference} takes texts of one length alone (padding: max_length), so that it writes none."
            )
        self.model, self.declared = model, declared
        self.ends = frozenset(declared.end_ids or ())
        self.continues = model.extends  # until it is known better
        self._names = declared.tensors.names or {"input_ids": model.signature.inputs[0].name}
        self._types = {spec.name: spec.datatype for spec in model.signature.inputs}
        self._output = model.entry.manifest.outputs[0].name or model.signature.outputs[0].name
        kind = next((spec.datatype for spec in model.signature.outputs if spec.name == self._output), "")
        if kind not in _SCORES:
            raise ModelError(
                f"{model.reference} answers with {kind or 'no ' + self._output}, not with scores as floats."
            )
        self._lock = threading.Lock()
        self._chat: ChatRenderer | None = None
        self.tokenizer = GeneratingTokenizer(declared, model.files[ROLE])

    def prompt(self, prompt: Prompt) -> list[int]:
        """The tokens that the model goes on with."""
        if isinstance(prompt, str):
            return self._checked(self.tokenizer.prompt(prompt, special=self.declared.special_tokens))
        if isinstance(prompt, Conversation):
            text = self._renderer().render(prompt.messages, answer=True)
            return self._checked(self.tokenizer.prompt(text, special=False))
        wrong = next((number for number in prompt if not 0 <= number < self.declared.vocabulary), None)
        if wrong is not None:
            known = self.declared.vocabulary - 1
            raise DatasetError(f"The prompt has the token {wrong}; the model knows 0 to {known:,}.")
        return self._checked(list(prompt))

    def feeds(self, ids: Sequence[int]) -> dict[str, Tensor]:
        """The inputs of the model for one text."""
        feeds = {}
        for kind, name in self._names.items():
            if kind not in _FILLED:
                raise ModelError(f"The input {name} of {self.model.reference} takes more than tokens.")
            dtype = np.dtype(_TYPES[self._types[name]])
            filled = _FILLED[kind]
            feeds[name] = np.array([ids], dtype) if filled is None else np.full((1, len(ids)), filled, dtype)
        return feeds

    @property
    def tokens(self) -> str:
        """The input that takes the tokens."""
        return self._names["input_ids"]

    def scores(self, outputs: Mapping[str, Tensor], count: int) -> Tensor:
        """The scores after each of so many tokens: tokens × vocabulary."""
        found = outputs[self._output]
        if found.ndim != 3 or found.shape[:2] != (1, count):
            raise ModelError(
                f"The output {self._output} has shape {list(found.shape)} for {count:,} tokens, not a score for each "
                "token of the vocabulary at each position."
            )
        return np.asarray(found[0])

    def close(self) -> None:
        self.tokenizer.close()
        if self._chat is not None:
            self._chat.close()

    def _renderer(self) -> ChatRenderer:
        with self._lock:
            if self._chat is None:
                template = self.declared.chat_template
                if template is None:
                    raise ServingError(
                        Refusal.INVALID,
                        f"{self.model.reference} has no chat template in its manifest.",
                        hint="Use /v1/completions, or declare tokenizer: {chat_template: …}.",
                    )
                self._chat = ChatRenderer(template)
            return self._chat

    def _checked(self, ids: list[int]) -> list[int]:
        if not ids:
            raise DatasetError("The prompt has no tokens, and a model goes on with one at least.")
        if len(ids) >= self.declared.max_length:
            raise DatasetError(
                f"The prompt has {len(ids):,} tokens; texts of this model have {self.declared.max_length:,} at most, "
                "with what it writes."
            )
        return ids


_TYPES: Final = {"INT32": np.int32, "INT64": np.int64, "FP32": np.float32}
