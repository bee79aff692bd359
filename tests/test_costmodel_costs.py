"""Pass costs: what a table may and may not say, shapes in and out, rooflines, specs and fits."""

from __future__ import annotations

import itertools
import pickle
from fractions import Fraction

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from costmodel.fit import Measured, fit_affine, fit_roofline, fit_table
from costmodel.passcost import Affine, Flat, PassCost, Roofline, Table, WithChange
from costmodel.specs import BYTES_PER_WEIGHT, DeviceSpec, ModelSpec, known_devices, known_models

relaxed = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
SPEC = ModelSpec.named("Llama-3.2-3B", "Q8_0")
DEVICE = DeviceSpec.named("laptop, DDR4-3200")
ROWS = (1, 2, 3, 4, 6, 8)
STEPPED = Table(
    n_rows=ROWS,
    n_past=(0, 200, 300, 500),
    all_rows_seconds=tuple(tuple(base * c for c in (1.0, 1.2, 1.5, 1.4, 2.1, 1.9)) for base in (10, 11, 13, 14)),
    last_row_seconds=tuple(tuple(base * c for c in (1.0, 1.1, 1.3, 1.2, 1.8, 1.5)) for base in (10, 11, 13, 14)),
    change_seconds=0.5,
)
MIXTURE = Roofline(ModelSpec.named("gpt-oss-20b", "MXFP4"), DEVICE, "sum")
COSTS: dict[str, PassCost] = {
    "flat": Flat(0.5),
    "affine": Affine(1.0, 0.25, 1e-3, 0.125),
    "roofline": Roofline(SPEC, DEVICE),
    "mixture": MIXTURE,
    "table": STEPPED,
    "with change": WithChange(Affine(1.0, 0.25, 1e-3, 0.125), 0.5),
    "no padding": Table(ROWS, STEPPED.n_past, STEPPED.all_rows_seconds, padding=None),
}


@pytest.mark.parametrize("name", COSTS)
@relaxed
@given(st.data())
def test_arrays_are_the_scalars(name: str, data: st.DataObject) -> None:
    cost = COSTS[name]
    n_rows = data.draw(st.lists(st.sampled_from(ROWS), min_size=1, max_size=8))
    n_past = data.draw(st.lists(st.integers(0, 700), min_size=len(n_rows), max_size=len(n_rows)))
    n_out = [data.draw(st.integers(0, n)) for n in n_rows]
    before = data.draw(st.lists(st.sampled_from(ROWS), min_size=len(n_rows), max_size=len(n_rows)))
    many = cost.seconds(*map(np.array, (n_past, n_rows, n_out, before)))
    each = [cost.seconds(*counts) for counts in zip(n_past, n_rows, n_out, before, strict=True)]
    assert many.shape == (len(n_rows),)
    assert all(isinstance(value, float) for value in each)
    assert many == pytest.approx(each, rel=1e-12)


@pytest.mark.parametrize("name", COSTS)
def test_arguments_broadcast(name: str) -> None:
    past, rows = np.arange(5)[:, None], np.array([1, 4, 6])
    seconds = COSTS[name].seconds(past, rows, rows)
    assert seconds.shape == (5, 3)
    assert COSTS[name].seconds(np.zeros(0, dtype=int), 1, 1).shape == (0,)
    assert float(COSTS[name].seconds(np.int64(3), np.int64(4), np.int64(4))) == pytest.approx(seconds[3, 1])


@pytest.mark.parametrize("name", [name for name in COSTS if name != "flat"])
def test_more_cached_tokens_or_logits_are_never_cheaper(name: str) -> None:
    past = np.arange(700)
    for rows in ROWS:
        assert (np.diff(COSTS[name].seconds(past, rows, rows)) >= -1e-12).all()
        assert (np.diff(COSTS[name].seconds(300, rows, np.arange(1, rows + 1))) >= -1e-12).all()


def test_a_table_is_exact_where_it_was_measured_falls_included() -> None:
    for (i, past), (j, rows) in itertools.product(enumerate(STEPPED.n_past), enumerate(STEPPED.n_rows)):
        assert STEPPED.seconds(past, rows, rows) == STEPPED.all_rows_seconds[i][j]
        assert STEPPED.last_row_seconds is not None
        assert STEPPED.seconds(past, rows, 1) == pytest.approx(STEPPED.last_row_seconds[i][j])
    assert STEPPED.seconds(0, 8, 8) < STEPPED.seconds(0, 6, 6)


