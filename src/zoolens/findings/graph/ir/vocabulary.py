"""The ops a graph may hold, and what their attributes mean. `reference` computes each of them; importers map to them.

Attributes are plain values. `kernel`, `stride`, `dilation` have one entry per spatial axis; `pads` are explicit and
may be asymmetric: the begins of all spatial axes, then the ends, as in ONNX (top, left, bottom, right). SAME,
auto_pad and ceil modes are resolved by the importer, who knows the shapes. An axis in the raw graph is counted in the
source's order and is never negative; in the canonical graph it is counted in (N, C, *spatial).

An attribute that is absent has the default given here. Where a raw op works on spatial axes, the importer sets
`Node.axes` ("NCHW", "NHWC", "NCW", …) of its output; layouts are then propagated by the `layout` pass.
"""

from __future__ import annotations

from typing import Final

# op -> {attribute: what it means}
OPS: Final[dict[str, dict[str, str]]] = {
    # leaves
    "input": {},
    "parameter": {},  # parameters: value
    "constant": {
        "value": "a number, or nested tuples of them, where it is small; else absent and key names weights",
        "mask": "which places a mask of attention hides, in words; absent for other constants",
        "weak": "True: the numbers of this mask are so near to 0 that large scores outweigh them",
        "rotary": "'cosines' or 'sines' of position × rate, by which rotary positions turn; absent for other constants",
        "rates": "of such a table, one for each pair of numbers that it turns",
    },
    # learned layers
    "conv": {
        "kernel": "extents", "stride": "default all 1", "dilation": "default all 1", "pads": "default all 0",
        "groups": "default 1",
        "norm": "canonical only: 'batch' where a batch norm follows and was merged", "epsilon": "that norm's",
    },  # parameters: kernel, bias?; merged: norm_scale?, norm_shift?, norm_mean, norm_variance
    "conv_transpose": {
        "kernel": "", "stride": "", "dilation": "", "pads": "", "output_pads": "default all 0", "groups": "",
    },  # kernel (in, out/groups, *kernel)
    "dense": {"norm": "as conv", "epsilon": "as conv"},  # on the last axis; parameters: kernel (out, in), bias?
    "batch_norm": {"epsilon": ""},  # on the channel axis; parameters: scale?, shift?, mean, variance
    "layer_norm": {"epsilon": "", "axes": "the normalised axes"},  # scale?, shift?
    "rms_norm": {"epsilon": "", "axes": ""},
    "group_norm": {"epsilon": "", "groups": ""},
    "instance_norm": {"epsilon": ""},
    "affine": {"axis": "along which scale and shift lie; absent: scalars"},  # x·scale + shift; scale?, shift?
    "embedding": {},  # parameters: table
    "recurrent": {
        "kind": "lstm, gru, rnn", "hidden": "", "layers": "", "bidirectional": "",
        "reverse": "True: one direction, from the end", "activations": "where they are not the kind's own",
        "clip": "limit of what goes into an activation", "reset_first": "gru: the state is reset before its product",
        "coupled": "lstm: input and forget gates are one",
        "packing": "'torch': gates and layers in torch's order; absent: in that of the source",
        "batch_first": "True: the batch is the first axis; absent: that of the steps",
        "given": "what the inputs behind the sequence are, where it is known: state, cell",
    },  # inputs: the sequence; lengths and initial states where they are computed or learned
    "recurrent_layer": {
        "kind": "lstm, gru, rnn", "hidden": "width of the state",
        "reverse": "True: from the end; each state stays at the place of its input",
        "activation": "of the candidate and of an lstm's cell; default tanh",
        "recurrent_activation": "of the gates; default sigmoid",
        "reset_first": "gru: the state is reset before its product",
        "given": "what the inputs behind the sequence are: mask, state, cell",
        "zero_masked": "the output of a masked step is 0; default: that of the step before",
        "gives": "'cell': the cells of an lstm; default: the states",
    },  # one layer in one direction, on (N, steps, width); `recurrent_gates` names the parameters of its gates
    # normalisation without parameters
    "lrn": {"size": "", "alpha": "as in the paper: divided by size inside", "beta": "", "bias": ""},
    # pools
    "max_pool": {
        "kernel": "", "stride": "", "dilation": "", "pads": "padded with -inf",
        "pad_value": "what a merged pad node put there instead",
    },
    "avg_pool": {"kernel": "", "stride": "", "pads": "", "count_pad": "True: padding is in the divisor; default False"},
    "adaptive_avg_pool": {"size": "output extents"},
    "adaptive_max_pool": {"size": "output extents"},
    "global_avg_pool": {},  # canonical form of every mean over all spatial axes; output (N, C)
    "global_max_pool": {},
    "mean": {"axes": "", "keep": "keeps axes of extent 1; default False"},
    "sum": {"axes": "", "keep": ""},
    "max": {"axes": "", "keep": ""},
    "min": {"axes": "", "keep": ""},
    "prod": {"axes": "", "keep": ""},
    "argmax": {"axes": "one", "keep": ""}, "argmin": {"axes": "one", "keep": ""},  # the first place, where several tie
    # activations
    "relu": {"implied": "True: not in the file, whose quantisation cuts at 0"},
    "relu6": {"implied": "as relu; cuts at 6"}, "sigmoid": {}, "silu": {},
    "hard_sigmoid": {"alpha": "default 1/6", "beta": "default .5"},
    "hard_swish": {}, "tanh": {}, "elu": {"alpha": "default 1"}, "selu": {}, "softplus": {}, "mish": {},
    "leaky_relu": {"alpha": ""}, "prelu": {}, "gelu": {"approximate": "'tanh', 'quick' or absent (exact)"},
    "clip": {"low": "", "high": ""}, "softmax": {"axis": ""}, "log_softmax": {"axis": ""},
    # arithmetic; a constant scalar operand is the attribute `scalar` (and `reverse`: True if it is the left one)
    "add": {"scalar": "", "reverse": ""}, "sub": {"scalar": "", "reverse": ""}, "mul": {"scalar": "", "reverse": ""},
    "div": {"scalar": "", "reverse": ""}, "pow": {"scalar": "", "reverse": ""}, "maximum": {"scalar": ""},
    "minimum": {"scalar": ""}, "abs": {}, "neg": {}, "exp": {}, "log": {}, "sqrt": {}, "rsqrt": {}, "square": {},
    "erf": {}, "sin": {}, "cos": {}, "floor": {}, "ceil": {}, "round": {}, "reciprocal": {},
    "l2_normalize": {"axes": "", "epsilon": "floor of the length that is divided by; default 1e-12"},
    "compare": {"kind": "==, <, …"}, "where": {},
    "matmul": {"transpose_a": "", "transpose_b": ""},
    "attention": {
        "heads": "", "scale": "of q·kᵀ; absent: one over the root of the width", "causal": "default False",
        "masked": "True where a mask was left out of the inputs, so that the rest can be compared",
    },  # inputs q, k, v as (N, heads, tokens, width); a fourth, a bias by position or a mask, is added to q·kᵀ. k and v
    # may have fewer heads, each of which serves several of q that are neighbours
    # arrangement
    "concat": {"axis": ""},
    "slice": {"axis": "", "start": "", "stop": "", "step": "default 1"},
    "pad": {
        "pads": "begins of ALL axes, then ends, in the node's axis order", "value": "default 0",
        "mode": "constant (default), reflect, edge",
    },
    "reshape": {},  # to the node's shape
    "flatten": {"order": "canonical only: axis order of the flattening, such as 'NHWC'; absent: N, C, *spatial"},
    "transpose": {"perm": ""},
    "expand": {},  # broadcast to the node's shape
    "gather": {"axis": "", "indices": "where constant and small"},
    "channel_shuffle": {"groups": ""},
    "space_to_depth": {"block": "", "mode": "DCR (default: the block's places are outermost) or CRD"},
    "depth_to_space": {"block": "", "mode": "DCR (default) or CRD"},
    "resize": {
        "mode": "nearest, linear, cubic",
        "coordinates": "half_pixel (default), asymmetric (default of nearest), align_corners; any other name is a rule "
        "that nobody here computes",
    },
    "roll": {"axes": "", "shifts": ""},
    "tile": {"repeats": ""},
    # noise, removed by the `noise` pass
    "identity": {},
    "dropout": {"rate": "", "units": "what is dropped together: channel, example, other; absent: each number"},
    "cast": {"to": ""}, "quantize": {}, "dequantize": {},
    # the rest
    "output_of": {"index": "which further output of the node it takes", "extents": "as unknown"},
    "unknown": {
        "source_op": "the source's own name for it",
        "extents": "'unknown' where neither a rule nor the file gives the shape",
        "macs": "its multiply-accumulates, where the importer knows them; absent: unknown",
    },
}  # fmt: skip

