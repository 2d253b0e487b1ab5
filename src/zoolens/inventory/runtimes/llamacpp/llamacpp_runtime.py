"""GGUF models in llama.cpp (CPU): logits at every position of a text."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from ctypes import c_int8, c_void_p
from typing import Any, ClassVar, Final

import numpy as np

from zoolens.base.errors import ModelError
from zoolens.inventory.runtimes.llamacpp.gguf_file import GgufFile, read_gguf
from zoolens.inventory.runtimes.llamacpp.llama_library import Batch, LlamaLibrary, llama_library
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
from zoolens.inventory.runtimes.sequences import Sequences, check_texts, log_probabilities

INPUT: Final = "tokens"
OUTPUT: Final = "logits"
_BATCH: Final = 512  # tokens computed at once: llama.cpp's own default of a microbatch
_FLOATS: Final = {"F32": "float32", "F16": "float16", "BF16": "bfloat16", "F64": "float64"}


class LlamaCpp(Runtime):
    name = "llamacpp"
    summary = "llama.cpp, CPU"
    formats = ("gguf",)
    requirements = ("xllamacpp",)
    distributions = ("xllamacpp",)
    extra = "llamacpp"
    # Otherwise a thread that waits for another one, which has no core, spins through its time: on two cores with other
    # work that took two to ten times as long.
    variables: ClassVar[Mapping[str, str]] = {"OMP_WAIT_POLICY": "passive"}
    fragile = "llama.cpp ends its process where a model's parts do not fit together"
    cannot: ClassVar[Mapping[str, str]] = {
        "compile_mode": "its kernels are compiled already",
        "profile": "its C library times whole calls and not operators",
        "kernels": "its C library does not report which kernels it runs",
        "capture": "the values inside a model can be read only by code that runs within its computation",
    }

    def load_library(self) -> LlamaLibrary:
        return llama_library()

    def load(self, model: ModelFiles, options: Options) -> tuple[GgufFile, c_void_p]:
        file = read_gguf(model.path())
        library = self.load_library()
        library.complaint()
        pointer = library.llama_model_load_from_file(os.fsencode(model.path()), library.model_parameters())
        if not pointer:
            raise ModelError(
                f"llamacpp cannot open {file.name}: {library.complaint() or 'it gives no reason'}.",
                hint="Is the file complete, and does this version of llama.cpp know its architecture?",
            )
        return file, c_void_p(pointer)

    def compile(self, loaded: tuple[GgufFile, c_void_p], model: ModelFiles, options: Options) -> Session:
        file, pointer = loaded
        return LlamaSession(self.load_library(), pointer, file, options)


class LlamaSession(Session):
    """A model with one context, which is emptied before each text."""

    def __init__(self, library: LlamaLibrary, model: c_void_p, file: GgufFile, options: Options) -> None:
        self._library, self._file = library, file
        self._model: c_void_p | None = model
        self._context: Any = None
        self._size_of_context = 0, 0  # tokens of a text, and how many texts
        self._cached = 0  # tokens of the sequences whose keys and values are in the context
        self._float32 = options.precision == "float32"
        self._threads = options.threads or _cores()
        self._longest = int(library.llama_model_n_ctx_train(model))
        self._parameters = int(library.llama_model_n_params(model))
        self._vocabulary = int(library.llama_vocab_n_tokens(library.llama_model_get_vocab(model)))
        try:
            self._check_kind(model)
            # Whether there is memory for a context is seen now, not at the first text.
            self._use_context(1)
        except ModelError:
            self.close()
            raise
        self._sequences = Sequences(file.name, self._vocabulary, self._longest)
        self.inputs = (TensorSpec(INPUT, (None, None), "int32"),)
        self.outputs = (TensorSpec(OUTPUT, (None, None, self._vocabulary), "float32"),)

    def predict(self, feeds: Mapping[str, Tensor]) -> Tensors:
        check_feeds(self.inputs, feeds)
        ids = np.ascontiguousarray(feeds[INPUT])
        self._check_ids(ids)
        answers = np.empty((*ids.shape, self._vocabulary), np.float32)
        for row, answer in zip(ids, answers, strict=True):
            self._run(row, answer)
        return {OUTPUT: answers}

    def _run(self, ids: Tensor, answer: Tensor) -> None:
        """The logits of one text from an empty cache, into `answer`."""
        library = self._library
        self._use_context(len(ids))
        self._cached = 0
        # With the values: what a text without numbers (NaN) left there would get into the next one.
        library.llama_memory_clear(library.llama_get_memory(self._context), True)
        for begin in range(0, len(ids), _BATCH):
            part = ids[begin : begin + _BATCH]
            wanted = (c_int8 * len(part))(*[1] * len(part))
            self._decode(Batch(len(part), part.ctypes.data, outputs=wanted))
            logits = library.llama_get_logits(self._context)
            if not logits:
                raise ModelError("llamacpp computed no logits for this model.")
            ctypes.memmove(answer[begin:].ctypes.data, logits, len(part) * self._vocabulary * 4)

    def extend(self, tokens: Tensor, kept: int | None = None) -> Tensor:
        whole, stays = self._sequences.continued(tokens, kept)
        self._use_context(whole.shape[1], len(whole))
        begin, self._cached = self._cut(min(stays, self._cached)), 0
        rows, count = whole.shape
        step = max(1, _BATCH // rows)
        for first in range(begin, count, step):
            self._continue(whole[:, first : first + step], first, last=first + step >= count)
        self._cached, self._sequences.tokens = count, whole
        places = [(row + 1) * (count - first) - 1 for row in range(rows)]
        return log_probabilities(np.stack([self._logits_at(place) for place in places]))

    def _cut(self, tokens: int) -> int:
        """Leave so many tokens of each sequence in the context; none where its states cannot be cut."""
        library = self._library
        memory = library.llama_get_memory(self._context)
        if tokens and library.llama_memory_seq_rm(memory, -1, tokens, -1):
            return tokens
        library.llama_memory_clear(memory, True)
        return 0

    def _continue(self, tokens: Tensor, first: int, *, last: bool) -> None:
        """Put columns of the sequences into the context, of which the first is at the position `first`."""
        rows, count = tokens.shape
        ids = np.ascontiguousarray(tokens, np.int32)
        positions = np.tile(np.arange(first, first + count, dtype=np.int32), rows)
        counts, numbers = np.ones(rows * count, np.int32), np.repeat(np.arange(rows, dtype=np.int32), count)
        addresses = numbers.ctypes.data + 4 * np.arange(rows * count, dtype=np.uint64)
        wanted = np.zeros((rows, count), np.int8)
        wanted[:, -1] = last
        arrays = (ids, None, positions, counts, addresses, wanted)
        pointers = [None if array is None else array.ctypes.data for array in arrays]
        self._decode(Batch(ids.size, *pointers[:-1], outputs=wanted.ctypes.data_as(ctypes.POINTER(c_int8))))

    def _logits_at(self, place: int) -> Tensor:
        logits = self._library.llama_get_logits_ith(self._context, place)
        if not logits:
            raise ModelError("llamacpp computed no logits for this model.")
        return np.ctypeslib.as_array(logits, (self._vocabulary,))

    def _decode(self, batch: Batch) -> None:
        status = self._library.llama_decode(self._context, batch)
        if status:
            reason = self._library.complaint() or f"its status is {status}"
            raise ModelError(f"llamacpp failed while running the model: {reason}.")

    def _use_context(self, tokens: int, sequences: int = 1) -> None:
        """A context that so many texts of so many tokens fit into.

        Its size depends on the text alone, and not on those before it: models whose positions are scaled by the size
        of the context would otherwise answer differently after a long text.
        """
        wanted = min(max(_BATCH, 1 << (tokens - 1).bit_length()), self._longest)
        if self._context is not None and self._size_of_context == (wanted, sequences):
            return
        if self._model is None:
            raise ModelError("The session is closed.")
        self._free_context()
        self._cached = 0
        parameters = self._library.context_parameters(
            wanted, min(_BATCH, wanted * sequences), self._threads, sequences=sequences, float32=self._float32
        )
        self._library.complaint()
        context = self._library.llama_init_from_model(self._model, parameters)
        if not context:
            reason = self._library.complaint() or "there is not enough memory"
            raise ModelError(f"llamacpp cannot run {self._file.name} with a context of {wanted:,} tokens: {reason}.")
        self._context, self._size_of_context = c_void_p(context), (wanted, sequences)

    def _check_kind(self, model: c_void_p) -> None:
        library = self._library
        if library.llama_model_has_encoder(model) or not library.llama_model_has_decoder(model):
            raise ModelError(f"{self._file.name} has an encoder, and only models of the next token are run.")
        if library.llama_model_is_diffusion(model):
            raise ModelError(f"{self._file.name} is a diffusion model, and only models of the next token are run.")

    def _check_ids(self, ids: Tensor) -> None:
        tokens = ids.shape[1]
        if tokens > self._longest:
            raise ModelError(
                f"Input {INPUT!r} holds a text of {tokens:,} tokens, and the context of {self._file.name} has "
                f"{self._longest:,}.",
                hint="Cut texts with tokenizer.max_length in the manifest.",
            )
        check_texts(INPUT, ids, self._vocabulary, self._file.name)

    def effective(self) -> Effective:
        listed = ", ".join(f"{count} {name}" for name, count in self._file.types.items())
        return Effective(
            provider="CPU",
            precision=self._precision(),
            threads=self._threads,
            details={
                "llama.cpp": self._library.version,
                "cpu": self._library.features,
                "weights": listed,
                "cache": "float32" if self._float32 else "float16",
                "attention": "unfused" if self._float32 else "as llama.cpp chooses",
                "context": str(self._longest),
            },
        )

    def _precision(self) -> str:
        """In what products are computed. Activations are rounded to the type of the weights that they meet: to 8 bits
        for quantised ones, and to float16 for those of the cache."""
        weights = {tensor.type.name for tensor in self._file.tensors if len(tensor.shape) > 1}
        computed = {_FLOATS.get(name, "int8") for name in weights} or {"float32"}
        if not self._float32:
            computed.add("float16")
        order = ("int8", "float64", "float32", "bfloat16", "float16")
        return "+".join(name for name in order if name in computed)

    def count_parameters(self) -> int:
        return self._parameters

    def close(self) -> None:
        self._free_context()
        if self._model is not None:
            self._library.llama_model_free(self._model)
        self._model = None

    def _free_context(self) -> None:
        if self._context is not None:
            self._library.llama_free(self._context)
        self._context = None


def _cores() -> int:
    """The cores that this process may use: llama.cpp's own default is four threads everywhere."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
