"""Array functions, for type checkers and editors.

Written by `tools/array_stubs.py` from the functions themselves; do not edit.
"""

import builtins
from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy
from numpy.typing import DTypeLike, NDArray

from . import linalg as linalg

class _HasArray(Protocol):
    def __array__(self, *args: Any, **kwargs: Any) -> Any: ...

class _HasDLPack(Protocol):
    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...

# Inside a traced function arrays are traced ones, which answer as NumPy's do.
_Array: TypeAlias = NDArray[Any]
_ArrayLike: TypeAlias = _HasArray | _HasDLPack | float | list[Any] | tuple[Any, ...]
_Axis: TypeAlias = int | Sequence[int] | None
_Shape: TypeAlias = int | Sequence[int]

class _Unary(Protocol):
    def __call__(self, x: _ArrayLike, /) -> _Array:
        """Elementwise; the type of the result is NumPy's."""

class _Binary(Protocol):
    def __call__(self, x1: _ArrayLike, x2: _ArrayLike, /) -> _Array:
        """Elementwise with broadcasting; types are promoted as in NumPy."""

bool: TypeAlias = numpy.bool
float16: TypeAlias = numpy.float16
float32: TypeAlias = numpy.float32
float64: TypeAlias = numpy.float64
int8: TypeAlias = numpy.int8
int16: TypeAlias = numpy.int16
int32: TypeAlias = numpy.int32
int64: TypeAlias = numpy.int64
uint8: TypeAlias = numpy.uint8
uint16: TypeAlias = numpy.uint16
uint32: TypeAlias = numpy.uint32
uint64: TypeAlias = numpy.uint64

bfloat16: Any  # of ml_dtypes
e: float
inf: float
nan: float
newaxis: None
pi: float

abs: _Unary
acos: _Unary
acosh: _Unary
add: _Binary
asin: _Unary
asinh: _Unary
atan: _Unary
atan2: _Binary
atanh: _Unary
bitwise_and: _Binary
bitwise_invert: _Unary
bitwise_left_shift: _Binary
bitwise_or: _Binary
bitwise_right_shift: _Binary
bitwise_xor: _Binary
ceil: _Unary
celu: _Unary
copysign: _Binary
cos: _Unary
cosh: _Unary
divide: _Binary
erf: _Unary
erfc: _Unary
exp: _Unary
exp2: _Unary
expm1: _Unary
floor: _Unary
floor_divide: _Binary
fmod: _Binary
hard_sigmoid: _Unary
hard_swish: _Unary
hypot: _Binary
isfinite: _Unary
isinf: _Unary
isnan: _Unary
log: _Unary
log10: _Unary
log1p: _Unary
log2: _Unary
log_sigmoid: _Unary
logaddexp: _Binary
maximum: _Binary
minimum: _Binary
mish: _Unary
multiply: _Binary
negative: _Unary
pow: _Binary
reciprocal: _Unary
relu: _Unary
relu6: _Unary
remainder: _Binary
rsqrt: _Unary
selu: _Unary
sigmoid: _Unary
sign: _Unary
silu: _Unary
sin: _Unary
sinh: _Unary
softplus: _Unary
softsign: _Unary
sqrt: _Unary
square: _Unary
subtract: _Binary
tan: _Unary
tanh: _Unary
trunc: _Unary

def all(
    x: _ArrayLike,
    /,
    *,
    axis: _Axis = None,
    keepdims: builtins.bool = False,
    where: _ArrayLike | None = None,
) -> _Array:
    """Whether all elements chosen are true."""

def allclose(
    a: _ArrayLike,
    b: _ArrayLike,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: builtins.bool = False,
) -> _Array:
    """Whether all elements are close."""

def any(
    x: _ArrayLike,
    /,
    *,
    axis: _Axis = None,
    keepdims: builtins.bool = False,
    where: _ArrayLike | None = None,
) -> _Array:
    """Whether any element chosen is true."""

def append(arr: _ArrayLike, values: _ArrayLike, axis: int | None = None) -> _Array:
    """The values after the elements; without an axis all in a row."""

