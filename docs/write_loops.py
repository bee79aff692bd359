"""`python -m docs.write_loops`: the tables and diagrams of docs/loops.md, by driving the real machine.

Each loop is put into every situation it can reach and offered every kind of draft there, from none over q
right tokens to all right; what it then feeds, what that yields and where it leads to is all that the page
says of it. What stands outside the marks `begin loops` and `end loops` is written by hand and left alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sim import loops
from sim.answers import Answers, recorded
from sim.loops import LOOPS, MakeLoop, replay
from sim.machine import Loop, State, next_pass, step
from sim.run import kind, run

PAGE = Path(__file__).with_name("loops.md")
BEGIN, END = "<!-- begin loops -->", "<!-- end loops -->"
R = 6
PROMPT = 8
TEXT = list(range(1000, 1200))
JUNK = 7


@dataclass(frozen=True)
class Edge:
    """One transition: an offer in a situation, the pass that came of it, and the situation after it.

    offer  how many of the draft's R tokens are right; None for no draft
    """

    origin: str
    offer: int | None
    kind: str
    rows: int
    tokens: int
    guessed: int
    accepted: int
    to: str


def situation(state: State) -> str:
    """What a loop can tell states apart by: what became of the last pass's guess."""
    if not state.guessed:
        return "plain"
    return "all right" if state.accepted == state.guessed else "partly right" if state.accepted else "all wrong"


def drafter(offer: int | None) -> Callable[[Sequence[int]], Sequence[int]]:
    """A drafter of R tokens, of which the first `offer` are right; of none where the offer is None."""

    def propose(tokens: Sequence[int]) -> Sequence[int]:
        if offer is None:
            return ()
        return [*TEXT[len(tokens) : len(tokens) + offer], *[JUNK] * (R - offer)]

    return propose


def pass_on(loop: Loop, state: State, answers: Answers) -> State:
    """The state after the loop's next pass."""
    pass_ = loop(state)
    return step(state, pass_, answers(pass_))


def first_plain(make: MakeLoop) -> State:
    """The state behind the prompt."""
    return pass_on(make(drafter(None), R), State.start(TEXT[:PROMPT], 100), recorded(TEXT))


def edges(make: MakeLoop) -> list[Edge]:
    """All transitions from all situations that the loop reaches, under all offers."""
    answers, todo = recorded(TEXT), [first_plain(make)]
    seen: dict[str, State] = {}
    found = []
    while todo:
        state = todo.pop(0)
        if situation(state) in seen:
            continue
        seen[situation(state)] = state
        for offer in (None, *range(R + 1)):
            loop = make(drafter(offer), R)
            pass_, after = loop(state), pass_on(loop, state, answers)
            found.append(
                Edge(
                    situation(state),
                    offer,
                    kind(state, pass_),
                    len(pass_.rows),
                    len(after.tokens) - len(state.tokens),
                    after.guessed,
                    after.accepted,
                    situation(after),
                )
            )
            todo.append(after)
    return found


def cycle(make: MakeLoop) -> str:
    """Rows and tokens of one cycle when every draft is right: the shortest period of the run's passes."""
    answers = recorded(TEXT)
    start = State.start(TEXT[:PROMPT], 150)
    _, records = run(make(drafter(R), R), start, lambda pass_: (answers(pass_), 0.0))
    shapes = [(record.n_rows, record.n_tokens) for record in records[1:-2]]
    period = next(n for n in range(1, 9) if shapes[n:] == shapes[:-n])
    rows = " + ".join(str(n_rows) for n_rows, _ in shapes[:period])
    n_tokens = sum(n for _, n in shapes[:period])
    return f"{n_tokens} in {rows}"


def shape(edge: Edge) -> str:
    """`6 rows, 1 token`."""
    return f"{count(edge.rows, 'row')}, {count(edge.tokens, 'token')}"


def count(n: int, what: str) -> str:
    """A number and its noun."""
    return f"{n} {what}{'' if n == 1 else 's'}"


def find(found: list[Edge], origin: str, offer: int | None) -> Edge | None:
    """What the loop does with an offer in a situation, if it gets there."""
    return next((edge for edge in found if edge.origin == origin and edge.offer == offer), None)


def yields(found: list[Edge]) -> str:
    """Tokens of a guessing pass at j accepted guesses."""
    guesses = [edge for edge in found if edge.guessed]
    odd = {edge.tokens for edge in guesses if edge.tokens != edge.accepted + 1}
    text = "j + 1" if len(odd) < len(guesses) else "-"
    return text + "".join(f"; {n} if the first is wrong" for n in sorted(odd))


