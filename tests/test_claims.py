"""The preprint's claims: what they imply is theory, verdicts follow the evidence, measuring goes on where it was."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.acceptance import iid
from costmodel.caps import CORRECTS, full_acceptance_speedup, sweep_cap
from costmodel.claims import claims
from costmodel.implied import endless, free_rows_speedup, implied_ratio
from costmodel.passcost import Table
from costmodel.surface import surface
from costmodel.throughput import acceptance_where, speedup
from figures.claimspage import page
from sim.loops import LOOPS
from sim.predict import price, walk
from sim.setting import Setting
from sim.trace import Text
from sim.trace import load as load_texts
from tests import small_run
from tests.evidence import cost, evidence, part
from validate.claims import KINDS, judge
from validate.counted import corrections
from validate.evidence import Evidence, load
from validate.parts import PARTS, measure_parts, shortened
from validate.published import published
from validate.record import load_prompts, suite
from validate.runs import load as load_runs
from validate.split import split

ROOT = Path(__file__).parent.parent


# The data


def test_the_claims_are_the_published_figures() -> None:
    printed = {
        claim["id"]: tuple(claim["fused_over_gated"]) for claim in published()["fused_correction_claims"]["claims"]
    }
    assert {name: claim.speedups for name, claim in claims().items() if claim.speedups} == printed
    for claim in claims().values():
        assert claim.source.startswith("doi:10.5281/zenodo.23990528, abstract")
        assert claim.kind in KINDS
        for value in claim.speedups:
            assert f"{value:.2f}x" in claim.states


# What they imply


COUNTS = st.dictionaries(st.integers(1, 6), st.integers(1, 50), min_size=1)


@given(COUNTS, COUNTS, st.fractions(Fraction(1, 10), 10))
def test_the_implied_ratio_is_the_one_that_was_put_in(ours: dict, theirs: dict, ratio: Fraction) -> None:
    def priced(counts: dict) -> Fraction:
        return sum(times * (1 + (ratio - 1) * Fraction(n - 1, 5)) for n, times in counts.items())

    found = implied_ratio(priced(theirs) / priced(ours), ours, theirs, 6)
    if found is None:  # both loops cost the same mix of rows: every ratio gives this speedup
        slopes = [Fraction(sum(t * (n - 1) for n, t in c.items()), sum(c.values())) for c in (ours, theirs)]
        assert slopes[0] == slopes[1]
    else:
        assert found == ratio


def test_endless_passes_are_the_full_acceptance_cycle() -> None:
    for loop in CORRECTS:
        for rows in (2, 6, 7):
            passes, gated = endless(loop, rows), endless("gated", rows)
            assert free_rows_speedup(passes, gated) == pytest.approx(
                float(full_acceptance_speedup(loop, "gated", rows))
            )
    assert implied_ratio(sweep_cap(6), endless("fused", 6), endless("gated", 6), 6) == 1
    above = implied_ratio(Fraction(2), endless("fused", 6), endless("gated", 6), 6)
    assert above is not None
    assert above < 1


@pytest.mark.parametrize("loop", ["fused", "fused-partial", "carry"])
def test_the_map_is_the_chain_priced_at_every_place(loop: str) -> None:
    ratios, acceptances = [1.0, 2.5, 8.0], [0.1, 0.6, 1.0]
    told = surface(loop, "gated", 6, ratios, acceptances)
    for i, p in enumerate(acceptances):
        for j, x in enumerate(ratios):
            assert told[i, j] == pytest.approx(speedup(loop, "gated", iid(p), 6, Table((1, 6), (0,), ((1.0, x),))))
    assert surface("fused", "gated", 6, [1.0, 6.0], [1.0])[0].tolist() == pytest.approx([12 / 7, 1.0])


def test_corrections_are_counted_where_the_cycle_has_them() -> None:
    for loop in LOOPS:
        n_tokens = 20 * 42
        cycles = n_tokens // 7 if CORRECTS[loop] else 0
        assert corrections(loop, n_tokens) == pytest.approx(0 if loop == "greedy" else cycles, abs=2), loop


# Verdicts follow the evidence


def verdicts(found: Evidence) -> dict[str, str]:
    return {line.claim.name: line.verdict for line in judge(found)}


def test_a_flat_enough_curve_reproduces_what_a_steep_one_explains() -> None:
    flat, steep = part(1.35), part(3.5)
    named = verdicts(evidence({"text": flat, "Llama-3.2-3B": flat, "Qwen2.5-0.5B": part(2.5)}))
    assert named["llama-paired"] == named["qwen-paired"] == named["cap"] == "reproduced"
    assert verdicts(evidence({"text": flat}))["llama-paired"] == "explained"  # another model is no reproduction
    assert verdicts(evidence({"text": steep, "Llama-3.2-3B": steep}))["llama-paired"] == "explained"


def test_a_model_that_does_not_meet_the_measurement_explains_nothing() -> None:
    off = part(3.5, measured=1.2)
    told = verdicts(evidence({"text": off}))
    assert told["llama-paired"] == told["mixed-partial"] == "not reproduced"


def test_nothing_is_explained_by_a_cost_below_one_sweep() -> None:
    told = verdicts(evidence({"text": part(1.2)}))
    assert told["llama-aabb"] == told["repeat-penalty"] == "not reproduced"  # no drift was seen that could do it


def test_what_is_measured_above_the_cap_is_said() -> None:
    high = part(1.05, measured=1.1)
    line = next(line for line in judge(evidence({"text": high})) if line.claim.name == "cap")
    assert line.verdict == "not reproduced"
    assert "measured above it" in line.reason
    own = evidence({"text": high, "Llama-3.2-3B": part(1.05, measured=1.08, half=0.05)})
    assert verdicts(own)["llama-aabb"] == "reproduced"


def test_the_price_of_changing_rows_is_told_where_the_cap_is_exceeded() -> None:
    line = next(line for line in judge(evidence({"text": part(3.5, change=0.06)})) if line.claim.name == "llama-aabb")
    assert "costs 3.2 % of a pass" in line.implies
    assert "costs 6.0 % of a 1-row pass" in line.reason


def test_texts_that_never_chain_reproduce_the_range_around_one() -> None:
    told = evidence({"text": part(3.5)})
    line = next(line for line in judge(told) if line.claim.name == "non-repetitive")
    assert line.verdict == "reproduced"
    assert "no chained passes on story" in line.reason
    assert verdicts(evidence({"text": part(3.5, measured=1.1)}))["non-repetitive"] == "not reproduced"


def test_the_set_behind_the_loss_is_on_the_line() -> None:
    line = next(line for line in judge(evidence({"text": part(3.5)})) if line.claim.name == "mixed-partial")
    pairs = [tuple(map(float, pair)) for pair in re.findall(r"\(([\d.]+), ([\d.]+)\)", line.implies)]
    assert len(pairs) >= 5
    for ratio, acceptance in pairs:
        assert surface("fused-partial", "gated", 6, [ratio], [acceptance])[0, 0] == pytest.approx(0.74, abs=0.02)
    assert acceptance_where("fused-partial", "gated", 6, 1.0, 0.74) == ()


@pytest.mark.parametrize(
    ("parity", "verdict"), [("same", "reproduced"), ("tie", "explained"), ("bug", "not reproduced")]
)
def test_parity_is_judged_by_the_worst(parity: str, verdict: str) -> None:
    text = part(3.5)
    worse = msgspec.structs.replace(text.walks[1], parity=parity)
    changed = msgspec.structs.replace(text, walks=(text.walks[0], worse, *text.walks[2:]))
    assert verdicts(evidence({"text": changed}))["output-unchanged"] == verdict
    fed = msgspec.structs.replace(changed, fed=True)  # follows the text it is given: no evidence
    assert verdicts(evidence({"text": text, "Qwen2.5-0.5B": fed}))["output-unchanged"] == "reproduced"


def test_standard_loops_are_judged_by_driving_them() -> None:
    line = next(line for line in judge(evidence({"text": part(3.5)})) if line.claim.name == "standard-loops")
    assert line.verdict == "explained"
    assert {loop for loop, n in line.counts.items() if n} == {"gated", "decode-then-speculate", "re-anchor"}


def test_the_page_has_a_place_and_a_picture_for_every_claim() -> None:
    found = evidence({"text": part(3.5), "Qwen2.5-0.5B": part(4.5, fed=True)})
    text = page(found, judge(found))
    for name, claim in claims().items():
        assert f'<a id="{name}"></a>{claim.states}' in text
        assert f"](#{name})" in text
        assert f"(figures/claim-{name}.svg)" in text
    assert "`fused` runs at 1.00x `carry` at equal rows, at 0.98x `carry` at equal tokens (R = 7)" in text
    assert "Qwen2.5-0.5B shapes" in text


def test_the_page_says_so_when_fusing_beats_even_carry() -> None:
    text = part(1.2)
    better = [
        msgspec.structs.replace(r, measured=1.2, low=1.15, high=1.25)
        if r.baseline == "carry" and r.loop == "fused"
        else r
        for r in text.ratios
    ]
    found = evidence({"text": msgspec.structs.replace(text, ratios=tuple(better))})
    assert "to nobody else" in page(evidence({"text": text}), judge(found))
    assert "to nobody else" not in page(found, judge(found))


def test_the_committed_page_is_what_its_records_say() -> None:
    """Word for word; numbers may differ in the last digit from one linear algebra library to the next."""
    committed = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")
    found = load(ROOT / "figures" / "records" / "claims.json")
    now, number = page(found, judge(found)), re.compile(r"[+-]?\d+(?:\.\d+)?")
    assert number.sub("#", committed) == number.sub("#", now)
    told, again = ([float(text) for text in number.findall(words)] for words in (committed, now))
    assert told == pytest.approx(again, rel=0.05, abs=0.02)
    for picture in re.findall(r"!\[[^]]*\]\(([^)]*)\)", committed):
        assert (ROOT / "docs" / picture).exists()


def test_evidence_survives_its_file(tmp_path: Path) -> None:
    found = evidence({"text": part(3.5)})
    (tmp_path / "evidence.json").write_bytes(msgspec.json.encode(found))
    assert load(tmp_path / "evidence.json") == found
    for broken in (b"{}", b"[", b'{"environment": {}, "parts": {}, "format": "other"}'):
        (tmp_path / "evidence.json").write_bytes(broken)
        with pytest.raises(ValueError, match=r"evidence\.json"):
            load(tmp_path / "evidence.json")
    with pytest.raises(ValueError, match="not measured yet"):
        judge(evidence({}))


# The error split


def test_error_shares_add_up_to_the_error() -> None:
    from math import log

    runs = small_run.runs({"now and then": "mixed", "locked": "locked"})
    texts = [
        Text(name=name, n_prompt=small_run.N_PROMPT, tokens=tuple(small_run.ids(regime)))
        for name, regime in (("now and then", "mixed"), ("locked", "locked"))
    ]
    table = cost(2.5)

    def total(loop: str) -> tuple[float, float]:
        priced = sum(price(walk(text, Setting(loop, 6)), table).sum() for text in texts)
        return float(priced), sum(run.seconds for run in runs if run.loop == loop)

    shares = split(texts, runs, table)
    assert {share.kind for share in shares} == {"decode", "verify", "chained", "correction"}
    for loop in ("gated", "fused", "carry"):
        predicted, measured = (greedy / ours for greedy, ours in zip(total("greedy"), total(loop), strict=True))
        mine = sum(share.error for share in shares if share.loop == loop)
        assert mine == pytest.approx(log(predicted / measured))
        assert abs(mine) > 1e-3
    assert split(texts, [run for run in runs if run.loop != "greedy"], table) == []


# Measuring, on tiny models


@pytest.fixture
def shapes(other: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every shape-only model is another tiny one."""
    monkeypatch.setattr("validate.parts.shape_only", lambda spec, kind: other)
    return other