def arange(
    start: float, /, stop: float | None = None, step: float = 1, *, dtype: DTypeLike | None = None
) -> _Array:
    """Evenly spaced values."""

def argmax(x: _ArrayLike, /, *, axis: int | None = None, keepdims: builtins.bool = False) -> _Array:
    """The index of the first `max` along an axis (of all elements: None)."""

def argmin(x: _ArrayLike, /, *, axis: int | None = None, keepdims: builtins.bool = False) -> _Array:
    """The index of the first `min` along an axis (of all elements: None)."""

def argsort(x: _ArrayLike, /, *, axis: int = -1, descending: builtins.bool = False) -> _Array:
    """The positions of the elements in order along an axis."""

def array_equal(a1: _ArrayLike, a2: _ArrayLike) -> _Array:
    """Whether shapes and all elements are the same."""

def asarray(
    x: _ArrayLike, /, *, dtype: DTypeLike | None = None, copy: builtins.bool | None = None
) -> _Array:
    """The value as an array: the same elements, unless they are converted or `copy` says so."""

def astype(x: _ArrayLike, dtype_: DTypeLike, /, *, copy: builtins.bool = True) -> _Array:
    """The elements converted as C does; without `copy` the array itself, if it has the type."""

def attention(
    q: _ArrayLike,
    k: _ArrayLike,
    v: _ArrayLike,
    /,
    mask: _ArrayLike | None = None,
    *,
    causal: builtins.bool = False,
    scale: float | None = None,
) -> _Array:
    """softmax(q kᵀ scale + mask) v over [..., tokens, d]; the scale is 1 / sqrt(d) unless told."""

def average(
    a: _ArrayLike,
    axis: _Axis = None,
    weights: _ArrayLike | None = None,
    keepdims: builtins.bool = False,
) -> _Array:
    """The mean with weights, for each element or along one axis."""

def avg_pool(
    x: _ArrayLike,
    kernel: int | Sequence[int],
    /,
    *,
    strides: int | Sequence[int] | None = None,
    pads: int | Sequence[int] = 0,
) -> _Array:
    """The mean of each window of [N, C, spatial...]; strides are 1 unless told."""

def batch_norm(
    x: _ArrayLike,
    scale: _ArrayLike,
    bias: _ArrayLike,
    mean: _ArrayLike,
    var: _ArrayLike,
    /,
    *,
    eps: float = 1e-05,
) -> _Array:
    """Each channel (axis 1) normalised with the given statistics, scaled and shifted."""

def bce_loss(p: _ArrayLike, target: _ArrayLike, /, *, reduction: str = "mean") -> _Array:
    """-(target log p + (1 - target) log(1 - p)), no logarithm below -100."""

def broadcast_arrays(*arrays: _ArrayLike) -> list[_Array]:
    """All arrays under the one shape that they broadcast to."""

def broadcast_to(x: _ArrayLike, /, shape: _Shape) -> _Array:
    """The array repeated along dimensions of extent 1 and new ones."""

def can_cast(from_: _ArrayLike, to: DTypeLike, /) -> builtins.bool:
    """Whether an array or data type becomes another one without losing range or precision."""

def cbrt(x: _ArrayLike) -> _Array:
    """The number whose third power an element is."""

def clip(x: _ArrayLike, /, min: _ArrayLike | None = None, max: _ArrayLike | None = None) -> _Array:
    """Elements kept between two bounds."""

def concat(arrays: Sequence[_ArrayLike], /, *, axis: int | None = 0) -> _Array:
    """Arrays one after another along an axis; None flattens them first."""

def conj(x: _ArrayLike) -> _Array:
    """The array itself: there are no complex numbers."""

def conv(
    x: _ArrayLike,
    weight: _ArrayLike,
    bias: _ArrayLike | None = None,
    /,
    *,
    strides: int | Sequence[int] = 1,
    pads: int | Sequence[int] = 0,
    dilations: int | Sequence[int] = 1,
    groups: int = 1,
) -> _Array:
    """The correlation of [N, C, spatial...] with [O, C / groups, window...]."""

def copy(a: _ArrayLike, order: str = "K") -> _Array:
    """Another array with these elements; how they lie in memory is ours to choose."""

