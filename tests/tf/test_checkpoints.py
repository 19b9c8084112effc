"""tf.train.Checkpoint, CheckpointManager, latest_checkpoint, save_weights and load_weights."""

import os

import numpy as np
import pytest

import gradtape as gt
import gradtape.tf as tf
from gradtape.tensor.modes import compiled_first

X = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)


@pytest.fixture(autouse=True)
def one_tier():
    """NumPy and compiled code round differently: bits are compared within one of them."""
    with compiled_first():
        yield


def model():
    made = tf.keras.Sequential(
        [tf.keras.layers.Dense(4, activation="tanh"), tf.keras.layers.Dense(1, name="head")]
    )
    return made


def train(net, optimizer, steps=3):
    for _ in range(steps):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(net(X)))
        variables = net.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))


def bits(net, optimizer):
    return [v.numpy().tobytes() for v in (*net.variables, *optimizer.variables)]


def test_restored_training_goes_on_alike(tmp_path):
    net, optimizer, step = model(), tf.keras.optimizers.Adam(0.1), tf.Variable(7)
    train(net, optimizer)
    checkpoint = tf.train.Checkpoint(model=net, optimizer=optimizer, step=step)
    path = checkpoint.save(tmp_path / "ckpt")
    assert path == os.fspath(tmp_path / "ckpt-1")
    train(net, optimizer)
    wanted = bits(net, optimizer)
    step.assign(9)
    checkpoint.restore(path).assert_consumed()
    assert step.numpy() == 7
    train(net, optimizer)
    assert bits(net, optimizer) == wanted


def test_variables_that_are_made_later_get_their_values(tmp_path):
    net, optimizer = model(), tf.keras.optimizers.Adam(0.1)
    train(net, optimizer)
    path = tf.train.Checkpoint(model=net, optimizer=optimizer).save(tmp_path / "ckpt")
    train(net, optimizer)
    wanted = bits(net, optimizer)
    other, fresh = model(), tf.keras.optimizers.Adam(0.1)
    checkpoint = tf.train.Checkpoint(model=other, optimizer=fresh)
    status = checkpoint.restore(path)
    with pytest.raises(AssertionError, match="Unresolved values"):
        status.assert_consumed()
    train(other, fresh)
    status.assert_consumed()
    assert bits(other, fresh) == wanted


def test_later_values_inside_a_function_are_assigned_once(tmp_path):
    class Scale(tf.Module):
        def __init__(self):
            super().__init__()
            self.dense = tf.keras.layers.Dense(1, use_bias=False)

    one = Scale()
    one.dense(X)
    path = tf.train.Checkpoint(root=one).write(tmp_path / "scale")
    two = Scale()
    checkpoint = tf.train.Checkpoint(root=two)
    checkpoint.restore(path)

    @tf.function
    def call(x):
        return two.dense(x)

    np.testing.assert_array_equal(call(X).numpy(), one.dense(X).numpy())
    two.dense.kernel.assign(tf.zeros([3, 1]))
    for _ in range(3):
        assert not call(X).numpy().any()


def test_statuses(tmp_path):
    path = tf.train.Checkpoint(a=tf.Variable(1.0), b=tf.Variable(2.0)).write(tmp_path / "x")
    a, c = tf.Variable(0.0), tf.Variable(5.0)
    status = tf.train.Checkpoint(a=a, c=c).read(path)
    assert a.numpy() == 1.0
    assert c.numpy() == 5.0
    status.expect_partial()
    status.assert_nontrivial_match()
    with pytest.raises(AssertionError, match="without a value in the checkpoint: c"):
        status.assert_existing_objects_matched()
    with pytest.raises(AssertionError, match="Nothing in the checkpoint"):
        tf.train.Checkpoint(q=a).read(path).assert_nontrivial_match()
    assert tf.train.Checkpoint(a=a).restore(None) is not None


def test_a_value_that_does_not_fit_changes_nothing(tmp_path):
    path = tf.train.Checkpoint(a=tf.Variable(1.0), b=tf.Variable([2.0])).write(tmp_path / "x")
    a, b = tf.Variable(0.0), tf.Variable([5.0, 6.0])
    with pytest.raises(ValueError, match=r"b has shape \(1,\) there and \(2,\) here"):
        tf.train.Checkpoint(a=a, b=b).read(path)
    assert a.numpy() == 0.0


def test_generators_modules_nests_and_nested_checkpoints(tmp_path):
    generator = tf.random.Generator.from_seed(3)
    generator.normal([5])
    core = gt.nn.Dense(2, in_features=3)
    rows = [tf.Variable(1.0), {"x": tf.Variable(2.0)}]
    inner = tf.train.Checkpoint(rows=rows)
    checkpoint = tf.train.Checkpoint(generator=generator, core=core, inner=inner)
    path = checkpoint.write(tmp_path / "x")
    wanted = generator.normal([4]).numpy()
    rows[1]["x"].assign(9.0)
    checkpoint.read(path).assert_consumed()
    np.testing.assert_array_equal(generator.normal([4]).numpy(), wanted)
    assert rows[1]["x"].numpy() == 2.0


