"""The programs of examples/llm: logits beside float64 references, files of weights, quantization, errors, and a load test of `serve`."""
import json
import os
import re
import subprocess
import sys
import unicodedata
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "build/examples/llm"
CONFIG = dict(vocab_size=300, hidden_size=128, intermediate_size=192, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=32, rms_norm_eps=1e-5, rope_theta=10000.0)
DTYPES = {"F32": np.float32, "BF16": ml_dtypes.bfloat16, "F16": np.float16, "U8": np.uint8}


@pytest.fixture(scope="session")
def environment(tmp_path_factory):
    """Kernels that one test compiled are the next one's."""
    return {**os.environ, "TEGULA_CACHE_DIR": str(tmp_path_factory.mktemp("cache"))}


@pytest.fixture
def run(environment):
    def go(program, *args, ok=True, env={}, **kw):
        p = subprocess.run([PROGRAMS / program, *map(str, args)], capture_output=True, text=True, env={**environment, **env}, timeout=300, **kw)
        assert (p.returncode == 0) == ok, p.stdout + p.stderr
        return p.stdout if ok else p.stderr
    return go


def write_safetensors(path, tensors, metadata=None):
    header, data = ({"__metadata__": metadata} if metadata else {}), b""
    for name, t in tensors.items():
        kind = next(k for k, d in DTYPES.items() if t.dtype == d)
        header[name] = {"dtype": kind, "shape": list(t.shape), "data_offsets": [len(data), len(data) + t.nbytes]}
        data += t.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def read_safetensors(path):
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    return {n: np.frombuffer(raw[8 + length + e["data_offsets"][0]:8 + length + e["data_offsets"][1]], DTYPES[e["dtype"]]).reshape(e["shape"])
            for n, e in json.loads(raw[8:8 + length]).items() if n != "__metadata__"}


def make_weights(c, dtype=np.float32, seed=0):
    """Of a Llama, of a Mixtral where the configuration has experts, or of a Qwen."""
    rng = np.random.default_rng(seed)
    h, d = c["hidden_size"], c["head_dim"]
    q, kv = c["num_attention_heads"] * d, c["num_key_value_heads"] * d
    matrix = lambda n, k: (rng.standard_normal((n, k)) / k**0.5).astype(dtype)
    norm = lambda: (1 + 0.1 * rng.standard_normal(h)).astype(dtype)
    w = {"model.embed_tokens.weight": rng.standard_normal((c["vocab_size"], h)).astype(dtype), "model.norm.weight": norm(), "lm_head.weight": matrix(c["vocab_size"], h)}
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}."
        w |= {at + "input_layernorm.weight": norm(), at + "post_attention_layernorm.weight": norm(), at + "self_attn.q_proj.weight": matrix(q, h),
              at + "self_attn.k_proj.weight": matrix(kv, h), at + "self_attn.v_proj.weight": matrix(kv, h), at + "self_attn.o_proj.weight": matrix(h, q)}
        if c.get("model_type") == "qwen2":
            w |= {at + f"self_attn.{n}_proj.bias": rng.standard_normal(q if n == "q" else kv).astype(dtype) for n in "qkv"}
        if c.get("model_type") == "qwen3":
            w |= {at + f"self_attn.{n}_norm.weight": (1 + 0.5 * rng.standard_normal(d)).astype(dtype) for n in "qk"}
        experts, f = c.get("num_local_experts", 0), c["intermediate_size"]
        if experts:
            w[at + "block_sparse_moe.gate.weight"] = matrix(experts, h)
        for e in range(experts or 1):
            gate, up, down = [at + f"block_sparse_moe.experts.{e}.{n}.weight" for n in ("w1", "w3", "w2")] if experts else [at + f"mlp.{n}_proj.weight" for n in ("gate", "up", "down")]
            w |= {gate: matrix(f, h), up: matrix(f, h), down: matrix(h, f)}
    return w


def make_model(folder, dtype=np.float32, config=CONFIG, **changes):
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    shape = {**CONFIG, **{k: v for k, v in config.items() if v is not None}}
    weights = {n: t for n, t in {**make_weights(shape, dtype), **changes}.items() if t is not None}
    write_safetensors(folder / "model.safetensors", weights)
    return weights