def count_nonzero(
    x: _ArrayLike, /, *, axis: _Axis = None, keepdims: builtins.bool = False
) -> _Array:
    """How many elements are not zero."""

def cross(
    a: _ArrayLike,
    b: _ArrayLike,
    axisa: int = -1,
    axisb: int = -1,
    axisc: int = -1,
    axis: int | None = None,
) -> _Array:
    """The product of vectors of three elements that is perpendicular to both."""

def cross_entropy(
    x: _ArrayLike,
    target: _ArrayLike,
    weight: _ArrayLike | None = None,
    /,
    *,
    reduction: str = "mean",
    ignored: int = -100,
    smoothing: float = 0.0,
) -> _Array:
    """-log softmax(x) at the target classes; classes are along axis 1 (0 of a vector)."""

def cumulative_prod(
    x: _ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: builtins.bool = False,
) -> _Array:
    """Running products along an axis; `include_initial` puts 1 first."""

def cumulative_sum(
    x: _ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: builtins.bool = False,
) -> _Array:
    """Running sums along an axis; `include_initial` puts 0 first."""

def deg2rad(x: _ArrayLike) -> _Array:
    """Degrees as radians."""

def diag(v: _ArrayLike, k: int = 0) -> _Array:
    """A matrix with these elements on a diagonal, or the diagonal of a matrix."""

def diagonal(a: _ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> _Array:
    """The elements on a diagonal of two axes, along a new last axis."""

def diff(
    x: _ArrayLike,
    /,
    *,
    axis: int = -1,
    n: int = 1,
    prepend: _ArrayLike | None = None,
    append: _ArrayLike | None = None,
) -> _Array:
    """Differences of neighbours along an axis, `n` times over, with more elements at the ends."""

def divmod(x1: _ArrayLike, x2: _ArrayLike) -> tuple[_Array, _Array]:
    """The quotients rounded down, and the remainders."""

def dot(a: _ArrayLike, b: _ArrayLike) -> _Array:
    """A product of numbers, rows or matrices."""

def dropout(x: _ArrayLike, mask: _ArrayLike, /, *, rate: float = 0.5) -> _Array:
    """x / (1 - rate) where the mask holds, else 0."""

def einsum(equation: str, /, *operands: _ArrayLike) -> _Array:
    """Einstein's summation."""

def elu(x: _ArrayLike, /, *, alpha: float = 1.0) -> _Array:
    """x where it is positive, else alpha (exp(x) - 1)."""

def empty(shape: _Shape, *, dtype: DTypeLike | None = None) -> _Array:
    """An array of elements that say nothing (they are zeros), of float64 unless told."""

def empty_like(x: _ArrayLike, /, *, dtype: DTypeLike | None = None) -> _Array:
    """An array of elements that say nothing (they are zeros) with the shape of `x`, and its type
    unless told.
    """

def equal(x1: _ArrayLike, x2: _ArrayLike, /) -> _Array:
    """Elementwise `equal` with broadcasting, as bool."""

def expand_dims(x: _ArrayLike, /, *, axis: int | Sequence[int] = 0) -> _Array:
    """Dimensions of extent 1 inserted."""

def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: DTypeLike | None = None
) -> _Array:
    """Ones on the k-th diagonal, of float64 unless told."""

def finfo(type: Any, /) -> Any:
    """The limits of a data type of floats: `bits`, `eps`, `max`, `min`, `smallest_normal`, ..."""

def fix(x: _ArrayLike) -> _Array:
    """The next integer toward zero."""

def flip(x: _ArrayLike, /, *, axis: _Axis = None) -> _Array:
    """The order of elements reversed along axes."""

def fmax(x1: _ArrayLike, x2: _ArrayLike) -> _Array:
    """The larger of two elements; a number where one of them is NaN."""

def fmin(x1: _ArrayLike, x2: _ArrayLike) -> _Array:
    """The smaller of two elements; a number where one of them is NaN."""

def full(shape: _Shape, fill_value: _ArrayLike, *, dtype: DTypeLike | None = None) -> _Array:
    """An array of one value, of its type unless told."""