ACTIVATIONS: Final = frozenset(
    {"relu", "relu6", "sigmoid", "silu", "hard_sigmoid", "hard_swish", "tanh", "elu", "selu", "softplus", "mish",
     "leaky_relu", "prelu", "gelu", "clip"}
)  # fmt: skip
POOLS: Final = frozenset(
    {"max_pool", "avg_pool", "global_avg_pool", "global_max_pool", "adaptive_avg_pool", "adaptive_max_pool"}
)
WINDOWED: Final = frozenset({"conv", "conv_transpose", "max_pool", "avg_pool"})
NORMS: Final = frozenset({"batch_norm", "layer_norm", "rms_norm", "group_norm", "instance_norm", "affine"})
FIXED: Final = frozenset({"parameter", "constant"})  # values that no input changes
LEAVES: Final = FIXED | {"input"}
NO_LAYERS: Final = LEAVES | {"output_of"}
REDUCTIONS: Final = frozenset({"mean", "sum", "max", "min", "prod", "argmax", "argmin"})
# Operators of ONNX and TFLite that hold graphs of their own, of which nothing is read.
HOLDING_GRAPHS: Final = frozenset(
    {"If", "Loop", "Scan", "SequenceMap", "IF", "WHILE", "CALL", "CALL_ONCE", "STABLEHLO_WHILE", "STABLEHLO_COMPOSITE"}
)
GRAPH_INSIDE: Final = "with a graph inside"  # of an operator outside the standard that has one, too
# Why an operator is not understood, where its shape or that of its input is the reason.
COMPUTED_SHAPE: Final = "whose shape is computed"
UNKNOWN_SHAPE: Final = "of a value of unknown shape"
# Nobody here computes them: what they answer is known from a live network only.
OPAQUE: Final = frozenset({"unknown", "output_of", "recurrent"})
FUNCTIONS: Final = frozenset(  # of one number, by themselves no activation
    {"abs", "neg", "exp", "log", "sqrt", "rsqrt", "square", "erf", "sin", "cos", "floor", "ceil", "round", "reciprocal"}
)
ARITHMETIC: Final = frozenset({"add", "sub", "mul", "div", "pow", "maximum", "minimum"})  # on two values
COMMUTATIVE: Final = frozenset({"add", "mul", "maximum", "minimum"})
NOISE: Final = frozenset({"identity", "dropout", "cast", "quantize", "dequantize"})
VIEWS: Final = frozenset({"reshape", "flatten", "transpose", "identity", "dropout", "slice", "expand", "output_of"})
