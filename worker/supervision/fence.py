"""Tells a worker that is cut off to end its tasks, before they begin elsewhere, through the store that workers share.

A worker that is silent to Temporal is gone, or cut off alone, which look the same to everybody else. So whoever takes
one for lost says so in the store of results (`TIDEMILL_XCOM_URL`) first, and waits as long as that worker may need to
read it and to end its tasks. A worker reads it only where it does not reach Temporal itself; one that reaches neither
Temporal nor the store ends its tasks as well, since it could not be told.
"""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256

import fsspec

from ...activities.attempts.supervision import cut_off

FOLDER = "workers"
ANSWERS = 3
"""Temporal and the store may take that part of the time for an answer after which a silent worker is lost: a third."""
JOINED, LOST = b"joined", b"lost"
"""The first word of a note; the second says after how many seconds of silence its worker is to be taken for lost."""
MAX_LOOKS = 4
"""So many questions to the store may be open at a time."""
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FenceNotes:
    """What workers note of each other, by their identities, below a URL that fsspec knows.

    Every method raises what the store raises, whatever kind that is.
    """

    url: str
    lost_after: float

    def join(self, identity: str) -> bool:
        """Notes that *identity* reads what is noted here of it, and is not lost. Returns True."""
        return self._write(identity, JOINED)

    def put_out(self, identity: str) -> bool:
        """Notes that *identity* is taken for lost. Returns whether it reads that, and reports as often as is asked."""
        if self._read(identity) not in (self._text(JOINED), self._text(LOST)):
            return False
        return self._write(identity, LOST)

    def is_put_out(self, identity: str) -> bool:
        """Returns whether somebody takes *identity* for lost, which had joined: also where its note is gone since."""
        return self._read(identity) != self._text(JOINED)

    def leave(self, identity: str) -> bool:
        """Removes what is noted of *identity*. Returns True."""
        system, path = fsspec.url_to_fs(self._path(identity))
        with contextlib.suppress(FileNotFoundError):
            system.rm_file(path)
        return True

    def _read(self, identity: str) -> bytes | None:
        system, path = fsspec.url_to_fs(self._path(identity))
        system.invalidate_cache()
        try:
            return bytes(system.cat_file(path))
        except FileNotFoundError:
            return None

    def _write(self, identity: str, word: bytes) -> bool:
        with fsspec.open(self._path(identity), "wb", auto_mkdir=True) as file:
            file.write(self._text(word))
        return True

    def _text(self, word: bytes) -> bytes:
        return b"%s %g" % (word, self.lost_after)

    def _path(self, identity: str) -> str:
        return f"{self.url.rstrip('/')}/{FOLDER}/{sha256(identity.encode()).hexdigest()[:32]}"


_looking = threading.BoundedSemaphore(MAX_LOOKS)


async def within_time(look: Callable[[str], bool], identity: str, seconds: float) -> bool:
    """What *look* answers of *identity*. Raises TimeoutError where that takes longer, and what the store raises.

    In threads of its own: a store that hangs would take all of those that the worker's other work has, and none of them
    could be ended.
    """
    if not _looking.acquire(blocking=False):
        raise TimeoutError("it does not answer")
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[bool] = loop.create_future()

    def settle(found: bool, problem: Exception | None) -> None:
        if not answer.done():
            answer.set_result(found) if problem is None else answer.set_exception(problem)

    def work() -> None:
        found, problem = False, None
        try:
            found = look(identity)
        except Exception as error:
            problem = error
        finally:
            _looking.release()
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(settle, found, problem)

    threading.Thread(target=work, daemon=True, name="tidemill-fence").start()
    async with asyncio.timeout(seconds):
        return await answer