def full_like(
    x: _ArrayLike, /, fill_value: _ArrayLike, *, dtype: DTypeLike | None = None
) -> _Array:
    """An array of one value with the shape of `x`, and its type unless told."""

def gelu(x: _ArrayLike, /, *, approximate: str = "none") -> _Array:
    """x Phi(x), exactly ("none") or with tanh or a sigmoid for the error function."""

def greater(x1: _ArrayLike, x2: _ArrayLike, /) -> _Array:
    """Elementwise `greater` with broadcasting, as bool."""

def greater_equal(x1: _ArrayLike, x2: _ArrayLike, /) -> _Array:
    """Elementwise `greater_equal` with broadcasting, as bool."""

def group_norm(
    x: _ArrayLike, scale: _ArrayLike, bias: _ArrayLike, /, groups: int, *, eps: float = 1e-05
) -> _Array:
    """Normalised over groups of the channels (axis 1) and all positions, scaled and shifted."""

def heaviside(x1: _ArrayLike, x2: _ArrayLike) -> _Array:
    """0 below zero, 1 above, the other operand at zero."""

def hstack(tup: Sequence[_ArrayLike]) -> _Array:
    """Arrays side by side."""

def huber_loss(
    x: _ArrayLike, target: _ArrayLike, /, *, delta: float = 1.0, reduction: str = "mean"
) -> _Array:
    """d² / 2 for distances d below delta, else delta (d - delta / 2)."""

def iinfo(type: Any, /) -> Any:
    """The limits of a data type of integers: `bits`, `max`, `min`."""

def imag(val: _ArrayLike) -> _Array:
    """Zeros: there are no complex numbers."""

def inner(a: _ArrayLike, b: _ArrayLike) -> _Array:
    """The sum of products along the last axes."""

def instance_norm(
    x: _ArrayLike, scale: _ArrayLike, bias: _ArrayLike, /, *, eps: float = 1e-05
) -> _Array:
    """`group_norm` with each channel on its own."""

def isclose(
    a: _ArrayLike,
    b: _ArrayLike,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: builtins.bool = False,
) -> _Array:
    """Whether |a - b| <= atol + rtol |b|, or both are the same infinity."""

def isdtype(dtype: DTypeLike | None, kind: Any) -> builtins.bool:
    """Whether a data type is of a kind ("integral", "real floating", ...), or one of several."""

def kl_div(
    x: _ArrayLike,
    target: _ArrayLike,
    /,
    *,
    log_target: builtins.bool = False,
    reduction: str = "mean",
) -> _Array:
    """target (log target - x), where x is a logarithm, and maybe the target too."""

def kron(a: _ArrayLike, b: _ArrayLike) -> _Array:
    """The Kronecker product: each element of one times the whole other."""

def l1_loss(x: _ArrayLike, target: _ArrayLike, /, *, reduction: str = "mean") -> _Array:
    """|x - target|."""

def layer_norm(
    x: _ArrayLike,
    scale: _ArrayLike | None = None,
    bias: _ArrayLike | None = None,
    /,
    *,
    axis: int = -1,
    eps: float = 1e-05,
) -> _Array:
    """(x - mean) / sqrt(variance + eps) over the axes from `axis` on, scaled and shifted."""

def leaky_relu(x: _ArrayLike, /, *, alpha: float = 0.01) -> _Array:
    """x where it is not negative, else alpha x."""

def less(x1: _ArrayLike, x2: _ArrayLike, /) -> _Array:
    """Elementwise `less` with broadcasting, as bool."""

def less_equal(x1: _ArrayLike, x2: _ArrayLike, /) -> _Array:
    """Elementwise `less_equal` with broadcasting, as bool."""

def linspace(
    start: _ArrayLike,
    stop: _ArrayLike,
    /,
    num: int = 50,
    *,
    endpoint: builtins.bool = True,
    dtype: DTypeLike | None = None,
) -> _Array:
    """`num` evenly spaced values along a new first axis, the last of which is `stop` or before
    it.
    """

