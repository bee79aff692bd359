"""Scenarios of the event tests: texts that repeat themselves, prices, a quiet device and a noisy one."""

from __future__ import annotations

from collections.abc import Sequence

from costmodel.batched import SlotCost
from costmodel.passcost import Affine, Flat, PassCost, Table, WithChange
from sim.answers import ToyModel, recorded
from sim.device import Device, Lognormal, Stalls
from sim.drift import OrnsteinUhlenbeck
from sim.machine import Pass, State
from sim.requests import Texts
from sim.run import Record, run
from sim.scenario import Scenario
from sim.setting import Setting
from sim.trace import Text

GRID = tuple(tuple(0.01 + 0.001 * n + 1e-6 * past for n in range(1, 49)) for past in (0, 300))
TABLE = Table(tuple(range(1, 49)), (0, 300), GRID, change_seconds=4e-4)
COSTS: dict[str, PassCost] = {
    "flat": Flat(0.02),
    "affine": Affine(0.01, 0.001, 1e-6, 1e-4),
    "change": WithChange(Affine(0.01, 0.001), 5e-4),
    "table": TABLE,
}


def toy_text(seed: int, n_prompt: int, n_tokens: int, n_vocab: int = 3) -> Text:
    """A text of a toy model that repeats itself, so that drafters find something."""
    model = ToyModel(n_vocab, 2, seed)
    prompt = [seed % n_vocab] * n_prompt
    return Text(name=f"toy {seed} {n_tokens}", n_prompt=n_prompt, tokens=tuple(model.greedy(prompt, n_tokens)))


def alone(text: Text, setting: Setting, cost: PassCost) -> tuple[State, list[Record]]:
    """What `run` does with a text at a price."""
    answers, before = recorded(text.tokens), None

    def engine(pass_: Pass) -> tuple[Sequence[int], float]:
        nonlocal before
        seconds = cost.seconds(pass_.keep, len(pass_.rows), pass_.want, before)
        before = len(pass_.rows)
        return answers(pass_), seconds

    return run(setting.make(), State.start(text.tokens[: text.n_prompt], text.n_tokens, text.stop), engine)


FOUR = Texts(tuple(toy_text(seed, 6, 40) for seed in range(4)))
PLAIN = Device(SlotCost(COSTS["affine"], view="mean"))
BASE = Scenario(PLAIN, FOUR, Setting("carry", 6), 3, 12)
NOISY = Device(SlotCost(COSTS["affine"]), OrnsteinUhlenbeck(0.1, 1.0), Lognormal(0.1), Stalls(1.0, 0.2))
