"""The torch operators that TorchScript code and exported programs may call: they compute on tensors and nothing else.

Drawn from the operator registry of torch 2.13 and reviewed by name. What is absent is refused: operators that touch
files (save, from_file), storages and seeds, that talk to other processes, that call back into Python, backward passes,
kernels of single devices, and all that nobody has reviewed.
"""

from __future__ import annotations

from typing import Final

# Inside TorchScript: numbers, texts, lists and dictionaries.
_CONTAINERS: Final = """
Bool Complex ComplexImplicit Delete Float FloatImplicit Int IntImplicit ScalarImplicit Size __and__ __contains__
__derive_index __getitem__ __iand__ __ilshift__ __interpolate __ior__ __irshift__ __is__ __isnot__ __ixor__
__lshift__ __not__ __or__ __range_length __round_to_zero_floordiv __rshift__ __upsample __upsample_bilinear
__upsample_nearest __xor__ _get_tracing_state _set_item _size_if_not_equal _unwrap_optional append bin capitalize
center chr clear count degrees device dict divmod endswith expandtabs extend factorial find format get
has_torch_function hex insert is_autocast_cpu_enabled is_autocast_enabled is_complex is_conj is_contiguous
is_floating_point is_grad_enabled is_inference is_leaf is_neg is_non_overlapping_and_dense is_nonzero is_same_size
is_scripting is_set_to is_signed isalnum isalpha isclose isdecimal isdigit isfinite isidentifier isin isinf islower
isnan isneginf isnumeric isposinf isprintable isreal isspace istft istitle isupper items join keys len list ljust
lower lstrip mathremainder oct ord partition percentFormat pop popitem radians remove replace reverse rfind rindex
rjust rpartition rsplit rstrip setdefault sorted splitlines startswith str strip swapcase title update upper values
warn zfill
"""

