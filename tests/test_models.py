"""Models made here: other quantisations of a file, and shapes without weights."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import Outcome

pytest.importorskip("validate.llama", exc_type=ValueError)
gguf = pytest.importorskip("gguf")

from costmodel.specs import ModelSpec, known_models  # noqa: E402
from sim.machine import Pass  # noqa: E402
from validate.llama import LlamaEngine, Model  # noqa: E402
from validate.models import default_model, model_hash, requantised  # noqa: E402
from validate.shapes import Shape, shape_only  # noqa: E402

SMALL = Shape("small", layers=2, hidden=256, heads=4, kv_heads=2, head_size=64, ffn=512, vocabulary=3000)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own for every test."""
    monkeypatch.setenv("SWEEPCAP_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def facts(path: Path) -> dict[str, tuple[tuple[int, ...], str]]:
    """Shape and type of every tensor."""
    return {t.name: (tuple(map(int, t.shape)), t.tensor_type.name) for t in gguf.GGUFReader(path).tensors}


def weights(path: Path) -> dict[str, np.ndarray]:
    """Every tensor in single precision."""
    return {t.name: gguf.dequantize(t.data, t.tensor_type).ravel() for t in gguf.GGUFReader(path).tensors}


def test_requantised_weights_are_the_same_but_for_the_rounding(tiny: Path) -> None:
    source = weights(tiny)
    errors = {}
    for kind in ("F32", "BF16", "F16", "Q8_0", "Q4_0"):
        made = weights(requantised(tiny, kind))
        assert made.keys() == source.keys()
        errors[kind] = max(float(np.abs(made[n] - w).max() / np.abs(w).max()) for n, w in source.items())
    assert errors["F32"] == 0
    assert 0 < errors["F16"] < errors["BF16"] < errors["Q8_0"] < errors["Q4_0"] < 0.2
    unpacked = requantised(requantised(tiny, "Q8_0"), "F32")
    packed = weights(requantised(tiny, "Q8_0"))
    assert all(np.array_equal(w, packed[n]) for n, w in weights(unpacked).items()), "F32 holds what Q8_0 holds"


def test_a_model_is_made_once_and_whole(tiny: Path, other: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = requantised(tiny, "Q8_0")
    stamp = made.stat().st_mtime_ns
    assert requantised(tiny, "Q8_0") == made
    assert made.stat().st_mtime_ns == stamp
    assert requantised(other, "Q8_0") != made, "another source is another model, whatever its name"
    monkeypatch.setattr("validate.llama.quantise", lambda source, target, kind: target.write_bytes(b"half") and 1 / 0)
    with pytest.raises(ZeroDivisionError):
        requantised(tiny, "F16")
    assert sorted(p.name for p in cache.iterdir()) == sorted({made.name, requantised(other, "Q8_0").name})


def test_a_shape_runs_and_reads_any_text() -> None:
    path = shape_only(SMALL, "Q4_K")
    with Model(path) as model, LlamaEngine(model, n_ctx=256, n_threads=1) as engine:
        text = "One fish, two fish: 3 €!"
        ids = model.tokenize(text)
        assert model.text(ids[1:]).strip() == text
        assert model.n_vocab == SMALL.vocabulary
        logits = engine.logits(Pass(0, tuple(ids), len(ids)))
        assert np.isfinite(logits).all()
        assert len(set(logits.argmax(axis=1).tolist())) > 1
        assert not model.stops & set(logits.argmax(axis=1).tolist())


def test_a_shape_has_the_tensors_and_types_of_the_real_model() -> None:
    try:
        real = default_model()
    except ValueError as error:
        pytest.skip(str(error))
    made = facts(shape_only("SmolLM2-135M", "Q4_1"))
    assert made == facts(real)
    assert {kind for _, kind in made.values()} == {"Q4_1", "Q8_0", "F32"}


@pytest.mark.parametrize("kind", ["F16", "Q4_K", "Q4_0"])
def test_a_shape_has_the_types_that_llama_cpp_gives_a_whole_model(kind: str) -> None:
    assert facts(shape_only(SMALL, kind)) == facts(requantised(shape_only(SMALL, "F32"), kind))


@pytest.mark.parametrize("name", known_models())
def test_every_listed_shape_counts_the_weights_of_its_spec_or_is_refused(name: str) -> None:
    spec = ModelSpec.named(name)
    if spec.n_experts or name == "Gemma-2-9B":
        with pytest.raises(ValueError, match=f"{name} is a .*shape-only models are dense"):
            Shape.named(name)
        return
    shape = Shape.named(name)
    sizes = {n: int(np.prod(full)) for n, full in shape.tensors() if len(full) > 1}
    head = sizes.pop("output.weight", sizes["token_embd.weight"])
    del sizes["token_embd.weight"]
    assert (sum(sizes.values()), head) == (spec.dense_weights, spec.head_weights)


def test_the_command_prints_a_path_and_refuses_what_it_does_not_know(
    sweepcap: Callable[..., Outcome], tiny: Path, tmp_path: Path
) -> None:
    made = sweepcap("model", "--model", tiny, "--quant", "Q4_0")
    assert (made.status, facts(Path(made.out.strip()))["blk.0.ffn_up.weight"][1]) == (0, "Q4_0")
    assert json.loads(sweepcap("model", "--model", tiny, "--quant", "Q4_0", "--json").out)["model"] == made.out.strip()
    for words, part in {
        ("--model", tiny, "--quant", "Q3"): "known are F32",
        ("--shape", "Llama-9", "--quant", "Q8_0"): "known are Llama-3.2-3B",
        ("--shape", "Mixtral-8x7B"): "mixture of experts",
        ("--shape", "Qwen2.5-0.5B", "--model", tiny): "give one of them",
    }.items():
        outcome = sweepcap("model", *words)
        assert (outcome.status, outcome.out) == (2, "")
        assert part in outcome.err
    (tmp_path / "file").write_text("")
    assert model_hash(tmp_path / "file") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
