"""What a Keras file may name: classes by kind, keys of their configurations, activations and TensorFlow functions.

Drawn from Keras 3.15 and tf_keras 2.21 and reviewed by name. Absent are classes that carry Python (Lambda and what
wraps functions), that open other files (TFSMLayer, vocabularies), that hand over to other frameworks, and all that
nobody has reviewed.
"""

from __future__ import annotations

from typing import Final


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


LAYERS: Final = _names("""
Activation ActivityRegularization AdaptiveAveragePooling1D AdaptiveAveragePooling2D AdaptiveAveragePooling3D
AdaptiveMaxPooling1D AdaptiveMaxPooling2D AdaptiveMaxPooling3D Add AdditiveAttention AlphaDropout Attention Average
AveragePooling1D AveragePooling2D AveragePooling3D AvgPool1D AvgPool2D AvgPool3D BatchNormalization
BatchNormalizationV1 BatchNormalizationV2 Bidirectional CategoryEncoding CenterCrop Concatenate Conv1D
Conv1DTranspose Conv2D Conv2DTranspose Conv3D Conv3DTranspose ConvLSTM1D ConvLSTM2D ConvLSTM3D Convolution1D
Convolution1DTranspose Convolution2D Convolution2DTranspose Convolution3D Convolution3DTranspose Cropping1D
Cropping2D Cropping3D CuDNNGRU CuDNNLSTM Dense DepthwiseConv1D DepthwiseConv2D Discretization Dot Dropout ELU
EinsumDense Embedding Flatten GRU GRUCell GaussianDropout GaussianNoise GlobalAveragePooling1D
GlobalAveragePooling2D GlobalAveragePooling3D GlobalAvgPool1D GlobalAvgPool2D GlobalAvgPool3D GlobalMaxPool1D
GlobalMaxPool2D GlobalMaxPool3D GlobalMaxPooling1D GlobalMaxPooling2D GlobalMaxPooling3D GroupNormalization
GroupQueryAttention HashedCrossing Hashing Identity InputLayer LSTM LSTMCell LayerNormalization LayerScale LeakyReLU
LocallyConnected1D LocallyConnected2D Masking MaxPool1D MaxPool2D MaxPool3D MaxPooling1D MaxPooling2D MaxPooling3D
Maximum MelSpectrogram Minimum MultiHeadAttention Multiply Normalization PReLU Permute RMSNormalization RNN
RandomBrightness RandomContrast RandomCrop RandomErasing RandomFlip RandomGaussianBlur RandomGrayscale RandomHeight
RandomHue RandomInvert RandomPerspective RandomRotation RandomSaturation RandomSharpness RandomShear
RandomTranslation RandomWidth RandomZoom ReLU RepeatVector Rescaling Reshape Resizing ReversibleEmbedding
STFTSpectrogram SeparableConv1D SeparableConv2D SeparableConvolution1D SeparableConvolution2D SimpleRNN
SimpleRNNCell Softmax SpatialDropout1D SpatialDropout2D SpatialDropout3D SpectralNormalization StackedRNNCells
StochasticDepth Subtract SyncBatchNormalization ThresholdedReLU TimeDistributed UnitNormalization UpSampling1D
UpSampling2D UpSampling3D ZeroPadding1D ZeroPadding2D ZeroPadding3D
""")
MODELS: Final = frozenset({"Functional", "Model", "Sequential"})
INITIALIZERS: Final = _names("""
Constant GlorotNormal GlorotUniform HeNormal HeUniform Identity IdentityInitializer LecunNormal LecunUniform Ones
Orthogonal OrthogonalInitializer RandomNormal RandomUniform STFT STFTInitializer TruncatedNormal VarianceScaling
Zeros
""")
REGULARIZERS: Final = frozenset({"L1", "L1L2", "L2", "OrthogonalRegularizer"})
CONSTRAINTS: Final = frozenset({"MaxNorm", "MinMaxNorm", "NonNeg", "RadialConstraint", "UnitNorm"})
POLICIES: Final = frozenset({"DTypePolicy", "FloatDTypePolicy", "Policy"})
# Values that JSON has no words for.
VALUES: Final = frozenset({"__ellipsis__", "__keras_tensor__", "__numpy__", "__slice__", "__tensor__", "__tuple__"})

