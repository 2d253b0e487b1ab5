"""One token of one sequence through a language model in five kernels for each layer, instead of fifty of torch's.

A step of decoding reads all weights once. torch's products of a matrix and a vector reach half of the memory's rate,
and between them stand kernels of a few microseconds for norms, rotations and sums. Networks are recognised by their
code: a layer is one of Llama's where Python runs the same instructions for it.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from zoolens.inventory.runtimes.torch.torch_kernels import MOST_SHARED, KernelError, Kernels, kernels
from zoolens.inventory.runtimes.torch.torch_same_code import same_code

# Sizes of kernels, as the source has them. Two large blocks for each multiprocessor read the vector less often than
# many small ones, which took 3 % more for a step of 3B on an H200.
_THREADS: Final = 512
_BLOCKS: Final = 2
_WARPS: Final = 32  # of a multiprocessor
_SPLIT: Final = 2  # warps that read a pair of rows together, where there are few rows
_ATTENDING: Final = 256  # threads of a block of an attention
_PART: Final = 64  # tokens of which a block makes a part of an attention, at least
_MOST_PARTS: Final = 64
_HEADS: Final = (32, 64, 128, 256)  # widths of heads
_MOST_GROUP: Final = 8  # query heads that share keys
_MOST_BYTES: Final = 512  # of a key, which the threads of a warp read together
_MOST_SUMS: Final = 1024  # numbers of an answer of query heads that share keys
_MOST_HEADS: Final = 1024
_MOST_VECTOR: Final = MOST_SHARED - 1024  # bytes
# Whose attention computes the same for one token: windows, which the last two may have, are in the mask.
_ATTENTION: Final = ("Llama", "Mistral", "Qwen2")
_GIVEN: Final = {"attention_mask", "position_ids", "past_key_values", "use_cache", "position_embeddings"}


class FusedLayers:
    """Lends the kernels to the layers of a network and to its last product, where they are recognised."""

    def __init__(self, torch: Any, module: Any, device: Any) -> None:
        self._torch, self._device = torch, device
        found = [Layer(each) for each in module.modules() if is_layer(torch, each)]
        self._layers = [each for each in found if each.number == found[0].number]
        self._head: Any = None
        self._norms: list[Any] = []
        if not self._layers:
            return
        number, head = self._layers[0].number, module.get_output_embeddings()
        if is_product(torch, head) and head.bias is None and head.weight.dtype == number:
            self._head = head
        self._norms = [each for each in module.modules() if is_norm(each, number)]
        self._try_kernels()

    def __len__(self) -> int:
        return len(self._layers)

    def _try_kernels(self) -> None:
        try:
            for layer in self._layers:
                self._kernels(layer.width_of_head, layer.group)
        except KernelError as error:
            warnings.warn(f"Steps are recorded with kernels of torch alone: {error}.", RuntimeWarning, stacklevel=2)
            self._layers, self._head, self._norms = [], None, []

    @contextmanager
    def lent(self, place: Any) -> Iterator[None]:
        """While this is open, a token that stands at this place (a number on the device) goes through the kernels."""
        lent = [(each.module, self._forward_of(each, place)) for each in self._layers]
        lent += [(each, self._norm_of(each)) for each in self._norms]
        if self._head is not None:
            lent.append((self._head, self._product_of(self._head)))
        try:
            for module, forward in lent:
                module.forward = forward
            yield
        finally:
            for module, _ in lent:
                module.__dict__.pop("forward", None)

    def distributions(self, logits: Any) -> tuple[Any, Any] | None:
        """Log-probabilities of one token in float32, and the largest one, which is NaN where they are none. None where
        the kernels cannot tell."""
        count = logits.shape[-1]
        if not self._layers or not _is_plain(logits, self._layers[0].number, (1, count)):
            return None
        if logits.data_ptr() % 16 or count * logits.element_size() % 16:
            return None
        blocks, layer = self._everywhere, self._layers[0]
        found, answer, parts = (self._floats(size) for size in ((3,), (1, count), (blocks[0], 2)))
        self._launch(layer, "normalisers", blocks, 0, logits, count, parts, self._done, found)
        self._launch(layer, "log_probabilities", blocks, 0, logits, count, found, answer)
        return answer, found[2]

    def _floats(self, shape: tuple[int, ...]) -> Any:
        return self._torch.empty(shape, dtype=self._torch.float32, device=self._device)

    def _forward_of(self, layer: Layer, place: Any) -> Callable[..., Any]:
        own = layer.module.forward

        def forward(hidden_states: Any, *args: Any, **given: Any) -> Any:
            unknown = args or {name for name, value in given.items() if value is not None} - _GIVEN
            one = not unknown and _is_one_token(hidden_states, layer.number)
            if not one or not layer.takes(self._torch, given):
                return own(hidden_states, *args, **given)
            return self._computed(layer, hidden_states, place, given)

        return forward

    def _computed(self, layer: Layer, hidden: Any, place: Any, given: dict[str, Any]) -> Any:
        kept = given["past_key_values"].layers[layer.attention.layer_idx]
        attention, network = layer.attention, layer.network
        queries = self._attention_inputs(layer, hidden, place, given["position_embeddings"], kept)
        found = self._attended(layer, queries, place, given["attention_mask"], kept)
        hidden = self._products(found, attention.o_proj.weight, hidden)
        gated = self._gated(layer, hidden)
        return self._products(gated, network.down_proj.weight, hidden)

    def _attention_inputs(self, layer: Layer, hidden: Any, place: Any, turns: Any, kept: Any) -> Any:
        """The queries; keys and values go to their place in the memory."""
        parts = layer.attention.q_proj, layer.attention.k_proj, layer.attention.v_proj
        queries = hidden.new_empty((layer.heads, layer.width_of_head))
        width = hidden.shape[-1]
        self._launch(
            layer, "attention_inputs", self._everywhere, width * hidden.element_size(),
            hidden, *_norm(layer.module.input_layernorm), width, *(part.weight for part in parts),
            *(part.bias for part in parts), *turns, place, layer.heads, kept.keys.shape[2], queries, kept.keys,
            kept.values,
        )  # fmt: skip
        return queries

    def _attended(self, layer: Layer, queries: Any, place: Any, mask: Any, kept: Any) -> Any:
        shared, length = kept.keys.shape[1:3]
        parts = max(1, min(_MOST_PARTS, -(-length // _PART), self._processors // shared))
        results = self._floats((shared, parts, layer.group, layer.width_of_head + 2))
        found = queries.new_empty((1, 1, queries.numel()))
        self._launch(
            layer, "attention", (parts, shared), 0, queries, kept.keys, kept.values, mask, place,
            float(layer.attention.scaling), length, results, self._done, found, threads=_ATTENDING,
        )  # fmt: skip
        return found

    def _gated(self, layer: Layer, hidden: Any) -> Any:
        gate, up = layer.network.gate_proj.weight, layer.network.up_proj.weight
        rows, width = gate.shape
        found = hidden.new_empty((1, 1, rows))
        self._launch(
            layer, "gated_products", self._everywhere, width * hidden.element_size(), hidden,
            *_norm(layer.module.post_attention_layernorm), width, gate, up, rows, found,
        )  # fmt: skip
        return found

    def _products(self, given: Any, weight: Any, residual: Any = None) -> Any:
        rows, width = weight.shape
        found = given.new_empty((1, 1, rows))
        pairs = -(-rows // 2)
        # Few rows are read by more warps, so that enough of the memory is asked for at once.
        split = _SPLIT if pairs * _SPLIT <= _WARPS * self._processors else 1
        what = given, width, weight, rows, residual, found, split
        self._launch(self._layers[0], "products", self._everywhere, width * given.element_size(), *what)
        return found

    def _norm_of(self, module: Any) -> Callable[[Any], Any]:
        own, number = module.forward, module.weight.dtype

        def forward(given: Any) -> Any:
            if not _is_one_token(given, number):
                return own(given)
            found, width = given.new_empty(given.shape), given.shape[-1]
            shared = width * given.element_size()
            self._launch(self._layers[0], "normed", (1, 1), shared, given, *_norm(module), width, found)
            return found

        return forward

    def _product_of(self, product: Any) -> Callable[[Any], Any]:
        own, weight = product.forward, product.weight
        return lambda given: self._products(given, weight) if _is_one_token(given, weight.dtype) else own(given)

    @property
    def _everywhere(self) -> tuple[int, int]:
        return _BLOCKS * self._processors, 1

    @cached_property
    def _processors(self) -> int:
        return int(self._torch.cuda.get_device_properties(self._device).multi_processor_count)

    def _launch(
        self, layer: Layer, name: str, grid: tuple[int, int], shared: int, *given: Any, threads: int = _THREADS
    ) -> None:
        self._kernels(layer.width_of_head, layer.group).launch(name, grid, threads, shared, given)

    def _kernels(self, head: int, group: int) -> Kernels:
        names = {"HEAD": head, "GROUP": group}
        if self._layers[0].number == self._torch.bfloat16:
            names["NARROW"] = 1
        return kernels(self._torch, self._device, tuple(names.items()))

    @cached_property
    def _done(self) -> Any:
        """How many parts of an attention are done, for each head of keys: at zero before each kernel and after it."""
        return self._torch.zeros(_MOST_HEADS, dtype=self._torch.int32, device=self._device)


@dataclass(frozen=True)
class Layer:
    module: Any

    @property
    def attention(self) -> Any:
        return self.module.self_attn

    @property
    def network(self) -> Any:
        return self.module.mlp

    @property
    def number(self) -> Any:
        return self.attention.q_proj.weight.dtype

    @property
    def width_of_head(self) -> int:
        return int(self.attention.head_dim)

    @property
    def heads(self) -> int:
        return int(self.attention.q_proj.out_features) // self.width_of_head

    @property
    def group(self) -> int:
        return int(self.attention.q_proj.out_features // self.attention.k_proj.out_features)

    def takes(self, torch: Any, given: dict[str, Any]) -> bool:
        """Whether the memory, the mask and the rotations have the form that the kernels read."""
        mask, turns = given.get("attention_mask"), given.get("position_embeddings")
        kept = getattr(given.get("past_key_values"), "layers", ())[self.attention.layer_idx :][:1]
        if not kept or not getattr(kept[0], "is_initialized", False) or turns is None or mask is None:
            return False
        shared, length = self.attention.k_proj.out_features // self.width_of_head, kept[0].keys.shape[2]
        memory = 1, shared, length, self.width_of_head
        return (
            all(_is_plain(each, self.number, memory) for each in (kept[0].keys, kept[0].values))
            and _is_plain(mask, torch.float32, (1, 1, 1, length))
            and all(_is_plain(each, self.number, (1, 1, self.width_of_head)) for each in turns)
        )


def is_layer(torch: Any, module: Any) -> bool:
    """Whether a module computes what a layer of Llama's does, with weights that the kernels can read."""
    parts = {"self_attn", "mlp", "input_layernorm", "post_attention_layernorm"}
    if set(module._modules) != parts:
        return False
    llama = _modeling("Llama")
    alike = (
        _runs(module, llama.LlamaDecoderLayer)
        and any(_runs(module.self_attn, getattr(_modeling(each), f"{each}Attention")) for each in _ATTENTION)
        and _runs(module.mlp, llama.LlamaMLP)
        and _runs(module.input_layernorm, llama.LlamaRMSNorm)
        and _runs(module.post_attention_layernorm, llama.LlamaRMSNorm)
    )
    return alike and _fits(torch, Layer(module))


