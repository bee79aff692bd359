"""Cost tables out of llama-bench and llama-batched-bench: each trap of real files, built here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from costmodel.acceptance import iid
from costmodel.bench import import_cost
from costmodel.caps import best_rows, full_acceptance_speedup
from costmodel.specs import ModelSpec
from costmodel.throughput import acceptance_where, finite

MS = {1: 10.0, 2: 12.0, 3: 14.5, 4: 16.0, 5: 19.0, 6: 21.0, 7: 24.0, 8: 23.0}
JITTER = (0.996, 1.002, 1.0, 0.999, 1.003)


def bench(
    n_prompt: int = 0, n_gen: int = 0, ms: float = 10.0, jitter: tuple[float, ...] = JITTER, **fields: Any
) -> dict[str, Any]:
    """One test as today's llama-bench writes it, as far as it matters."""
    samples = [round(ms * 1e6 * share) for share in jitter]
    return {
        "build_commit": "1a2b3c4d",
        "cpu_info": "Example CPU",
        "backends": "CPU",
        "model_filename": "models/qwen2.5-0.5b-instruct-q8_0.gguf",
        "model_type": "qwen2 1B Q8_0",
        "n_batch": 2048,
        "n_ubatch": 512,
        "n_threads": 4,
        "n_gpu_layers": -1,
        "n_prompt": n_prompt,
        "n_gen": n_gen,
        "n_depth": 0,
        "avg_ns": sum(samples) // len(samples),
        "samples_ns": samples,
        **fields,
    }


def batched(pl: int, ms: float, pp: int = 0, tg: int = 1, **fields: Any) -> dict[str, Any]:
    """One line as llama-batched-bench writes it."""
    return {
        "n_kv_max": 4096,
        "n_ubatch": 512,
        "n_threads": 4,
        "n_threads_batch": 4,
        "pp": pp,
        "tg": tg,
        "pl": pl,
        "n_kv": pl * (pp + tg),
        "t_tg": ms * tg / 1e3,
        **fields,
    }


def sweep(curve: Mapping[int, float] = MS, **fields: Any) -> list[dict[str, Any]]:
    return [bench(n, ms=ms, **fields) for n, ms in curve.items()]


def lines(tests: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(test) + "\n" for test in tests)


@pytest.fixture
def written(tmp_path: Path) -> Any:
    def write(text: str, name: str = "bench.json") -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_log_lines_around_and_within_the_json_are_skipped_and_counted(written: Any) -> None:
    text = json.dumps(sweep(), indent=2)
    noisy = "load_backend: loaded CPU backend\nggml_vulkan: Found 0 devices:\n[warn] no GPU\n" + text + "\nggml: bye\n"
    inside = noisy.replace("},\n  {", "},\nwarning: in between\n  {", 1)
    for captured, skipped in ((text, 0), (noisy, 4), (inside, 5)):
        got = import_cost(written(captured))
        assert [got.profile.cost.seconds(0, n, n) * 1e3 for n in MS] == pytest.approx(list(MS.values()))
        assert (f"{skipped} lines that are not JSON were skipped" in got.notes) == bool(skipped)


def test_json_lines_are_the_same_table(written: Any) -> None:
    array, jsonl = import_cost(written(json.dumps(sweep()))), import_cost(written("log line\n" + lines(sweep())))
    assert array.profile == jsonl.profile


@pytest.mark.parametrize("cut_at", [0.93, 0.55, 0.2])
def test_a_cut_file_is_refused_or_taken_with_a_loud_word(written: Any, cut_at: float) -> None:
    text = json.dumps(sweep(), indent=2)
    cut = written(text[: int(len(text) * cut_at)])
    complete = text[: int(len(text) * cut_at)].count("\n  }")
    with pytest.raises(ValueError, match=rf"cut short after {complete} complete tests.*-o jsonl"):
        import_cost(cut)
    got = import_cost(cut, force=True)
    assert got.profile.cost.n_rows == tuple(MS)[:complete]
    assert got.profile.caveats[0] == f"the file was cut short: only its {complete} complete tests are used"


def test_a_cut_line_is_noticed(written: Any) -> None:
    with pytest.raises(ValueError, match="cut short after 8 complete tests"):
        import_cost(written(lines(sweep()) + '{"n_prompt": 9, "n_ge'))


def test_generation_and_combined_and_split_tests_are_no_passes(written: Any) -> None:
    mixed = [*sweep(), bench(512, ms=900), bench(1024, ms=1850), bench(0, 128, ms=1305.6), bench(64, 16, ms=300)]
    for test in mixed:  # as in 2023: no depth, no list of backends
        del test["n_depth"], test["backends"]
        test.update(cuda=False, metal=False, n_gpu_layers=0)
    got = import_cost(written(json.dumps(mixed)))
    cost = got.profile.cost
    assert cost.n_rows == (*MS, 512)
    assert cost.n_past == (0,)
    assert cost.seconds(0, 1, 1) == pytest.approx(0.010)
    assert cost.seconds(0, 8, 8) < cost.seconds(0, 7, 7)
    said = " ".join(got.notes)
    assert "tg128 gives 10.2 ms a token" in said
    assert "pg64+16" in said
    assert "pp1024" in said
    assert best_rows(cost) == (8, pytest.approx(3.478, abs=5e-4))
    assert full_acceptance_speedup("fused", "gated", 6, cost) == pytest.approx(1.2653, abs=5e-5)
    assert any("last row's logits only" in caveat for caveat in got.profile.caveats)


