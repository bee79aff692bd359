"""A sweep as a user asks for it: texts that belong together, workers near or far, a journal, a table in a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from costmodel.profile import Profile
from sim.grid import numbers
from sim.replay import FIRST_USE, ready, warm_up
from sim.sweep import HELD, Result, Work, n_cores, processes, sweep, tasks
from sim.trace import Header, Text
from sim.trace import load as load_texts
from validate.compare import check_same_model
from validate.journal import journal_of, keeping, resumed
from validate.progress import Advance, Say, quiet

SMALL = 40_000_000
"""Settings x tokens below which starting processes takes longer than the work."""
PATIENCE = "10s"


def rows_of(words: str | Sequence[int] | int) -> tuple[int, ...]:
    """Rows as a grid file may tell them."""
    if isinstance(words, int):
        return (words,)
    return numbers(words) if isinstance(words, str) else tuple(words)


def texts_of(paths: Sequence[Path], prompts: Sequence[str], profiles: Sequence[Profile]) -> tuple[Header, list[Text]]:
    """The texts of some files, or those named, all of the model that the profiles are of.

    Raises ValueError for texts of different models, for two of one name, and for a prompt that is not there.
    """
    header, texts = Header(), list[Text]()
    for path in paths:
        theirs, some = load_texts(path)
        if texts and theirs.model_hash != header.model_hash:
            raise ValueError(
                f"the texts are of different models, {header.model or 'unnamed'} and {theirs.model or 'unnamed'}"
                f" ({path}): sweep them one after the other"
            )
        header = theirs
        texts += some
    for profile in profiles:
        check_same_model(profile, header)
    names = [text.name for text in texts]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"two texts are named {twice!r}; name each differently")
    if missing := next((name for name in prompts if name not in names), None):
        raise ValueError(f"there is no text named {missing!r}: the texts are {', '.join(names)}")
    return header, [text for text in texts if not prompts or text.name in prompts]


def profile_names(paths: Sequence[Path]) -> list[str]:
    """Short names for some profiles, each another."""
    stems = [path.stem for path in paths]
    return stems if len(set(stems)) == len(stems) else [str(path) for path in paths]


def swept(
    work: Work,
    out: Path | None = None,
    *,
    n_workers: int | None = None,
    scheduler: str | None = None,
    advance: Advance = quiet,
    say: Say = quiet,
) -> Result:
    """The result of the work, by this process if it is small, by others or a Dask scheduler's workers if not.

    With `out`, what is finished is written down beside it, and a killed sweep goes on from there. Raises
    ValueError when the scheduler does not answer, and when the journal belongs to another sweep.
    """
    journal = journal_of(out) if out else None
    done = resumed(journal, work) if journal else []
    note = keeping(journal) if journal else lambda _: None
    n_done = sum(piece.task.stop - piece.task.first for piece in done)
    n_all = len(work.settings) * len(work.texts)
    if done:
        say(f"going on from {n_done:,} of {n_all:,} finished settings x texts")

    def keep(piece: Any) -> None:
        nonlocal n_done
        note(piece)
        n_done += piece.task.stop - piece.task.first
        advance("sweeping", n_done, n_all)

    if not ready():
        say(FIRST_USE)
    with ExitStack() as stack:
        executor, sent = None, None
        size = len(work.settings) * sum(len(text.tokens) for text in work.texts)
        if scheduler is not None:
            executor, sent = stack.enter_context(_cluster(scheduler, work))
        elif len(tasks(work)) > 1 and (n_workers or (n_cores() if size > SMALL else 1)) > 1:
            warm_up()
            executor, sent = stack.enter_context(processes(work, n_workers)), HELD
        advance("sweeping", n_done, n_all)
        return sweep(work, executor, sent, done, keep)


@contextmanager
def _cluster(address: str, work: Work) -> Iterator[tuple[Any, Any]]:
    """An executor on a Dask scheduler's workers, and what stands there for the work, sent to each of them once."""
    try:
        from distributed import Client
        from distributed.comm.core import CommClosedError
        from distributed.scheduler import KilledWorker
    except ImportError as error:
        raise ValueError("--scheduler needs Dask: pip install 'sweepcap[cluster]'") from error
    with ExitStack() as stack:
        try:
            client: Any = stack.enter_context(Client(address, timeout=PATIENCE))  # type: ignore[no-untyped-call]
            client.wait_for_workers(1, timeout=PATIENCE)
            sent = client.scatter(work, broadcast=True)
        except (OSError, TimeoutError, ValueError) as error:
            raise ValueError(
                f"the scheduler {address} does not answer, or has no workers: start it with `dask scheduler` and"
                f" `dask worker {address}` ({error})"
            ) from error
        except ImportError as error:
            raise ValueError(f"the workers of {address} lack {error.name}: install sweepcap where they run") from error
        try:
            yield stack.enter_context(client.get_executor(pure=False)), sent
        except (KilledWorker, CancelledError, CommClosedError) as error:
            raise ValueError(
                f"the cluster of {address} was lost ({error}): with --out what was finished is kept, and the same"
                " command goes on"
            ) from error