# Operations of keras.ops that a functional model applies: they take tensors and numbers, none takes functions.
OPERATIONS: Final = _names("""
Abs Absolute AdaptiveAveragePool AdaptiveMaxPool Add AffineTransform All Amax Amin Angle Any Append Arange Arccos
Arccosh Arcsin Arcsinh Arctan Arctan2 Arctanh Argmax Argmin Argsort ArraySplit Average AveragePool BatchNorm
Bincount BitwiseAnd BitwiseInvert BitwiseNot BitwiseOr BitwiseXor BroadcastTo CDist Cast Cbrt Ceil Celu Cholesky
Clip Concatenate Conj Conjugate Conv ConvTranspose Copy Cos Cosh CountNonzero CropImages Cross Cumprod Cumsum
DepthToSpace DepthwiseConv Det Diag Diagflat Diagonal Diff Digitize Divide DivideNoNan Dot DotProductAttention
Einsum Elu EmptyLike Equal Erf Erfc Erfinv Exp Exp2 ExpandDims Expm1 ExtractPatches ExtractSequences FFT FFT2 Flip
Fliplr Flipud Floor FloorDivide Fmax Fmin Fmod Fold Full FullLike GaussianBlur Gelu GetItem Glu Greater GreaterEqual
HSVToRGB HardShrink HardSigmoid HardSilu HardTanh Heaviside Hstack Hypot IFFT2 IRFFT ISTFT Imag InTopK Inner Inv
Isclose Isfinite Isinf Isnan LayerNorm LeakyRelu Less LessEqual Linspace Log Log10 Log1p Log2 LogSigmoid LogSoftmax
Logaddexp Logdet LogicalAnd LogicalNot LogicalOr LogicalXor Logsumexp MapCoordinates Matmul Max MaxPool Maximum Mean
Median Meshgrid Min Minimum Mod Moments Moveaxis MultiHot Multiply NanToNum Ndim Negative Nonzero Norm Normalize
NotEqual OneHot OnesLike Outer Pad PadImages PerspectiveTransform Power Prod Ptp Quantile RFFT RGBToGrayscale
RGBToHSV RMSNorm Ravel Real Reciprocal Relu Relu6 Repeat Reshape Resize Roll Rot90 Round Rsqrt STFT SVD SaturateCast
ScaleAndTranslate Scatter ScatterUpdate SearchSorted SegmentMax SegmentMin SegmentProd SegmentSum Select Selu
SeparableConv Sigmoid Sign Signbit Silu Sin Sinc Sinh Size Slice SliceUpdate SoftShrink Softmax Softplus Softsign
Solve SolveTriangular Sort SpaceToDepth SparsePlus SparseSigmoid Sparsemax Split Sqrt Square Squareplus Squeeze
Stack Std StopGradient Subtract Sum Swapaxes Take TakeAlongAxis Tan Tanh TanhShrink Tensordot Threshold Tile TopK
Trace Transpose Tril Triu TrueDivide Trunc Unfold Unstack Var Vdot Vstack Where ZerosLike
""")

ACTIVATIONS: Final = _names("""
celu elu exponential gelu glu hard_shrink hard_sigmoid hard_silu hard_swish hard_tanh leaky_relu linear log_sigmoid
log_softmax mish relu relu6 selu sigmoid silu soft_shrink softmax softplus softsign sparse_plus sparse_sigmoid
sparsemax squareplus swish tanh tanh_shrink threshold
""")

# Functions of TensorFlow that a Keras-2 model may have recorded as layers (TFOpLambda, SlicingOpLambda).
TENSORFLOW_CALLS: Final = _names("""
__operators__.add __operators__.eq __operators__.getitem __operators__.logical_and __operators__.logical_not
__operators__.logical_or __operators__.ne __operators__.ragged_getitem cast clip_by_norm clip_by_value
compat.v1.concat compat.v1.expand_dims compat.v1.gather compat.v1.nn.avg_pool compat.v1.nn.conv2d
compat.v1.nn.depthwise_conv2d compat.v1.nn.max_pool compat.v1.nn.softmax compat.v1.pad compat.v1.reduce_mean
compat.v1.shape compat.v1.squeeze compat.v1.transpose concat convert_to_tensor einsum expand_dims eye fill gather
gather_nd identity image.adjust_brightness image.adjust_contrast image.central_crop image.crop_and_resize
image.crop_to_bounding_box image.extract_patches image.flip_left_right image.flip_up_down image.pad_to_bounding_box
image.per_image_standardization image.resize image.resize_with_crop_or_pad image.resize_with_pad
image.rgb_to_grayscale image.rot90 linalg.band_part linalg.diag linalg.l2_normalize linalg.matmul
linalg.matrix_transpose linalg.norm math.abs math.acos math.add math.add_n math.argmax math.argmin math.asin
math.atan math.ceil math.cos math.cosh math.count_nonzero math.cumprod math.cumsum math.divide math.divide_no_nan
math.equal math.erf math.exp math.expm1 math.floor math.floordiv math.floormod math.greater math.greater_equal
math.is_finite math.is_inf math.is_nan math.l2_normalize math.less math.less_equal math.log math.log1p
math.log_sigmoid math.log_softmax math.logical_and math.logical_not math.logical_or math.maximum math.minimum
math.mod math.multiply math.multiply_no_nan math.negative math.not_equal math.pow math.reciprocal
math.reciprocal_no_nan math.reduce_all math.reduce_any math.reduce_euclidean_norm math.reduce_logsumexp
math.reduce_max math.reduce_mean math.reduce_min math.reduce_prod math.reduce_std math.reduce_sum
math.reduce_variance math.rint math.round math.rsqrt math.sigmoid math.sign math.sin math.sinh math.softmax
math.softplus math.softsign math.sqrt math.square math.squared_difference math.subtract math.tan math.tanh
math.top_k math.truediv meshgrid nn.avg_pool nn.avg_pool2d nn.batch_normalization nn.bias_add nn.conv1d nn.conv2d
nn.conv2d_transpose nn.conv3d nn.depth_to_space nn.depthwise_conv2d nn.elu nn.gelu nn.l2_normalize nn.leaky_relu
nn.log_softmax nn.lrn nn.max_pool nn.max_pool2d nn.moments nn.relu nn.relu6 nn.selu nn.sigmoid nn.silu nn.softmax
nn.softplus nn.softsign nn.space_to_depth nn.swish nn.tanh one_hot ones ones_like pad range rank repeat reshape
reverse roll shape slice sort split squeeze stack stop_gradient strided_slice tensordot tile transpose unstack where
zeros zeros_like
""")

