"""`compile`, `fit`, `evaluate`, `predict` and callbacks. Numbers are those of Keras 3."""

import numpy as np
import pytest

import gradtape.tf as tf

keras = tf.keras
L, C = keras.layers, keras.callbacks


def numbers(*shape, seed=0):
    return np.random.RandomState(seed + sum(shape)).uniform(-2, 2, shape).astype(np.float32)


def line(rate=0.1, loss="mse", metrics=None, **options):
    """A line in three dimensions, beginning at weights of one half."""
    model = keras.Sequential([L.Dense(1, kernel_initializer=keras.initializers.Constant(0.5))])
    model.compile(keras.optimizers.SGD(rate), loss, metrics=metrics, **options)
    model.build((None, 3))
    return model


class Log(C.Callback):
    """Notes all calls."""

    def __init__(self):
        self.calls = []

    def __getattribute__(self, name):
        if name.startswith("on_") and "batch_" in name and name not in HOOKS:
            return super().__getattribute__(name)
        if name in HOOKS:
            return lambda *args, logs=None: self.calls.append((name, *args, sorted(logs or {})))
        return super().__getattribute__(name)


HOOKS = (
    "on_train_begin", "on_train_end", "on_epoch_begin", "on_epoch_end", "on_train_batch_begin",
    "on_train_batch_end", "on_test_begin", "on_test_end", "on_test_batch_begin",
    "on_test_batch_end", "on_predict_begin", "on_predict_end", "on_predict_batch_begin",
    "on_predict_batch_end",
)  # fmt: skip


