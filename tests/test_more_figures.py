"""The figures drawn from small records: they show those records, their titles follow them, and all fit one column."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.container import ErrorbarContainer
from matplotlib.patches import Rectangle

from costmodel.acceptance import gilbert_elliott, iid, survival
from costmodel.caps import full_acceptance_speedup, sweep_cap
from costmodel.passcost import Table
from costmodel.surface import surface
from figures import caprows, claim, errors, maps, records, redraw, slotgain, style
from figures import survival as survived
from tests import small_run
from tests.evidence import cost, evidence, part
from tests.test_figures import by_gid, check_layout, headline
from validate.claimed import LOCKED
from validate.claims import judge
from validate.slotcheck import SlotCell
from validate.split import Share

COMMITTED = records.FOLDER


# Caps by rows


def test_caps_by_rows_are_the_formulas() -> None:
    cells = [c for c in small_run.cells(small_run.runs(small_run.PROMPTS)) if c.prompt == LOCKED]
    table = small_run.table()
    figure = caprows.draw(table, 64, cells)
    (flat,), (here,), (gain,) = (by_gid(figure, name) for name in ("muted", "blue", "green"))
    rows = list(range(2, 9))
    assert list(flat.get_xdata()) == rows
    assert list(flat.get_ydata()) == pytest.approx([float(sweep_cap(n)) for n in rows])
    expected = [full_acceptance_speedup("fused", "gated", n, table, n_past=64) for n in rows]
    assert list(here.get_ydata()) == pytest.approx(expected)
    one = table.seconds(64, 1, 1)
    assert list(gain.get_ydata()) == pytest.approx([n * one / table.seconds(64, n, n) for n in rows])
    points = {
        (round(x, 6), round(y, 6)) for line in by_gid(figure, "measured") for x, y in zip(*line.get_data(), strict=True)
    }
    wanted = {("fused", "gated"), ("carry", "greedy")}
    assert points == {(c.rows, round(c.measured, 6)) for c in cells if (c.loop, c.baseline) in wanted}
    assert f"At 6 rows {expected[4]:.2f}x of the cap of 1.71x is left" in headline(figure)
    check_layout(figure)


@pytest.mark.parametrize("ratio", [1.0, 1.5, 3.5, 6.0, 9.0])
def test_caps_are_drawn_on_any_cost(ratio: float) -> None:
    figure = caprows.draw(cost(ratio), 0)
    check_layout(figure)
    assert ("no row count pays" in headline(figure)) == (ratio >= 6)
    check_layout(caprows.draw(Table((2, 6), (0,), ((1.0, 2.0),)), 0))


# Maps


@pytest.mark.parametrize(("loop", "contour"), [("fused", None), ("fused-partial", 0.74)])
def test_maps_mark_what_was_measured_where_it_was(loop: str, contour: float | None) -> None:
    parts = [part(3.5), part(1.6)]
    figure = maps.draw(parts, loop, contour)
    marks = [mark for n in range(20) for mark in by_gid(figure, f"measured-{n}")]
    expected = [
        (p.ratio6, agreement, p.find(prompt, (loop, 6), ("gated", 6)).measured)
        for p in parts
        for prompt, (agreement, _) in p.agreement.items()
        if agreement
    ]
    assert np.array([mark.get_offsets()[0] for mark in marks]) == pytest.approx(np.array([e[:2] for e in expected]))
    for mark, (_, _, measured) in zip(marks, expected, strict=True):
        shade = maps.COLOURS(np.clip(np.log(measured) / np.log(1.75) / 2 + 0.5, 0, 1))
        assert to_hex(mark.get_facecolor()[0]) == to_hex(shade)
    check_layout(figure)
    check_layout(maps.draw([], loop, contour))


def test_the_break_even_line_is_where_the_map_is_one() -> None:
    figure = maps.draw([part(3.5)], "fused-partial", 0.74)
    levels = {}
    for lines in (c for c in figure.axes[0].collections if len(getattr(c, "levels", ())) == 2):
        levels = {level: path.vertices for level, path in zip(lines.levels, lines.get_paths(), strict=True)}
    assert set(levels) == {0.74, 1.0}
    for level, points in levels.items():
        for x, p in points[:: max(len(points) // 8, 1)]:
            assert surface("fused-partial", "gated", 6, [x], [p])[0, 0] == pytest.approx(level, abs=0.02)


def test_map_titles_follow_the_data() -> None:
    wins = sum(part(2.0).find(name, ("fused", 6), ("gated", 6)).measured > 1 for name in (LOCKED, "code edit"))
    assert f"on {wins} of 2 prompts here" in headline(maps.draw([part(2.0)]))
    assert "on 2 of 2 prompts here" in headline(maps.draw([part(2.0, measured=2.0)]))
    assert "on 0 of 2 prompts here" in headline(maps.draw([part(2.0, measured=0.5)]))
    assert "c(6)/c(1) = 2.0" in headline(maps.draw([part(2.0)], "fused-partial", 0.74))
    assert "nowhere here" in headline(maps.draw([part(1.0)], "fused-partial", 0.74))


# Survival


def drafts(law: object, most: int = 8, n: int = 4000) -> list[tuple[int, int, float]]:
    """The drafts that a law would make, in its own proportions."""
    at_least = (1.0, *map(float, survival(law, most)), 0.0)
    counts = [(k, min(k + 1, most), n * (at_least[k] - at_least[k + 1])) for k in range(most + 1)]
    return [(right, looked, times) for right, looked, times in counts if times > 1e-9]


def test_survival_is_the_share_and_the_laws_are_theirs() -> None:
    law = gilbert_elliott(0.95, 0.9, 0.97, 0.2)
    figure = survived.draw(drafts(law))
    (bars,) = (c for c in figure.axes[0].containers if isinstance(c, ErrorbarContainer))
    assert bars.lines[0].get_ydata() == pytest.approx([float(s) for s in survival(law, 8)])
    (curve,) = by_gid(figure, "Gilbert-Elliott")
    assert curve.get_ydata()[1:] == pytest.approx([float(s) for s in survival(law, 8)], abs=0.01)
    (other,) = by_gid(figure, "iid")
    p = other.get_ydata()[1]
    assert other.get_ydata() == pytest.approx([p**k for k in range(9)])
    assert headline(figure).startswith("Drafts come in regimes: Gilbert-Elliott meets their survival within")
    ends = np.array(bars.lines[2][0].get_segments())[:, :, 1]
    assert (ends[:, 0] < ends[:, 1]).all()
    check_layout(figure)


def test_survival_says_so_when_drafts_fail_independently() -> None:
    assert headline(survived.draw(drafts(iid(0.7)))).startswith("Drafts fail independently")
    for few in ([], [(0, 1, 5.0)], [(3, 3, 1.0)], [(2, 2, 1.0), (0, 1, 1.0)]):
        check_layout(survived.draw(few))


# The error split


def test_error_bars_are_the_shares() -> None:
    shares = [
        Share(loop=loop, rows=6, kind=kind, error=error)
        for loop, errors_ in {"gated": (0.01, -0.02, 0.003), "fused": (-0.01, 0.0, 0.03)}.items()
        for kind, error in zip(("decode", "verify", "correction"), errors_, strict=True)
    ]
    figure = errors.draw(shares)
    for y, loop in enumerate(("gated", "fused")):
        for share in (s for s in shares if s.loop == loop):
            (bar,) = by_gid(figure, f"{share.kind}-{y}")
            assert isinstance(bar, Rectangle)
            assert bar.get_width() == pytest.approx(100 * share.error)
            assert to_hex(bar.get_facecolor()) == style.LIGHT[style.KINDS[share.kind]]
    (sums,) = by_gid(figure, "sum")
    assert list(sums.get_xdata()) == pytest.approx([-0.7, 2.0])
    assert (
        headline(figure)
        == "Over all prompts no loop is mispriced by more than 2.0 %; most comes from correction passes"
    )
    check_layout(figure)
    check_layout(errors.draw([]))


# Slots


def test_slots_show_what_was_simulated_beside_what_was_measured() -> None:
    cells = [
        SlotCell(
            workload=workload,
            n_slots=n,
            loop=loop,
            rows=6,
            simulated=rate * n**0.5,
            measured=0.97 * rate * n**0.5,
            low=0.95 * rate * n**0.5,
            high=0.99 * rate * n**0.5,
            simulated_tpot=1.0,
            measured_tpot=1.0,
            simulated_gain=None if loop == "greedy" else rate / 100,
            gain=None if loop == "greedy" else rate / 100 / n**0.5,
            gain_low=None,
            gain_high=None,
            n_blocks=3,
            ties=0,
            bugs=0,
        )
        for workload in ("locked", "free")
        for n in (1, 2, 4, 8)
        for loop, rate in (("greedy", 100.0), ("fused", 150.0), ("carry", 160.0))
    ]
    figure = slotgain.draw(cells)
    for workload in ("locked", "free"):
        for loop in ("greedy", "fused", "carry"):
            mine = [c for c in cells if (c.workload, c.loop) == (workload, loop)]
            (line,), (marks,) = (
                by_gid(figure, f"simulated-{workload}-{loop}"),
                by_gid(figure, f"measured-{workload}-{loop}"),
            )
            assert list(line.get_ydata()) == [c.simulated for c in mine]
            assert list(marks.get_ydata()) == [c.measured for c in mine]
    assert headline(figure) == "Guessing brings 1.60x at best in 1 slot (carry), and no loop gains anything in 8 slots"
    check_layout(figure)
    check_layout(slotgain.draw([]))
    check_layout(slotgain.draw([c for c in cells if c.loop == "greedy"]))


# One figure a claim


@pytest.mark.parametrize("ratio", [1.3, 3.5])
def test_every_claim_has_a_figure_of_its_points(ratio: float) -> None:
    found = evidence({"text": part(ratio), "penalty": part(ratio, penalty=1.1), "Qwen2.5-0.5B": part(4.8, fed=True)})
    for line in judge(found):
        figure = claim.draw(line)
        assert headline(figure).startswith(line.verdict.capitalize())
        for y, point in enumerate(line.points):
            (marks,) = by_gid(figure, f"{point.kind}-{y}")
            shown = {point.low, point.high} if point.kind == "claimed" else {point.value}
            assert set(marks.get_xdata()) == shown
            assert set(marks.get_ydata()) == {y}
        if line.counts:
            assert [bar.get_width() for bar in figure.axes[0].patches] == list(line.counts.values())
        check_layout(figure)


# All of them again


def test_all_figures_are_drawn_again_from_committed_records(tmp_path: Path) -> None:
    redraw.main(["--out", str(tmp_path), "--format", "pdf"])
    names = {path.stem for path in tmp_path.iterdir()}
    assert set(redraw.OF_RUN) <= names
    assert {f"claim-{line.claim.name}" for line in judge(redraw.load_evidence(COMMITTED / "claims.json"))} <= names
    for path in tmp_path.iterdir():
        pdf = path.read_bytes()
        assert b"/FontFile2" in pdf, path  # the TrueType program itself
        assert b"/Type3" not in pdf, path
        (box,) = re.findall(rb"/MediaBox \[ 0 0 ([\d.]+) ([\d.]+) \]", pdf)
        assert float(box[0]) == pytest.approx(72 * style.COLUMN_INCHES)


def test_every_committed_figure_fits_its_column() -> None:
    run = records.load()
    for draw in redraw.OF_RUN.values():
        check_layout(draw(run))
    for _, figure in redraw.of_claims(redraw.load_evidence(COMMITTED / "claims.json")):
        check_layout(figure)


def test_records_are_small_and_refuse_what_they_are_not(tmp_path: Path) -> None:
    for name in ("run.json", "claims.json"):
        assert (COMMITTED / name).stat().st_size < 100_000
    for broken in (b"", b"{}", b"[1, 2"):
        (tmp_path / "run.json").write_bytes(broken)
        with pytest.raises(ValueError, match=r"run\.json"):
            records.load(tmp_path / "run.json")
    assert records.rounded(msgspec.to_builtins(part(2.0)))["n_blocks"] == 4