# Networks.
_NETWORKS: Final = """
_adaptive_avg_pool2d _adaptive_avg_pool3d _add_relu _add_relu_ _conv_depthwise2d _convolution _convolution_mode
_ctc_loss _embedding_bag _embedding_bag_forward_only _fused_dropout _grid_sampler_2d_cpu_fallback _log_softmax
_masked_softmax _native_batch_norm_legit _native_batch_norm_legit_functional _native_batch_norm_legit_no_training
_native_multi_head_attention _nested_tensor_from_mask _nested_tensor_from_mask_left_aligned
_no_grad_embedding_renorm_ _no_grad_normal_ _pack_sequence _pad_circular _pad_enum
_pad_packed_sequence _prelu_kernel _safe_softmax _scaled_dot_product_attention_math
_scaled_dot_product_flash_attention_for_cpu _slow_conv2d_forward _softmax _transformer_encoder_layer_fwd
_upsample_bicubic2d_aa _upsample_bilinear2d_aa _upsample_lanczos2d_aa _upsample_nearest_exact1d
_upsample_nearest_exact2d _upsample_nearest_exact3d _weight_norm _weight_norm_interface adaptive_avg_pool1d
adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d
affine_grid_generator alpha_dropout alpha_dropout_ arctanh arctanh_ atanh atanh_ avg_pool1d avg_pool2d avg_pool3d
batch_norm batch_norm_elemt batch_norm_gather_stats batch_norm_gather_stats_with_counts batch_norm_stats
batch_norm_update_stats bilinear binary_cross_entropy binary_cross_entropy_with_logits celu celu_ channel_shuffle
col2im constant_pad_nd conv1d conv2d conv3d conv_depthwise3d conv_tbc conv_transpose1d conv_transpose2d
conv_transpose3d convolution cosine_embedding_loss cross_entropy_loss ctc_loss dropout dropout_ elu elu_ embedding
embedding_bag embedding_renorm embedding_renorm_ feature_alpha_dropout feature_alpha_dropout_ feature_dropout
feature_dropout_ fractional_max_pool2d fractional_max_pool3d frobenius_norm gelu gelu_ glu grid_sampler
grid_sampler_2d grid_sampler_3d group_norm gru gru_cell hardshrink hardsigmoid hardsigmoid_ hardswish hardswish_
hardtanh hardtanh_ hinge_embedding_loss huber_loss im2col instance_norm kl_div l1_loss layer_norm leaky_relu
leaky_relu_ linalg_matrix_norm linalg_norm linalg_vector_norm linear log_normal log_normal_ log_sigmoid
log_sigmoid_forward log_softmax lstm lstm_cell margin_ranking_loss max_pool1d max_pool1d_with_indices max_pool2d
max_pool2d_with_indices max_pool3d max_pool3d_with_indices max_unpool2d max_unpool3d mish mish_ mse_loss
multi_margin_loss multilabel_margin_loss multilabel_margin_loss_forward native_batch_norm native_channel_shuffle
native_dropout native_group_norm native_layer_norm native_norm nll_loss nll_loss2d nll_loss2d_forward
nll_loss_forward nll_loss_nd norm norm_except_dim normal normal_ normal_functional nuclear_norm one_hot pad
pad_sequence pixel_shuffle pixel_unshuffle poisson_nll_loss prelu quantized_batch_norm quantized_max_pool1d
quantized_max_pool2d quantized_max_pool3d reflection_pad1d reflection_pad2d reflection_pad3d relu relu6 relu6_ relu_
renorm renorm_ replication_pad1d replication_pad2d replication_pad3d rms_norm rnn_relu rnn_relu_cell rnn_tanh
rnn_tanh_cell rrelu rrelu_ rrelu_with_noise rrelu_with_noise_ rrelu_with_noise_functional
scaled_dot_product_attention selu selu_ sigmoid sigmoid_ silu silu_ slow_conv3d slow_conv3d_forward
slow_conv_dilated2d slow_conv_dilated3d slow_conv_transpose2d slow_conv_transpose3d smooth_l1_loss soft_margin_loss
softmax softplus softshrink special_log_softmax special_softmax tanh tanh_ thnn_conv2d threshold threshold_
to_padded_tensor
triplet_margin_loss upsample_bicubic2d upsample_bilinear2d upsample_linear1d upsample_nearest1d upsample_nearest2d
upsample_nearest3d upsample_trilinear3d
"""

# Quantised tensors.
_QUANTISED: Final = """
_empty_affine_quantized _empty_per_channel_affine_quantized _fake_quantize_learnable_per_channel_affine
_fake_quantize_learnable_per_tensor_affine _fake_quantize_per_tensor_affine_cachemask_tensor_qparams
choose_qparams_optimized dequantize empty_quantized eq_ fake_quantize_per_channel_affine
fake_quantize_per_channel_affine_cachemask fake_quantize_per_tensor_affine fake_quantize_per_tensor_affine_cachemask
fused_moving_avg_obs_fake_quant int_repr nanquantile q_per_channel_axis q_per_channel_scales
q_per_channel_zero_points q_scale q_zero_point qscheme quantile quantize_per_channel quantize_per_tensor
quantize_per_tensor_dynamic
"""