class TestCallbacks:
    x, y = numbers(8, 3), numbers(8, 1, seed=3)

    def test_what_is_called(self):
        log = Log()
        model = line(metrics=["mae"])
        model.fit(
            self.x, self.y, batch_size=4, verbose=0, callbacks=[log], validation_split=0.5, epochs=1
        )
        both = ["loss", "mae"]
        assert log.calls == [
            ("on_train_begin", []), ("on_epoch_begin", 0, []), ("on_train_batch_begin", 0, []),
            ("on_train_batch_end", 0, both), ("on_test_begin", []), ("on_test_batch_begin", 0, []),
            ("on_test_batch_end", 0, both), ("on_test_end", both),
            ("on_epoch_end", 0, [*both, "val_loss", "val_mae"]),
            ("on_train_end", [*both, "val_loss", "val_mae"]),
        ]  # fmt: skip
        assert log.model is model
        assert log.params == {"verbose": 0, "epochs": 1, "steps": 1}
        log.calls.clear()
        model.evaluate(self.x, self.y, verbose=0, callbacks=[log])
        model.predict(self.x, verbose=0, callbacks=log)
        assert [call[0] for call in log.calls] == [*HOOKS[6:7], *HOOKS[8:10], "on_test_end", *(
            "on_predict_begin", "on_predict_batch_begin", "on_predict_batch_end", "on_predict_end",
        )]  # fmt: skip

    def test_old_names_for_batches(self):
        seen = []

        class Old(C.Callback):
            def on_batch_begin(self, batch, logs=None):
                seen.append(batch)

            def on_batch_end(self, batch, logs=None):
                seen.append(type(logs["loss"]))

        line().fit(self.x, self.y, batch_size=4, verbose=0, callbacks=[Old()])
        assert seen == [0, float, 1, float]

    def test_functions(self):
        seen = []
        callback = C.LambdaCallback(
            on_epoch_end=lambda epoch, logs: seen.append((epoch, sorted(logs))),
            on_train_batch_end=lambda batch, logs: seen.append(batch),
            on_train_end=lambda logs: seen.append("end"),
        )
        line().fit(self.x, self.y, epochs=2, verbose=0, callbacks=[callback])
        assert seen == [0, (0, ["loss"]), 0, (1, ["loss"]), "end"]
        with pytest.raises(TypeError, match="never called"):
            C.LambdaCallback(on_epoch=print)

    def test_history(self):
        history = C.History()
        model = line()
        found = model.fit(self.x, self.y, epochs=3, initial_epoch=1, verbose=0, callbacks=[history])
        assert found is history is model.history
        assert history.epoch == [1, 2]
        assert len(history.history["loss"]) == 2
        assert C.History is type(line().fit(self.x, self.y, verbose=0))

    def test_early_stopping(self):
        """The loss of steps that are too long rises at once."""
        stop = C.EarlyStopping(monitor="loss", patience=2, restore_best_weights=True, verbose=0)
        model = line(rate=0.9)
        first = [w + 0.0 for w in model.get_weights()]
        history = model.fit(self.x, self.y, epochs=20, verbose=0, shuffle=False, callbacks=[stop])
        assert len(history.history["loss"]) == 3
        assert (stop.stopped_epoch, stop.best_epoch, stop.wait) == (2, 0, 2)
        once = line(rate=0.9)
        once.fit(self.x, self.y, verbose=0, shuffle=False)
        for mine, theirs, start in zip(model.get_weights(), once.get_weights(), first, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-6)
            assert (mine != start).all()

    def test_which_way_is_better(self):
        model = line(metrics=["mae"])
        model.fit(self.x, self.y, epochs=4, verbose=0, callbacks=[C.EarlyStopping("mae")])
        assert len(model.history.epoch) == 4
        rising = C.EarlyStopping("mae", mode="max")
        assert len(model.fit(self.x, self.y, epochs=4, verbose=0, callbacks=[rising]).epoch) == 2
        with pytest.raises(ValueError, match="rise or fall"):
            model.fit(self.x, self.y, epochs=2, verbose=0, callbacks=[C.EarlyStopping("other")])
        with pytest.warns(UserWarning, match="val_loss"):
            model.fit(self.x, self.y, verbose=0, callbacks=[C.EarlyStopping()])

    def test_learning_rates(self):
        halve = C.LearningRateScheduler(lambda epoch, rate: rate * 0.5)
        model = line(rate=0.5)
        history = model.fit(self.x, self.y, epochs=3, verbose=0, callbacks=[halve])
        assert history.history["learning_rate"] == [0.25, 0.125, 0.0625]
        by_epoch = C.LearningRateScheduler(lambda epoch: 1.0 / (epoch + 1))
        model.fit(self.x, self.y, epochs=2, verbose=0, callbacks=[by_epoch])
        assert float(model.optimizer.learning_rate) == 0.5
        wrong = C.LearningRateScheduler(lambda epoch, rate: None)
        with pytest.raises(ValueError, match="should be a float"):
            model.fit(self.x, self.y, verbose=0, callbacks=[wrong])

    def test_plateaus(self):
        slow = C.ReduceLROnPlateau("loss", factor=0.5, patience=1, min_delta=100.0)
        model = line(rate=0.5)
        history = model.fit(self.x, self.y, epochs=4, verbose=0, callbacks=[slow])
        assert history.history["learning_rate"] == [0.5, 0.5, 0.25, 0.125]

    def test_ends(self, capsys):
        class Stop(C.Callback):
            def on_train_batch_end(self, batch, logs=None):
                self.model.stop_training = batch == 1

        history = line().fit(self.x, self.y, batch_size=2, epochs=5, verbose=0, callbacks=[Stop()])
        assert len(history.epoch) == 1
        model = line(rate=1e30)
        end = C.TerminateOnNaN()
        history = model.fit(self.x, self.y, batch_size=1, epochs=5, verbose=0, callbacks=[end])
        assert len(history.epoch) == 1
        assert "Invalid loss" in capsys.readouterr().out

    def test_what_is_no_callback(self):
        with pytest.raises(TypeError, match="not a callback"):
            line().fit(self.x, self.y, verbose=0, callbacks=[print])
        with pytest.raises(AttributeError, match="EarlyStopping"):
            _ = C.EarlyStoping


