"""save_weights and load_weights: strict, partial, with a report, and files of other libraries."""

import numpy as np
import pytest

import gradtape as gt


def network(width=4):
    model = gt.nn.Sequential([gt.nn.Dense(width, in_features=3), gt.nn.Dense(1, in_features=width)])
    return model


@pytest.mark.parametrize("ending", [".npz", ".safetensors"])
def test_weights_come_back(tmp_path, ending):
    path, model, other = tmp_path / f"w{ending}", network(), network()
    model.save_weights(path)
    report = other.load_weights(path)
    assert report.complete
    assert report.loaded == tuple(name for name, _ in model.named_variables())
    for one, two in zip(model.variables, other.variables, strict=True):
        np.testing.assert_array_equal(one.numpy(), two.numpy())


def test_strict_names_every_difference_and_changes_nothing(tmp_path):
    path, model, other = tmp_path / "w.npz", network(), network(5)
    del other.layers[1]
    other.extra = gt.Variable(1.0)
    before = other.state_dict()
    model.save_weights(path)
    with pytest.raises(gt.errors.MismatchError) as caught:
        other.load_weights(path)
    for words in ("missing: extra", "unexpected: layers.1.kernel, layers.1.bias",
                  "layers.0.kernel has shape (3, 4) there and (3, 5) here"):  # fmt: skip
        assert words in str(caught.value)
    for name, array in other.state_dict().items():
        np.testing.assert_array_equal(array, before[name])


def test_partial_loads_what_matches_and_reports_the_rest(tmp_path):
    path, model, other = tmp_path / "w.safetensors", network(), network()
    other.layers[1] = gt.nn.Dense(2, in_features=4)
    model.save_weights(path)
    report = other.load_weights(path, strict=False)
    assert not report.complete
    assert report.loaded == ("layers.0.kernel", "layers.0.bias")
    assert len(report.different) == 2
    np.testing.assert_array_equal(model.layers[0].kernel.numpy(), other.layers[0].kernel.numpy())


def test_unbuilt_modules_are_named(tmp_path):
    model = network()
    model.save_weights(tmp_path / "w.npz")
    empty = gt.nn.Sequential([gt.nn.Dense(4), gt.nn.Dense(1)])
    with pytest.raises(gt.errors.MismatchError, match=r"Not built yet: layers\.0, layers\.1"):
        empty.load_weights(tmp_path / "w.npz")


def test_files_of_other_libraries(tmp_path):
    kernel, bias = np.full((3, 4), 2.0, np.float32), np.ones(4, np.float32)
    arrays = {"kernel": kernel, "bias": bias}
    np.savez(tmp_path / "w.npz", **arrays)
    np.savez_compressed(tmp_path / "small.npz", **arrays)
    from safetensors.numpy import load_file, save_file

    save_file(arrays, tmp_path / "w.safetensors")
    for name in ("w.npz", "w.safetensors"):
        layer = gt.nn.Dense(4, in_features=3, dtype="float64")
        layer.load_weights(tmp_path / name)
        np.testing.assert_array_equal(layer.kernel.numpy(), kernel)
        assert layer.kernel.dtype == np.float64
    with pytest.raises(gt.errors.DamagedFileError, match="compressed"):
        gt.nn.Dense(4, in_features=3).load_weights(tmp_path / "small.npz")
    # And they can read ours.
    layer.save_weights(tmp_path / "ours.safetensors")
    np.testing.assert_array_equal(load_file(tmp_path / "ours.safetensors")["kernel"], kernel)
    with np.load(tmp_path / "w.npz", allow_pickle=False) as found:
        np.testing.assert_array_equal(found["kernel"], kernel)


def test_trees_are_no_weights(tmp_path):
    gt.save([1], tmp_path / "tree.npz")
    with pytest.raises(gt.errors.MismatchError, match=r"Read it with gt\.load"):
        network().load_weights(tmp_path / "tree.npz")


def test_dtypes_that_would_lose_numbers_are_refused(tmp_path):
    np.savez(tmp_path / "w.npz", kernel=np.ones((3, 4), complex), bias=np.ones(4))
    layer = gt.nn.Dense(4, in_features=3)
    with pytest.raises(gt.errors.MismatchError, match="kernel has dtype complex128 there"):
        layer.load_weights(tmp_path / "w.npz")