def angles(c):
    """Of the pairs of a head from one position to the next, and the factor of cosines and sines: transformers' modeling_rope_utils.py."""
    base, d = c["rope_theta"], c["head_dim"]
    plain = base ** -(np.arange(0, d, 2) / d)
    s = c.get("rope_scaling") or {}
    kind = s.get("rope_type", s.get("type"))
    if kind == "linear":
        return plain / s["factor"], 1
    if kind == "llama3":
        lengths, old = 2 * np.pi / plain, s["original_max_position_embeddings"]
        smooth = (old / lengths - s["low_freq_factor"]) / (s["high_freq_factor"] - s["low_freq_factor"])
        between = (1 - smooth) * plain / s["factor"] + smooth * plain
        return np.where(lengths > old / s["low_freq_factor"], plain / s["factor"], np.where(lengths < old / s["high_freq_factor"], plain, between)), 1
    if kind == "yarn":
        pair = lambda turns: d * np.log(s["original_max_position_embeddings"] / (turns * 2 * np.pi)) / (2 * np.log(base))
        low, high = max(np.floor(pair(32)), 0), min(np.ceil(pair(1)), d - 1)
        ramp = np.clip((np.arange(d // 2) - low) / (high - low), 0, 1)
        return plain / s["factor"] * ramp + plain * (1 - ramp), 0.1 * np.log(s["factor"]) + 1
    return plain, 1


def logits(w, c, tokens):
    """The model in float64, all positions at once: another text than Reference.cpp's loops."""
    w = {n: t.astype(np.float64) for n, t in w.items()}
    norm = lambda x, n: x / np.sqrt((x**2).mean(-1, keepdims=True) + c["rms_norm_eps"]) * w[n]
    t, d, hq, hk = len(tokens), c["head_dim"], c["num_attention_heads"], c["num_key_value_heads"]
    step, factor = angles(c)
    angle = factor * np.exp(1j * np.arange(t)[:, None] * step)

    def heads(at, s, n, h):
        x = h @ w[at + f"{s}_proj.weight"].T + w.get(at + f"{s}_proj.bias", 0)
        x = x.reshape(t, n, d)
        if at + f"{s}_norm.weight" in w:
            x = norm(x, at + f"{s}_norm.weight")
        if s != "v":
            z = (x[..., :d // 2] + 1j * x[..., d // 2:]) * angle[:, None]
            x = np.concatenate([z.real, z.imag], -1)
        return x.transpose(1, 0, 2)

    x = w["model.embed_tokens.weight"][tokens]
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}."
        h = norm(x, at + "input_layernorm.weight")
        q = heads(at + "self_attn.", "q", hq, h)
        k, v = (np.repeat(heads(at + "self_attn.", s, hk, h), hq // hk, 0) for s in "kv")
        seen = np.tri(t, dtype=bool) & ~np.tri(t, k=-(c.get("sliding_window") or t), dtype=bool)
        s = np.where(seen, q @ k.transpose(0, 2, 1) / d**0.5, -np.inf)
        p = np.exp(s - s.max(-1, keepdims=True))
        o = (p / p.sum(-1, keepdims=True) @ v).transpose(1, 0, 2).reshape(t, hq * d)
        x = x + o @ w[at + "self_attn.o_proj.weight"].T
        h = norm(x, at + "post_attention_layernorm.weight")
        gate = h @ w[at + "mlp.gate_proj.weight"].T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ w[at + "mlp.up_proj.weight"].T)) @ w[at + "mlp.down_proj.weight"].T
    return norm(x, "model.norm.weight") @ w["model.embed_tokens.weight" if c.get("tie_word_embeddings") else "lm_head.weight"].T


def continued(w, c, tokens, count):
    tokens = list(tokens)
    for _ in range(count):
        tokens.append(int(logits(w, c, tokens)[-1].argmax()))
    return tokens[-count:]


# Of "experts" the choice is soon too close to call; in "all experts" each token goes to both.
SHAPES = {"tiny": ["--layers", 2], "experts": ["--shape", "moe", "--layers", 2], "all experts": ["--shape", "moe", "--layers", 2, "--experts", 2],
          "odd": ["--layers", 1, "--hidden", 192, "--heads", 6, "--kv-heads", 2, "--head-dim", 16, "--intermediate", 320, "--vocab", 100]}


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8", "int4"])
@pytest.mark.parametrize("shape", SHAPES)
def test_logits(run, shape, precision):
    """Prefill of prompts longer than a step, then decoding in a batch, against Reference.cpp."""
    text = run("generate", *SHAPES[shape], "--precision", precision, "--check", "--quiet", "--prompt-tokens", 21, "--rows", 16, "--max-new", 6, "--batch", 3, "--context", 32)
    assert ": good" in text, text


@pytest.mark.parametrize("seed", range(4))
def test_logits_of_random_int4_models(run, seed):
    """Levels without a common mean: with one, all outputs shared a large part, and attention's choices hung on the last bit (0.2 to 0.6 for three of five seeds)."""
    text = run("generate", "--precision", "int4", "--check", "--quiet", "--prompt-tokens", 1, "--seed", seed)
    assert ": good" in text, text


def test_nothing_left_to_compare(run):
    text = run("generate", "--shape", "moe", "--precision", "int4", "--check", "--quiet", ok=False)
    assert "a choice of experts is too close to call, so none can be compared" in text, text


@pytest.mark.parametrize("precision", ["bf16", "int4"])
def test_logits_on_the_gpus_path(run, precision):
    text = run("generate", "--device", "sim", "--layers", 1, "--hidden", 64, "--heads", 2, "--kv-heads", 1, "--intermediate", 64, "--vocab", 64, "--precision", precision, "--check", "--quiet",
               "--prompt-tokens", 5, "--rows", 8, "--max-new", 2, "--context", 16)
    assert ": good" in text, text


@pytest.mark.parametrize("device,kernels", [("cpu", ["grouped_integer_matmul"]), ("sim", ["grouped_widened_matmul", "widened_gemv"])])
@pytest.mark.parametrize("precision", ["int8", "int4"])
def test_logits_of_quantized_experts(run, device, kernels, precision):
    """Steps of several rows and of one."""
    text = run("generate", "--device", device, "--shape", "moe", "--experts", 2, "--layers", 1, "--hidden", 64, "--heads", 2, "--kv-heads", 1, "--head-dim", 32, "--intermediate", 128, "--vocab", 64,
               "--precision", precision, "--check", "--quiet", "--profile", "--prompt-tokens", 5, "--rows", 5, "--max-new", 3, "--context", 16)
    assert ": good" in text and "left out" not in text and all(f"\n{kernel} " in text for kernel in kernels) and "\ngrouped_matmul " not in text, text


def ptx_of(kernel, signature, *options, **constants):
    """PTX for an H200 of a kernel of examples/llm/kernels."""
    constants = [c for name, v in constants.items() for c in ("-c", f"{name}={v}")]
    args = [ROOT / "build/bin/tegula", "compile", ROOT / "examples/llm/kernels" / kernel, "--sig", signature, *constants, "-t", "sm_90a", *options, "--emit", "ptx"]
    return subprocess.run(args, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("rows", [1, 4])
def test_few_rows_of_quantized_weights_meet_only_for_the_sum(bits, rows):
    """In the loop nothing goes through shared memory, scales neither, and no integer is converted, which is slow."""
    ptx = ptx_of("quantized.py::widened_gemv", "x:*bf16:16, q:*u8:16, w_scales:*bf16:16, up_q:*u8:16, up_scales:*bf16:16, out:*f32:16, experts:*i32:16, M:i32, N:i32:16, K:i32:16, stride:i32:16",
                 "--num-warps", "4", PAIR=0, EACH=0, G=64, BITS=bits, BM=rows, ROWS=128, COLS=8)
    assert "shared" not in ptx[ptx.index("ld.global"):ptx.rindex("ld.global")] and not re.search(r"cvt\.rn\.f32\.[su]", ptx), ptx


@pytest.mark.parametrize("bits", [8, 4])
def test_quantized_weights_go_to_tensor_cores_through_registers(bits):
    """A word is loaded as it is used: between the dots nothing is stored to shared memory, and no integer is converted, which is slow."""
    ptx = ptx_of("quantized.py::shared_matmul", "x:*bf16:16, q:*u8:16, w_scales:*bf16:16, up_q:*u8:16, up_scales:*bf16:16, out:*f32:16, M:i32, N:i32:16, K:i32:16, stride:i32:16, height:i32:16",
                 "--num-warps", "4", PAIR=0, SPLITS=4, G=64, BITS=bits, BM=16, STEP=4, COLS=64)
    dots = ptx[ptx.index("mma.sync"):ptx.rindex("mma.sync")]
    assert ptx.count("mma.sync") == 32 and "st.shared" not in dots and "ldmatrix" not in ptx and "cp.async.cg" in ptx and not re.search(r"cvt\.rn\.f32\.[su]", ptx), ptx


def test_sampling_reads_a_row_once_and_a_part_of_it():
    """64 logits of a thread into registers, for all passes, and 8 of the part that is scanned."""
    ptx = ptx_of("sampling.py::sample", "logits:*f32:16, out:*i32:16, temperatures:*f32:16, top_ks:*i32:16, top_ps:*f32:16, seeds:*i32:16, steps:*i32:16, n:i32:16",
                 "--num-warps", "8", "--num-ctas", "8", BLOCK=131072, SCAN=2048, WHOLE=1, CUTS=2)
    assert len(re.findall(r"ld\.global\S*v4", ptx)) == (64 + 8) // 4 and "barrier.cluster" in ptx, ptx


def test_one_row_of_a_product_has_its_weights_under_way_before_it_waits():
    """What is added to the residual stream has AHEAD tiles of weights loaded in front of the wait for the kernel before it, 16 bytes at a time."""
    ptx = ptx_of("matmul.py::gemv_fused", "x:*bf16:16, scales:*bf16:16, w:*bf16:16, out:*f32:16, rounded:*bf16:16, N:i32:16, K:i32:16, eps:f32", "--num-warps", "8",
                 NORM=0, ADD=1, PAIR=0, EARLY=1, BN=8, BK=1024, AHEAD=4)
    before = ptx[:ptx.index("griddepcontrol.wait")]
    assert len(re.findall(r"ld\.global\S*v4", before)) == 4 * 8 * 1024 * 2 // 16 // 256 and "griddepcontrol.launch_dependents" in before, ptx


def test_norms_have_their_weights_under_way_before_they_wait():
    ptx = ptx_of("norms.py::rms_norm", "x:*f32:16, delta:*bf16:16, weight:*bf16:16, out:*bf16:16, n:i32:16, apart:i32:16, eps:f32", "--num-warps", "8", ADD=2, BLOCK=4096, EARLY=1)
    before, behind = ptx.split("griddepcontrol.wait")
    assert len(re.findall(r"ld\.global\S*v4", before)) == 4096 * 2 // 16 // 256 and len(re.findall(r"ld\.global\S*v4", behind)) == 4096 * (4 + 2 * 2) // 16 // 256, ptx


def test_few_rows_of_quantized_weights_on_gpus(run):
    """Up to two rows have a kernel that reads the weights for each of them, up to 64 one for the tensor cores, whose programs and warps share the inputs; for more rows they are dequantized first."""
    for rows, there, absent in ((1, "widened_gemv", "shared_matmul"), (2, "widened_gemv", "shared_matmul"), (3, "shared_matmul", "widened_matmul"), (40, "shared_matmul", "widened_matmul"), (65, "dequantize_weights", "widened_matmul")):
        text = run("generate", "--device", "sim", "--precision", "int4", "--layers", 1, "--prompt-tokens", rows, "--max-new", 1, "--profile", "--quiet", "--check")
        assert ": good" in text and f"\n{there} " in text and (not absent or f"\n{absent} " not in text), text


def test_rows_of_several_products_are_split_once(run):
    """On CPUs, of a layer and the output: seven matrices have four different inputs."""
    text = run("generate", "--precision", "int4", "--layers", 1, "--prompt-tokens", 1, "--max-new", 1, "--profile", "--quiet")
    launches = lambda name: int(re.search(rf"^{name} +(\d+)", text, re.M)[1])
    assert launches("integer_matmul") == 8 and launches("split_activations") == 5, text


def test_decode_steps_on_gpus_have_no_launch_for_the_rotation(run):
    """A prompt of one token is a step that decodes; one of two is not."""
    for tokens, there, absent in ((1, ("decode_attention", "argmax_parts"), ("rope_append", "paged_attention")), (2, ("rope_append", "paged_attention"), ())):
        text = run("generate", "--device", "sim", "--precision", "bf16", "--layers", 1, "--prompt-tokens", tokens, "--max-new", 2, "--profile", "--quiet")
        assert all(f"\n{name} " in text for name in there) and not any(f"\n{name} " in text for name in absent), text


def test_prompts_whose_products_share_inputs(run):
    """Steps of 5 to 300 rows on the GPU's path: above 32 rows parts of the products into the residual stream are added by the norms, and by the last one for the rows that are wanted."""
    small = ["--hidden", 64, "--heads", 2, "--kv-heads", 1, "--intermediate", 64]  # one tile, which two cores share
    for rows, shape in ((5, small), (20, small), (40, small), (40, []), (100, []), (200, []), (300, [])):
        text = run("generate", "--device", "sim", "--precision", "bf16", "--layers", 2, *shape, "--prompt-tokens", rows, "--rows", rows, "--batch", 1, "--context", 320, "--max-new", 2, "--check", "--quiet")
        assert "good" in text, (rows, text)


def test_tiles_whose_width_is_no_power_of_two(run):
    """128 to 512 rows of q, k and v on the GPU's path, which are few tiles; one of 192 outputs is two wgmmas with the same rows, one of 192 rows and 96 outputs six."""
    for rows in (97, 129, 300, 390):
        text = run("generate", "--device", "sim", "--precision", "bf16", "--layers", 1, "--hidden", 64, "--heads", 2, "--kv-heads", 1, "--head-dim", 16, "--intermediate", 64, "--vocab", 64, "--prompt-tokens", rows, "--rows", rows,
                   "--context", 400, "--max-new", 1, "--check", "--quiet")
        assert "good" in text, (rows, text)
    ptx = ptx_of("matmul.py::tiled_matmul", "x:*bf16:16, w:*bf16:16, out:*bf16:16, M:i32, N:i32:16, K:i32:16, stride:i32:16, height:i32", "--num-warps", "8", "--num-stages", "4",
                 ADD=0, PAIR=0, EARLY=0, SPLITS=1, BM=128, BN=128, BK=64, LINES=8, AHEAD=0, MORE=64)
    assert ptx.count("wgmma.mma_async.sync.aligned.m64n128k16") == ptx.count("wgmma.mma_async.sync.aligned.m64n64k16") == 4 and "setmaxnreg" in ptx, ptx


@pytest.mark.parametrize("temperature", [0, 0.8])
def test_steps_queued_ahead_continue_what_was_chosen(run, temperature):
    """With a stream the next step is queued before the host knows the tokens: the same tokens as without."""
    args = ["--layers", 2, "--hidden", 64, "--heads", 2, "--kv-heads", 1, "--intermediate", 64, "--vocab", 64, "--prompt-tokens", 5, "--rows", 4, "--max-new", 7, "--batch", 3, "--context", 16,
            "--temperature", temperature, "--top-k", 20]
    tokens = lambda text: [line for line in text.splitlines() if re.match(r"\d: ", line)]
    plain, ahead = tokens(run("generate", *args)), tokens(run("generate", *args, "--graphs"))
    assert len(plain) == 3 and plain == ahead


@pytest.mark.parametrize("device,precision", [("cpu", "int4"), ("sim", "bf16")])
def test_logits_of_graphs(run, device, precision):
    """Decode steps that are recorded once and launched as graphs; prompts are of other lengths than steps hold."""
    text = run("generate", "--graphs", "--device", device, "--layers", 2, "--hidden", 64, "--heads", 2, "--kv-heads", 1, "--intermediate", 64, "--vocab", 64, "--precision", precision, "--check", "--quiet",
               "--prompt-tokens", 5, "--rows", 4, "--max-new", 4, "--batch", 2, "--context", 16)
    assert ": good" in text, text


@pytest.mark.parametrize("device", ["cpu", "sim"])
def test_graphs_make_the_same_tokens(run, device):
    args = ["--device", device, "--layers", 2, "--hidden", 64, "--heads", 4, "--kv-heads", 2, "--head-dim", 16, "--intermediate", 64, "--vocab", 60, "--prompt-tokens", 3, "--max-new", 6, "--batch", 3, "--context", 16,
            "--rows", 8, "--temperature", 0.7]
    tokens = lambda *more: run("generate", *args, *more).split("model:")[0]
    assert tokens("--graphs") == tokens()


def test_tokens_of_a_file(run, tmp_path):
    """Weights of a file, beside numpy."""
    w = make_model(tmp_path / "m")
    prompt = [7, 200, 31, 31, 5]
    out = run("generate", "--model", tmp_path / "m", "--precision", "fp32", "--tokens", ",".join(map(str, prompt)), "--max-new", 12, "--check")
    assert out.splitlines()[0] == " ".join(map(str, continued(w, CONFIG, prompt, 12)))
    assert ": good" in out


@pytest.mark.parametrize("window", [3, None])
def test_sliding_window_of_a_file(run, tmp_path, window):
    """Mistral's: a token attends to the last so many; without it to all, which gives others here."""
    config = {**CONFIG, "model_type": "mistral", "sliding_window": window}
    w = make_model(tmp_path / "m", config=config)
    prompt = [7, 200, 31, 31, 5, 90, 14]
    out = run("generate", "--model", tmp_path / "m", "--precision", "fp32", "--tokens", ",".join(map(str, prompt)), "--max-new", 12)
    assert out.splitlines()[0] == " ".join(map(str, continued(w, config, prompt, 12)))
    assert continued(w, config, prompt, 12) != continued(w, {**config, "sliding_window": window or 3}, prompt, 12) or window


@pytest.mark.parametrize("device,window", [("cpu", 1), ("cpu", 70), ("cpu", 200), ("sim", 20), ("sim", 70)])
def test_logits_with_a_sliding_window(run, device, window):
    """Windows within a page of the cache, of more than one, and longer than the text; prompts in several steps, then decoding."""
    shape = ["--layers", 2] if device == "cpu" else ["--layers", 1, "--hidden", 64, "--heads", 2, "--kv-heads", 1, "--intermediate", 64, "--vocab", 64]
    text = run("generate", "--device", device, *shape, "--sliding-window", window, "--precision", "bf16", "--check", "--quiet", "--prompt-tokens", 90, "--rows", 80, "--max-new", 4, "--context", 128)
    assert ": good" in text, text


LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
FORMS = {"qwen2": {"model_type": "qwen2", "use_sliding_window": False, "sliding_window": 2, "max_window_layers": 1}, "qwen3": {"model_type": "qwen3", "attention_bias": False, "head_dim": 64},
         "qwen3 tied": {"model_type": "qwen3", "tie_word_embeddings": True}, "seven queries a key": {"model_type": "qwen2", "hidden_size": 448, "num_attention_heads": 14, "head_dim": None},
         "llama3": {"model_type": "llama", "rope_scaling": LLAMA3}, "linear": {"model_type": "llama", "rope_scaling": {"type": "linear", "factor": 4.0}},
         "yarn": {"model_type": "qwen2", "rope_theta": 1e6, "max_position_embeddings": 32768, "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}}}


@pytest.mark.parametrize("form", FORMS)
def test_published_forms(run, tmp_path, form):
    """Biases, norms of heads, scaled positions, one matrix for the embedding and the output: the tokens of numpy, and on the GPU's path logits within bounds."""
    config = {**CONFIG, **FORMS[form]}
    shape = {**config, "head_dim": config["head_dim"] or config["hidden_size"] // config["num_attention_heads"]}
    if config.get("use_sliding_window") is False:
        del shape["sliding_window"]
    w = make_weights(shape)
    if config.get("tie_word_embeddings"):
        del w["lm_head.weight"]
    make_model(tmp_path / "m", config=config, **{"lm_head.weight": w.get("lm_head.weight")}, **{n: t for n, t in w.items() if n != "lm_head.weight"})
    prompt = [7, 200, 31, 31, 5, 90, 14]
    args = ["--model", tmp_path / "m", "--tokens", ",".join(map(str, prompt)), "--max-new", 6, "--check", "--context", 32]
    out = run("generate", *args, "--precision", "fp32")
    assert out.splitlines()[0] == " ".join(map(str, continued(w, shape, prompt, 6))) and ": good" in out
    assert ": good" in run("generate", *args, "--precision", "bf16", "--device", "sim", "--rows", 4)
    if form in ("qwen2", "qwen3 tied"):
        run("quantize", "--model", tmp_path / "m", "--precision", "int8", "--output", tmp_path / "q")
        assert ": good" in run("generate", *args[2:], "--model", tmp_path / "q")
        assert ": good" in run("generate", *args[2:], "--model", tmp_path / "q", "--device", "sim")
    plain = {k: v for k, v in shape.items() if k != "rope_scaling"}
    if "rope_scaling" in config:
        assert np.abs(logits(w, plain, prompt) - logits(w, shape, prompt)).max() > 0.01, "what is scaled counts"


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32])
@pytest.mark.parametrize("pad", [0, 2, 8])
def test_types_and_places_of_files_on_gpus(run, tmp_path, dtype, pad):
    """Weights in any float type, at addresses that are no multiple of 16."""
    make_model(tmp_path / "m", dtype)
    file = tmp_path / "m/model.safetensors"
    raw = file.read_bytes()
    header = json.loads(raw[8:8 + int.from_bytes(raw[:8], "little")])
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % 16 + pad)
    file.write_bytes(len(text).to_bytes(8, "little") + text + raw[8 + int.from_bytes(raw[:8], "little"):])
    args = ["--model", tmp_path / "m", "--device", "sim", "--tokens", "1,2,3,4,5,6", "--max-new", 3, "--check", "--context", 16, "--quiet"]
    for precision in ("bf16", "int8") if pad else ("bf16", "fp32", "int4"):
        assert ": good" in run("generate", *args, "--precision", precision)


def test_files_by_their_index(run, tmp_path):
    """A model in several files has the tokens of the one in one file; files beside them that the index does not name are not read."""
    weights = make_model(tmp_path / "m")
    args = ["--model", tmp_path / "m", "--tokens", "1,2,3", "--max-new", 5]
    want = run("generate", *args).splitlines()[0]
    whole = tmp_path / "m/model.safetensors"
    raw = whole.read_bytes()
    whole.unlink()
    parts = [dict(list(weights.items())[i::2]) for i in range(2)]
    files = [f"model-0000{i + 1}-of-00002.safetensors" for i in range(2)]
    for file, part in zip(files, parts):
        write_safetensors(tmp_path / "m" / file, part)
    assert run("generate", *args).splitlines()[0] == want, "without an index all files count"
    (tmp_path / "m/consolidated.safetensors").write_bytes(b"not read")
    index = {"metadata": {}, "weight_map": {name: file for file, part in zip(files, parts) for name in part}}
    write = lambda i: (tmp_path / "m/model.safetensors.index.json").write_text(json.dumps(i))
    write(index)
    assert run("generate", *args).splitlines()[0] == want
    write({"weight_map": {**index["weight_map"], "more": files[0]}})
    assert "tensor `more` is missing, which is there by" in run("generate", *args, ok=False)
    write({"weight_map": {"lm_head.weight": "../m/x.safetensors"}})
    assert "which is no file's name" in run("generate", *args, ok=False)
    write({"weight_map": {**index["weight_map"], "more": "model-00003-of-00003.safetensors"}})
    assert "model-00003-of-00003.safetensors: no such file, but" in run("generate", *args, ok=False)
    write({})
    assert "there is no `weight_map`" in run("generate", *args, ok=False)
    whole.write_bytes(raw)
    assert run("generate", *args).splitlines()[0] == want, "one file is enough"
    whole.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n")
    assert "`git lfs pull` brings them" in run("generate", *args, ok=False)


def test_tokens_that_end_a_text(run, tmp_path):
    """One, a list, and those of generation_config.json."""
    config = {**CONFIG, "model_type": "llama"}
    w = make_model(tmp_path / "m", config=config)
    answer = continued(w, CONFIG, [1, 2, 3], 6)
    ends = lambda: run("generate", "--model", tmp_path / "m", "--precision", "fp32", "--tokens", "1,2,3", "--max-new", 6).splitlines()[0].split()
    until = lambda token: list(map(str, answer[:answer.index(token) + 1]))
    other = next(t for t in range(300) if t not in answer)
    for eos, want in ((None, answer), (answer[2], until(answer[2])), ([other, answer[3]], until(answer[3]))):
        (tmp_path / "m/config.json").write_text(json.dumps({**config, "eos_token_id": eos}))
        assert ends() == list(map(str, want))
    (tmp_path / "m/generation_config.json").write_text(json.dumps({"eos_token_id": [other, answer[1]], "temperature": 0.6}))
    assert ends() == until(answer[1])
    run("quantize", "--model", tmp_path / "m", "--precision", "int8", "--output", tmp_path / "q")
    assert (tmp_path / "q/generation_config.json").read_text() == (tmp_path / "m/generation_config.json").read_text()


@pytest.mark.parametrize("precision,levels", [("int8", 127), ("int4", 7)])
def test_quantize(run, tmp_path, precision, levels):
    w = make_model(tmp_path / "m", ml_dtypes.bfloat16)
    run("quantize", "--model", tmp_path / "m", "--precision", precision, "--output", tmp_path / "q")
    stored = read_safetensors(tmp_path / "q/model.safetensors")
    name = "model.layers.1.mlp.down_proj.weight"
    groups = w[name].astype(np.float32).reshape(2, 64, 3, 64)
    np.testing.assert_array_equal(stored[name + ".scales"], (np.abs(groups).max(3).transpose(0, 2, 1) / np.float32(levels)).astype(ml_dtypes.bfloat16))
    args = ["--tokens", "1,2,3,4,5", "--max-new", 5, "--check"]
    from_files = run("generate", "--model", tmp_path / "q", *args)
    at_load = run("generate", "--model", tmp_path / "m", "--precision", precision, *args)
    assert from_files.splitlines()[0] == at_load.splitlines()[0] and ": good" in from_files
    assert "they cannot become" in run("generate", "--model", tmp_path / "q", "--precision", "bf16", *args, ok=False)


@pytest.mark.parametrize("precision,levels", [("int8", 127), ("int4", 7)])
def test_quantize_experts(run, tmp_path, precision, levels):
    """Each expert has a matrix of its own in files; the router stays as it is."""
    config = {**CONFIG, "num_local_experts": 3, "num_experts_per_tok": 2}
    w = make_model(tmp_path / "m", ml_dtypes.bfloat16, config)
    run("quantize", "--model", tmp_path / "m", "--precision", precision, "--output", tmp_path / "q")
    stored = read_safetensors(tmp_path / "q/model.safetensors")
    experts = "model.layers.1.block_sparse_moe."
    np.testing.assert_array_equal(stored[experts + "gate.weight"], w[experts + "gate.weight"])
    name = experts + "experts.2.w2.weight"
    groups = w[name].astype(np.float32).reshape(2, 64, 3, 64)
    assert name not in stored
    np.testing.assert_array_equal(stored[name + ".scales"], (np.abs(groups).max(3).transpose(0, 2, 1) / np.float32(levels)).astype(ml_dtypes.bfloat16))
    args = ["--tokens", "1,2,3,4,5", "--max-new", 5, "--check"]
    from_files = run("generate", "--model", tmp_path / "q", *args)
    at_load = run("generate", "--model", tmp_path / "m", "--precision", precision, *args)
    assert from_files.splitlines()[0] == at_load.splitlines()[0] and ": good" in from_files


def test_newer_configurations_have_rope_theta_in_an_object(run, tmp_path):
    """The same logits as where it stands beside the sizes, and others than with the default."""
    outputs = []
    for i, rope in enumerate(({"rope_theta": 50.0}, {"rope_theta": None, "rope_parameters": {"rope_type": "default", "rope_theta": 50.0}}, {"rope_theta": 10000.0})):
        make_model(tmp_path / str(i), config={**CONFIG, "model_type": "llama", **rope})
        outputs.append(run("generate", "--model", tmp_path / str(i), "--tokens", "1,2,3,4,5,6,7,8", "--max-new", 20).splitlines()[0])
    assert outputs[0] == outputs[1] != outputs[2]


def test_errors_of_files(run, tmp_path):
    said = lambda **changes: (make_model(tmp_path / "m", **changes), run("generate", "--model", tmp_path / "m", ok=False))[1]
    assert "tensor `model.layers.1.mlp.up_proj.weight` is missing" in said(**{"model.layers.1.mlp.up_proj.weight": None})
    assert "tensor `lm_head.weight` is fp32[299, 128], but the configuration asks for fp32[300, 128]" in said(**{"lm_head.weight": np.zeros((299, 128), np.float32)})
    assert "tensor `lm_head.weight` is u8[300, 128]; weights are fp32, bf16 or fp16" in said(**{"lm_head.weight": np.zeros((300, 128), np.uint8)}).replace("uint8", "u8")
    assert "tensor `lm_head.weight` is missing; a model without one says `tie_word_embeddings`" in said(**{"lm_head.weight": None})
    assert "positions are scaled by `dynamic`; default, linear, llama3 and yarn are supported" in said(config={**CONFIG, "rope_scaling": {"type": "dynamic", "factor": 2.0}})
    assert "`low_freq_factor` is missing" in said(config={**CONFIG, "rope_parameters": {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0}})
    assert "which scales positions, make no sense" in said(config={**CONFIG, "rope_scaling": {"type": "linear", "factor": 0}})
    assert "`model_type` is `gemma2`; llama, mistral, mixtral, qwen2 and qwen3 are supported" in said(config={**CONFIG, "model_type": "gemma2"})
    assert "tensor `model.layers.0.self_attn.q_proj.bias` is missing; there are" in said(config={**CONFIG, "model_type": "qwen2"}, **{"model.layers.0.self_attn.q_proj.bias": None})
    assert "1 of the layers have no sliding window" in said(config={**CONFIG, "model_type": "qwen2", "use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1})
    assert "`layer_types` has \"linear_attention\"" in said(config={**CONFIG, "layer_types": ["linear_attention", "full_attention"]})
    assert "`quantization_config`: weights that others quantized are not supported" in said(config={**CONFIG, "quantization_config": {"quant_method": "gptq"}})
    assert "`attention_bias` is not supported" in said(config={**CONFIG, "attention_bias": True})
    assert "`num_experts_per_tok` is 2.5, which is not a whole number" in said(config={**CONFIG, "num_experts_per_tok": 2.5})
    assert "`eos_token_id` is \"x\"; it must be a token" in said(config={**CONFIG, "eos_token_id": "x"})
    assert "`hidden_size` is missing" in said(config={**CONFIG, "hidden_size": None})
    make_model(tmp_path / "m")
    file = tmp_path / "m/model.safetensors"
    whole = file.read_bytes()
    for size in (0, 5, 100, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:size])
        assert "cut off" in run("generate", "--model", tmp_path / "m", ok=False)
    file.write_bytes(whole.replace(b'"data_offsets": [0', b'"data_offsets": [4', 1))
    assert "bytes, which is not what" in run("generate", "--model", tmp_path / "m", ok=False)
    assert "No such file" in run("generate", "--model", tmp_path / "none", ok=False)


LONGER = [({}, 32), ({"rope_scaling": {"type": "linear", "factor": 2.0}}, 64), ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}}, 128),
          ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8}}, 32)]