class TestFit:
    x, y = numbers(20, 3), numbers(20, 1, seed=3)

    def test_nothing_is_ignored(self):
        for wrong in ({"bogus": 1}, {"validate": 2}):
            with pytest.raises(TypeError):
                line().fit(self.x, self.y, **wrong)
            with pytest.raises(TypeError):
                line().evaluate(self.x, self.y, **wrong)
            with pytest.raises(TypeError):
                line().compile(**wrong)
        with pytest.raises(ValueError, match="number of examples"):
            line().fit(self.x, self.y[:3])
        with pytest.raises(ValueError, match="validation_split"):
            line().fit(self.x, self.y, validation_split=0.99)
        with pytest.raises(ValueError, match="Leave y out"):
            line().fit(tf.data.Dataset.from_tensors((self.x, self.y)), self.y)
        with pytest.raises(ValueError, match="list or dict"):
            line(metrics="mae")
        with pytest.raises(ValueError, match="without a loss"):
            line(loss=None, loss_weights=[1.0])

    def test_weights_of_examples(self):
        """Weights of 0 and 2 count some examples not at all, and others twice."""
        weights = np.array([0.0, 2.0] * 10, np.float32)
        model, reference = line(), line()
        model.fit(self.x, self.y, batch_size=20, shuffle=False, verbose=0, sample_weight=weights)
        reference.fit(self.x[1::2], self.y[1::2], shuffle=False, verbose=0)
        np.testing.assert_allclose(model.layers[0].kernel, reference.layers[0].kernel, rtol=1e-5)
        some = model.evaluate(self.x, self.y, batch_size=20, verbose=0, sample_weight=weights)
        half = model.evaluate(self.x[1::2], self.y[1::2], verbose=0)
        assert some == pytest.approx(half, rel=1e-5)

    def test_weights_of_classes(self):
        labels = np.array([0, 1] * 10)
        model = line(loss="binary_crossentropy", metrics=["accuracy"])
        reference = line(loss="binary_crossentropy")
        options = {"batch_size": 20, "shuffle": False, "verbose": 0}
        model.fit(self.x, labels, class_weight={0: 0.5, 1: 2.0}, **options)
        reference.fit(self.x, labels, sample_weight=np.where(labels == 1, 2.0, 0.5), **options)
        np.testing.assert_allclose(model.layers[0].kernel, reference.layers[0].kernel, rtol=1e-6)

    def test_datasets_and_generators(self):
        data = tf.data.Dataset.from_tensor_slices((self.x, self.y)).batch(4)
        model, reference = line(), line()
        history = model.fit(data, epochs=2, verbose=0, validation_data=data, validation_steps=2)
        options = {"batch_size": 4, "shuffle": False, "verbose": 0}
        first = {"validation_data": (self.x[:8], self.y[:8])}
        expected = reference.fit(self.x, self.y, epochs=2, **first, **options)
        for name, values in expected.history.items():
            np.testing.assert_allclose(history.history[name], values, rtol=1e-5)
        assert model.evaluate(data, verbose=0, steps=2) == pytest.approx(
            model.evaluate(self.x[:8], self.y[:8], verbose=0), rel=1e-5
        )
        assert model.predict(data, verbose=0).shape == (20, 1)

        def forever():
            while True:
                yield self.x[:4], self.y[:4]

        assert len(model.fit(forever(), steps_per_epoch=3, epochs=2, verbose=0).epoch) == 2
        with pytest.warns(UserWarning, match="after 1 of 3"):
            model.fit(iter([(self.x, self.y)]), steps_per_epoch=3, verbose=0)
        with pytest.raises(ValueError, match="repeat"):
            model.fit(iter([]), steps_per_epoch=3, verbose=0)

    def test_data_that_run_out_end_the_epoch(self):
        sizes = []

        class Model(keras.Sequential):
            def train_step(self, data):
                sizes.append(float(data[0][0, 0]))
                return super().train_step(data)

        model = Model([keras.Input((1,)), L.Dense(1)])
        model.compile("sgd", "mse", run_eagerly=True)
        x = np.arange(4.0, dtype=np.float32)[:, None]
        data = tf.data.Dataset.from_tensor_slices((x, x)).batch(1)
        with pytest.warns(UserWarning, match="after 1 of 3"):
            model.fit(data, epochs=3, steps_per_epoch=3, verbose=0)
        # The second epoch has the one batch that was left, and the third begins again.
        assert sizes == [0.0, 1.0, 2.0, 3.0, 0.0, 1.0, 2.0]

    def test_validation_now_and_then(self):
        history = line().fit(
            self.x, self.y, epochs=4, verbose=0, validation_split=0.2, validation_freq=2
        )
        assert len(history.history["val_loss"]) == 2
        assert len(history.history["loss"]) == 4

    def test_several_inputs_and_outputs(self):
        a, b = keras.Input((3,), name="a"), keras.Input((2,), name="b")
        joined = L.Concatenate()([a, b])
        first, second = L.Dense(1, name="first")(joined), L.Dense(2, name="second")(joined)
        model = keras.Model([a, b], [first, second])
        x, y = [self.x, self.x[:, :2]], [self.y, self.x[:, :2]]
        model.compile("sgd", ["mse", "mae"], loss_weights=[1.0, 0.5], metrics=[["mae"], ["mse"]])
        history = model.fit(x, y, epochs=1, verbose=0).history
        assert set(history) == {"loss", "first_loss", "second_loss", "first_mae", "second_mse"}
        found = model.evaluate(x, y, verbose=0, return_dict=True)
        total = found["first_loss"] + 0.5 * found["second_loss"]
        assert found["loss"] == pytest.approx(total, rel=1e-5)
        one, two = model.predict(x, verbose=0)
        assert (one.shape, two.shape) == ((20, 1), (20, 2))
        assert found["first_loss"] == pytest.approx(np.mean((one - y[0]) ** 2), rel=1e-5)
        model.compile("sgd", {"first": "mse"}, metrics={"second": ["mae"]})
        with pytest.warns(UserWarning, match="no gradient for kernel, bias"):
            model.fit(x, y, verbose=0)
        model.compile("sgd", {"third": "mse"})
        with pytest.raises(ValueError, match="not among the outputs"):
            model.fit(x, y, verbose=0)

    def test_own_steps(self):
        class Net(keras.Model):
            def __init__(self):
                super().__init__()
                self.dense = L.Dense(1)
                self.seen = keras.metrics.Sum(name="seen")

            def call(self, x):
                return self.dense(x)

            def train_step(self, data):
                x, y = data
                with tf.GradientTape() as tape:
                    predicted = self(x, training=True)
                    loss = self.compute_loss(y=y, y_pred=predicted)
                gradients = tape.gradient(loss, self.trainable_variables)
                self.optimizer.apply(gradients, self.trainable_variables)
                for metric in self.metrics:
                    if metric.name == "loss":
                        metric.update_state(loss)
                    elif metric.name == "seen":
                        metric.update_state(float(len(x)))
                    else:
                        metric.update_state(y, predicted)
                return {metric.name: metric.result() for metric in self.metrics}

        net = Net()
        net.compile("sgd", "mse", metrics=["mae"])
        history = net.fit(self.x, self.y, epochs=2, batch_size=8, verbose=0).history
        assert history["seen"] == [20.0, 20.0]
        assert set(history) == {"loss", "mae", "seen"}

    def test_single_batches(self):
        model = line(metrics=["mae"])
        loss, mae = model.train_on_batch(self.x, self.y)
        expected = self.x.sum(1, keepdims=True) / 2 - self.y
        assert loss == pytest.approx(np.mean(expected**2), rel=1e-5)
        assert mae == pytest.approx(np.mean(abs(expected)), rel=1e-5)
        assert model.test_on_batch(self.x, self.y)[0] < loss
        assert set(model.train_on_batch(self.x, self.y, return_dict=True)) == {"loss", "mae"}
        assert model.predict_on_batch(self.x).shape == (20, 1)

    def test_functions_as_losses_and_metrics(self):
        def squares(y_true, y_pred):
            return tf.square(y_true - y_pred)

        model = line(loss=squares, metrics=[squares])
        found = model.evaluate(self.x, np.arange(20.0)[:, None], verbose=0)
        expected = np.mean((self.x.sum(1) / 2 - np.arange(20)) ** 2)
        np.testing.assert_allclose(found, [expected, expected], rtol=1e-5)
        assert model.metrics_names == ["loss", "compile_metrics"]


