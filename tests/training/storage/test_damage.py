"""A sample of damaged files; `make fuzz-storage` makes 1,000 of each kind."""

import pytest
from tests.training.storage import damage


@pytest.mark.parametrize("kind", damage.ALL_KINDS)
def test_damaged_files_are_refused_and_change_nothing(kind):
    counts = damage.run(25, seed=1, kinds=(kind,))[kind]
    assert counts["files"] == 25
    assert counts["refused"] == 25
    assert counts["changed something"] == 0


@pytest.mark.slow
def test_every_bit_of_a_file_is_guarded(tmp_path):
    """Each byte of a small file, flipped in one bit: nothing is loaded as if it were whole."""
    import gradtape as gt

    for ending in (".npz", ".safetensors"):
        path = tmp_path / f"small{ending}"
        gt.save({"w": gt.asarray([1.0, 2.0])}, path)
        whole = path.read_bytes()
        for place in range(len(whole)):
            content = bytearray(whole)
            content[place] ^= 1 << place % 8
            path.write_bytes(content)
            assert damage.refused(path) is None, (ending, place)