def test_what_follows_from_it_for_a_locked_text(written: Any) -> None:
    """126 tokens that are always drafted right, R = 6: 126, 36, 21 and 21 passes."""
    cost = import_cost(written(json.dumps(sweep()))).profile.cost
    runs = {loop: finite(loop, iid(1), 6, 126, cost) for loop in ("greedy", "gated", "fused", "carry")}
    assert {loop: run.n_passes for loop, run in runs.items()} == {"greedy": 126, "gated": 36, "fused": 21, "carry": 21}
    assert runs["gated"].passes_of_rows == {1: 18, 6: 18}
    assert runs["greedy"].seconds / runs["carry"].seconds == pytest.approx(2.857, abs=5e-4)
    assert runs["gated"].seconds / runs["fused"].seconds == pytest.approx(1.2653, abs=5e-5)


def test_intervals_are_those_of_the_repetitions(written: Any) -> None:
    cost = import_cost(written(json.dumps(sweep()))).profile.cost
    assert cost.low is not None
    assert cost.high is not None
    assert all(a < c < b for a, c, b in zip(cost.low[0], cost.all_rows_seconds[0], cost.high[0], strict=True))
    once = import_cost(written(json.dumps(sweep(jitter=(1.0,)))))
    assert once.profile.cost.low is None
    assert any("once only" in caveat for caveat in once.profile.caveats)
    bare = [{key: value for key, value in test.items() if key != "samples_ns"} for test in sweep()]
    assert import_cost(written(json.dumps(bare))).profile.cost.seconds(0, 6, 6) == pytest.approx(0.021)


def test_several_settings_are_listed_and_one_is_picked(written: Any) -> None:
    tests = []
    for model, kind in (("models/a-q8_0.gguf", "Q8_0"), ("models/b-q4_0.gguf", "Q4_0")):
        for threads, scale in ((4, 1.0), (8, 0.7)):
            ratio = 2.1 if threads == 4 else 2.31
            curve = {1: 10 * scale, 6: 10 * scale * ratio}
            tests += sweep(curve, model_filename=model, model_type=kind, n_threads=threads)
    path = written(lines(tests))
    with pytest.raises(ValueError, match="holds 4 settings") as refused:
        import_cost(path)
    for pair in (
        "model a-q8_0.gguf, threads 4",
        "model b-q4_0.gguf, threads 8",
        "--select model=a-q8_0.gguf --select threads=4",
    ):
        assert pair in str(refused.value)
    for model in ("a-q8_0.gguf", "b-q4_0", "models/b-q4_0.gguf"):
        for threads, ratio in (("4", 2.1), ("8", 2.31)):
            profile = import_cost(path, {"model": model, "threads": threads}).profile
            assert profile.cost.seconds(0, 6, 6) / profile.cost.seconds(0, 1, 1) == pytest.approx(ratio)
            assert profile.n_threads == int(threads)
    with pytest.raises(ValueError, match=r"no test with n_threads '16', only 4, 8"):
        import_cost(path, {"threads": "16"})
    with pytest.raises(ValueError, match="no field 'colour' to select by"):
        import_cost(path, {"colour": "red"})


def test_depths_are_one_table_and_never_averaged(written: Any) -> None:
    tests = sweep({1: 10.0, 6: 21.0}) + sweep({1: 11.0, 6: 22.4}, n_depth=512)
    got = import_cost(written(json.dumps(tests)))
    cost = got.profile.cost
    assert cost.n_past == (0, 512)
    assert [cost.seconds(past, 6, 6) / cost.seconds(past, 1, 1) for past in (0, 512)] == pytest.approx(
        [2.1, 2.2400 / 1.1]
    )
    assert cost.seconds(256, 1, 1) == pytest.approx(0.0105)
    assert any("between them it is linear" in caveat for caveat in got.profile.caveats)
    with pytest.raises(ValueError, match="no passes of 2 rows at cached length 512"):
        import_cost(written(json.dumps([*tests, bench(2, ms=12)])))


def test_the_head_of_all_rows_is_added_where_the_model_is_known(written: Any) -> None:
    spec = ModelSpec.named("Qwen2.5-0.5B", "Q8_0")
    got = import_cost(written(json.dumps(sweep())), spec=spec)
    cost, share = got.profile.cost, spec.head_weights / spec.dense_weights
    for n, ms in MS.items():
        assert cost.seconds(0, n, 1) * 1e3 == pytest.approx(ms)
        assert cost.seconds(0, n, n) * 1e3 == pytest.approx(ms + (ms - 10) * share)
    assert any("c(6) 21 -> 25.18 ms" in note for note in got.notes)
    assert any("estimated, not measured" in caveat for caveat in got.profile.caveats)