def corrections(found: list[Edge]) -> str:
    """After which guessing passes one row goes alone although a right draft is at hand."""
    alone = [
        origin
        for origin in ("all right", "partly right", "all wrong")
        if (edge := find(found, origin, R)) is not None and edge.rows == 1
    ]
    reached = {edge.origin for edge in found} - {"plain"}
    if not alone:
        return "never"
    return "always" if reached == set(alone) else "if " + " or ".join(alone)


def replayed(make: MakeLoop) -> str:
    """Rows of the replay after j accepted guesses, on memory that cannot be cut."""
    answers, after_prompt = recorded(TEXT), first_plain(make)
    odd, usual = set(), False
    for offer in range(R + 1):
        loop = replay(make)(drafter(offer), R)
        state = pass_on(loop, after_prompt, answers)
        pass_ = next_pass(loop, state)
        if state.accepted < state.guessed and pass_ is not None:
            usual |= len(pass_.rows) == state.accepted + 2
            odd |= {len(pass_.rows)} - {state.accepted + 2}
    return ("j + 2" if usual else "-") + "".join(f"; {n} if the first is wrong" for n in sorted(odd))


def table() -> list[str]:
    """One line per loop."""
    lines = [
        "| loop | no draft | draft wrong from the start | tokens at j accepted | after all right | "
        "after partly right | 1-row correction | at full acceptance, tokens in rows |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, make in LOOPS.items():
        found = edges(make)
        cells = [
            shape_of(found, "plain", None),
            shape_of(found, "plain", 0),
            yields(found),
            *(shape_of(found, origin, R) for origin in ("all right", "partly right")),
            corrections(found),
            cycle(make),
        ]
        lines.append(f"| [`{name}`](#{name}) | " + " | ".join(cells) + " |")
    return lines


def shape_of(found: list[Edge], origin: str, offer: int | None) -> str:
    """The shape of a pass, or a dash where the loop never gets there."""
    edge = find(found, origin, offer)
    return "-" if edge is None else shape(edge)


def diagram(found: list[Edge]) -> list[str]:
    """The loop's transitions as a Mermaid state diagram; passes of one shape share an arrow."""
    lines = ["```mermaid", "stateDiagram-v2", "    [*] --> plain : prompt"]
    names = {edge.origin: edge.origin.replace(" ", "_") for edge in found}
    lines += [f"    {alias} : {name}" for name, alias in names.items() if alias != name]
    arrows: dict[tuple[str, str, str, int], list[int]] = {}
    for edge in found:
        arrows.setdefault((edge.origin, edge.to, edge.kind, edge.rows), []).append(edge.tokens)
    for (origin, to, what, rows), tokens in arrows.items():
        low, high = min(tokens), max(tokens)
        n = count(low, "token") if low == high else f"{low} to {high} tokens"
        lines.append(f"    {names[origin]} --> {names[to]} : {what}, {count(rows, 'row')}, {n}")
    return [*lines, "```"]


def words(thing: object) -> str:
    """A docstring as one paragraph of Markdown."""
    return " ".join(inspect.cleandoc(thing.__doc__ or "").split())


def listed(*functions: Callable[..., object]) -> list[str]:
    """A list of functions and their words."""
    return [f"- `{function.__name__}`: {words(function)}" for function in functions]


def section() -> str:
    """Everything between the marks."""
    lines = [
        f"Found by driving each loop at R = {R} with drafts of {R} tokens (`python -m docs.write_loops`).",
        "",
        *table(),
        "",
        "Guessed rows decide whether a pass is *all right*, *partly right* or *all wrong*; a *plain* one",
        "has none. The columns after that show what is fed next when a right draft is at hand. A *1-row",
        "correction* is a row fed alone in spite of that. All loops feed the prompt alone first, unless told",
        "otherwise.",
        "",
        "On memory that cannot be cut (`replay`), a pass that was not all right is undone and fed again,",
        "less what was wrong and with the token that it brought:",
        "",
        "| loop | rows of the replay at j accepted |",
        "|---|---|",
        *(f"| `{name}` | {replayed(make)} |" for name, make in LOOPS.items()),
        "",
        "`clip`, which part of a guess is fed:",
        "",
        *listed(loops.useful, loops.before_goal, loops.before_stop, loops.uncut),
        "",
        "`prompt`, how the prompt goes in:",
        "",
        *listed(loops.alone, loops.together, loops.last_apart),
    ]
    for name, make in LOOPS.items():
        lines += ["", f"### {name}", "", words(make), "", *diagram(edges(make))]
    lines += [
        "",
        "### replay",
        "",
        words(replay),
        "",
        "Of `carry`:",
        "",
        *diagram(edges(replay(LOOPS["carry"]))),
    ]
    return "\n".join(lines)


def page(text: str) -> str:
    """The page with its generated part renewed; ValueError where it has no marks."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{PAGE} has no {BEGIN} ... {END}")
    return f"{before}{BEGIN}\n{section()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