def test_between_one_and_all_logits_it_is_linear() -> None:
    first, last = STEPPED.seconds(0, 6, 1), STEPPED.seconds(0, 6, 6)
    assert STEPPED.seconds(0, 6, 3) == pytest.approx(first + (last - first) * 2 / 5)
    assert STEPPED.seconds(0, 6, 0) == first


def test_the_jump_is_where_the_view_of_the_cache_grows() -> None:
    """Blocks end where n_past + n_rows passes a multiple of 256; slopes are those of the blocks' own knots."""
    for rows, scale in zip(ROWS, (1.0, 1.2, 1.5, 1.4, 2.1, 1.9), strict=True):
        edge = 257 - rows  # the first cached length whose pass needs cell 256
        low = scale * (10 + (edge - 1) / 200)
        high = scale * (13 - (300 - edge) / 200)
        assert STEPPED.seconds(edge - 1, rows, rows) == pytest.approx(low)
        assert STEPPED.seconds(edge, rows, rows) == pytest.approx(high)


def test_a_block_without_a_knot_is_linear_between_its_neighbours() -> None:
    table = Table((1, 6), (0, 512), ((10.0, 21.0), (11.0, 22.4)))
    assert [table.seconds(256, n, n) for n in (1, 6)] == pytest.approx([10.5, 21.7])
    assert table.seconds(0, 1, 1) == 10
    assert table.seconds(512, 6, 6) == 22.4


def test_a_block_with_one_knot_borrows_the_nearest_slope() -> None:
    table = Table((1,), (0, 100, 300), ((10.0,), (11.0,), (14.0,)))
    assert table.seconds(350, 1, 1) == pytest.approx(14.5)
    assert Table((1,), (300,), ((14.0,),)).seconds(350, 1, 1) == 14


def test_beyond_one_block_it_is_refused_and_then_said() -> None:
    assert STEPPED.seconds(767, 1, 1) > 14
    for cost_of in (lambda n: STEPPED.seconds(n, 1, 1), lambda n: STEPPED.seconds(np.array([0, n]), 1, 1)):
        with pytest.raises(ValueError, match=r"measured at cached lengths 0, 200, 300, 500, too far from 768"):
            cost_of(768)
    wide = Table(ROWS, STEPPED.n_past, STEPPED.all_rows_seconds, extrapolate=True)
    assert wide.seconds(1500, 1, 1) == pytest.approx(14 + 1000 * 4 / 500)
    assert wide.seconds(np.array([1500]), 1, 1)[0] == wide.seconds(1500, 1, 1)
    assert wide.notes([1], 1500) == (
        "cached lengths beyond 500 were not measured: extrapolated to 1500 by the overall trend",
    )
    far = Table((1,), (1000,), ((1.0,),))
    with pytest.raises(ValueError, match="too far from 100"):
        far.seconds(100, 1, 1)


def test_rows_outside_the_table_are_refused_and_then_said() -> None:
    holes = Table((1, 2, 4, 8), (0,), ((24.06, 39.29, 53.73, 57.38),))
    for cost_of in (lambda n: holes.seconds(0, n, n), lambda n: holes.seconds(0, np.array([1, n]), 1)):
        for rows in (6, 16):
            with pytest.raises(ValueError, match=f"no passes of {rows} rows, only of 1, 2, 4, 8"):
                cost_of(rows)
    wide = Table(holes.n_rows, holes.n_past, holes.all_rows_seconds, extrapolate=True)
    assert wide.seconds(0, 6, 6) == pytest.approx((53.73 + 57.38) / 2)
    assert wide.seconds(0, 16, 16) == pytest.approx(57.38 + 8 * (57.38 - 24.06) / 7)
    assert wide.notes([1, 6, 16]) == (
        "passes of 6, 16 rows were not measured (only 1, 2, 4, 8): extrapolated linearly over rows",
    )