def test_a_gpu_and_a_mixture_of_experts_are_marked(written: Any) -> None:
    metal = {n: n / speed for n, speed in enumerate((63.62, 25.92, 38.87, 51.93, 64.29, 77.4, 89.9, 102.94), 1)}
    got = import_cost(written(json.dumps(sweep({n: s * 1e3 for n, s in metal.items()}, backends="Metal,BLAS"))))
    assert any("GPU (Metal)" in caveat for caveat in got.profile.caveats)
    cost = got.profile.cost
    assert best_rows(cost, range(1, 5)) == (1, 1)
    (needed,) = acceptance_where("carry", "greedy", 8, cost.seconds(0, 8, 8) / cost.seconds(0, 1, 1))
    assert needed > 0.85
    assert full_acceptance_speedup("fused", "gated", 6, cost) == pytest.approx(1.0309, abs=2e-4)
    for kind in ("qwen3moe 30B.A3B Q4_K - Medium", "llama 8x7B Q4_0"):
        mixture = import_cost(written(json.dumps(sweep({1: 90.0, 6: 280.0}, model_type=kind))))
        assert any("mixture of experts" in caveat for caveat in mixture.profile.caveats)
        assert full_acceptance_speedup("fused", "gated", 6, mixture.profile.cost) == pytest.approx(1.1327, abs=5e-5)
    assert len(import_cost(written(json.dumps(sweep()))).profile.caveats) == 1


def test_batched_bench_is_one_row_a_sequence_and_its_holes_stay(written: Any) -> None:
    seconds = {1: 3.079, 2: 5.029, 4: 6.878, 8: 7.344}  # llama.cpp #3545
    tests = [batched(n, t * 1e3 / 128, pp=128, tg=128) for n, t in seconds.items()]
    got = import_cost(written(lines(tests)))
    cost = got.profile.cost
    assert cost.n_past == (192,)
    ms = [cost.seconds(192, n, n) * 1e3 for n in seconds]
    assert ms == pytest.approx([24.06, 39.29, 53.73, 57.38], abs=0.01)
    assert [value / ms[0] for value in ms[1:]] == pytest.approx([1.633, 2.234, 2.385], abs=1e-3)
    for rows in (6, 16):
        with pytest.raises(ValueError, match=f"no passes of {rows} rows, only of 1, 2, 4, 8"):
            full_acceptance_speedup("fused", "gated", rows, cost, n_past=192)
    assert any("different sequences" in caveat for caveat in got.profile.caveats)


def test_other_threads_for_one_row_are_refused_or_said_first(written: Any) -> None:
    path = written(lines([batched(1, 13.6, n_threads_batch=8), batched(2, 9.7, n_threads_batch=8)]))
    with pytest.raises(ValueError, match=r"one row ran with 4 threads and wider ones with 8.*-t and -tb equal"):
        import_cost(path)
    assert "falsifies every ratio" in import_cost(path, force=True).profile.caveats[0]


def test_nothing_generated_is_no_pass(written: Any) -> None:
    got = import_cost(written(lines([batched(1, 10.0), batched(2, 12.0), batched(4, 1.0, pp=128, tg=0)])))
    assert got.profile.cost.n_rows == (1, 2)
    assert any("nothing was generated" in note for note in got.notes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "| model | size | test | t/s |\n| --- | --- | --- | --- |\n| a | 1 | pp1 | 100 |\n",
            "Markdown table.*-o json",
        ),
        ("|  PP | TG | B | S_TG t/s |\n|---|---|---|---|\n", "Markdown table.*--output-format jsonl"),
        ('build_commit,build_number,n_prompt\n"1a",1,1\n', "is CSV.*-o json"),
        ("CREATE TABLE IF NOT EXISTS llama_bench (\n", "is SQL"),
        ('{"pp": 512, "tg": 128, "n_kv": 0, "t_pp": 0.9, "t_tg": 1.3}\n', "llama-sweep-bench's output"),
        ('{"role": "user", "content": "hello"}\n', "neither llama-bench's nor llama-batched-bench's"),
        ("", "holds no tests"),
        ("[]", "holds no tests"),
        ("just words\n", "holds no tests"),
        (lines([bench(0, 128, ms=1305.6)]), "holds no passes to price"),
        (lines([bench(1), batched(1, 10.0)]), "of llama-bench and of llama-batched-bench"),
        (lines([bench(1, ms=0.0)]), "must be positive"),
    ],
)
def test_everything_else_is_named(written: Any, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        import_cost(written(text))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nowhere.json cannot be read: No such file"):
        import_cost(tmp_path / "nowhere.json")
