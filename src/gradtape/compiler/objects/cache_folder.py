"""The folder of what is kept on disk for other processes: machine code, and known programs.

It is the user's own: code from a folder that others may write to is never run. The environment
variable `GRADTAPE_KERNEL_CACHE` names it, or is `off`.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from gradtape.caches import remembered
from gradtape.config import variable
from gradtape.ir.logs import Log

_log = Log("compiler")


def cache_folder() -> Path | None:
    """The folder, or None if nothing is kept on disk."""
    return _prepared(variable("KERNEL_CACHE"))


@remembered(8)
def _prepared(choice: str) -> Path | None:
    if choice.lower() in ("off", "0"):
        return None
    try:
        if choice:
            folder = Path(choice).expanduser()
        else:
            home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
            folder = Path(home) / "gradtape" / "kernels"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except (OSError, RuntimeError) as error:  # there is no home, or it cannot be written to
        _tell(choice, f"the folder cannot be used: {error}")
        return None
    others = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    own = not hasattr(os, "getuid") or status.st_uid == os.getuid()
    if not own or others:
        _tell(choice, f"others may write to {folder}, so its code is not run")
        return None
    return folder


def _tell(choice: str, why: str) -> None:
    """Say once why no machine code is kept on disk: aloud if the user named the folder."""
    (_log.warning if choice else _log.info)("kernel cache: %s; kernels are compiled anew", why)
