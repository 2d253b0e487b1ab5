"""Matrices of 4 or 8 bits a number, in blocks with a scale each, as ONNX Runtime writes language models."""

from __future__ import annotations

from math import prod

import numpy as np

from zoolens.findings.graph.importers.constants import Constant
from zoolens.findings.graph.importers.onnx.arithmetic import dense
from zoolens.findings.graph.importers.onnx.translation import OnnxCall
from zoolens.findings.graph.ir.model import Array


def few_bits(call: OnnxCall) -> None:
    """MatMulNBits: input, the matrix in blocks of a few bits a number, their scales and zero points, order, bias."""
    packed = call.constant(1)
    scales = call.constant(2)
    zeros = call.constant(3)
    rows = call.get("N", 0)
    columns = call.get("K", 0)
    bits = call.get("bits", 4)
    if packed is None or scales is None or call.given(4) is not None or call.is_computed(5) or bits not in (4, 8):
        call.unknown("in an order of its own", macs=rows * prod(call.shape(0)))
        return
    block = call.get("block_size", 32)

    def load() -> Array:
        numbers = _unpacked(packed.load(), bits).reshape(rows, -1, block)
        factor = np.asarray(scales.load(), np.float32).reshape(rows, -1, 1)
        middle = 1 << (bits - 1) if zeros is None else _unpacked(zeros.load(), bits).reshape(rows, -1, 1)
        real = (numbers.astype(np.float32) - middle) * factor
        return real.reshape(rows, -1)[:, :columns]

    dense(call, Constant((rows, columns), "float32", packed.key, load), call.constant(5))


def _unpacked(values: Array, bits: int) -> Array:
    """Numbers of 4 bits lie two in a byte, the lower one first."""
    flat = np.asarray(values, np.uint8)
    if bits == 8:
        return flat
    return np.stack([flat & 15, flat >> 4], axis=-1)