class TestPrograms:
    x, y = numbers(24, 3), numbers(24, 1, seed=3)

    def test_python_and_program_agree(self):
        found = []
        for eagerly in (True, False):
            model = line(metrics=["mae"], run_eagerly=eagerly)
            history = model.fit(self.x, self.y, epochs=3, batch_size=8, shuffle=False, verbose=0)
            found.append((history.history, model.get_weights()))
        (one, weights), (two, others) = found
        for name, values in one.items():
            np.testing.assert_allclose(two[name], values, rtol=1e-6)
        for a, b in zip(weights, others, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)

    def test_random_numbers_go_on(self):
        fixed = L.Dense(1, kernel_initializer="ones", use_bias=False, trainable=False)
        model = keras.Sequential([keras.Input((1000,)), L.Dropout(0.5), fixed])
        model.compile("sgd", "mse")
        seen = []
        note = C.LambdaCallback(on_train_batch_end=lambda batch, logs: seen.append(logs["loss"]))
        model.fit(np.ones((8, 1000)), np.zeros((8, 1)), batch_size=1, verbose=0, callbacks=[note])
        assert len(set(seen)) > 4

    def test_state_of_layers(self):
        class Counting(keras.Model):
            def __init__(self):
                super().__init__()
                self.dense = L.Dense(1)
                self.count = self.add_weight(shape=(), initializer="zeros", trainable=False)

            def call(self, x, training=None):
                if training:
                    self.count.assign_add(1.0)
                return self.dense(x)

        model = Counting()
        model.compile("sgd", "mse")
        model.fit(self.x, self.y, batch_size=4, epochs=2, verbose=0)
        assert model.count.numpy() == 12.0

    def test_averages_take_their_place_at_the_end(self):
        model, plain = line(), line()
        model.compile(keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.5), "mse")
        weights = []
        note = C.LambdaCallback(
            on_train_batch_end=lambda batch, logs: weights.append(plain.get_weights()[0])
        )
        options = {"batch_size": 8, "shuffle": False, "verbose": 0}
        plain.fit(self.x, self.y, callbacks=[note], **options)
        model.fit(self.x, self.y, **options)
        average = weights[0]
        for value in weights[1:]:
            average = 0.5 * average + 0.5 * value
        np.testing.assert_allclose(model.get_weights()[0], average, rtol=1e-5)

    def test_losses_that_layers_add(self):
        class Adding(keras.Model):
            def __init__(self):
                super().__init__()
                self.dense = L.Dense(1, kernel_initializer="ones", activity_regularizer="l2")

            def call(self, x):
                self.add_loss(tf.reduce_mean(x * x))
                return self.dense(x)

        model = Adding()
        model.compile(keras.optimizers.SGD(0.0), "mse")
        history = model.fit(self.x, self.y, batch_size=8, epochs=2, shuffle=False, verbose=0)
        sums = self.x.sum(1, keepdims=True)
        expected = [
            np.mean((sums - self.y)[k : k + 8] ** 2) + np.mean(self.x[k : k + 8] ** 2)
            + 0.01 * np.mean(sums[k : k + 8] ** 2)
            for k in (0, 8, 16)
        ]  # fmt: skip
        np.testing.assert_allclose(history.history["loss"], [np.mean(expected)] * 2, rtol=1e-5)

        @tf.function
        def total(x):
            return tf.reduce_mean(model(x)) + tf.add_n(model.losses)

        values = [total(tf.constant(self.x[:4])).numpy() for _ in range(3)]
        assert len(set(values)) == 1
        assert model.losses == []
        model(self.x)
        assert len(model.losses) == 2

    def test_data_by_number(self):
        class Rows(keras.utils.PyDataset):
            ends = 0

            def __len__(self):
                return 3

            def __getitem__(self, index):
                return TestPrograms.x[index::3], TestPrograms.y[index::3]

            def on_epoch_end(self):
                self.ends += 1

        data = Rows()
        model = line()
        assert len(model.fit(data, epochs=2, verbose=0).epoch) == 2
        assert data.ends == 2
        assert model.predict(data, verbose=0).shape == (24, 1)

    def test_padding(self):
        rows = [[1], [2, 3, 4]]
        pad = keras.utils.pad_sequences
        assert pad(rows).tolist() == [[0, 0, 1], [2, 3, 4]]
        assert pad(rows, maxlen=2, padding="post").tolist() == [[1, 0], [3, 4]]
        assert pad(rows, maxlen=2, truncating="post", value=9).tolist() == [[9, 1], [2, 3]]
        with pytest.raises(ValueError, match="padding"):
            pad(rows, padding="left")