def test_a_change_of_rows_costs_once() -> None:
    assert STEPPED.seconds(0, 6, 6, 1) == STEPPED.seconds(0, 6, 6) + 0.5
    assert STEPPED.seconds(0, 6, 6, 6) == STEPPED.seconds(0, 6, 6, None) == STEPPED.seconds(0, 6, 6)
    each = Table((1, 6), (0,), ((1.0, 2.0),), change_seconds=(0.1, 0.3))
    assert each.seconds(0, np.array([1, 6, 6]), 1, np.array([6, 1, 6])) == pytest.approx([1.1, 2.3, 2.0])


def test_tables_are_plain_values() -> None:
    used = Table(ROWS, STEPPED.n_past, STEPPED.all_rows_seconds)
    used.seconds(0, 1, 1)
    assert msgspec.json.decode(msgspec.json.encode(used), type=Table) == used
    assert set(msgspec.to_builtins(used)) == set(Table.__dataclass_fields__)
    assert pickle.loads(pickle.dumps(used)).seconds(10, 6, 6) == used.seconds(10, 6, 6)
    assert hash(used) == hash(Table(ROWS, STEPPED.n_past, STEPPED.all_rows_seconds))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"n_rows": ()}, "n_rows must be ascending"),
        ({"n_rows": (2, 1)}, "n_rows must be ascending"),
        ({"n_past": (-1,)}, "n_past must be ascending"),
        ({"all_rows_seconds": ((1.0,),)}, "may not have a hole"),
        ({"all_rows_seconds": ((1.0, 0.0),)}, "of 2 rows on 0 cached tokens must be positive, not 0.0"),
        ({"all_rows_seconds": ((1.0, float("nan")),)}, "must be positive, not nan"),
        ({"low": ((1.0,),)}, "low must have 1 lines of 2"),
        ({"change_seconds": (0.1,)}, "one for each of the 2 row counts"),
        ({"change_seconds": -1.0}, "change_seconds must be one number >= 0"),
        ({"padding": 0}, "padding must be at least 1"),
    ],
)
def test_tables_that_cannot_be_are_refused(fields: dict[str, object], message: str) -> None:
    good = {"n_rows": (1, 2), "n_past": (0,), "all_rows_seconds": ((1.0, 1.5),)}
    with pytest.raises(ValueError, match=message):
        Table(**{**good, **fields})  # type: ignore[arg-type]


def test_other_costs_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="sweep_seconds must be positive"):
        Flat(0.0)
    with pytest.raises(ValueError, match="row_seconds must be zero or positive"):
        Affine(1.0, -0.1)
    with pytest.raises(ValueError, match="would cost nothing"):
        Affine(0.0, 0.0)
    with pytest.raises(ValueError, match="change_seconds must be zero or positive"):
        WithChange(Flat(1.0), -1.0)
    with pytest.raises(ValueError, match="n_out must be between 0 and the 2 rows, not 3"):
        STEPPED.seconds(0, 2, 3)
    with pytest.raises(ValueError, match="n_out between 0 and n_rows"):
        STEPPED.seconds(0, np.array([2]), 3)
    with pytest.raises(ValueError, match="combine must be one of max, sum"):
        Roofline(SPEC, DEVICE, "min")  # type: ignore[arg-type]


# Rooflines and specs


def test_one_row_reads_every_weight_once() -> None:
    bound = Roofline(SPEC, DeviceSpec("memory", 1e9, 1e18))
    kv = SPEC.kv_values * SPEC.kv_value_bytes * 257
    assert bound.seconds(256, 1, 1) == pytest.approx((SPEC.dense_bytes + SPEC.head_bytes + kv) / 1e9)
    assert bound.seconds(256, 1, 0) == pytest.approx((SPEC.dense_bytes + kv) / 1e9)
    busy = Roofline(SPEC, DeviceSpec("arithmetic", 1e14, 1e9))
    attention = 4 * SPEC.n_heads * SPEC.head_size * SPEC.n_layers * 6 * 6
    assert busy.seconds(0, 6, 6) == pytest.approx((2 * 6 * SPEC.n_weights + attention) / 1e9)


def test_sum_and_max_meet_where_one_part_vanishes() -> None:
    fast, slow = (DeviceSpec("d", 1e9, flops) for flops in (1e18, 1e10))
    assert Roofline(SPEC, fast, "sum").seconds(0, 4, 4) == pytest.approx(
        Roofline(SPEC, fast).seconds(0, 4, 4), rel=1e-6
    )
    both = Roofline(SPEC, slow)
    parts = both.bytes(0, 4, 4) / 1e9, both.flops(0, 4, 4) / 1e10
    assert both.seconds(0, 4, 4) == max(parts)
    assert Roofline(SPEC, slow, "sum").seconds(0, 4, 4) == pytest.approx(sum(parts))


