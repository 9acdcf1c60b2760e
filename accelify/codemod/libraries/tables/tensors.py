"""Tensors: their methods and attributes, and the functions of torch that do the same.

A method of a tensor whose name ends in an underscore changes the tensor itself; that is a rule of torch's.
"""

ROWS = """\
# --- in place ---
returns=self mutates=self rows=each device=arguments
    <tensor>: *_
returns=self mutates=self effects=draws_torch device=arguments traits=replaces
    <tensor>: bernoulli_ cauchy_ exponential_ geometric_ log_normal_ normal_ random_ uniform_
returns=self mutates=self effects=draws_torch device=arguments
    <tensor>: rrelu_ dropout_
returns=self mutates=self device=arguments keeps=0
    <tensor>: addbmm_ addcdiv_ addcmul_ addmm_ addmv_ addr_ atan2_ arctan2_ baddbmm_ bitwise_and_ bitwise_or_
        bitwise_xor_ copysign_ div_ divide_ eq_ float_power_ floor_divide_ fmod_ gcd_ ge_ greater_ greater_equal_ gt_
        heaviside_ hypot_ igamma_ igammac_ lcm_ ldexp_ le_ lerp_ less_ less_equal_ logical_and_ logical_or_
        logical_xor_ lt_ mul_ multiply_ ne_ nextafter_ not_equal_ pow_ remainder_ sub_ subtract_ true_divide_ xlogy_
returns=self mutates=self device=arguments keeps=0
    <tensor>: map_ put_
returns=self mutates=self device=arguments keeps=0 traits=replaces
    <tensor>: copy_ fill_ set_
returns=self mutates=self device=arguments traits=replaces
    <tensor>: zero_
returns=self mutates=self device=arguments traits=same_values
    <tensor>: resize_ resize_as_ squeeze_ unsqueeze_
returns=self mutates=self device=arguments traits=same_values+reorders
    <tensor>: t_ transpose_ swapaxes_ swapdims_
returns=self mutates=self device=arguments keeps=2
    <tensor>: index_copy_ index_fill_ index_reduce_ scatter_ scatter_reduce_
returns=self mutates=self device=arguments keeps=1
    <tensor>: index_put_ masked_fill_ masked_scatter_
returns=self mutates=self device=arguments rows=along
    <tensor>: cumprod_ cumsum_ renorm_
returns=self mutates=self device=arguments effects=calls
    <tensor>: apply_
returns=self mutates=self device=arguments same=arguments
    <tensor>: requires_grad_ share_memory_ detach_
effects=calls+changes_library mutates=self
    <tensor>: backward
effects=calls mutates=self
    <tensor>: register_hook register_post_accumulate_grad_hook
mutates=self
    <tensor>: retain_grad record_stream resize resize_as
mutates=self keeps=1
    <tensor>: __setitem__

returns=self mutates=self device=arguments traits=adds keeps=0
    <tensor>: add_
returns=self mutates=self device=arguments traits=adds keeps=2
    <tensor>: index_add_ scatter_add_
# --- what a tensor is: no value is read ---
returns=number rows=count traits=shape_only device=nothing
    <tensor>: size __len__ numel nelement
    torch: numel
returns=number traits=shape_only device=nothing
    <tensor>: dim ndimension stride storage_offset element_size is_contiguous is_floating_point is_complex is_signed
        is_same_size get_device is_pinned is_shared is_coalesced is_inference is_conj is_neg is_distributed sparse_dim
        dense_dim dim_order qscheme storage_type is_set_to
    torch: is_complex is_conj is_floating_point is_inference is_neg is_same_size is_signed is_storage is_tensor
        can_cast promote_types result_type get_device is_distributed broadcast_shapes
returns=number same=no device=nothing
    <tensor>: data_ptr const_data_ptr
returns=size traits=shape_only+attribute device=nothing
    <tensor>: shape
returns=number traits=shape_only+attribute device=nothing
    <tensor>: ndim requires_grad is_cuda is_leaf is_mps is_xpu is_sparse is_quantized is_meta itemsize nbytes
        output_nr retains_grad names is_cpu is_nested is_mkldnn is_sparse_csr is_xla is_mtia is_ipu is_vulkan
returns=dtype traits=shape_only+attribute device=nothing
    <tensor>: dtype
traits=shape_only+attribute device=nothing
    <tensor>: layout grad_fn
returns=device traits=shape_only+attribute device=nothing
    <tensor>: device
returns=tensor traits=attribute+view+leaves_graph rows=each device=arguments
    <tensor>: data
returns=tensor traits=attribute device=arguments
    <tensor>: grad
returns=tensor traits=attribute+view rows=each device=arguments
    <tensor>: real imag
returns=tensor traits=attribute+view+reorders rows=each device=arguments
    <tensor>: T mT H mH

# --- to other kinds, types and places ---
returns=number traits=scalar+leaves_graph device=nothing
    <tensor>: item
    <tensor>: __float__ __int__ __bool__
    torch: is_nonzero equal allclose
returns=list traits=leaves_graph device=host rows=each
    <tensor>: tolist
returns=ndarray traits=leaves_graph+needs_host+view device=host rows=each
    <tensor>: numpy __array__
returns=tensor rows=each device=given
    <tensor>: to type_as
returns=tensor rows=each device=accelerator
    <tensor>: cuda xpu ipu mtia
returns=tensor rows=each device=host
    <tensor>: cpu
returns=tensor rows=each device=host traits=needs_host
    <tensor>: pin_memory
returns=tensor rows=each device=arguments
    <tensor>: float double half bfloat16 int long short byte char bool cdouble cfloat chalf type
    <tensor>: clone contiguous coalesce to_dense to_sparse to_sparse_coo to_sparse_csr to_sparse_csc to_sparse_bsr
        to_sparse_bsc to_mkldnn to_padded_tensor sparse_mask as_subclass share_memory
    torch: clone
returns=tensor rows=each device=arguments traits=leaves_graph+view
    torch <tensor>: detach
    torch: detach_copy

# --- each value from one row ---
returns=tensor rows=each device=arguments
    torch <tensor>: abs absolute acos acosh angle arccos arccosh arcsin arcsinh arctan arctanh asin asinh atan atanh
        bitwise_not ceil clamp clamp_max clamp_min clip conj conj_physical cos cosh deg2rad dequantize digamma erf erfc
        erfinv exp exp2 expm1 fix floor frac frexp hardshrink i0 isfinite isinf isnan isneginf isposinf isreal lgamma
        log log10 log1p log2 logical_not logit mvlgamma nan_to_num neg negative polygamma positive rad2deg reciprocal
        relu resolve_conj resolve_neg round rsqrt sgn sigmoid sign signbit sin sinc sinh sqrt square tan tanh
        trunc
    torch: celu selu real imag threshold int_repr native_channel_shuffle
    torch.special: bessel_j0 bessel_j1 bessel_y0 bessel_y1 digamma entr erf erfc erfcx erfinv exp2 expit expm1 gammaln
        i0 i0e i1 i1e log1p log_ndtr logit modified_bessel_i0 modified_bessel_i1 ndtr ndtri psi round sinc multigammaln
returns=tensor rows=each device=arguments traits=adds
    torch <tensor>: add
returns=tensor rows=each device=arguments
    torch <tensor>: addcdiv addcmul arctan2 atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift
        bitwise_xor copysign div divide float_power floor_divide fmax fmin fmod gcd heaviside hypot igamma igammac
        lcm ldexp lerp logaddexp logaddexp2 masked_fill maximum minimum mul multiply nextafter pow prelu remainder
        sub subtract true_divide xlogy
    torch: complex polar rsub
    torch.special: xlog1py xlogy zeta gammainc gammaincc
    <tensor>: __add__ __sub__ __mul__ __truediv__ __radd__ __rsub__ __rmul__ __pow__ __neg__
returns=tensor rows=each device=arguments traits=leaves_graph
    torch <tensor>: eq ge greater greater_equal gt isclose le less less_equal logical_and logical_or logical_xor lt
        ne not_equal
    torch: isin
    <tensor>: __eq__ __ne__ __lt__ __gt__
returns=tensor rows=each device=arguments traits=finds
    torch <tensor>: where
returns=tensor rows=each device=arguments traits=view
    torch <tensor>: as_strided broadcast_to chunk diag_embed diagonal dsplit flatten hsplit narrow ravel reshape select
        split split_with_sizes squeeze tensor_split unbind unflatten unsqueeze unsafe_chunk unsafe_split
        unsafe_split_with_sizes vsplit
    torch: atleast_1d atleast_2d atleast_3d broadcast_tensors view_as_complex view_as_real
    <tensor>: expand expand_as reshape_as unfold values indices view view_as crow_indices col_indices
returns=tensor rows=each device=arguments traits=view+reorders
    torch <tensor>: adjoint moveaxis movedim permute swapaxes swapdims t transpose
returns=tensor rows=each device=arguments
    torch <tensor>: fliplr repeat_interleave rot90 tile tril triu narrow_copy diagflat
    <tensor>: repeat
    torch: constant_pad_nd pixel_shuffle pixel_unshuffle channel_shuffle block_diag vander
returns=tensor rows=along device=arguments
    torch <tensor>: flip flipud roll
returns=tensor rows=selects device=arguments
    torch <tensor>: gather index_select masked_select take take_along_dim
    <tensor>: __getitem__
returns=tensor device=arguments
    torch <tensor>: as_strided_scatter diagonal_scatter index_add index_copy index_fill index_put index_reduce
        masked_scatter put scatter scatter_add scatter_reduce select_scatter slice_scatter
    torch: segment_reduce embedding_bag
returns=tensor rows=selects device=arguments
    torch <tensor>: argwhere nonzero nonzero_static unique unique_consecutive

# --- along a dimension ---
returns=tensor rows=along device=arguments
    torch <tensor>: cummax cummin diff kthvalue mode msort renorm sort topk
    torch: gradient searchsorted bucketize trapezoid trapz
returns=tensor rows=along device=arguments traits=accumulates
    torch <tensor>: cumprod cumsum log_softmax logcumsumexp logsumexp softmax
    torch: cumulative_trapezoid
    torch.special: log_softmax softmax logsumexp
returns=tensor rows=along device=arguments traits=leaves_graph
    torch <tensor>: argmax argmin argsort
returns=tensor rows=sum device=arguments
    torch <tensor>: bincount count_nonzero histc nansum sum trace
    <tensor>: sum_to_size
    torch: histogram histogramdd
returns=tensor rows=mean device=arguments
    torch <tensor>: mean median nanmean nanmedian nanquantile quantile std var
    torch: std_mean var_mean cov corrcoef
returns=tensor rows=extreme device=arguments
    torch <tensor>: all amax amin aminmax any
returns=tensor rows=extreme device=arguments traits=with_places
    torch <tensor>: max min
returns=tensor device=arguments
    torch <tensor>: norm prod hash_tensor slice_inverse q_scale q_zero_point q_per_channel_axis q_per_channel_scales
        q_per_channel_zero_points
    <tensor>: histogram cov corrcoef
    torch: dist nuclear_norm frobenius_norm norm_except_dim
    <tensor>: allclose equal is_nonzero

# --- products of tensors ---
returns=tensor device=arguments
    torch <tensor>: addbmm addmm addmv addr baddbmm bmm cross dot ger inner kron matmul mm mv outer vdot
    torch: bilinear cartesian_prod cdist chain_matmul combinations cosine_similarity einsum pairwise_distance pdist
        tensordot saddmm smm spmm hspmm sspaddmm dsmm hsmm rms_norm
    <tensor>: __matmul__ __rmatmul__ smm sspaddmm dist
+ traits=splits
    torch <tensor>: split split_with_sizes
+ traits=multiplies
    torch <tensor>: mm matmul addmm
    <tensor>: addmm_
+ traits=repeats
    <tensor>: expand expand_as repeat
+ traits=couples
    torch: cdist pdist cov corrcoef
    <tensor>: cov corrcoef
    torch.nn.functional: pdist
returns=tensor device=arguments
    torch <tensor>: cholesky cholesky_inverse cholesky_solve det diag eig geqrf inverse istft logdet lstsq lu lu_solve
        matrix_exp matrix_power ormqr orgqr pinverse qr slogdet solve stft svd symeig triangular_solve
    torch: lobpcg lu_unpack matrix_rank pca_lowrank svd_lowrank meshgrid unravel_index
    torch.linalg: *
    torch.fft: *

# --- several into one ---
returns=tensor rows=concatenates device=arguments
    torch: cat concat concatenate vstack row_stack stack hstack
returns=tensor device=arguments
    torch: dstack column_stack

# --- new tensors from a tensor ---
returns=tensor role=factory device=option_or_argument traits=shape_only+zeros
    torch: zeros_like
    <tensor>: new_zeros
returns=tensor role=factory device=option_or_argument traits=shape_only+ones
    torch: ones_like
returns=tensor role=factory device=option_or_argument traits=shape_only
    torch: empty_like
    <tensor>: new_ones new_empty new_empty_strided
returns=tensor role=factory device=option_or_argument
    torch: full_like
    <tensor>: new_full new_tensor new
returns=tensor effects=draws_torch device=option_or_argument
    torch: rand_like randn_like randint_like
returns=tensor effects=draws_torch device=arguments
    torch <tensor>: bernoulli multinomial
    torch: poisson binomial
    <tensor>: reinforce
-
    <tensor>: __hash__ storage untyped_storage module_load
returns=iterator rows=each
    <tensor>: __iter__

# --- sizes ---
returns=number rows=count traits=shape_only
    <size>: numel __getitem__ __len__
returns=number traits=attribute same=yes
    <dtype>: is_floating_point itemsize is_complex is_signed
traits=attribute
    <device>: type index

# --- the same values elsewhere, in another type, shape or kind ---
+ traits=same_values
    <tensor>: to type type_as cuda cpu xpu pin_memory float double half bfloat16 int long short byte char bool clone
        detach detach_ contiguous numpy tolist item data view view_as reshape squeeze unsqueeze flatten coalesce
        to_dense
    torch: clone detach
+ traits=asked_alone
    <tensor>: type
+ traits=shows_tensor
    <tensor>: size shape view reshape float long double int unsqueeze squeeze numpy dim permute flatten item data
        resize_ view_as type_as ndim transpose requires_grad_ requires_grad detach clone contiguous argmax numel expand
        T
+ asks=on_gpu
    <tensor>: is_cuda
+ traits=says_where
    <tensor>: device get_device is_cpu is_cuda is_mps is_xpu is_mtia
+ traits=copies
    <tensor>: clone
    torch: clone
+ traits=view
    <tensor>: detach_ requires_grad_
"""