# Linear algebra and Fourier transforms.
_LINEAR_ALGEBRA: Final = """
_cholesky_solve_helper _fft_c2c _fft_c2r _fft_r2c _linalg_det _linalg_eigh _linalg_slogdet _linalg_solve_ex
_linalg_svd _no_grad_uniform_ _transform_bias_rescale_qkv addbmm addbmm_ addmm addmm_ addmv addmv_ baddbmm baddbmm_
bartlett_window blackman_window bmm chain_matmul cholesky cholesky_inverse cholesky_solve det dot einsum fft_fft
fft_fft2 fft_fftfreq fft_fftn fft_fftshift fft_hfft fft_hfft2 fft_hfftn fft_ifft fft_ifft2 fft_ifftn fft_ifftshift
fft_ihfft fft_ihfft2 fft_ihfftn fft_irfft fft_irfft2 fft_irfftn fft_rfft fft_rfft2 fft_rfftfreq fft_rfftn geqrf
hamming_window hann_window inverse kaiser_window kron linalg__powsum linalg_cholesky linalg_cholesky_ex linalg_cond
linalg_cross linalg_det linalg_diagonal linalg_eig linalg_eigh linalg_eigvals linalg_eigvalsh
linalg_householder_product linalg_inv linalg_inv_ex linalg_ldl_factor linalg_ldl_factor_ex linalg_ldl_solve
linalg_lstsq linalg_lu linalg_lu_factor linalg_lu_factor_ex linalg_lu_solve linalg_matmul linalg_matrix_exp
linalg_matrix_power linalg_matrix_rank linalg_multi_dot linalg_pinv linalg_qr linalg_slogdet linalg_solve
linalg_solve_ex linalg_solve_triangular linalg_svd linalg_svdvals linalg_tensorinv linalg_tensorsolve linalg_vander
linalg_vecdot logdet lu_solve lu_unpack matmul matrix_H matrix_exp matrix_power mm mv mvlgamma mvlgamma_ orgqr ormqr
pinverse qr resolve_conj resolve_neg rsqrt rsqrt_ slogdet sqrt sqrt_ stft svd tensordot trace triangular_solve
uniform uniform_ vdot
"""

# Special functions.
_SPECIAL: Final = """
digamma digamma_ erf erf_ erfc erfc_ erfinv erfinv_ gamma i0 i0_ igamma igamma_ igammac igammac_ lgamma lgamma_
polygamma polygamma_ special_airy_ai special_bessel_j0 special_bessel_j1 special_bessel_y0 special_bessel_y1
special_chebyshev_polynomial_t special_chebyshev_polynomial_u special_chebyshev_polynomial_v
special_chebyshev_polynomial_w special_digamma special_entr special_erf special_erfc special_erfcx special_erfinv
special_exp2 special_expit special_expm1 special_gammainc special_gammaincc special_gammaln
special_hermite_polynomial_h special_hermite_polynomial_he special_i0 special_i0e special_i1 special_i1e
special_laguerre_polynomial_l special_legendre_polynomial_p special_log1p special_log_ndtr special_logit
special_logsumexp special_modified_bessel_i0 special_modified_bessel_i1 special_modified_bessel_k0
special_modified_bessel_k1 special_multigammaln special_ndtr special_ndtri special_polygamma special_psi
special_round special_scaled_modified_bessel_k0 special_scaled_modified_bessel_k1
special_shifted_chebyshev_polynomial_t special_shifted_chebyshev_polynomial_u special_shifted_chebyshev_polynomial_v
special_shifted_chebyshev_polynomial_w special_sinc special_spherical_bessel_j0 special_xlog1py special_xlogy
special_zeta
"""

# Random numbers.
_RANDOM: Final = """
bernoulli bernoulli_ binomial cauchy cauchy_ exponential exponential_ geometric geometric_ multinomial poisson rand
rand_like randint randint_like randn randn_like random random_ randperm
"""