def test_expected_distinct_experts_by_enumeration() -> None:
    """Every way two of four experts can be drawn by each of three rows."""
    tiny = ModelSpec("tiny", 1, 1, 2, 4, 10, 10.0, 5, 5.0, 4, 2, 3, 3.0)
    cost = Roofline(tiny, DEVICE)
    pairs = list(itertools.combinations(range(4), 2))
    for rows in (1, 2, 3):
        draws = [len(set().union(*draw)) for draw in itertools.product(pairs, repeat=rows)]
        expected = Fraction(sum(draws), len(draws))
        read = cost.bytes(0, rows, 0) - tiny.dense_bytes - 2 * 4 * rows
        assert read / tiny.expert_bytes == pytest.approx(float(expected))


def test_a_window_bounds_what_is_read() -> None:
    spec = ModelSpec.named("Gemma-2-9B")
    cost = Roofline(spec, DEVICE)
    step = cost.bytes(9001, 1, 1) - cost.bytes(9000, 1, 1)
    assert step == pytest.approx(spec.kv_values * 2 / 2)  # half of its layers look back no further than 4096
    assert cost.bytes(1001, 1, 1) - cost.bytes(1000, 1, 1) == pytest.approx(spec.kv_values * 2)


PARAMETERS = {  # published totals, in 1e9, and whether the token embedding is counted besides the head
    "Llama-3.2-3B": (3.21, False),
    "Qwen2.5-0.5B": (0.49, False),
    "SmolLM2-135M": (0.135, False),
    "Llama-3.2-1B": (1.24, False),
    "Llama-3.1-8B": (8.03, True),
    "Llama-2-7B": (6.74, True),
    "Llama-2-13B": (13.02, True),
    "Mistral-7B-v0.1": (7.24, True),
    "Gemma-2-9B": (9.24, False),
    "Qwen2.5-14B": (14.77, True),
    "Mixtral-8x7B": (46.7, True),
    "Qwen3-30B-A3B": (30.5, True),
    "gpt-oss-20b": (20.9, True),
}


def test_shapes_add_up_to_the_published_parameters() -> None:
    assert set(PARAMETERS) == set(known_models())
    for name, (published, embedding_too) in PARAMETERS.items():
        spec = ModelSpec.named(name)
        total = spec.n_weights + embedding_too * spec.head_weights
        assert total / 1e9 == pytest.approx(published, rel=0.012), name
        assert spec.source


def test_devices_have_sources_and_their_ridge_is_where_it_can_be() -> None:
    assert len(known_devices()) >= 10
    for name in known_devices():
        device = DeviceSpec.named(name)
        assert device.source
        assert 2 < device.flops_per_second / device.bytes_per_second < 500


def test_types_are_as_large_as_ggml_says() -> None:
    constants = pytest.importorskip("gguf.constants", reason="gguf is not installed")
    for name, size in BYTES_PER_WEIGHT.items():
        weights, stored = constants.GGML_QUANT_SIZES[constants.GGMLQuantizationType[name]]
        assert size == stored / weights


def test_specs_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match=r"51.2 GB/s is 51.2e9"):
        DeviceSpec("slip", 51.2, 1e12)
    with pytest.raises(ValueError, match="pass_seconds"):
        DeviceSpec("slip", 1e10, 1e12, pass_seconds=30)
    with pytest.raises(ValueError, match="give bytes, not GB"):
        ModelSpec("slip", 1, 1, 64, 128, 10**9, 1.0, 10**6, 1e6)
    with pytest.raises(ValueError, match="n_layers of a model"):
        ModelSpec("slip", 0, 1, 64, 128, 10**6, 1e6, 10**6, 1e6)
    with pytest.raises(ValueError, match="experts"):
        ModelSpec("slip", 1, 1, 64, 128, 10**6, 1e6, 10**6, 1e6, 4, 8, 10**3, 1e3)
    with pytest.raises(ValueError, match="a window of 128 tokens on 0 layers"):
        ModelSpec("slip", 1, 1, 64, 128, 10**6, 1e6, 10**6, 1e6, window=128)
    with pytest.raises(ValueError, match=r"unknown model 'GPT-9'; known are Llama-3.2-3B"):
        ModelSpec.named("GPT-9")
    with pytest.raises(ValueError, match="unknown device 'abacus'; known are"):
        DeviceSpec.named("abacus")
    with pytest.raises(ValueError, match="unknown tensor type 'Q9'"):
        ModelSpec.named("Llama-3.2-3B", "Q9")