def _modeling(name: str) -> Any:
    return importlib.import_module(f"transformers.models.{name.lower()}.modeling_{name.lower()}")


def _runs(module: Any, kind: Any) -> bool:
    """Whether a module does what modules of a class do: nothing is lent to it, and nothing looks on."""
    watched = module._forward_hooks or module._forward_pre_hooks
    return "forward" not in module.__dict__ and not watched and same_code(type(module).forward, kind.forward)


def _fits(torch: Any, layer: Layer) -> bool:
    attention, network = layer.attention, layer.network
    inner = attention.q_proj, attention.k_proj, attention.v_proj
    others = attention.o_proj, network.gate_proj, network.up_proj, network.down_proj
    if not all(is_product(torch, each) for each in (*inner, *others)) or any(each.bias is not None for each in others):
        return False
    norms = layer.module.input_layernorm, layer.module.post_attention_layernorm
    shared = attention.k_proj.out_features // max(1, layer.width_of_head)
    # Older versions of transformers have none of their own.
    own = getattr(importlib.import_module("transformers.activations"), "SiLUActivation", torch.nn.SiLU)
    silu = torch.nn.SiLU, own
    return (
        layer.number in (torch.float32, torch.bfloat16)
        and all(each.weight.dtype == layer.number for each in (*inner, *others))
        and all(is_norm(each, layer.number) for each in norms)
        and all(len(each.weight) == attention.q_proj.in_features for each in norms)
        and all(each.bias is None or each.bias.dtype == layer.number for each in inner)
        and type(network.act_fn) in silu
        and layer.width_of_head in _HEADS
        and layer.width_of_head * layer.number.itemsize <= _MOST_BYTES
        and layer.group <= _MOST_GROUP
        and layer.group * layer.width_of_head <= _MOST_SUMS
        and shared <= _MOST_HEADS
        and attention.k_proj.out_features == attention.v_proj.out_features == shared * layer.width_of_head
        and attention.q_proj.out_features == shared * layer.group * layer.width_of_head
        and not attention.training
    )


