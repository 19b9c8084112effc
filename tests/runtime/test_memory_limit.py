"""Requests beyond memory are MemoryErrors with the op, the bytes and the user's line."""

import numpy as np
import pytest

import gradtape as gt
from gradtape.compiler.lower import memory_limit
from gradtape.runtime import tiers

SIDE = 400_000
BYTES = str(8 * SIDE**2)

REQUESTS = {
    "full": lambda: gt.zeros((SIDE, SIDE)),
    "matmul": lambda: gt.ones((SIDE, 1)) @ gt.ones((1, SIDE)),
    "add": lambda: gt.ones((SIDE, 1)) + gt.ones((1, SIDE)),
    "broadcast_to": lambda: gt.broadcast_to(gt.ones((1, SIDE)), (SIDE, SIDE)),
    "identity": lambda: gt.tile(gt.ones((SIDE,)), (SIDE,)),
    "eye": lambda: gt.eye(SIDE),
    "arange": lambda: gt.arange(SIDE**2),
    "random_bits": lambda: gt.random.uniform((SIDE, SIDE)),
    "where": lambda: gt.where(gt.ones((SIDE, 1)) > 0, gt.ones((1, SIDE)), 0.0),
}


@pytest.mark.parametrize("mode", ["off", "auto", "always"])
@pytest.mark.parametrize("decorated", [False, True])
@pytest.mark.parametrize("op", REQUESTS)
def test_the_error_names_op_bytes_and_line(monkeypatch, op, decorated, mode):
    monkeypatch.setattr(tiers, "MODE", mode)
    request = REQUESTS[op]
    call = gt.function(request) if decorated else request
    line = f"{__file__}:{request.__code__.co_firstlineno}"
    for _ in range(2):
        with pytest.raises(
            MemoryError, match=f"^{op}: the result of shape .* has {BYTES} "
        ) as found:
            call().numpy()
        assert line in str(found.value)
    np.testing.assert_array_equal(gt.sin(gt.zeros((3,))), np.zeros(3))


def test_a_sum_that_fits_when_it_is_fused_is_computed(monkeypatch):
    monkeypatch.setattr(tiers, "memory", lambda: 1 << 20)
    monkeypatch.setattr(memory_limit, "memory", lambda: 1 << 20)
    column, row = gt.asarray(np.ones((3000, 1))), gt.asarray(np.ones((1, 3000)))
    assert float(gt.sum(column * row)) == 9e6