def log_softmax(x: _ArrayLike, /, *, axis: int = -1) -> _Array:
    """The logarithm of the softmax."""

def logical_and(x1: _ArrayLike, x2: _ArrayLike, /) -> _Array:
    """Elementwise `logical_and` of truth values."""

def logical_not(x: _ArrayLike, /) -> _Array:
    """Whether elements are zero."""

def logical_or(x1: _ArrayLike, x2: _ArrayLike, /) -> _Array:
    """Elementwise `logical_or` of truth values."""

def logical_xor(x1: _ArrayLike, x2: _ArrayLike, /) -> _Array:
    """Elementwise `logical_xor` of truth values."""

def logsumexp(x: _ArrayLike, /, *, axis: _Axis = None, keepdims: builtins.bool = False) -> _Array:
    """log(sum(exp(x))) over axes, without overflow."""

def matmul(x1: _ArrayLike, x2: _ArrayLike, /) -> _Array:
    """The matrix product, with batches broadcast."""

def matrix_transpose(x: _ArrayLike, /) -> _Array:
    """The last two dimensions exchanged."""

def max(
    x: _ArrayLike,
    /,
    *,
    axis: _Axis = None,
    keepdims: builtins.bool = False,
    initial: _ArrayLike | None = None,
    where: _ArrayLike | None = None,
) -> _Array:
    """The largest element over axes, and `initial`; NaN if there is one."""

def max_pool(
    x: _ArrayLike,
    kernel: int | Sequence[int],
    /,
    *,
    strides: int | Sequence[int] | None = None,
    pads: int | Sequence[int] = 0,
) -> _Array:
    """The largest element of each window of [N, C, spatial...]; strides are 1 unless told."""

def mean(
    x: _ArrayLike,
    /,
    *,
    axis: _Axis = None,
    dtype: DTypeLike | None = None,
    keepdims: builtins.bool = False,
    where: _ArrayLike | None = None,
) -> _Array:
    """The arithmetic mean over axes of the elements chosen."""

def median(a: _ArrayLike, axis: _Axis = None, keepdims: builtins.bool = False) -> _Array:
    """The middle of the elements in order, or the mean of the two in the middle; NaN if any is."""

def meshgrid(*arrays: _ArrayLike, indexing: str = "xy") -> list[_Array]:
    """One array for each coordinate, over the grid of all combinations."""

def min(
    x: _ArrayLike,
    /,
    *,
    axis: _Axis = None,
    keepdims: builtins.bool = False,
    initial: _ArrayLike | None = None,
    where: _ArrayLike | None = None,
) -> _Array:
    """The smallest element over axes, and `initial`; NaN if there is one."""

def moveaxis(x: _ArrayLike, source: int, destination: int, /) -> _Array:
    """A dimension moved to another place."""

def mse_loss(x: _ArrayLike, target: _ArrayLike, /, *, reduction: str = "mean") -> _Array:
    """(x - target)²."""

def nan_to_num(
    x: _ArrayLike,
    copy: builtins.bool = True,
    nan: float = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
) -> _Array:
    """NaN and infinities replaced by numbers, the largest unless told; `copy=False` in place."""

def nanmax(a: _ArrayLike, axis: _Axis = None, keepdims: builtins.bool = False) -> _Array:
    """`max` of the elements that are not NaN."""

def nanmean(
    a: _ArrayLike,
    axis: _Axis = None,
    dtype: DTypeLike | None = None,
    *,
    keepdims: builtins.bool = False,
) -> _Array:
    """`mean` of the elements that are not NaN."""

def nanmin(a: _ArrayLike, axis: _Axis = None, keepdims: builtins.bool = False) -> _Array:
    """`min` of the elements that are not NaN."""

def nanprod(
    a: _ArrayLike,
    axis: _Axis = None,
    dtype: DTypeLike | None = None,
    *,
    keepdims: builtins.bool = False,
) -> _Array:
    """`prod` of the elements that are not NaN."""

def nanstd(
    a: _ArrayLike,
    axis: _Axis = None,
    dtype: DTypeLike | None = None,
    *,
    correction: float = 0.0,
    keepdims: builtins.bool = False,
) -> _Array:
    """`std` of the elements that are not NaN."""

