"""The table of operators: what is run eagerly and compiled by test_operators.py, and measured by bench.py.

Each row: name, function of tensors, the inputs' specifications. A tuple of sizes is a tensor of normal numbers that gradients are taken of; other
kinds are made by the functions below, and take no gradients unless they say so.
"""
import dataclasses
import typing

import torch
import torch.nn.functional as F

REDUCED = (torch.float32, torch.bfloat16)


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    function: typing.Callable
    inputs: tuple
    dtypes: tuple = (torch.float32,)
    backward: bool = True
    # Largest differences allowed, times those of the data type (`tolerance` in test_operators.py).
    slack: float = 1.0
    # What torch._inductor.config is set to for this case.
    config: tuple = ()
    # Random: what is compared is what this function makes of the results.
    digest: typing.Callable | None = None


@dataclasses.dataclass(frozen=True)
class Input:
    """A tensor other than normal numbers: make(generator, data type, device)."""
    make: typing.Callable
    gradient: bool = False


def ints(high, *size, low=0, dtype=torch.int64):
    return Input(lambda g, t, d: torch.randint(low, high, size, generator=g, dtype=dtype).to(d))


def bools(*size):
    return Input(lambda g, t, d: (torch.rand(size, generator=g) < 0.5).to(d))


def positive(*size, low=0.1, high=3.0):
    return Input(lambda g, t, d: (torch.rand(size, generator=g) * (high - low) + low).to(d, t), gradient=True)


def within(low, high, *size):
    return Input(lambda g, t, d: (torch.rand(size, generator=g) * (high - low) + low).to(d, t), gradient=True)


def distinct(*size):
    """No two elements are equal, so that orders and places of largest elements are the same everywhere."""
    def make(g, t, d):
        n = torch.Size(size).numel()
        return (torch.randperm(n, generator=g).to(torch.float32) / n * 4 - 2).reshape(size).to(d, t)
    return Input(make, gradient=True)


def fixed(make):
    return Input(lambda g, t, d: make().to(d))


CASES = []


def case(name, function, *inputs, **options):
    CASES.append(Case(name, function, inputs, **options))


