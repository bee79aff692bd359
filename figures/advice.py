"""Advice -> the screen: the answer in a sentence, then what it rests on and the flags for it."""

from __future__ import annotations

from figures.terminal import emit, emit_table
from sim.advise import WORTH, Advice, Choice


def answer(advice: Advice) -> str:
    """The advice in a sentence or three.

    >>> best = Choice(loop="carry", rows=4, drafter="ngram", gain=0.98)
    >>> others = {"elsewhere": 0.97, "oracle": 1.1, "perfect": 2.0, "today": None, "systems": ()}
    >>> told = Advice(speculate=False, sure=0.99, best=best, n_settings=9, n_prompts=3, **others)
    >>> print(answer(told).partition(";")[0])
    Do not speculate here (99 % sure). The best of 9 settings, carry R=4 ngram, comes to 0.980x of greedy's speed
    """
    best, sure = advice.best, "" if advice.sure is None else f" ({_percent(advice.sure, 0)} sure)"
    bounds = ""
    if advice.oracle is not None and advice.perfect is not None:
        bounds = (
            f"even the cleverest choice of rows with its drafter would gain no more than {advice.oracle:.3f}x,"
            f" with perfect drafts {advice.perfect:.3f}x."
        )
    if not advice.speculate:
        comes = f"The best of {advice.n_settings} settings, {_words(best)}, comes to {best.gain:.3f}x of greedy's speed"
        if best.gain >= WORTH:
            comes += ", but not on prompts that it was not chosen by"
        return f"Do not speculate here{sure}. {comes}; {bounds}".rstrip("; ").rstrip(".") + "."
    rests = [] if best.low is None else [f"95 % interval {_range(best)}"]
    rests += [] if advice.sure is None else [f"{_percent(advice.sure, 0)} sure"]
    parts = [f"Run {_words(best)}: {best.gain:.3f}x as fast as greedy{_in_brackets(rests)}."]
    if best.loop != "carry":
        parts.append("None of the programs below runs this loop.")
    if advice.elsewhere is not None:
        parts.append(
            f"Chosen by the other prompts, it comes to {advice.elsewhere:.3f}x on a prompt that it did not see."
        )
    if bounds:
        parts.append(bounds[0].upper() + bounds[1:])
    if advice.sure is None:
        parts.append("One prompt has no interval: give more.")
    return " ".join(parts)


def show(advice: Advice) -> None:
    """The advice, today's neighbours and the programs."""
    emit(answer(advice))
    if (now := advice.today) is not None:
        rests = [] if now.low is None else [f"95 % interval {now.low:.3f} to {now.high:.3f}"]
        emit(f"That is {now.gain_over_today:.3f}x of {_words(now.today)}, as today{_in_brackets(rests)}.")
        neighbours = (
            ("R", now.only_rows, now.lost_with_only_rows),
            ("the drafter", now.only_drafter, now.lost_with_only_drafter),
        )
        for what, choice, lost in neighbours if now.today.loop != "greedy" else ():
            emit(f"If only {what} may change, take {_words(choice)}: the best is {_percent(lost)} faster than that.")
    emit_table(
        "the best that each program can reach, over greedy (total_time)",
        ("program", "gain", "95 % interval", "setting", "flags"),
        [
            (s.system, f"{s.best.gain:.3f}x", _range(s.best), _words(s.best), s.flags)
            if s.best
            else (s.system, "-", "-", "greedy", "leave speculation off")
            for s in advice.systems
        ],
    )


def _words(choice: Choice) -> str:
    return "greedy" if choice.loop == "greedy" else f"{choice.loop} R={choice.rows} {choice.drafter}"


def _in_brackets(words: list[str]) -> str:
    return f" ({'; '.join(words)})" if words else ""


def _range(choice: Choice) -> str:
    return "-" if choice.low is None else f"{choice.low:.3f} to {choice.high:.3f}"


def _percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f} %"