def nansum(
    a: _ArrayLike,
    axis: _Axis = None,
    dtype: DTypeLike | None = None,
    *,
    keepdims: builtins.bool = False,
) -> _Array:
    """`sum` of the elements that are not NaN."""

def nanvar(
    a: _ArrayLike,
    axis: _Axis = None,
    dtype: DTypeLike | None = None,
    *,
    correction: float = 0.0,
    keepdims: builtins.bool = False,
) -> _Array:
    """`var` of the elements that are not NaN."""

def not_equal(x1: _ArrayLike, x2: _ArrayLike, /) -> _Array:
    """Elementwise `not_equal` with broadcasting, as bool."""

def ones(shape: _Shape, *, dtype: DTypeLike | None = None) -> _Array:
    """An array of ones, of float64 unless told."""

def ones_like(x: _ArrayLike, /, *, dtype: DTypeLike | None = None) -> _Array:
    """An array of ones with the shape of `x`, and its type unless told."""

def outer(a: _ArrayLike, b: _ArrayLike) -> _Array:
    """The product of each element with each."""

def pad(
    x: _ArrayLike, pad_width: Any, mode: str = "constant", constant_values: float = 0
) -> _Array:
    """Elements added before and after each axis (modes constant, edge, reflect, wrap)."""

def permute_dims(x: _ArrayLike, /, axes: Sequence[int]) -> _Array:
    """The dimensions in another order."""

def positive(x: _ArrayLike, /) -> _Array:
    """The array itself."""

def prod(
    x: _ArrayLike,
    /,
    *,
    axis: _Axis = None,
    dtype: DTypeLike | None = None,
    keepdims: builtins.bool = False,
    initial: _ArrayLike | None = None,
    where: _ArrayLike | None = None,
) -> _Array:
    """The product over axes, as `sum`; integers are multiplied in 64 bits."""

def ptp(a: _ArrayLike, axis: Any = None, keepdims: builtins.bool = False) -> _Array:
    """The largest element less the smallest."""

def rad2deg(x: _ArrayLike) -> _Array:
    """Radians as degrees."""

def ravel(a: _ArrayLike, order: str = "C") -> _Array:
    """All elements in a row."""

def real(val: _ArrayLike) -> _Array:
    """The array itself: there are no complex numbers."""

def repeat(x: _ArrayLike, repeats: Any, /, *, axis: int | None = None) -> _Array:
    """Each element repeated; `repeats` may say for each how often, as integers known beforehand."""

def reshape(x: _ArrayLike, /, shape: _Shape, *, order: str = "C") -> _Array:
    """The elements under another shape, one extent of which may be -1."""

def result_type(*arrays_and_dtypes: _ArrayLike) -> numpy.dtype[Any]:
    """The data type in which operands meet; Python numbers have no width of their own."""

def rms_norm(
    x: _ArrayLike, scale: _ArrayLike | None = None, /, *, axis: int = -1, eps: float = 1e-05
) -> _Array:
    """x / sqrt(mean(x²) + eps) over the axes from `axis` on, scaled."""

def roll(x: _ArrayLike, /, shift: int | Sequence[int], *, axis: _Axis = None) -> _Array:
    """Elements moved along axes, round the end."""

def round(x: _ArrayLike, /, decimals: int = 0) -> _Array:
    """Elements rounded to so many decimals, ties to even; negative: to tens, hundreds, ..."""

def select(
    condlist: Sequence[_ArrayLike], choicelist: Sequence[_ArrayLike], default: _ArrayLike = 0
) -> _Array:
    """For each element the first choice whose condition holds."""

def signbit(x: _ArrayLike, /) -> _Array:
    """Whether the sign bit is set, of -0.0 and NaN too."""

def sinc(x: _ArrayLike) -> _Array:
    """sin(pi x) / (pi x), 1 at 0."""

def softmax(x: _ArrayLike, /, *, axis: int = -1) -> _Array:
    """exp(x) / sum(exp(x)) along an axis, without overflow."""

