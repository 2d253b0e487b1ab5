"""MXNet symbol files judged before MXNet reads them: some of its operators call pointers, compile code or run Python.

`_Native` and `_NDArray` call an address that is written in the file, `_FusedOp` compiles source text, `Custom` runs
Python. So every operator has to be a listed one, and graphs inside nodes are refused.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from zoolens.errors import ModelError
from zoolens.runtimes.base import model_text

_HINT: Final = "Only operators that compute on tensors are run. Convert the model to ONNX where you trust it."
_OPERATORS: Final = """
Activation BatchNorm BatchNorm_v1 BilinearSampler BlockGrad Cast Concat Convolution Convolution_v1 Crop
Deconvolution Dropout ElementWiseSum Embedding Flatten FullyConnected GridGenerator GroupNorm InstanceNorm
L2Normalization LRN LayerNorm LeakyReLU LinearRegressionOutput LogisticRegressionOutput MakeLoss Pad Pooling
Pooling_v1 RNN ROIPooling Reshape SVMOutput SequenceLast SequenceMask SequenceReverse SliceChannel Softmax
SoftmaxActivation SoftmaxOutput SpatialTransformer SwapAxis UpSampling _Div _DivScalar _Equal _EqualScalar _Greater
_GreaterScalar _Greater_Equal _Lesser _LesserScalar _Maximum _MaximumScalar _Minimum _MinimumScalar _Minus
_MinusScalar _Mul _MulScalar _Plus _PlusScalar _Power _PowerScalar _RDivScalar _RMinusScalar _RPowerScalar _add
_arange _contrib_AdaptiveAvgPooling2D _contrib_BilinearResize2D _contrib_MultiBoxDetection _contrib_MultiBoxPrior
_contrib_ROIAlign _contrib_SyncBatchNorm _contrib_box_nms _contrib_dequantize _contrib_div_sqrt_dim
_contrib_interleaved_matmul_selfatt_qk _contrib_interleaved_matmul_selfatt_valatt _contrib_quantize
_contrib_quantize_v2 _contrib_quantized_act _contrib_quantized_concat _contrib_quantized_conv
_contrib_quantized_elemwise_add _contrib_quantized_flatten _contrib_quantized_fully_connected
_contrib_quantized_pooling _contrib_requantize _copy _div _div_scalar _equal _equal_scalar _eye _full _greater
_greater_equal _greater_equal_scalar _greater_scalar _hypot _lesser _lesser_equal _lesser_equal_scalar
_lesser_scalar _linspace _logical_and _logical_or _maximum _maximum_scalar _minimum _minimum_scalar _minus
_minus_scalar _mod _mod_scalar _mul _mul_scalar _not_equal _not_equal_scalar _ones _plus _plus_scalar _power
_power_scalar _rdiv_scalar _rminus_scalar _rmod_scalar _rpower_scalar _slice_assign _split_v2 _sub _zeros abs add_n
arccos arccosh arcsin arcsinh arctan arctanh argmax argmax_channel argmin argsort batch_dot batch_take broadcast_add
broadcast_axes broadcast_axis broadcast_div broadcast_equal broadcast_greater broadcast_greater_equal
broadcast_hypot broadcast_lesser broadcast_lesser_equal broadcast_like broadcast_logical_and broadcast_logical_or
broadcast_maximum broadcast_minimum broadcast_minus broadcast_mod broadcast_mul broadcast_not_equal broadcast_plus
broadcast_power broadcast_sub broadcast_to cast cbrt ceil clip concat cos cosh depth_to_space diag dot elemwise_add
elemwise_div elemwise_mul elemwise_sub erf erfinv exp expand_dims expm1 fix flatten flip floor gamma gammaln
gather_nd hard_sigmoid identity khatri_rao linalg_gemm linalg_gemm2 log log10 log1p log2 log_softmax logical_not
make_loss max max_axis mean min min_axis moments nanprod nansum negative norm null one_hot ones_like pad pick prod
radians rcbrt reciprocal relu repeat reshape reshape_like reverse rint round rsqrt scatter_nd sequence_mask
shape_array sigmoid sign sin sinh size_array slice slice_axis slice_like smooth_l1 softmax softmax_cross_entropy
softmin softsign sort space_to_depth split split_v2 sqrt square squeeze stack stop_gradient sum sum_axis swapaxes
take tan tanh tile topk transpose trunc where zeros_like
"""
ALLOWED: Final = frozenset(_OPERATORS.split())


def check_symbol(path: Path) -> None:
    """Refuse a symbol file with an operator that is not listed, or with graphs inside its nodes."""
    try:
        symbol: Any = json.loads(model_text(path))
        nodes = symbol["nodes"]
        operators = [(node["op"], bool(node.get("subgraphs"))) for node in nodes]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ModelError(f"{path.name} is not a complete MXNet symbol file.", hint="Fetch it again.") from error
    for operator, nested in operators:
        if not isinstance(operator, str) or operator not in ALLOWED or nested:
            what = "a graph inside a node" if nested else f"the operator {str(operator)[:80]}"
            raise ModelError(f"{path.name} carries {what}, which zoolens does not run.", hint=_HINT)