@pytest.mark.parametrize("scaling,positions", LONGER)
def test_context_beyond_the_positions_of_a_model(run, tmp_path, scaling, positions):
    """Without --context a sequence may be as long as the model's positions reach."""
    make_model(tmp_path / "m", config={**CONFIG, "max_position_embeddings": 32, **scaling})
    args = ["--model", tmp_path / "m", "--tokens", "1,2,3"]
    error = run("generate", *args, "--context", positions + 1, ok=False)
    assert f"--context is {positions + 1}, but the model was made for {positions} positions ({tmp_path}/m/config.json)" in error
    assert len(run("generate", *args, "--context", positions, "--max-new", positions - 3).splitlines()[0].split()) == positions - 3
    assert f"do not fit the context of {positions}" in run("generate", *args, "--max-new", positions - 2, ok=False)


def test_too_little_memory(run):
    text = run("generate", "--shape", "8b", "--context", 1000000, "--batch", 32, ok=False)
    assert re.search(r"the model takes [\d.]+ TiB \(weights 14\.\d+ GiB, KV cache [\d.]+ TiB, .*\), but device cpu has [\d.]+ GiB", text), text


def test_too_little_memory_on_a_gpu(run):
    """Of the memory of a GPU counts what is free."""
    fake = ROOT / "build/lib/libfakecuda.so"
    assert fake.exists()
    text = run("generate", "--shape", "8b", "--device", "cuda", ok=False, env={"TEGULA_LIBCUDA": str(fake), "FAKECUDA": f"usedMiB={124 << 10}"})
    assert re.search(r"the model takes 15\.\d+ GiB \(weights 14\.\d+ GiB, .*\), but device cuda has 4\.0+ GiB", text), text