# Elementwise.
M = (200, 300)
case("add", lambda x, y: x + y, M, M, dtypes=(torch.float32, torch.bfloat16, torch.float16, torch.float64))
case("add_broadcast", lambda x, y: x + y, M, (300,))
case("add_outer", lambda x, y: x * 2 + y, (200, 1), (1, 300))
case("mul_add_chain", lambda x, y, z: (x * y + z) * x - y / 3, M, M, M, dtypes=REDUCED)
case("div", lambda x, y: x / y, M, positive(*M))
case("floor_divide", lambda x, y: torch.floor_divide(x, y), ints(100, *M, low=-100), ints(10, *M, low=1), backward=False)
case("remainder", lambda x, y: torch.remainder(x, y), ints(100, *M, low=-100), ints(10, *M, low=1), backward=False)
case("fmod", lambda x, y: torch.fmod(x, y), M, positive(*M), slack=10)
case("remainder_float", lambda x, y: torch.remainder(x, y), within(0.55, 0.95, *M), within(0.2, 0.27, *M), backward=False, slack=10)
case("pow_scalar", lambda x: x ** 3 + x ** 2 + (x.abs() + 1) ** 0.5, M)
case("pow", lambda x, y: x ** y, positive(*M), M, slack=4)
case("exp_log", lambda x: torch.log(torch.exp(x) + 1), M)
case("exp2_log2", lambda x: torch.log2(torch.exp2(x) + 2), M)
case("expm1_log1p", lambda x: torch.expm1(x) + torch.log1p(x.abs()), M)
case("log10", torch.log10, positive(*M))
case("sqrt_rsqrt", lambda x: torch.sqrt(x) + torch.rsqrt(x), positive(*M))
case("reciprocal", torch.reciprocal, positive(*M))
case("sin_cos_tan", lambda x: torch.sin(x) + torch.cos(x) * torch.tan(x * 0.3), M)
case("asin_acos_atan", lambda x: torch.asin(x) + torch.acos(x) + torch.atan(x), within(-0.9, 0.9, *M))
case("sinh_cosh_tanh", lambda x: torch.sinh(x) + torch.cosh(x) + torch.tanh(x), M, slack=4)
case("asinh_acosh_atanh", lambda x: torch.asinh(x) + torch.acosh(x + 2) + torch.atanh(x), within(-0.9, 0.9, *M))
case("atan2_hypot", lambda x, y: torch.atan2(x, y) + torch.hypot(x, y), positive(*M), positive(*M))
case("erf_erfc", lambda x: torch.erf(x) + torch.erfc(x), M)
case("erfinv", torch.erfinv, within(-0.9, 0.9, *M), slack=4)
case("lgamma", torch.lgamma, positive(*M), backward=False, slack=4)
case("digamma", torch.digamma, positive(*M, low=1.0), backward=False, slack=10)
case("i0_i1", lambda x: torch.special.i0(x) + torch.special.i1(x), M, backward=False, slack=4)
case("bessel_j0", lambda x: torch.special.bessel_j0(x), positive(*M), backward=False, slack=10)
case("sigmoid_logit", lambda x: torch.logit(torch.sigmoid(x), eps=1e-6), within(-3, 3, *M), slack=4)
case("abs_neg_sign", lambda x: x.abs() - torch.sign(x) + (-x), M)
case("floor_ceil_round_trunc", lambda x: torch.floor(x) + torch.ceil(x) + torch.round(x) + torch.trunc(x), M)
case("frac", torch.frac, M)
case("clamp", lambda x: x.clamp(-0.5, 0.7), M, dtypes=REDUCED)
case("minimum_maximum", lambda x, y: torch.minimum(x, y) * torch.maximum(x, y * 2), M, M)
case("fmin_fmax", lambda x, y: torch.fmin(x, y) + torch.fmax(x, y), M, M)
case("where", lambda c, x, y: torch.where(c, x, y * 2), bools(*M), M, M)
case("masked_fill", lambda x, c: x.masked_fill(c, 0.25), M, bools(*M))
case("comparisons", lambda x, y: (x > y) & (x < 1) | (x == y) ^ (x != 0), M, M, backward=False)
case("isnan_isinf", lambda x: torch.isnan(x / x.round()) | torch.isinf(x / x.round()), M, backward=False)
case("nan_to_num", lambda x: torch.nan_to_num(x / x.round(), 1.0, 2.0, 3.0), M, backward=False)
case("logical", lambda x, y: torch.logical_and(x, y) | torch.logical_not(x), bools(*M), bools(*M), backward=False)
case("bitwise", lambda x, y: (x & y) | (x ^ 7) | ~y, ints(1000, *M), ints(1000, *M), backward=False)
case("shifts", lambda x, y: (x << y) + (x >> y), ints(1000, *M, low=-1000, dtype=torch.int32), ints(8, *M, dtype=torch.int32), backward=False)
case("integers", lambda x, y: (x * y - x) // 3 + y % 5, ints(1000, *M, dtype=torch.int32), ints(1000, *M, dtype=torch.int32), backward=False)
case("uint8", lambda x, y: x * y + 200, ints(255, *M, dtype=torch.uint8), ints(255, *M, dtype=torch.uint8), backward=False)
case("int8_int16", lambda x, y: x.to(torch.int16) * y, ints(127, *M, low=-127, dtype=torch.int8), ints(127, *M, dtype=torch.int16), backward=False)
case("casts", lambda x: (x.to(torch.float16), x.to(torch.bfloat16) * 2, x.to(torch.int32).to(torch.float32), x.to(torch.float64) + 1, x > 1), M, backward=False)
case("float8", lambda x: x.to(torch.float8_e4m3fn).to(torch.float32) + x.to(torch.float8_e5m2).to(torch.float32), M, backward=False)
case("view_dtype", lambda x: x.view(torch.int32) & 0x7fffffff, M, backward=False)
case("copysign_nextafter", lambda x, y: torch.copysign(x, y) + torch.nextafter(x, y), M, M, backward=False)
case("ldexp_frexp", lambda x, y: torch.ldexp(x, y), M, ints(5, *M, low=-5, dtype=torch.int32), backward=False)
case("lerp_addcmul", lambda x, y, z: torch.lerp(x, y, 0.3) + torch.addcmul(x, y, z, value=0.5), M, M, M)
case("scalar_tensor", lambda x, s: x * s + s, M, ())
case("empty", lambda x: x * 2 + 1, (0, 5), backward=False)
case("odd_sizes", lambda x, y: (x * y).relu(), (7, 13, 11), (13, 1))
case("strided", lambda x: x.t() * 2 + x[:, ::2].t().repeat(2, 1), (300, 300))
case("complex_view", lambda x: torch.view_as_real(torch.view_as_complex(x) * 2), (64, 32, 2), backward=False)

# Activations and losses.
for activation in ("relu", "gelu", "silu", "mish", "softplus", "elu", "selu", "celu", "hardswish", "hardsigmoid", "hardtanh", "relu6", "leaky_relu", "logsigmoid", "softsign", "tanhshrink"):
    case(activation, getattr(F, activation), M, dtypes=REDUCED if activation in ("gelu", "silu") else (torch.float32,))
case("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), M)
case("prelu", F.prelu, (8, 20, 30), (20,))
case("glu", F.glu, M)
case("swiglu", lambda x, y: F.silu(x) * y, M, M, dtypes=REDUCED)
case("mse_loss", F.mse_loss, M, M)
case("l1_loss", F.l1_loss, M, M)
case("smooth_l1_loss", F.smooth_l1_loss, M, M)
case("huber_loss", F.huber_loss, M, M)
case("bce_with_logits", F.binary_cross_entropy_with_logits, M, within(0, 1, *M))
case("kl_div", lambda x, y: F.kl_div(F.log_softmax(x, 1), F.softmax(y, 1), reduction="batchmean"), M, M)
case("cross_entropy", F.cross_entropy, (64, 1000), ints(1000, 64), dtypes=REDUCED)
case("cross_entropy_smooth", lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1, ignore_index=3), (64, 100), ints(100, 64))
case("nll_loss", lambda x, t: F.nll_loss(F.log_softmax(x, 1), t), (64, 100), ints(100, 64))

# Reductions.
case("sum", lambda x: x.sum(), M, dtypes=REDUCED)
case("sum_rows", lambda x: x.sum(1), M, dtypes=REDUCED)
case("sum_columns", lambda x: x.sum(0), M)
case("sum_middle", lambda x: x.sum((0, 2)), (30, 40, 50))
case("sum_long_rows", lambda x: x.sum(1), (4, 50000))
case("mean", lambda x: x.mean(-1, keepdim=True) * x, M)
case("prod", lambda x: x.prod(1), positive(100, 12, low=0.8, high=1.2))
case("amax_amin", lambda x: x.amax(1) + x.amin(1), distinct(*M))
case("max_indices", lambda x: torch.max(x, 1), distinct(*M))
case("argmax_argmin", lambda x: (x.argmax(1), x.argmin(0), x.argmax()), distinct(*M), backward=False)
case("any_all", lambda x: ((x > 2).any(1), (x > -3).all(0)), M, backward=False)
case("count_nonzero", lambda x: (x > 0).sum(1), M, backward=False)
case("sum_integers", lambda x: (x.sum(), x.sum(1)), ints(100, *M, dtype=torch.int32), backward=False)
case("var", lambda x: x.var(1), M, dtypes=REDUCED)
case("var_mean", lambda x: torch.var_mean(x, 1, correction=0), (50, 3000))
case("std_all", lambda x: x.std(), M)
case("logsumexp", lambda x: torch.logsumexp(x, 1), M)
case("norm", lambda x: x.norm(dim=1) + torch.linalg.vector_norm(x, 3, dim=1), M)
case("normalize", lambda x: F.normalize(x, dim=1), M)
case("cosine_similarity", lambda x, y: F.cosine_similarity(x, y), M, M)
case("softmax", lambda x: F.softmax(x, -1), M, dtypes=REDUCED)
case("softmax_long", lambda x: F.softmax(x, -1), (8, 20000))
case("softmax_columns", lambda x: F.softmax(x, 0), M)
case("log_softmax", lambda x: F.log_softmax(x, -1), M)
case("scaled_masked_softmax", lambda x, m: F.softmax((x * 0.1).masked_fill(m, float("-inf")), -1), (4, 64, 64), fixed(lambda: torch.triu(torch.ones(64, 64, dtype=torch.bool), 1)))
case("cumsum", lambda x: x.cumsum(1), M)
case("cumsum_columns", lambda x: x.cumsum(0), M)
case("cumsum_long", lambda x: x.cumsum(1), (4, 20000), slack=10)
case("cumsum_integers", lambda x: x.cumsum(1), ints(100, *M), backward=False)
case("cumprod", lambda x: x.cumprod(1), positive(50, 40, low=0.9, high=1.1), slack=10)
case("cummax", lambda x: x.cummax(1), distinct(*M), backward=False)
case("logcumsumexp", lambda x: x.logcumsumexp(1), M, backward=False)
case("sort", lambda x: x.sort(1), distinct(50, 100))
case("sort_stable_descending", lambda x: torch.sort(x, dim=1, descending=True, stable=True), ints(20, 50, 100), backward=False)
case("argsort", lambda x: x.argsort(-1), distinct(50, 60), backward=False)
case("topk", lambda x: x.topk(5, 1), distinct(50, 100))
case("median", lambda x: x.median(1), distinct(50, 101), backward=False)
case("histc", lambda x: torch.bincount(x, minlength=16), ints(16, 1000), backward=False)

# Normalizations.
case("layer_norm", lambda x, w, b: F.layer_norm(x, (300,), w, b), M, (300,), (300,), dtypes=REDUCED)
case("layer_norm_long", lambda x, w, b: F.layer_norm(x, (5000,), w, b), (16, 5000), (5000,), (5000,))
case("rms_norm", lambda x, w: F.rms_norm(x, (300,), w), M, (300,), dtypes=REDUCED)
case("group_norm", lambda x, w, b: F.group_norm(x, 4, w, b), (4, 16, 12, 12), (16,), (16,))
case("instance_norm", lambda x: F.instance_norm(x), (4, 8, 12, 12))
case("batch_norm_train", lambda x, m, v, w, b: F.batch_norm(x, m.clone(), v.clone(), w, b, training=True), (8, 16, 10, 10), fixed(lambda: torch.zeros(16)), fixed(lambda: torch.ones(16)), (16,), (16,))
case("batch_norm_eval", lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b), (8, 16, 10, 10), fixed(lambda: torch.zeros(16)), fixed(lambda: torch.ones(16)), (16,), (16,))
case("local_response_norm", lambda x: F.local_response_norm(x, 5), (4, 12, 10, 10))

