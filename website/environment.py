"""The environment variables that the library reads, found in its source."""

from __future__ import annotations

import re
from pathlib import Path

READ = re.compile(r"""variable\(\s*"([A-Z_]+)\"""")
# Variables of others.
OTHERS = ("OMP_NUM_THREADS", "XDG_CACHE_HOME")
SOURCE = Path(__file__).resolve().parents[1] / "src" / "gradtape"


def variables_read() -> set[str]:
    """Names given to `config.variable`, and the two of others that the library respects."""
    texts = [path.read_text("utf-8") for path in SOURCE.rglob("*.py")]
    found = {f"GRADTAPE_{name}" for text in texts for name in READ.findall(text)}
    return found | {name for name in OTHERS if any(name in text for text in texts)}
