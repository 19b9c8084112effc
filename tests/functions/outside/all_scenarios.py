"""All scenarios: importing the modules registers them."""

from tests.functions.outside import (  # noqa: F401
    arguments,
    called,
    classes,
    containers,
    hidden,
    holders,
    names,
    of_library,
    protocols,
    records,
)
from tests.functions.outside.scenarios import SCENARIOS, run_scenario

__all__ = ["SCENARIOS", "run_scenario"]