# Moving data.
case("transpose_contiguous", lambda x: x.transpose(1, 2).contiguous() + 1, (8, 30, 40))
case("permute", lambda x: x.permute(2, 0, 1) * 2, (20, 30, 40))
case("cat", lambda x, y: torch.cat([x, y * 2, x + y], 1), M, M)
case("stack", lambda x, y: torch.stack([x, y], 1).sum(0), M, M)
case("split_chunk", lambda x: [a * i for i, a in enumerate(x.chunk(3, 1))], M)
case("pad", lambda x: F.pad(x, (1, 2, 3, 4), value=0.5) * 2, M)
case("pad_reflect", lambda x: F.pad(x, (2, 3, 1, 2), mode="reflect"), (2, 3, 20, 20))
case("roll_flip", lambda x: x.roll(3, 1) + x.flip(0), M)
case("tril_triu", lambda x: x.tril() + x.triu(2) * 2, (100, 100))
case("repeat_expand", lambda x: x.repeat(2, 3) + x[:1].expand(2, 90).repeat(100, 10)[:, :900].mean(), (100, 90))
case("slice_assign", lambda x, y: x.slice_scatter(y * 2, 1, 50, 150), M, (200, 100))
case("select_scatter", lambda x, y: x.select_scatter(y, 0, 3), M, (300,))
case("index", lambda x, i: x[i] * 2, M, ints(200, 500))
case("index_two", lambda x, i, j: x[i, j], M, ints(200, 500), ints(300, 500))
case("index_put", lambda x, i, y: x.index_put((i,), y), M, fixed(lambda: torch.randperm(200, generator=torch.Generator().manual_seed(1))[:50]), (50, 300))
case("index_put_accumulate", lambda x, i, y: x.index_put((i,), y, accumulate=True), M, ints(200, 500), (500, 300), slack=4)
case("index_add", lambda x, i, y: x.index_add(0, i, y), M, ints(200, 500), (500, 300), slack=4)
case("gather", lambda x, i: x.gather(1, i), M, ints(300, 200, 50))
case("scatter", lambda x, i, y: x.scatter(1, i, y), M, fixed(lambda: torch.arange(50).expand(200, 50).contiguous()), (200, 50))
case("scatter_add", lambda x, i, y: x.scatter_add(1, i, y), M, ints(300, 200, 50), (200, 50), slack=4)
case("scatter_reduce", lambda x, i, y: x.scatter_reduce(1, i, y, "amax"), M, ints(300, 200, 50), (200, 50), backward=False)
case("take_along", lambda x, i: torch.take_along_dim(x, i, 1), M, ints(300, 200, 50))
case("masked_select_sum", lambda x, m: torch.where(m, x, 0).sum(1), M, bools(*M))
case("one_hot", lambda i: F.one_hot(i, 20).to(torch.float32) * 2, ints(20, 300), backward=False)
case("embedding", lambda i, w: F.embedding(i, w), ints(500, 4, 60), (500, 64))
case("embedding_bag", lambda i, w: F.embedding_bag(i, w, mode="mean"), ints(500, 4, 60), (500, 64), backward=False)
case("arange_linspace", lambda x: x + torch.arange(300, device=x.device) * torch.linspace(0, 1, 300, device=x.device), M)
case("meshgrid", lambda x, y: torch.meshgrid(x, y, indexing="ij")[0] * torch.meshgrid(x, y, indexing="ij")[1], (100,), (120,))
case("unfold", lambda x: F.unfold(x, 3, padding=1), (2, 3, 20, 20))
case("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), (2, 12, 20, 20))
case("bucketize", lambda x, b: torch.bucketize(x, b), M, fixed(lambda: torch.linspace(-2, 2, 17)), backward=False)
case("searchsorted", lambda x, b: torch.searchsorted(b, x), M, fixed(lambda: torch.linspace(-2, 2, 17)), backward=False)
case("mutation", lambda x: x.clone().add_(1).mul_(x).relu_(), M)
case("rope", lambda x, c, s: x * c + torch.cat([-x[..., 32:], x[..., :32]], -1) * s, (2, 4, 50, 64), (50, 64), (50, 64), dtypes=REDUCED)

# Convolutions, pools, images.
case("conv2d", lambda x, w, b: F.relu(F.conv2d(x, w, b, padding=1)), (2, 8, 16, 16), (12, 8, 3, 3), (12,), slack=4)
case("conv1d", lambda x, w: F.conv1d(x, w, padding=2) * 2, (2, 8, 50), (12, 8, 5), slack=4)
case("conv_depthwise", lambda x, w: F.silu(F.conv1d(x, w, padding=3, groups=16)), (2, 16, 50), (16, 1, 4), slack=4)
case("conv_transpose2d", lambda x, w: F.relu(F.conv_transpose2d(x, w, stride=2)), (2, 8, 10, 10), (8, 6, 3, 3), slack=4)
case("max_pool2d", lambda x: F.max_pool2d(x, 3, 2, 1), distinct(2, 8, 20, 20))
case("avg_pool2d", lambda x: F.avg_pool2d(x, 3, 2, 1), (2, 8, 20, 20))
case("adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, (5, 7)), (2, 8, 20, 20))
case("adaptive_max_pool2d", lambda x: F.adaptive_max_pool2d(x, 5), distinct(2, 8, 20, 20))
case("interpolate_nearest", lambda x: F.interpolate(x, scale_factor=2), (2, 4, 15, 15))
case("interpolate_bilinear", lambda x: F.interpolate(x, size=(30, 25), mode="bilinear", align_corners=False), (2, 4, 15, 15))
case("interpolate_bicubic", lambda x: F.interpolate(x, size=(30, 25), mode="bicubic"), (2, 4, 15, 15))
case("grid_sample", lambda x, g: F.grid_sample(x, g, align_corners=False), (2, 3, 15, 15), within(-0.9, 0.9, 2, 10, 10, 2), slack=10)

# Products of matrices: by the library of PyTorch, and by templates.
TUNED = (("max_autotune", True), ("max_autotune_gemm_backends", "TRITON"), ("max_autotune_conv_backends", "TRITON"))
case("mm", lambda x, y: (x @ y).relu(), (128, 96), (96, 160), dtypes=REDUCED, slack=4)
case("addmm", lambda b, x, y: torch.addmm(b, x, y), (160,), (128, 96), (96, 160), slack=4)
case("bmm", lambda x, y: torch.bmm(x, y) * 2, (4, 64, 48), (4, 48, 80), slack=4)
case("linear_gelu", lambda x, w, b: F.gelu(F.linear(x, w, b)), (4, 32, 64), (128, 64), (128,), slack=4)
case("einsum", lambda x, y: torch.einsum("bhid,bhjd->bhij", x, y), (2, 4, 30, 16), (2, 4, 40, 16), slack=4)
case("baddbmm", lambda b, x, y: torch.baddbmm(b, x, y, alpha=0.5), (4, 64, 80), (4, 64, 48), (4, 48, 80), slack=4)
case("mv", lambda x, y: x @ y, M, (300,), slack=4)
case("outer", torch.outer, (200,), (300,))
case("mm_template", lambda x, y: (x @ y).relu(), (128, 96), (96, 160), dtypes=REDUCED, slack=4, config=TUNED)
case("addmm_template", lambda b, x, y: F.gelu(torch.addmm(b, x, y)), (160,), (128, 96), (96, 160), slack=4, config=TUNED)
case("bmm_template", lambda x, y: torch.bmm(x, y) * 2, (4, 64, 48), (4, 48, 80), slack=4, config=TUNED)
case("conv2d_template", lambda x, w, b: F.relu(F.conv2d(x, w, b, padding=1)), (2, 16, 16, 16), (32, 16, 3, 3), (32,), backward=False, slack=4, config=TUNED)
case("sdpa", lambda q, k, v: F.scaled_dot_product_attention(q, k, v), (2, 4, 40, 32), (2, 4, 40, 32), (2, 4, 40, 32), dtypes=REDUCED, slack=4)
case("sdpa_causal", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), (2, 4, 40, 32), (2, 4, 40, 32), (2, 4, 40, 32), slack=4)
case("attention", lambda q, k, v: F.softmax(q @ k.transpose(-1, -2) * 0.2, -1) @ v, (2, 4, 40, 32), (2, 4, 40, 32), (2, 4, 40, 32), slack=4)


# Random numbers: moments, and that zeros are where they are in the gradient.
def moments(x):
    x = x.float()
    return (x.mean() * 4).round() / 4, (x.std() * 4).round() / 4


case("dropout", lambda x: F.dropout(x, 0.5, training=True), fixed(lambda: torch.ones(200, 300)), backward=False, digest=moments)
case("rand", lambda x: x + torch.rand_like(x), fixed(lambda: torch.zeros(200, 300)), backward=False, digest=moments)
case("randn", lambda x: x + torch.randn_like(x), fixed(lambda: torch.zeros(200, 300)), backward=False, digest=moments)
case("randint", lambda x: x + torch.randint(0, 8, (200, 300), device=x.device), fixed(lambda: torch.zeros(200, 300, dtype=torch.int64)), backward=False, digest=moments)
case("bernoulli", lambda x: torch.bernoulli(x), fixed(lambda: torch.full((200, 300), 0.25)), backward=False, digest=moments)