# Everything else that computes on tensors: arithmetic, reductions, indices, shapes.
_TENSORS: Final = """
_aminmax _assert_async _assert_scalar _assert_tensor_metadata _cast_Byte _cast_Char _cast_Double _cast_Float
_cast_Half _cast_Int _cast_Long _cast_Short _cdist_forward _chunk_cat _euclidean_dist _grad_sum_to_size _infer_size
_local_scalar_dense _logcumsumexp _no_grad_fill_ _no_grad_zero_ _pdist_forward _reshape_from_tensor _shape_as_tensor
_stack _to_copy _unique _unique2 _unsafe_index _unsafe_masked_index _unsafe_view abs abs_ absolute absolute_ acos
acos_ acosh acosh_ add add_ addcdiv addcdiv_ addcmul addcmul_ addr addr_ adjoint alias all allclose amax amin
aminmax angle any arange arccos arccos_ arccosh arccosh_ arcsin arcsin_ arcsinh arcsinh_ arctan arctan2 arctan2_
arctan_ argmax argmin argsort argwhere as_strided as_strided_ as_strided_scatter as_tensor asin asin_ asinh asinh_
atan atan2 atan2_ atan_ atleast_1d atleast_2d atleast_3d bincount bitwise_and bitwise_and_ bitwise_left_shift
bitwise_left_shift_ bitwise_not bitwise_not_ bitwise_or bitwise_or_ bitwise_right_shift bitwise_right_shift_
bitwise_xor bitwise_xor_ block_diag broadcast_shapes broadcast_tensors broadcast_to bucketize can_cast
cartesian_prod cat cdist ceil ceil_ chalf chunk clamp clamp_ clamp_max clamp_max_ clamp_min clamp_min_ clip clip_
clone column_stack combinations complex concat concatenate conj conj_physical conj_physical_ contiguous copy copy_
copysign copysign_ corrcoef cos cos_ cosh cosh_ cosine_similarity count_nonzero cov cpu cross cummax cummin cumprod
cumprod_ cumsum cumsum_ cumulative_trapezoid data deg2rad deg2rad_ detach detach_ diag diag_embed diagflat diagonal
diagonal_scatter diff dim dist div div_ divide divide_ dsplit dstack element_size empty empty_like empty_permuted
empty_strided eq equal exp exp2 exp2_ exp_ expand expand_as expm1 expm1_ eye fabs fill fill_ fill_diagonal_ fix fix_
flatten flip fliplr flipud float_power float_power_ floor floor_ floor_divide floor_divide_ floordiv fmax fmin fmod
fmod_ frac frac_ frexp full full_like gather gcd gcd_ ge ge_ ger get_autocast_dtype get_device gradient greater
greater_ greater_equal greater_equal_ gt gt_ heaviside heaviside_ histc histogram histogramdd hsplit hstack hypot
hypot_ imag index index_add index_add_ index_copy_ index_fill index_fill_ index_put index_put_ index_reduce
index_reduce_ index_select indices inner item kthvalue lcm lcm_ ldexp ldexp_ le le_ lerp lerp_ less less_ less_equal
less_equal_ lift lift_fresh linspace log log10 log10_ log1p log1p_ log2 log2_ log_ logaddexp logaddexp2 logcumsumexp
logical_and logical_and_ logical_not logical_not_ logical_or logical_or_ logical_xor logical_xor_ logit logit_
logspace logsumexp lt lt_ mH mT masked_fill masked_fill_ masked_scatter masked_scatter_ masked_select max maximum
mean median meshgrid min minimum mode modf moveaxis movedim msort mul mul_ multiply multiply_ nan_to_num nan_to_num_
nanmean nanmedian nansum narrow ne ne_ neg neg_ negative negative_ new_empty new_empty_strided new_full new_ones
new_zeros nextafter nextafter_ nonzero nonzero_numpy nonzero_static not_equal not_equal_ numel numpy_T ones
ones_like outer pairwise_distance pdist permute polar positive pow pow_ prod promote_types put put_ rad2deg rad2deg_
range ravel real reciprocal reciprocal_ remainder remainder_ repeat repeat_interleave requires_grad_ reshape
reshape_as result_type roll rot90 round round_ row_stack rsub scalar_tensor scatter scatter_ scatter_add
scatter_add_ scatter_reduce scatter_reduce_ searchsorted select select_scatter set_grad_enabled sgn sgn_ sign sign_
signbit sin sin_ sinc sinc_ sinh sinh_ size slice slice_scatter sort split split_with_sizes square square_ squeeze
squeeze_ stack std std_mean storage_offset stride sub sub_ subtract subtract_ sum sum_to_size swapaxes swapaxes_
swapdims swapdims_ sym_constrain_range sym_constrain_range_for_size sym_is_contiguous sym_numel sym_size
sym_storage_offset sym_stride t t_ take take_along_dim tan tan_ tensor tensor_split tile to to_dense topk transpose
transpose_ trapezoid trapz tril tril_ tril_indices triu triu_ triu_indices true_divide true_divide_ trunc trunc_
type_as unbind unflatten unfold unique_consecutive unique_dim unique_dim_consecutive unsafe_chunk unsafe_split
unsafe_split_with_sizes unsqueeze unsqueeze_ vander var var_mean view view_as view_as_complex view_as_real vsplit
vstack where xlogy xlogy_ zero zero_ zeros zeros_like
"""

