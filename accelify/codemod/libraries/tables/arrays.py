"""NumPy, SciPy, pandas, and pictures: arrays, tables and images on the host. Files of them are in `files`."""

ROWS = """\
# --- numpy: what is not named below only gives a value ---
returns=ndarray device=host
    numpy: *
returns=ndarray role=factory device=host traits=shape_only+zeros
    numpy: zeros zeros_like
returns=ndarray role=factory device=host traits=shape_only
    numpy: ones empty eye identity tri ones_like empty_like indices diag_indices tril_indices
        triu_indices
returns=ndarray role=factory device=host
    numpy: full full_like arange linspace logspace geomspace fromfunction fromiter fromstring
returns=ndarray role=factory device=host rows=each traits=needs_host
    numpy: array asarray ascontiguousarray asfortranarray asanyarray copy
returns=ndarray rows=each device=host traits=adds+needs_host
    numpy: add
returns=ndarray rows=each device=host traits=needs_host
    numpy: abs absolute angle arccos arccosh arcsin arcsinh arctan arctan2 arctanh around bitwise_and bitwise_not
        bitwise_or bitwise_xor cbrt ceil clip conj copysign cos cosh deg2rad degrees divide divmod equal exp exp2 expm1
        fabs fix floor floor_divide fmax fmin fmod greater greater_equal heaviside hypot imag invert isclose isfinite
        isinf isnan isreal ldexp less less_equal log log10 log1p log2 logaddexp logaddexp2 logical_and logical_not
        logical_or logical_xor maximum minimum mod multiply nan_to_num negative not_equal positive power rad2deg radians
        real reciprocal remainder rint round round_ sign sin sinc sinh sqrt square subtract tan tanh true_divide trunc
        flip fliplr flipud expand_dims squeeze reshape ravel transpose swapaxes moveaxis rollaxis repeat tile
        broadcast_to split array_split hsplit vsplit dsplit pad atleast_1d atleast_2d atleast_3d
    numpy: uint8 int8 int16 int32 int64 float16 float32 float64 int_ float_ bool_ double single half intp longlong
returns=ndarray rows=each device=host traits=needs_host+finds
    numpy: where
returns=ndarray rows=concatenates device=host traits=needs_host
    numpy: concatenate vstack row_stack append concat
returns=ndarray rows=concatenates device=host traits=needs_host
    numpy: stack hstack
returns=ndarray device=host traits=needs_host
    numpy: dstack column_stack
returns=ndarray rows=selects device=host traits=needs_host
    numpy: take compress delete extract nonzero argwhere flatnonzero unique searchsorted digitize isin in1d
        intersect1d setdiff1d union1d
returns=ndarray rows=along device=host traits=needs_host
    numpy: argmax argmin argsort cumprod cumsum diff nanargmax nanargmin sort lexsort argpartition partition
returns=ndarray rows=sum device=host traits=needs_host
    numpy: sum nansum count_nonzero bincount trace histogram
returns=ndarray rows=mean device=host traits=needs_host
    numpy: mean average nanmean median nanmedian std nanstd var nanvar percentile quantile nanpercentile nanquantile
returns=ndarray rows=extreme device=host traits=needs_host
    numpy: max min amax amin nanmax nanmin all any ptp
returns=number rows=count device=nothing traits=shape_only
    numpy: size shape ndim
returns=number device=nothing
    numpy: allclose array_equal isscalar array_equiv iscomplexobj isrealobj may_share_memory shares_memory
returns=number device=nothing same=yes traits=shape_only
    numpy: iinfo finfo dtype result_type can_cast promote_types issubdtype
traits=attribute same=yes
    numpy: pi e inf nan newaxis Inf NaN infty __version__ euler_gamma
mutates=0
    numpy: copyto put place putmask fill_diagonal put_along_axis
    numpy.add numpy.subtract numpy.multiply numpy.maximum numpy.minimum: at
effects=changes_library
    numpy: seterr seterrcall setbufsize set_printoptions set_string_function
returns=context
    numpy: errstate printoptions
-
    numpy: vectorize frompyfunc nditer ndenumerate ndindex
effects=calls
    numpy: apply_along_axis apply_over_axes piecewise
effects=runs_code+changes_library
    numpy: test
returns=string
    numpy: array2string array_str array_repr base_repr binary_repr format_float_positional
effects=prints
    numpy: show_config info show_runtime
returns=ndarray device=host
    numpy.linalg numpy.fft numpy.polynomial numpy.ma numpy.char numpy.testing: *
mutates=self
    <ndarray>: fill sort partition put resize setfield setflags itemset __setitem__ byteswap_
effects=writes_files
    <ndarray>: tofile dump
returns=ndarray rows=each device=host
    <ndarray>: astype byteswap clip conj conjugate copy flatten ravel reshape round squeeze swapaxes transpose view
        repeat newbyteorder
returns=ndarray rows=each device=host traits=attribute+view
    <ndarray>: T real imag flat
returns=ndarray rows=sum device=host
    <ndarray>: sum trace
returns=ndarray rows=mean device=host
    <ndarray>: mean std var
returns=ndarray rows=extreme device=host
    <ndarray>: max min all any ptp
returns=ndarray rows=along device=host
    <ndarray>: argmax argmin argsort argpartition cumprod cumsum
returns=ndarray rows=selects device=host
    <ndarray>: nonzero take compress choose diagonal searchsorted __getitem__
returns=ndarray device=host
    <ndarray>: prod dot
returns=number traits=scalar device=nothing
    <ndarray>: item
returns=list device=nothing rows=each
    <ndarray>: tolist
returns=bytes device=nothing
    <ndarray>: tobytes tostring dumps
traits=attribute+shape_only device=nothing
    <ndarray>: shape dtype ndim size nbytes itemsize strides flags

# --- numpy: random numbers ---
effects=draws_numpy returns=ndarray device=host
    numpy.random: beta binomial chisquare dirichlet exponential f gamma geometric gumbel hypergeometric laplace
        logistic lognormal logseries multinomial multivariate_normal negative_binomial noncentral_chisquare
        noncentral_f normal pareto poisson power rand randint randn random random_integers random_sample ranf rayleigh
        sample standard_cauchy standard_exponential standard_gamma standard_normal standard_t triangular uniform
        vonmises wald weibull zipf
effects=draws_numpy returns=bytes
    numpy.random: bytes
effects=draws_numpy returns=ndarray device=host rows=selects
    numpy.random: choice
effects=draws_numpy returns=ndarray device=host rows=shuffles
    numpy.random: permutation
effects=draws_numpy mutates=0 rows=shuffles
    numpy.random: shuffle
effects=seeds_numpy role=seed traits=own_seed
    numpy.random: seed
effects=seeds_numpy role=seed
    numpy.random: set_state set_bit_generator
returns=tuple same=draw
    numpy.random: get_state get_bit_generator
returns=numpy_generator role=generator
    numpy.random: Generator
returns=numpy_generator role=generator traits=own_seed
    numpy.random: RandomState
returns=numpy_generator role=generator effects=draws_system traits=own_seed    # unless a seed is given
    numpy.random: default_rng PCG64 PCG64DXSM MT19937 Philox SFC64 SeedSequence BitGenerator
effects=draws_given mutates=self returns=ndarray device=host
    <numpy_generator>: beta binomial bytes chisquare dirichlet exponential f gamma geometric gumbel hypergeometric
        integers laplace logistic lognormal logseries multinomial multivariate_hypergeometric multivariate_normal
        negative_binomial noncentral_chisquare noncentral_f normal pareto poisson power rand randint randn random
        random_sample rayleigh spawn standard_cauchy standard_exponential standard_gamma standard_normal standard_t
        triangular uniform vonmises wald weibull zipf random_integers tomaxint
effects=draws_given mutates=self returns=ndarray device=host rows=selects
    <numpy_generator>: choice
effects=draws_given mutates=self returns=ndarray device=host rows=shuffles
    <numpy_generator>: permutation permuted
effects=draws_given mutates=self+0 rows=shuffles
    <numpy_generator>: shuffle
effects=seeds_given mutates=self role=seed
    <numpy_generator>: seed set_state
returns=tuple same=draw
    <numpy_generator>: get_state

# --- scipy ---
returns=ndarray device=host
    scipy: *
effects=draws_numpy returns=ndarray device=host
    scipy.stats: truncnorm.rvs norm.rvs uniform.rvs *.rvs
    scipy.sparse: random rand
effects=calls returns=ndarray device=host
    scipy.optimize scipy.integrate: *
    scipy.signal: *
returns=ndarray device=host rows=each
    scipy.special: *
returns=tuple
    scipy.optimize: linear_sum_assignment
    numba: *

# --- pandas ---
returns=frame device=host
    pandas: DataFrame Series concat merge get_dummies cut qcut to_datetime to_numeric Categorical Timestamp date_range
        isna isnull notnull factorize unique pivot_table melt Index MultiIndex Timedelta
        DataFrame.from_dict DataFrame.from_records
effects=changes_library
    pandas: set_option
    polars: Config.*
returns=ndarray device=host
    <frame>: to_numpy
traits=attribute device=host
    <frame>: values columns index shape iloc loc at iat T dtypes
returns=frame device=host
    <frame>: head tail copy astype reset_index set_index rename sort_values sort_index drop drop_duplicates dropna
        fillna groupby merge join append assign apply map isin isna isnull replace rolling describe transpose melt pivot
returns=frame effects=draws_numpy
    <frame>: sample
returns=list
    <frame>: tolist
returns=dict
    <frame>: to_dict
returns=string
    <frame>: to_string to_markdown to_latex

+ traits=picks
    numpy.random <numpy_generator>: choice
+ traits=counts
    numpy: arange
+ traits=view
    numpy: asarray asanyarray
+ traits=like_argument
    numpy: squeeze swapaxes nonzero
+ traits=same_values
    <ndarray>: astype copy flatten ravel reshape squeeze view tolist item
    numpy: array asarray copy ravel reshape squeeze

# --- pictures ---
returns=image
    PIL.Image: new fromarray frombytes merge blend composite alpha_composite
    PIL.ImageOps PIL.ImageEnhance PIL.ImageFilter PIL.ImageFont PIL.ImageColor PIL.ImageChops: *
returns=canvas
    PIL.ImageDraw: Draw ImageDraw
mutates=self
    <canvas>: text line rectangle ellipse polygon point arc multiline_text
    <image>: paste putpixel putdata thumbnail load putpalette putalpha
returns=image
    <image>: resize convert crop rotate transpose copy filter quantize point split resample reduce
-
    <image>: getpixel getdata getbbox tobytes histogram getextrema
traits=attribute
    <image>: size width height mode format info
effects=shows
    <image>: show
returns=ndarray device=host
    cv2: resize cvtColor addWeighted applyColorMap blur GaussianBlur bilateralFilter Canny warpAffine warpPerspective
        getRotationMatrix2D flip rotate threshold dilate erode merge split absdiff bitwise_and bitwise_or bitwise_not
        copyMakeBorder normalize equalizeHist findContours connectedComponents morphologyEx imdecode imencode
        getStructuringElement remap undistort Sobel Laplacian distanceTransform contourArea boundingRect hconcat vconcat
        getTextSize VideoWriter_fourcc VideoWriter.fourcc createCLAHE medianBlur filter2D
traits=attribute same=yes
    cv2: COLOR_* INTER_* IMREAD_* BORDER_* FONT_* LINE_* NORM_*
mutates=0
    cv2: rectangle circle line putText polylines fillPoly ellipse drawContours arrowedLine drawMarker fillConvexPoly
effects=changes_library
    cv2: setNumThreads setUseOptimized ocl.setUseOpenCL setRNGSeed
effects=shows
    cv2: imshow waitKey destroyAllWindows namedWindow destroyWindow
returns=ndarray device=host
    skimage: *
effects=draws_numpy returns=ndarray device=host
    skimage.util: random_noise
returns=ndarray device=host
    librosa colorsys: *
    pycocotools.mask: *
effects=reads_files
    pycocotools.coco: COCO
"""
