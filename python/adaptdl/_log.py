"""What the engine says, as records of Python's `logging`: of the logger "adaptdl", by part ("adaptdl.job"). Each
has the replica's rank (`record.rank`) and the time at which it was said.

Threads of the engine say things at any time, and must not wait for the interpreter: the engine keeps the
lines, and a thread of ours fetches them, from when the job is opened until it is closed.
"""

import ctypes
import logging
import os
import threading
import traceback
from typing import Optional

from adaptdl._engine import LogLine, engine

# By severity. What whoever runs the program is to know reaches standard error also where nobody has set up
# logging.
_LEVELS = (logging.INFO, logging.WARNING, logging.WARNING, logging.ERROR)

_thread: Optional[threading.Thread] = None
# Held while a line is passed on: no process is forked in the midst of that.
_passing = threading.RLock()


def open_lines() -> None:
    """From now on the engine's lines are records."""
    global _thread
    engine.log_open()
    _thread = threading.Thread(target=_fetch, name="adaptdl-log", daemon=True)
    _thread.start()


def close_lines() -> None:
    """Those that were said are passed on; later ones go to standard error."""
    global _thread
    thread, _thread = _thread, None
    if thread is not None:
        engine.log_close()
        thread.join()


def _fetch() -> None:
    line = LogLine()
    while engine.log_next(ctypes.byref(line)):
        with _passing:
            try:
                _pass_on(line)
            except Exception:  # pylint: disable=broad-except
                # Of a filter, say: the next line may do better.
                traceback.print_exc()


def _pass_on(line: LogLine) -> None:
    logger, level = logging.getLogger(f"adaptdl.{line.part.decode()}"), _LEVELS[line.severity]
    if not logger.isEnabledFor(level):
        return
    text = line.text.decode(errors="replace")
    if not logger.hasHandlers():
        # Nothing else will tell where it comes from.
        text = "adaptdl: " + text
    rank = line.rank if line.rank >= 0 else None
    record = logger.makeRecord(logger.name, level, "", 0, text, (), None, extra={"rank": rank})
    record.created = line.seconds
    record.msecs = line.seconds % 1 * 1000
    logger.handle(record)


def _after_fork_in_child() -> None:
    global _thread, _passing
    _passing = threading.RLock()
    if _thread is not None:
        _thread = None
        engine.log_forget_in_child()


os.register_at_fork(before=lambda: _passing.acquire(), after_in_parent=lambda: _passing.release(),
                    after_in_child=_after_fork_in_child)
