"""The C interface of llama.cpp, called in the shared library that the package xllamacpp brings.

The package's own Python interface is that of a server: it gives no logits of a text's positions. Its library exports
all of llama.h, though, with structures passed by value whose fields change between versions. Those set here lie before
the ones that changed; the defaults, which differ from field to field, show whether they still do.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_bool, c_char_p, c_float, c_int8, c_int32, c_uint32, c_uint64, c_void_p
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from zoolens.base.errors import ModelError

_ERROR: Final = 4  # the level of a message
_FLASH_OFF: Final = 0
_CACHE_FLOAT32: Final = 0  # ggml's number of the type


class ModelParameters(ctypes.Structure):
    """llama_model_params, of which nothing is set here."""

    _fields_ = (
        ("devices", c_void_p),
        ("buffer_types", c_void_p),
        ("gpu_layers", c_int32),
        ("split_mode", c_int32),
        ("load_mode", c_int32),
        ("lazy_mode", c_int32),
        ("main_gpu", c_int32),
        ("tensor_split", c_void_p),
        ("progress", c_void_p),
        ("progress_data", c_void_p),
        ("overrides", c_void_p),
        ("flags", c_bool * 8),
    )


class ContextParameters(ctypes.Structure):
    """llama_context_params."""

    _fields_ = (
        ("context", c_uint32),
        ("batch", c_uint32),
        ("microbatch", c_uint32),
        ("sequences", c_uint32),
        ("snapshots", c_uint32),
        ("outputs", c_uint32),
        ("outputs_of_sequence", c_uint32),
        ("threads", c_int32),
        ("threads_batch", c_int32),
        ("kind", c_int32),
        ("rope_scaling", c_int32),
        ("pooling", c_int32),
        ("attention", c_int32),
        ("flash_attention", c_int32),
        ("rope", c_float * 6),
        ("yarn_context", c_uint32),
        ("defragment", c_float),
        ("callback", c_void_p),
        ("callback_data", c_void_p),
        ("key_type", c_int32),
        ("value_type", c_int32),
        ("later", c_uint64 * 7),  # pointers and flags that are left as they are
    )


class Batch(ctypes.Structure):
    """llama_batch: without positions and sequences its tokens follow those that the context has seen. The
    arrays must live as long as it does."""

    _fields_ = (
        ("count", c_int32),
        ("tokens", c_void_p),
        ("embeddings", c_void_p),
        ("positions", c_void_p),
        ("sequence_counts", c_void_p),
        ("sequences", c_void_p),
        ("outputs", ctypes.POINTER(c_int8)),
    )


_Log = ctypes.CFUNCTYPE(None, c_int32, c_char_p, c_void_p)

# Result and arguments of each function that is called.
_FUNCTIONS: Final[dict[str, tuple[Any, Sequence[Any]]]] = {
    "llama_backend_init": (None, ()),
    "llama_log_set": (None, (_Log, c_void_p)),
    "llama_print_system_info": (c_char_p, ()),
    "llama_version": (c_char_p, ()),
    "llama_model_default_params": (ModelParameters, ()),
    "llama_context_default_params": (ContextParameters, ()),
    "llama_model_load_from_file": (c_void_p, (c_char_p, ModelParameters)),
    "llama_model_free": (None, (c_void_p,)),
    "llama_model_get_vocab": (c_void_p, (c_void_p,)),
    "llama_model_n_ctx_train": (c_int32, (c_void_p,)),
    "llama_model_n_params": (c_uint64, (c_void_p,)),
    "llama_model_has_encoder": (c_bool, (c_void_p,)),
    "llama_model_has_decoder": (c_bool, (c_void_p,)),
    "llama_model_is_diffusion": (c_bool, (c_void_p,)),
    "llama_vocab_n_tokens": (c_int32, (c_void_p,)),
    "llama_tokenize": (c_int32, (c_void_p, c_char_p, c_int32, c_void_p, c_int32, c_bool, c_bool)),
    "llama_init_from_model": (c_void_p, (c_void_p, ContextParameters)),
    "llama_free": (None, (c_void_p,)),
    "llama_get_memory": (c_void_p, (c_void_p,)),
    "llama_memory_clear": (None, (c_void_p, c_bool)),
    "llama_memory_seq_rm": (c_bool, (c_void_p, c_int32, c_int32, c_int32)),
    "llama_decode": (c_int32, (c_void_p, Batch)),
    "llama_get_logits": (ctypes.POINTER(c_float), (c_void_p,)),
    "llama_get_logits_ith": (ctypes.POINTER(c_float), (c_void_p, c_int32)),
}


class LlamaLibrary:
    """llama.cpp in this process."""

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(self._library, name)
            function.restype, function.argtypes = result, list(arguments)
        self._complaints: list[str] = []
        self._log = _Log(self._heard)
        self._check_layout()
        self._library.llama_log_set(self._log, None)
        self._library.llama_backend_init()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, name)

    @property
    def version(self) -> str:
        return str(self._library.llama_version().decode())

    @property
    def features(self) -> str:
        """The instructions of the processor that its kernels use, and what else was compiled in."""
        stated = self._library.llama_print_system_info().decode()
        return " ".join(part.split("=")[0].split(":")[-1].strip() for part in stated.split("|") if "= 1" in part)

    def complaint(self) -> str:
        """The first error that it logged since this was asked last, which is the cause of the others; empty where
        there was none."""
        said, self._complaints = self._complaints, []
        return said[0] if said else ""

    def _heard(self, level: int, text: bytes | None, _: object) -> None:
        words = (text or b"").decode(errors="replace").strip()
        if level == _ERROR and words and len(self._complaints) < 10:
            # Before the first colon stands the function that complains.
            function, _, reason = words.partition(": ")
            self._complaints.append(reason if reason and " " not in function else words)

    def model_parameters(self) -> ModelParameters:
        parameters = self._library.llama_model_default_params()
        assert isinstance(parameters, ModelParameters)
        return parameters

    def context_parameters(
        self, tokens: int, batch: int, threads: int, *, sequences: int = 1, float32: bool
    ) -> ContextParameters:
        """For so many sequences of so many tokens, computed so many at once. `float32`: nothing is kept or added up in
        float16."""
        parameters = self._library.llama_context_default_params()
        assert isinstance(parameters, ContextParameters)
        parameters.context = tokens * sequences
        parameters.sequences = sequences
        parameters.batch = parameters.microbatch = batch
        parameters.threads = parameters.threads_batch = threads
        if float32:
            parameters.key_type = parameters.value_type = _CACHE_FLOAT32
            parameters.flash_attention = _FLASH_OFF
        return parameters

    def _check_layout(self) -> None:
        """ModelError where the defaults are not those of the versions that this was tried with."""
        model, context = self._library.llama_model_default_params(), self._library.llama_context_default_params()
        found = (
            (model.devices, model.gpu_layers, model.split_mode, model.load_mode, model.main_gpu, model.overrides),
            (context.context, context.batch, context.microbatch, context.sequences, context.outputs),
            (context.threads, context.threads_batch, context.kind, context.flash_attention),
            (list(context.rope), context.yarn_context, context.defragment),
            (context.callback, context.key_type, context.value_type),
        )
        wanted = (
            (None, -1, 1, -1, 0, None),
            (512, 2048, 512, 1, 0),
            (4, 4, 0, -1),
            ([0, 0, -1, -1, -1, -1], 0, -1),
            (None, 1, 1),
        )
        if found != wanted:
            raise ModelError(
                f"The C interface of llama.cpp {self.version} in this xllamacpp is not one that zoolens knows.",
                hint="Install the version of xllamacpp that constraints.txt of zoolens names.",
            )


@cache
def llama_library() -> LlamaLibrary:
    """llama.cpp of the installed package, loaded once a process; ImportError where it is not installed."""
    spec = find_spec("xllamacpp")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("xllamacpp")
    folder = Path(next(iter(spec.submodule_search_locations)))
    libraries = sorted(path for path in folder.glob("xllamacpp*") if path.suffix in (".so", ".pyd", ".dylib"))
    if not libraries:
        raise ImportError("xllamacpp has no shared library")
    return LlamaLibrary(libraries[0])