def test_command_line(run):
    assert "there is no option `--lairs`" in run("generate", "--lairs", 3, ok=False)
    assert "--layers cannot be `0`; it is a whole number from 1 on" in run("generate", "--layers", 0, ok=False)
    assert "--top-p cannot be `1.5`; it is a number from 0 to 1" in run("generate", "--top-p", 1.5, ok=False)
    assert "do not fit the context of 8" in run("generate", "--context", 8, ok=False)
    assert "`9999` is not a token below 512" in run("generate", "--tokens", "1,9999", ok=False)
    assert "--temperature" in run("generate", "--help")


def test_one_bundle(environment, tmp_path):
    """What one run recorded, compiled ahead of time, is all that a later one needs."""
    args = ["--layers", "1", "--precision", "int4", "--context", "32", "--rows", "16", "--max-new", "4"]
    run = lambda *extra, **env: subprocess.run([PROGRAMS / "generate", *args, *extra], capture_output=True, text=True, env={**environment, "TEGULA_CACHE_DIR": "", **env}, timeout=300)
    compiled = run(TEGULA_RECORD=str(tmp_path / "k.json"))
    subprocess.run([ROOT / "build/bin/tegula", "aot", tmp_path / "k.json", "-o", tmp_path / "k.tgb"], check=True, capture_output=True, timeout=300)
    p = run("--bundle", str(tmp_path / "k.tgb"), TEGULA_NO_JIT="1")
    assert p.returncode == 0 and p.stdout.splitlines()[0] == compiled.stdout.splitlines()[0], p.stderr
    p = run(TEGULA_NO_JIT="1")
    assert p.returncode == 1 and "is not compiled ahead of time" in p.stderr