def test_what_has_no_variables_is_refused():
    with pytest.raises(ValueError, match="trackable object"):
        tf.train.Checkpoint(step=3)


def test_missing_and_damaged_files(tmp_path):
    v = tf.Variable(1.0)
    checkpoint = tf.train.Checkpoint(v=v)
    with pytest.raises(tf.errors.NotFoundError):
        checkpoint.restore(tmp_path / "nothing")
    path = checkpoint.write(tmp_path / "x")
    (file,) = tmp_path.glob("x*")
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    v.assign(2.0)
    with pytest.raises(gt.errors.DamagedFileError):
        checkpoint.restore(path)
    assert v.numpy() == 2.0


def test_manager(tmp_path):
    step = tf.Variable(0)
    checkpoint = tf.train.Checkpoint(step=step)
    manager = tf.train.CheckpointManager(checkpoint, tmp_path, max_to_keep=3)
    assert manager.latest_checkpoint is None
    assert tf.train.latest_checkpoint(tmp_path) is None
    for _ in range(12):
        step.assign_add(1)
        manager.save()
    assert [os.path.basename(p) for p in manager.checkpoints] == ["ckpt-10", "ckpt-11", "ckpt-12"]
    assert tf.train.latest_checkpoint(tmp_path) == manager.latest_checkpoint
    other = tf.Variable(0)
    again = tf.train.CheckpointManager(tf.train.Checkpoint(step=other), tmp_path, max_to_keep=3)
    assert again.restore_or_initialize() == manager.latest_checkpoint
    assert other.numpy() == 12
    assert os.path.basename(again.save()) == "ckpt-13"


def test_manager_with_intervals_and_numbers(tmp_path):
    step, called = tf.Variable(0), []
    manager = tf.train.CheckpointManager(
        tf.train.Checkpoint(step=step), tmp_path, max_to_keep=None, step_counter=step,
        checkpoint_interval=5, init_fn=lambda: called.append(1),
    )  # fmt: skip
    assert manager.restore_or_initialize() is None
    assert called == [1]
    saved = []
    for _ in range(11):
        saved.append(manager.save(checkpoint_number=int(step.numpy())) is not None)
        step.assign_add(1)
    assert [n for n, was in enumerate(saved) if was] == [0, 5, 10]
    assert [p.rpartition("-")[2] for p in manager.checkpoints] == ["0", "5", "10"]
    with pytest.raises(ValueError, match="max_to_keep"):
        tf.train.CheckpointManager(tf.train.Checkpoint(), tmp_path, max_to_keep=0)


@pytest.mark.parametrize("name", ["w.npz", "w.safetensors", "model.weights.h5", "weights"])
def test_weights_of_models(tmp_path, name):
    one, two = model(), model()
    one(X)
    one.save_weights(tmp_path / name)
    with pytest.raises(ValueError, match="Call the model once"):
        two.load_weights(tmp_path / name)
    two(X)
    two.load_weights(tmp_path / name)
    np.testing.assert_array_equal(one(X).numpy(), two(X).numpy())
    with pytest.raises(FileExistsError):
        one.save_weights(tmp_path / name, overwrite=False)


def test_weights_that_do_not_match(tmp_path):
    one = model()
    with pytest.raises(ValueError, match="no variables yet"):
        one.save_weights(tmp_path / "w.npz")
    one(X)
    one.save_weights(tmp_path / "w.npz")
    wide = tf.keras.Sequential([tf.keras.layers.Dense(4), tf.keras.layers.Dense(2)])
    wide(X)
    before = [w.copy() for w in wide.get_weights()]
    with pytest.raises(ValueError, match="Nothing was loaded"):
        wide.load_weights(tmp_path / "w.npz")
    for a, b in zip(before, wide.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)
    with pytest.warns(UserWarning, match="has shape"):
        wide.load_weights(tmp_path / "w.npz", skip_mismatch=True)
    np.testing.assert_array_equal(wide.get_weights()[0], one.get_weights()[0])


def test_functional_and_subclassed_models(tmp_path):
    def functional():
        x = tf.keras.Input((3,))
        return tf.keras.Model(x, tf.keras.layers.Dense(1)(tf.keras.layers.Dense(4)(x)))

    class Own(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.blocks = [tf.keras.layers.Dense(4), tf.keras.layers.BatchNormalization()]

        def call(self, x):
            for block in self.blocks:
                x = block(x)
            return x

    for make in (functional, Own):
        one, two = make(), make()
        one(X), two(X)
        one.save_weights(tmp_path / "w.npz")
        two.load_weights(tmp_path / "w.npz")
        np.testing.assert_array_equal(one(X).numpy(), two(X).numpy())


def test_old_names_are_still_there():
    assert tf.train.GradientDescentOptimizer is tf.compat.v1.train.GradientDescentOptimizer