# Fits


def passes(cost: PassCost, n: int = 400, seed: int = 1) -> Measured:
    """Measured passes: 2 % noise, and one in twenty that took thirty times as long."""
    generator = np.random.default_rng(seed)
    past, rows = generator.integers(0, 1000, n), generator.integers(1, 17, n)
    out = generator.integers(1, rows + 1)
    seconds = cost.seconds(past, rows, out) * np.exp(generator.normal(0, 0.02, n))
    seconds[::20] *= 30
    return Measured.of(past, rows, out, seconds)


def test_an_affine_cost_is_found_among_outliers() -> None:
    truth = Affine(0.008, 0.001, 2e-6, 5e-4)
    fit = fit_affine(passes(truth), n_resamples=30)
    for name, (low, high) in fit.intervals.items():
        assert getattr(truth, name) == pytest.approx(fit.parameters[name], rel=0.15)
        assert low < fit.parameters[name] < high
    assert fit.residuals.shape == (400,)
    assert np.median(np.abs(fit.residuals)) < 0.02


def test_what_never_varies_has_no_part_of_its_own() -> None:
    rows = np.array([1, 2, 4, 8, 1, 2, 4, 8])
    fit = fit_affine(Measured.of(np.zeros(8), rows, rows, 0.01 + 0.002 * rows), n_resamples=0)
    assert set(fit.parameters) == {"fixed_seconds", "row_seconds"}
    assert fit.cost.row_seconds == pytest.approx(0.002, rel=1e-3)
    with pytest.raises(ValueError, match="at least two row counts"):
        fit_affine(Measured.of([0, 0], [1, 1], [1, 1], [0.01, 0.01]))


def test_a_roofline_is_found_among_outliers() -> None:
    spec = ModelSpec.named("Llama-3.2-1B", "Q8_0")
    truth = DeviceSpec("d", 30e9, 2e11, 0.002)
    fit = fit_roofline(passes(Roofline(spec, truth)), spec, n_resamples=20)
    assert fit.cost.device.bytes_per_second == pytest.approx(30e9, rel=0.1)
    assert fit.cost.device.flops_per_second == pytest.approx(2e11, rel=0.05)
    low, high = fit.intervals["flops_per_second"]
    assert low < 2e11 * 1.01
    assert high > 2e11 * 0.99


def test_a_table_is_the_medians_and_never_smoothed() -> None:
    generator = np.random.default_rng(0)
    cells = {(0, 1): 10.0, (0, 6): 21.0, (0, 8): 19.0, (512, 1): 11.0, (512, 6): 22.4, (512, 8): 20.0}
    past, rows, seconds = [], [], []
    for (p, n), center in cells.items():
        values = center * np.exp(generator.normal(0, 0.01, 21))
        values[0] *= 30
        past += [p] * 21
        rows += [n] * 21
        seconds += values.tolist()
    fit = fit_table(Measured.of(past, rows, rows, seconds))
    for i, ((p, n), center) in enumerate(cells.items()):
        assert fit.cost.seconds(p, n, n) == np.median(seconds[21 * i : 21 * i + 21])
        low, high = fit.intervals[f"c({n}) at {p}"]
        assert low <= fit.cost.seconds(p, n, n) <= high
        assert low == pytest.approx(center, rel=0.02)
    with pytest.raises(ValueError, match="no pass of 6 rows on 512"):
        fit_table(Measured.of([0, 0, 512], [1, 6, 1], [1, 6, 1], [1.0, 2.0, 1.0]))


def test_measured_passes_are_checked() -> None:
    with pytest.raises(ValueError, match="equally many"):
        Measured.of([0], [1, 2], [1], [0.1])
    with pytest.raises(ValueError, match="must be positive"):
        Measured.of([0], [1], [1], [0.0])