def test_claims_measure_judge_and_go_on(
    tiny: Path, shapes: Path, tmp_path: Path, sweepcap: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, prompts = tmp_path / "claims", tmp_path / "prompts.jsonl"
    names = ("locked repetition", "code edit", "question", "summary", "story")  # a tiny model has no chat template
    lines = [{"name": name, "prompt": f"ba be {name[:2]} bi bo bu " * 3} for name in names]
    prompts.write_text("".join(json.dumps(line) + "\n" for line in lines))
    words = ("claims", "--model", tiny, "--out", out, "--quick", "--threads", 1, "--prompts", prompts)
    done = sweepcap(*words)
    assert done.status == 0, done.err
    for claim in claims().values():
        assert claim.states.split()[0] in done.out
    assert len(re.findall(r"reproduced|explained|not reproduced", done.out)) >= 10
    assert not (out / "Llama-3.2-3B").exists()  # only with --full
    assert sorted(path.name for path in (out / "figures").iterdir()) == sorted(f"claim-{name}.svg" for name in claims())
    check_fed_part(out)
    assert load_runs(out / "penalty" / "runs.jsonl")[0].penalties.repeat == 1.1
    # Again: nothing is measured anew. A half-written part goes on.
    asked, parts = load_prompts(prompts), shortened(PARTS, n_tokens=24, n_blocks=1)
    before = {path: path.read_bytes() for path in out.rglob("*.jsonl")}
    measure_parts(tiny, out, asked, 1, parts=parts)
    assert {path: path.read_bytes() for path in out.rglob("*.jsonl")} == before
    cut = out / "Qwen2.5-0.5B" / "runs.jsonl"
    whole = cut.read_bytes()
    cut.write_bytes(whole[: len(whole) * 2 // 3])
    measure_parts(tiny, out, asked, 1, parts=parts)
    assert len(load_runs(cut)[1]) == len(whole.splitlines()) - 1
    with pytest.raises(ValueError, match="no prompt 'story'"):
        measure_parts(tiny, tmp_path / "other", asked[:4], 1, parts=parts)
    # Judged again without a model, on a page elsewhere, as one JSON document.
    monkeypatch.setattr("validate.parts.measure_parts", None)
    judged = sweepcap("claims", "--out", out, "--no-measure", "--page", tmp_path / "docs" / "claims.md", "--json")
    assert judged.status == 0, judged.err
    assert [line["claim"]["name"] for line in json.loads(judged.out)["claims"]] == list(claims())
    text = (tmp_path / "docs" / "claims.md").read_text()
    for picture in re.findall(r"!\[[^]]*\]\(([^)]*)\)", text):
        assert (tmp_path / "docs" / picture).exists()


def check_fed_part(out: Path) -> None:
    """A fed part's passes are those of the texts of the first part."""
    _, theirs = load_texts(out / "text" / "texts.jsonl")
    _, runs = load_runs(out / "Qwen2.5-0.5B" / "runs.jsonl")
    by_name = {text.name: text for text in theirs}
    assert {run.prompt for run in runs} == {"locked repetition", "code edit"}
    shapes = {"kind", "n_past", "n_rows", "n_out", "guessed", "accepted", "n_tokens"}
    for run in runs:
        text = by_name[run.prompt]
        assert run.tokens == text.tokens[text.n_prompt :]
        expected = walk(text, Setting(run.loop, run.rows))
        for record, other in zip(run.passes, expected, strict=True):
            assert all(getattr(record, name) == getattr(other, name) for name in shapes)
            assert record.seconds > 0


def test_a_text_with_tokens_that_a_model_lacks_is_refused(tiny: Path) -> None:
    from validate.fed import FedEngine
    from validate.llama import Model

    with Model(tiny) as model, FedEngine(model, n_ctx=256, n_threads=1) as engine:
        engine.follow(Text(name="fits", n_prompt=1, tokens=(1, 2, model.n_vocab - 1)))
        with pytest.raises(ValueError, match="smaller vocabulary"):
            engine.follow(Text(name="does not", n_prompt=1, tokens=(1, 2, model.n_vocab)))


def test_judging_nothing_says_what_to_do(tmp_path: Path, sweepcap: Callable) -> None:
    done = sweepcap("claims", "--out", tmp_path / "empty", "--no-measure")
    assert done.status == 2
    assert "nothing measured yet" in done.err
    assert len(done.err.strip().splitlines()) == 1


def test_parts_measure_what_claims_name() -> None:
    prompts = {prompt.name for prompt in load_prompts(suite())}
    for claim in claims().values():
        assert claim.part in PARTS
        assert set(claim.prompts) <= prompts
        assert set(claim.prompts) <= set(PARTS[claim.part].prompts)
    assert sum(task.seconds for task in PARTS.values() if not task.full) <= 280