BYTES = [*range(33, 127), *range(161, 173), *range(174, 256)]
CHARACTER = {b: chr(b) for b in BYTES} | {b: chr(256 + i) for i, b in enumerate(b for b in range(256) if b not in BYTES)}


def make_tokenizer(path, merges=("h e", "l l", "he ll", "hell o", "Ġ w", "o r"), **parts):
    vocab = {CHARACTER[b]: b for b in range(256)}
    for m in merges:
        vocab[m.replace(" ", "")] = len(vocab)
    pattern = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+(?!\S)|\s+"
    path.write_text(json.dumps({"model": {"type": "BPE", "vocab": vocab, "merges": list(merges)}, "added_tokens": [{"id": 299, "content": "<|end|>", "special": True}], "normalizer": None,
                                "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False},
                                                                                        {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}]}, **parts}))


class Server:
    def __init__(self, environment, *args):
        self.p = subprocess.Popen([PROGRAMS / "serve", *map(str, args)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        assert "ready" in self.read()

    def read(self):
        return json.loads(self.p.stdout.readline())

    def send(self, **line):
        self.p.stdin.write(json.dumps(line) + "\n")
        self.p.stdin.flush()

    def finish(self):
        self.p.stdin.close()
        lines = [json.loads(line) for line in self.p.stdout]
        assert self.p.wait(timeout=60) == 0, self.p.stderr.read()
        return lines


def test_serve_many_at_once(environment, run, tmp_path):
    """40 requests for 32 places, of them 8 cancelled at once and one later: every answer is that of the model alone, all pages come back, nothing is compiled."""
    w = make_model(tmp_path / "m")
    s = Server(environment, "--model", tmp_path / "m", "--precision", "fp32", "--batch", 32, "--context", 64, "--rows", 48)
    rng = np.random.default_rng(3)
    prompts = [rng.integers(0, 300, 1 + 3 * i % 17).tolist() for i in range(40)]
    for i, p in enumerate(prompts):
        s.send(id=str(i), tokens=p, max_new_tokens=40 if i == 20 else 4 + i % 5)
    for i in range(0, 32, 4):
        s.send(cancel=str(i))
    first = s.read()
    s.send(cancel="20")
    s.send(id="sampled", tokens=[1, 2], temperature=0.8, top_k=20, top_p=0.9, seed=5, max_new_tokens=6)
    lines = [first, *s.finish()]
    done = {l["id"]: l for l in lines if "done" in l}
    stats = lines[-1]["stats"]
    assert len(done) == 41 and stats["received"] == 41 and stats["completed"] + stats["cancelled"] == 41
    assert stats["free_pages"] == stats["pages"] == 32 and stats["running"] == stats["waiting"] == 0
    assert stats["kernels_compiled_since_start"] == 0
    for i, p in enumerate(prompts):
        d = done[str(i)]
        assert d["tokens"] == [l["token"] for l in lines if l.get("id") == str(i) and "token" in l]
        if d["done"] == "cancelled":
            assert i == 20 or i % 4 == 0
        else:
            assert d["done"] == "length" and len(d["tokens"]) == (40 if i == 20 else 4 + i % 5)
        if d["tokens"] and i % 4 == 1:
            assert d["tokens"] == continued(w, CONFIG, p, len(d["tokens"]))
    assert done["20"]["done"] == "cancelled"


def test_serve_quantized_experts(environment):
    """Steps of one row, of few and of many have other tiles of experts' rows; all are there before the first request."""
    s = Server(environment, "--shape", "moe", "--experts", 2, "--layers", 1, "--hidden", 64, "--heads", 2, "--kv-heads", 1, "--head-dim", 32, "--intermediate", 64, "--vocab", 64, "--precision", "int4", "--batch", 4,
               "--context", 64, "--rows", 40)
    for i, length in enumerate((1, 3, 30, 40, 17)):
        s.send(id=str(i), tokens=[(7 * i + j) % 64 for j in range(length)], max_new_tokens=3 + 4 * i)
    stats = s.finish()[-1]["stats"]
    assert stats["completed"] == 5 and stats["kernels_compiled_since_start"] == 0


def test_serve_on_the_gpus_path(environment):
    """Steps of prompts, of answers and of both: none of their kernels is compiled after the start, and the tokens are those of requests that come alone."""
    args = ["--device", "sim", "--graphs", "--layers", 1, "--hidden", 64, "--heads", 2, "--kv-heads", 1, "--intermediate", 64, "--vocab", 64, "--batch", 3, "--context", 32, "--rows", 6]
    requests = [dict(id=str(i), tokens=[(7 * i + j) % 64 for j in range(length)], max_new_tokens=4 + i, temperature=i % 2 * 0.5) for i, length in enumerate((3, 1, 9, 6, 2))]
    s = Server(environment, *args)
    for r in requests:
        s.send(**r)
    lines = s.finish()
    assert lines[-1]["stats"]["completed"] == 5 and lines[-1]["stats"]["kernels_compiled_since_start"] == 0
    together = {l["id"]: l["tokens"] for l in lines if "done" in l}
    s = Server(environment, *args)
    for r in requests[:3]:
        s.send(**r)
        answer = s.read()
        while "done" not in answer:
            answer = s.read()
        assert answer["tokens"] == together[r["id"]]
    s.finish()


@pytest.mark.parametrize("precision", ["bf16", "int4"])
def test_serve_prompts_of_all_lengths_on_the_gpus_path(environment, precision):
    """Tiles change with the rows of a step, and not only where these are powers of two: those of 65 to 96 rows and of 97 to 128 differ here."""
    s = Server(environment, "--device", "sim", "--precision", precision, "--layers", 1, "--hidden", 64, "--heads", 2, "--kv-heads", 1, "--head-dim", 16, "--intermediate", 64, "--vocab", 64, "--batch", 1,
               "--context", 160, "--rows", 128)
    for length in (40, 80, 120, 130):
        s.send(id=str(length), tokens=[7 * j % 64 for j in range(length)], max_new_tokens=2)
    stats = s.finish()[-1]["stats"]
    assert stats["completed"] == 4 and stats["kernels_compiled_since_start"] == 0


def test_texts_of_tokens_are_whole_characters(environment, run, tmp_path):
    """Tokens are bytes; those of a character come together, and what is no character is replaced."""
    make_model(tmp_path / "m")
    make_tokenizer(tmp_path / "m/tokenizer.json", merges=())
    s = Server(environment, "--model", tmp_path / "m", "--batch", 32, "--context", 64)
    for i in range(32):
        s.send(id=str(i), tokens=[i, 7 * i], max_new_tokens=40, temperature=2, seed=i)
    lines = s.finish()
    done = [l for l in lines if "done" in l]
    whole = 0
    for d in done:
        texts = [l["text"] for l in lines if l.get("id") == d["id"] and "token" in l]
        assert "".join(texts) == d["text"] and len(texts) == len(d["tokens"])
        whole += sum(len(t) == 1 and t > "\x7f" and t != "\ufffd" for t in texts)
    assert len(done) == 32 and whole > 0, "some characters of several tokens"


def test_serve_refuses(environment, tmp_path):
    s = Server(environment, "--layers", 1, "--precision", "fp32", "--batch", 1, "--context", 32)
    asked = [(dict(id="a", tokens=[1], max_new_tokens=99), "do not fit the context of 32"), (dict(id="a", tokens=[]), "the prompt is empty"), (dict(id="a", tokens=[999]), "not in the vocabulary"),
             (dict(id="a", prompt="hello"), "`prompt` wants a tokenizer"), (dict(tokens=[1]), "`id` must be a text"), (dict(id="a", tokens=[1], top_p=2), "`top_p` must be a number from 0 to 1"),
             (dict(id="a", tokens=[1], tempature=1), "there is no `tempature` in a request"), (dict(id="a", tokens=[1], top_k=-3), "`top_k` must be a whole number from 0 to 1000000000"),
             (dict(id="a"), "neither `prompt` nor `tokens`"), (dict(cancel="zz"), "no request `zz` is under way"), (dict(id="a", tokens=["x"]), "a list of numbers")]
    for line, want in asked:
        s.send(**line)
        got = s.read()
        assert want in got["error"] and got.get("id") == line.get("id"), got
    s.p.stdin.write("{ nonsense\n\n")
    s.send(id="a", tokens=[1], stop=list(range(512)), max_new_tokens=5)
    lines = s.finish()
    assert lines[0] == {"error": "not a JSON object"} and lines[2]["done"] == "stop" and len(lines[2]["tokens"]) == 1


def test_text(environment, run, tmp_path):
    """A tokenizer.json: merges in their order, words by the expression, special tokens, bytes of characters that are cut."""
    make_model(tmp_path / "m")
    make_tokenizer(tmp_path / "m/tokenizer.json")
    tokens = lambda text: [int(t) for t in run("tokenize", tmp_path / "m/tokenizer.json", text).split()]
    assert tokens("hello") == [259] and tokens("hell") == [258] and tokens("hel") == [256, ord("l")]
    assert tokens("hello world") == [259, 260, 261, ord("l"), ord("d")]
    assert tokens("<|end|>hello<|end|>") == [299, 259, 299]
    assert tokens("h ello") == [ord("h"), ord(" "), ord("e"), 257, ord("o")], "no merge across words"
    assert tokens("né€🎉\n") == list("né€🎉\n".encode()) and tokens("") == []
    s = Server(environment, "--model", tmp_path / "m", "--batch", 2, "--context", 32)
    s.send(id="t", prompt="hello world", max_new_tokens=4)
    lines = s.finish()
    (tmp_path / "m/tokenizer.json").write_text('{"model": {"type": "WordPiece"}}')
    assert "the model is `WordPiece`; only byte-pair encoding (BPE) is supported" in run("generate", "--model", tmp_path / "m", ok=False)
    by_token = {**{b: bytes([b]) for b in range(256)}, 256: b"he", 257: b"ll", 258: b"hell", 259: b"hello", 260: b" w", 261: b"or", 299: b"<|end|>"}
    assert lines[-2]["text"] == b"".join(by_token.get(t, b"") for t in lines[-2]["tokens"]).decode(errors="replace")


def begins(token, name):
    """A post-processor as in Llama 3's file: a token in front of every text."""
    return {"type": "Sequence", "processors": [{"type": "ByteLevel", "trim_offsets": True}, {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": name, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                                                                                             "special_tokens": {name: {"id": name, "ids": [token], "tokens": [name]}}}]}


def test_tokenizers_as_published(run, tmp_path):
    """What Llama 3's, Qwen's, SmolLM's and GPT-2's files have beside words; tokens are those of the library `tokenizers` 0.23."""
    file = tmp_path / "t.json"
    tokens = lambda text: [int(t) for t in run("tokenize", file, text).split()]
    characters = lambda text: list(text.encode())
    added = lambda **more: [{"id": 299, "content": "<|end|>", "special": True}, {"id": 298, "content": "<|begin|>", "special": True, **more}]
    make_tokenizer(file, post_processor=begins(298, "<|begin|>"), added_tokens=added())
    assert tokens("hello") == [298, 259] and tokens("") == [298] and tokens("<|end|>") == [298, 299]
    assert tokens("<|begin|>hello") == [298, 259], "not twice"
    make_tokenizer(file, added_tokens=added(lstrip=True, rstrip=True))
    assert tokens("a  <|begin|>\n b <|end|> c") == [97, 298, 98, 32, 299, 32, 99]
    make_tokenizer(file, normalizer={"type": "NFC"})
    for text in ("ne\u0301 \u00e9", "s\u0323\u0307 s\u0307\u0323 \u1e69", "\u1112\u1161\u11ab\u212b\u0958\u0344", "hello \uf900"):
        assert tokens(text) == [t for word in [unicodedata.normalize("NFC", text)] for t in ([259, *characters(word[5:])] if word.startswith("hello") else characters(word))]
    digits = {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}]}
    make_tokenizer(file, merges=("1 2", "1 1", "Ġ 1"), pre_tokenizer=digits)
    assert tokens("112 12") == characters("112 12")
    make_tokenizer(file, merges=("1 2", "1 1", "Ġ 1"), pre_tokenizer={"type": "ByteLevel", "add_prefix_space": True, "use_regex": True})
    assert tokens("112 12") == [258, 256, 32, 256] and tokens(" 11") == [32, 257]
    make_tokenizer(file, merges=("a a", "aa a", "aa aa"))
    assert tokens("aaaaa") == [256, 257] and tokens("aaa") == [257] and tokens("a" * 40000) == [258] * 10000, "long words take no longer"
    for parts, why in (({"normalizer": {"type": "NFKC"}}, "normalizer `NFKC` is not supported"), ({"pre_tokenizer": {"type": "Punctuation"}}, "pre-tokenizer `Punctuation` is not supported"),
                       ({"added_tokens": [{"id": 1, "content": "x", "single_word": True}]}, "`single_word` of the added token `x` is not supported"), ({"decoder": {"type": "WordPiece"}}, "decoder `WordPiece` is not supported"),
                       ({"post_processor": {"type": "BertProcessing"}}, "post-processor `BertProcessing` is not supported")):
        make_tokenizer(file, **parts)
        assert why in run("tokenize", file, "x", ok=False)


def test_composition(run, tmp_path):
    """NFC of every character that stands for others, and of marks in all orders, as Python has it: without merges the tokens are the bytes."""
    make_tokenizer(tmp_path / "t.json", merges=(), normalizer={"type": "NFC"})
    marks = "\u0300\u0301\u0323\u0307\u0327\u0344\u3099\u0338\u093c\u0345"
    rng = np.random.default_rng(0)
    text = "".join(c + "x" + "".join(rng.choice(list("aeos\u0915\uac00\u1100\u1161\u11a8" + marks), 5)) for c in map(chr, range(0x80, 0x30000)) if unicodedata.decomposition(c) and not unicodedata.decomposition(c).startswith("<"))
    out = run("tokenize", tmp_path / "t.json", text)
    assert bytes(map(int, out.split())).decode() == unicodedata.normalize("NFC", text)


@pytest.mark.parametrize("kind", ["normalizer", "first", "always"])
def test_tokenizers_of_characters(environment, run, tmp_path, kind):
    """SentencePiece's, as Llama 2, Mistral and Mixtral have them: blanks are characters, characters without a token are bytes. Tokens are those of the library `tokenizers` 0.23."""
    make_model(tmp_path / "m")
    merges = ["▁ h", "▁h i", "e l", "l o", "▁ ▁"]
    vocab = {"<unk>": 0, "<s>": 1, "</s>": 2, **{f"<0x{b:02X}>": 3 + b for b in range(256)}, **{c: 259 + i for i, c in enumerate("▁hielo")}}
    for m in merges:
        vocab[m.replace(" ", "")] = len(vocab)
    legacy = kind == "normalizer"
    parts = {"normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]} if legacy else None,
             "pre_tokenizer": None if legacy else {"type": "Metaspace", "replacement": "▁", "prepend_scheme": kind, "split": kind == "always"},
             "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}}
    file = tmp_path / "m/tokenizer.json"
    model = {"type": "BPE", "vocab": vocab, "merges": merges, "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True, "dropout": None}
    file.write_text(json.dumps({"model": model, "post_processor": begins(1, "<s>")["processors"][1], "added_tokens": [{"id": i, "content": c, "special": True} for i, c in enumerate(("<unk>", "<s>", "</s>"))], **parts}))
    tokens = lambda text: [int(t) for t in run("tokenize", file, text).split()]
    assert tokens("hi") == [1, vocab["▁hi"]]
    assert tokens("é€") == [1, vocab["▁"], *(3 + b for b in "é€".encode())]
    assert tokens("hi  hello") == [1, vocab["▁hi"], *([vocab["▁"], vocab["▁h"]] if kind == "always" else [vocab["▁"], vocab["▁h"]]), vocab["el"], vocab["lo"]]
    assert tokens("hi</s>hi") == [1, vocab["▁hi"], 2, *([vocab["h"], vocab["i"]] if kind == "first" else [vocab["▁hi"]])]
    s = Server(environment, "--model", tmp_path / "m", "--batch", 2, "--context", 32)
    s.send(id="t", prompt="hi", max_new_tokens=6)
    done = s.finish()[-2]
    text = {i: t for t, i in vocab.items()}
    assert done["text"] == b"".join(bytes([int(t[3:5], 16)]) if t.startswith("<0x") else t.replace("▁", " ").encode() for t in (text.get(i, "") for i in done["tokens"])).decode(errors="replace")


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, *sys.argv[1:]]))