def sort(x: _ArrayLike, /, *, axis: int = -1, descending: builtins.bool = False) -> _Array:
    """The elements in order along an axis."""

def split(x: _ArrayLike, parts: int | Sequence[int], /, *, axis: int = 0) -> list[_Array]:
    """Equal parts along an axis, or parts that end before the given positions (as in NumPy)."""

def squeeze(x: _ArrayLike, /, axis: _Axis = None) -> _Array:
    """Dimensions of extent 1 taken out."""

def stack(arrays: Sequence[_ArrayLike], /, *, axis: int = 0) -> _Array:
    """Arrays along a new axis."""

def std(
    x: _ArrayLike,
    /,
    *,
    axis: _Axis = None,
    correction: float = 0.0,
    keepdims: builtins.bool = False,
    dtype: DTypeLike | None = None,
    where: _ArrayLike | None = None,
) -> _Array:
    """The standard deviation over axes of the elements chosen."""

def sum(
    x: _ArrayLike,
    /,
    *,
    axis: _Axis = None,
    dtype: DTypeLike | None = None,
    keepdims: builtins.bool = False,
    initial: _ArrayLike | None = None,
    where: _ArrayLike | None = None,
) -> _Array:
    """The sum over axes of the elements chosen, and `initial`; integers are summed in 64 bits."""

def swapaxes(x: _ArrayLike, axis1: int, axis2: int, /) -> _Array:
    """Two dimensions exchanged."""

def swiglu(x: _ArrayLike, gate: _ArrayLike | None = None, /, *, axis: int = -1) -> _Array:
    """silu(x) gate; without a gate, of the two halves of x along an axis."""

def take(x: _ArrayLike, indices: _ArrayLike, /, *, axis: int | None = None) -> _Array:
    """Slices at the given positions; negative ones count from the end."""

def take_along_axis(x: _ArrayLike, indices: _ArrayLike, /, *, axis: int = -1) -> _Array:
    """For each position along the other axes, the elements at the given indices."""

def tensordot(x1: _ArrayLike, x2: _ArrayLike, /, *, axes: Any = 2) -> _Array:
    """The sum of products over pairs of axes."""

def tile(x: _ArrayLike, repetitions: _Shape, /) -> _Array:
    """The array repeated as a whole, so often along each of the last axes (or of new ones)."""

def trace(
    a: _ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: DTypeLike | None = None
) -> _Array:
    """The sum of the elements on a diagonal."""

def transpose(x: _ArrayLike, /, axes: Sequence[int] | None = None) -> _Array:
    """The dimensions in another order; reversed unless told."""

def tril(x: _ArrayLike, /, *, k: int = 0) -> _Array:
    """Zeros above the k-th diagonal."""

def triu(x: _ArrayLike, /, *, k: int = 0) -> _Array:
    """Zeros below the k-th diagonal."""

def unstack(x: _ArrayLike, /, *, axis: int = 0) -> tuple[_Array, ...]:
    """The slices along an axis."""

def var(
    x: _ArrayLike,
    /,
    *,
    axis: _Axis = None,
    correction: float = 0.0,
    keepdims: builtins.bool = False,
    dtype: DTypeLike | None = None,
    where: _ArrayLike | None = None,
) -> _Array:
    """The variance over axes of the elements chosen."""

def vdot(a: _ArrayLike, b: _ArrayLike) -> _Array:
    """The sum of products of all elements."""

def vecdot(x1: _ArrayLike, x2: _ArrayLike, /, *, axis: int = -1) -> _Array:
    """The sum of products along an axis."""

def vstack(tup: Sequence[_ArrayLike]) -> _Array:
    """Rows one below the other."""

def where(
    condition: _ArrayLike, x1: _ArrayLike | None = None, x2: _ArrayLike | None = None, /
) -> _Array:
    """`x1` where the condition holds, else `x2`."""

def zeros(shape: _Shape, *, dtype: DTypeLike | None = None) -> _Array:
    """An array of zeros, of float64 unless told."""

def zeros_like(x: _ArrayLike, /, *, dtype: DTypeLike | None = None) -> _Array:
    """An array of zeros with the shape of `x`, and its type unless told."""