def is_norm(module: Any, number: Any) -> bool:
    """Whether a module divides by the root mean square as Llama's do, with a weight that the kernels can read."""
    if not _runs(module, _modeling("Llama").LlamaRMSNorm):
        return False
    size = module.weight.shape[0] * number.itemsize
    return _is_plain(module.weight, number, (module.weight.shape[0],)) and size % 16 == 0 and size <= _MOST_VECTOR


def is_product(torch: Any, module: Any) -> bool:
    """Whether a module is a product with a matrix whose rows the kernels can read."""
    if type(module) is not torch.nn.Linear or not _runs(module, torch.nn.Linear):
        return False
    weight, size = module.weight, module.weight.element_size()
    whole = weight.is_contiguous() and weight.data_ptr() % 16 == 0 and weight.shape[1] * size % 16 == 0
    return bool(whole and weight.shape[1] * size <= _MOST_VECTOR)


def _is_one_token(hidden: Any, number: Any) -> bool:
    return _is_plain(hidden, number, (1, 1, hidden.shape[-1]))


def _is_plain(tensor: Any, number: Any, shape: tuple[int, ...]) -> bool:
    return tensor.dtype == number and tuple(tensor.shape) == shape and bool(tensor.is_contiguous())


def _norm(module: Any) -> tuple[Any, float]:
    return module.weight, float(module.variance_epsilon)