@dataclass
class OwnFence:
    """Ends what this worker has under way when it is put out, or cannot know whether it is. Counts by its own clock."""

    notes: FenceNotes
    identity: str
    answer_timeout: float
    """How many seconds the store may take to answer."""
    alone_for: float
    """How many seconds it goes on without Temporal and without the store."""
    _is_joined: bool = False
    _was_away: bool = False
    _alone_since: float | None = None
    _warned: str = ""

    async def heed(self, *, reaches_temporal: bool) -> None:
        """Looks once. Whatever the store raises is logged, and looked for again."""
        if reaches_temporal:
            await self._go_on()
        elif (reason := await self._why_to_end()) is not None and not cut_off.is_set():
            log.error("this worker does not reach Temporal, and %s: its tasks end, and begin elsewhere", reason)
            cut_off.set()

    async def _go_on(self) -> None:
        cut_off.clear()  # at once, also where the store is away: each task that comes would be handed back
        self._alone_since = None
        if self._is_joined and not self._was_away:
            return
        try:
            await self._within_time(self.notes.join)
        except Exception as error:
            self._warn(f"the store cannot note that this worker is there: {error}")
        else:
            self._is_joined, self._was_away, self._warned = True, False, ""

    async def _why_to_end(self) -> str | None:
        """Returns None for a worker that goes on, as one that nobody could put out."""
        self._was_away = True
        if not self._is_joined:
            return None
        self._alone_since = self._alone_since or time.monotonic()
        try:
            is_put_out = await self._within_time(self.notes.is_put_out)
        except Exception as error:
            self._warn(f"neither Temporal nor the store can be reached: {error}")
            is_alone = time.monotonic() - self._alone_since >= self.alone_for
            return "cannot know whether it is taken for lost" if is_alone else None
        self._alone_since = None
        return "is taken for lost" if is_put_out else None

    def _warn(self, problem: str) -> None:
        """Says once what is looked at again and again."""
        if problem != self._warned:
            log.warning("%s; looking again", problem)
            self._warned = problem

    async def leave(self) -> None:
        """Removes its own note, as its tasks have ended."""
        with contextlib.suppress(Exception):
            await self._within_time(self.notes.leave)

    async def _within_time(self, look: Callable[[str], bool]) -> bool:
        return await within_time(look, self.identity, self.answer_timeout)


class Fence:
    """One worker's part: heeds what is noted of it, and notes others that are lost before their tasks begin elsewhere.

    *lost_after*: after how many seconds of silence a worker is taken for lost. *grace*: how many seconds tasks have
    between their SIGTERM and their SIGKILL.
    """

    def __init__(self, url: str, identity: str, lost_after: float, grace: float) -> None:
        self._notes = FenceNotes(url, lost_after)
        self._answer_timeout = lost_after / ANSWERS
        self._own = OwnFence(self._notes, identity, self._answer_timeout, lost_after)
        self._end_timeout = 1.5 * lost_after + grace
        """Whoever is put out looks at Temporal and the store, each for a third of *lost_after*, within a bit more than
        that, and its tasks end with their grace."""
        self._put_out: dict[str, float] = {}
        self._others: set[str] = set()
        """Lost ones that read other notes: left to `heartbeat_timeout`."""
        self.heed = self._own.heed
        self.leave = self._own.leave

    @property
    def has_put_out(self) -> bool:
        """Whether somebody is noted as lost by this worker, and not let in again."""
        return bool(self._put_out)

    async def ended(self, lost: Sequence[str]) -> list[str]:
        """Puts *lost* out. Returns those whose tasks have ended since, and may begin elsewhere.

        Whoever is no longer lost is let in again.
        """
        self._others.intersection_update(lost)
        for identity in [one for one in self._put_out if one not in lost]:
            if await self._noted(self._notes.join, identity) is not None:
                del self._put_out[identity]
        for identity in lost:
            if identity not in self._put_out and identity not in self._others:
                await self._put(identity)
        now = time.monotonic()
        return [one for one in lost if now - self._put_out.get(one, now) >= self._end_timeout]

    async def forget(self, identity: str) -> None:
        """Removes the note of *identity*, whose tasks have begun elsewhere."""
        self._put_out.pop(identity, None)
        self._others.add(identity)
        await self._noted(self._notes.leave, identity)

    async def _put(self, identity: str) -> None:
        is_put_out = await self._noted(self._notes.put_out, identity)
        if is_put_out:
            self._put_out[identity] = time.monotonic()
        elif is_put_out is not None:
            self._others.add(identity)

    async def _noted(self, note: Callable[[str], bool], identity: str) -> bool | None:
        """What *note* returns; None where the store does not take it, which is tried again."""
        try:
            return await within_time(note, identity, self._answer_timeout)
        except Exception as error:
            log.warning("nothing can be noted of %s: %s; trying again", identity, error)
            return None
