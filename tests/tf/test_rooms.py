"""Rooms of gradtape.tf build on each other in one order; namespaces and keras may use them all."""

import ast
from pathlib import Path

import pytest

import gradtape.tf as tf

FACE = Path(tf.__file__).parent
ROOMS = ["base", "ops", "programs", "v1"]
SOURCES = [path for room in ROOMS for path in sorted((FACE / room).glob("*.py"))]


def rooms_imported(path):
    for item in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(item, ast.ImportFrom) and item.module:
            names = [item.module, *(f"{item.module}.{alias.name}" for alias in item.names)]
        elif isinstance(item, ast.Import):
            names = [alias.name for alias in item.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[:2] == ["gradtape", "tf"] and len(parts) > 2:
                yield parts[2]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(FACE)))
def test_a_room_imports_only_the_rooms_before_it(path):
    # TensorFlow 1 comes last, and builds on Keras' optimizers and on tf.nn.
    own = ROOMS.index(path.parent.name)
    allowed = {*ROOMS[: own + 1], *({"keras", "nn"} if path.parent.name == "v1" else ())}
    assert set(rooms_imported(path)) <= allowed