ATEN: Final = frozenset(
    " ".join((_CONTAINERS, _NETWORKS, _QUANTISED, _LINEAR_ALGEBRA, _SPECIAL, _RANDOM, _TENSORS)).split()
)

# What TorchScript asks of values themselves.
_PRIM: Final = """
ConstantChunk EnumName EnumValue ModuleContainerIndex NumToTensor RaiseException StringIndex TupleIndex TupleUnpack
Uninitialized VarConcat VarStack abs data device dtype id index is_cpu is_cuda is_ipu is_maia is_meta is_mkldnn
is_mps is_mtia is_nested is_quantized is_sparse is_sparse_csr is_vulkan is_xla is_xpu itemsize layout max min name
nbytes rangelist requires_grad tolist type unchecked_cast unchecked_unwrap_optional
"""

_QUANTIZED: Final = """
add add_relu add_scalar add_scalar_relu batch_norm batch_norm1d batch_norm1d_relu batch_norm2d batch_norm2d_relu
batch_norm3d batch_norm3d_relu batch_norm_relu cat cat_relu celu clamp conv1d conv1d_dynamic conv1d_prepack
conv1d_relu conv1d_unpack conv2d conv2d_add conv2d_add_relu conv2d_dilation conv2d_dynamic conv2d_groups
conv2d_output_padding conv2d_padding conv2d_prepack conv2d_relu conv2d_stride conv2d_transpose conv2d_unpack
conv2d_unpack_sizes conv3d conv3d_dilation conv3d_dynamic conv3d_groups conv3d_output_padding conv3d_padding
conv3d_prepack conv3d_relu conv3d_stride conv3d_transpose conv3d_unpack conv_prepack conv_transpose1d
conv_transpose1d_dynamic conv_transpose1d_prepack conv_transpose1d_unpack conv_transpose2d conv_transpose2d_dynamic
conv_transpose2d_prepack conv_transpose2d_unpack conv_transpose3d conv_transpose3d_dynamic conv_transpose3d_prepack
conv_transpose3d_unpack conv_unpack dropout elu embedding_4bit embedding_byte embedding_bag_4bit embedding_bag_byte
embedding_bag_prepack embedding_bag_unpack group_norm hardswish instance_norm layer_norm leaky_relu linear
linear_dynamic linear_dynamic_fp16 linear_leaky_relu linear_prepack linear_prepack_fp16 linear_relu
linear_relu_dynamic linear_relu_dynamic_fp16 linear_tanh linear_unpack linear_unpack_fp16 make_quantized_cell_params
make_quantized_cell_params_dynamic make_quantized_cell_params_fp16 matmul max_pool1d max_pool2d mul mul_relu
mul_scalar mul_scalar_relu prelu quantized_gru_cell_dynamic quantized_lstm_cell_dynamic
quantized_rnn_relu_cell_dynamic quantized_rnn_tanh_cell_dynamic relu6 sigmoid softmax threshold
"""

_TORCHVISION: Final = "deform_conv2d nms ps_roi_align ps_roi_pool roi_align roi_pool"
_PRIMS: Final = "convert_element_type device_put div iota view_of"
_DECOMPOSED: Final = """
choose_qparams choose_qparams_per_token dequantize_per_channel dequantize_per_tensor dequantize_per_token
quantize_per_channel quantize_per_tensor quantize_per_token
"""

# By the namespace in which they are registered.
NAMESPACES: Final = {
    "aten": ATEN,
    "prim": frozenset(_PRIM.split()),
    "prims": frozenset(_PRIMS.split()),
    "quantized": frozenset(_QUANTIZED.split()),
    "quantized_decomposed": frozenset(_DECOMPOSED.split()),
    "torchvision": frozenset(_TORCHVISION.split()),
}
