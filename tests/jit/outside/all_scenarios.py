"""All scenarios: importing the modules registers them."""

from tests.jit.outside import (  # noqa: F401
    arguments,
    by_computed_names,
    called,
    classes,
    containers,
    forms,
    hidden,
    holders,
    lookups,
    moving,
    names,
    of_library,
    protocols,
    records,
    trained,
)
from tests.jit.outside.scenarios import SCENARIOS, run_scenario

__all__ = ["SCENARIOS", "run_scenario"]