# Keys of configurations, of all classes above together. Only those of TFOpLambda may hold `function`.
KEYS: Final = _names("""
N activation activity_regularizer adjustment align_corners alpha alpha_constraint alpha_initializer
alpha_regularizer antialias approximate arguments assume_unique atol attention_axes attn_logits_soft_cap autocast
axes axis axis1 axis2 axisa axisb axisc b backend backward_layer base batch_input_shape batch_shape beta_constraint
beta_initializer beta_regularizer bias_axes bias_constraint bias_initializer bias_regularizer bin_boundaries bins
block_size bottom_cropping bottom_padding brightness_factor build_config build_input_shape causal cell cells center
class_name class_weights clip compute_dtype config contrast_factor crop_to_aspect_ratio cropping data_format
decimals default_value denominator_epsilon depth_multiplier depthwise_constraint depthwise_initializer
depthwise_regularizer destination dilation dilation_rate dims distribution drop_connect_rate dropout dtype
dtype_policy dx dynamic embeddings_constraint embeddings_initializer embeddings_regularizer endpoint epsilon
equal_nan equation expand_dims factor fft_length fill_mode fill_value filters flash_attention force_generator
frame_length frame_step from_logits full_matrices fused gain gamma_constraint gamma_initializer gamma_regularizer
go_backwards groups has_aux head_dim height height_factor hue_factor implementation inbound_nodes increasing index
indexing indices_or_sections init_values initial initializer_range input_axes input_dim input_layers input_length
input_shape interpolation invert is_causal is_training items k k1 k2 keepdims keras_history keras_version
kernel_constraint kernel_initializer kernel_regularizer kernel_size key_dim key_shape kth l1 l2 l2_regularization
layer layers left_cropping left_padding length logit_soft_cap lower mag_exp mask_index mask_value mask_zero max_bins
max_freq max_power max_val max_value maximum maxval mean merge_mode method mid_range min_freq min_power min_value
minlength minval mode module momentum moving_mean_initializer moving_variance_initializer n name nan negative_slope
neginf newshape noise_shape norm normalize num num_bins num_classes num_heads num_key_value_heads num_mel_bins
num_query_heads num_segments num_tokens offset oov_token optional ord order output_axes output_dim output_layers
output_mode output_padding output_shape output_size pad_to_aspect_ratio pad_width padding partial_shape periodic
pointwise_constraint pointwise_initializer pointwise_regularizer pool_size posinf power_iterations power_to_db
projection_dim quantization_config query_shape ragged ragged_rank range rank rate rcond recurrent_activation
recurrent_constraint recurrent_dropout recurrent_initializer recurrent_regularizer ref_power registered_name renorm
renorm_clipping renorm_momentum repeats reset_after return_sequences return_state reverse_dtype right_cropping
right_padding rms_scaling rng_type robust_masking rtol salt sampling_rate saturation_factor scale scaling score_mode
seed seq_length sequence_length sequence_stride shape shared_axes shared_object_id shift side sigma size
sliding_window softmax_robust_masking sorted source sparse spatial_dims start state_size stateful stddev step stop
strategy stride strides subscripts supports_masking survival_probability sync synchronized target_height
target_shape target_width theta threshold tie_weights time_major tol top_cropping top_db top_padding trainable
unit_forget_bias units unroll upper use_bias use_cudnn_on_gpu use_gate use_scale value value_dim value_range
value_shape variance virtual_batch_size width width_factor window x x_max x_min zero_output_for_mask
""")
