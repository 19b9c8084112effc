"""CONTRACT: GradientTape, row by row."""

import weakref

import numpy as np
import pytest
from tests.growth import least_growth

import gradtape as gt
from gradtape.trace.recording import state


def square_gradient(tape, x):
    with tape:
        tape.watch(x)
        y = x * x
    return tape.gradient(y, x)


class TestContext:
    def test_as_gives_the_tape(self):
        tape = gt.GradientTape()
        with tape as entered:
            assert entered is tape

    def test_may_be_re_entered_and_goes_on_recording(self):
        x = gt.asarray(3.0)
        tape = gt.GradientTape()
        with tape:
            tape.watch(x)
            y = x * x
        with tape:
            z = y * x
        assert float(tape.gradient(z, x)) == 27.0

    def test_re_entry_after_other_work_was_computed(self):
        x = gt.asarray(3.0)
        tape = gt.GradientTape(persistent=True)
        with tape:
            tape.watch(x)
            y = x * x
        assert float(y) == 9.0
        other = gt.asarray(1.0) + 1.0
        assert float(other) == 2.0
        with tape:
            z = y * x * other
        assert float(tape.gradient(z, x)) == 54.0

    def test_re_entering_an_active_tape_is_an_error(self):
        tape = gt.GradientTape()
        with tape, pytest.raises(ValueError, match="recording already"), tape:
            pass

    def test_what_happens_outside_is_not_recorded(self):
        x = gt.asarray(2.0)
        before = x * x
        with gt.GradientTape(persistent=True) as tape:
            tape.watch(x)
            inside = before * x
        after = inside * x
        assert float(tape.gradient(inside, x)) == 4.0
        assert tape.gradient(before, x, unconnected_gradients="none") is None
        assert tape.gradient(after, x, unconnected_gradients="none") is None

    def test_an_exception_inside_leaves_no_tape_behind(self):
        with pytest.raises(KeyError), gt.GradientTape():
            raise KeyError("user")
        assert not state.tapes


class TestWatch:
    def test_nest(self):
        parts = {"a": gt.asarray(2.0), "b": [gt.asarray(3.0), gt.Variable(4.0)]}
        with gt.GradientTape() as tape:
            tape.watch(parts)
            y = parts["a"] * parts["b"][0] * parts["b"][1]
        g = tape.gradient(y, parts)
        assert float(g["a"]) == 12.0
        assert [float(v) for v in g["b"]] == [8.0, 6.0]

    def test_local_to_this_tape(self):
        x = gt.asarray(2.0)
        with gt.GradientTape() as outer, gt.GradientTape() as inner:
            inner.watch(x)
            y = x * x
        assert float(inner.gradient(y, x)) == 4.0
        assert outer.gradient(y, x, unconnected_gradients="none") is None

    @pytest.mark.parametrize("wrong", [3.0, "x", np.ones(2), object()])
    def test_a_non_tensor_names_its_type(self, wrong):
        with gt.GradientTape() as tape, pytest.raises(ValueError, match=type(wrong).__name__):
            tape.watch(wrong)

    @pytest.mark.parametrize("value", [1, True])
    def test_integers_and_booleans_warn_and_give_none(self, value):
        x = gt.asarray(value)
        with gt.GradientTape() as tape:
            with pytest.warns(UserWarning, match="no derivative"):
                tape.watch(x)
            y = gt.cast(x, gt.float64) * 2.0
        assert tape.gradient(y, x) is None

    def test_a_source_means_its_value_when_watched(self):
        x = gt.asarray([1.0, 2.0])
        with gt.GradientTape() as tape:
            tape.watch(x)
            x += 10.0
            y = x * x
        assert tape.gradient(y, x).tolist() == [22.0, 24.0]

    def test_unwatched_tensors_give_none(self):
        x, c = gt.asarray(2.0), gt.asarray(5.0)
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = x * c
        gx, gc_ = tape.gradient(y, [x, c], unconnected_gradients="none")
        assert float(gx) == 5.0
        assert gc_ is None


class TestStopRecordingAndReset:
    def test_stop_recording(self):
        x = gt.asarray(2.0)
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = x * x
            with tape.stop_recording():
                hidden = y * y
            z = hidden * y
        assert float(tape.gradient(z, x)) == 16.0 * 4.0

    def test_stop_recording_when_not_recording(self):
        with pytest.raises(RuntimeError, match="not recording"), gt.GradientTape().stop_recording():
            pass

    def test_gradient_inside_stop_recording(self):
        x = gt.asarray(2.0)
        with gt.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = x * x
            with tape.stop_recording():
                assert float(tape.gradient(y, x)) == 4.0
            z = y * x
        assert float(tape.gradient(z, x)) == 12.0

    def test_reset_drops_recording_and_watches(self):
        x = gt.asarray(2.0)
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = x * x
            tape.reset()
            z = x * 3.0
        assert tape.gradient((y, z), x, unconnected_gradients="none") is None

    def test_reset_then_watch_again(self):
        x = gt.asarray(2.0)
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = x * x
            tape.reset()
            tape.watch(x)
            z = y * x
        assert float(tape.gradient(z, x)) == 4.0


class TestVariables:
    def test_watched_by_being_read(self):
        v = gt.Variable(3.0)
        with gt.GradientTape() as tape:
            y = v * v
        assert float(tape.gradient(y, v)) == 6.0

    def test_not_trainable_or_switched_off(self):
        fixed, v = gt.Variable(3.0, trainable=False), gt.Variable(2.0)
        with gt.GradientTape() as tape:
            y = fixed * v
        assert tape.gradient(y, [fixed, v], unconnected_gradients="none")[0] is None
        with gt.GradientTape(watch_accessed_variables=False) as tape:
            y = v * v
        assert tape.gradient(y, v, unconnected_gradients="none") is None
        with gt.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(v)
            y = v * v
        assert float(tape.gradient(y, v)) == 4.0

    def test_watched_variables_in_construction_order_and_after_gradient(self):
        a, b = gt.Variable(1.0), gt.Variable(2.0)
        with gt.GradientTape() as tape:
            y = b * a
        before = tape.watched_variables()
        tape.gradient(y, a)
        after = tape.watched_variables()
        # By identity: variables compare element by element.
        assert [id(v) for v in before] == [id(a), id(b)]
        assert [id(v) for v in after] == [id(a), id(b)]


class TestGradient:
    def test_several_and_non_scalar_targets_are_summed(self):
        x = gt.asarray([1.0, 2.0])
        with gt.GradientTape() as tape:
            tape.watch(x)
            y, z = x * x, 3.0 * x
        assert tape.gradient({"y": y, "z": [z]}, x).tolist() == [5.0, 7.0]

    def test_structure_of_sources_repeats_and_intermediates(self):
        x = gt.asarray(2.0)
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = x * x
            z = y * y
        g = tape.gradient(z, {"x": [x, x], "y": (y,)})
        assert [float(v) for v in g["x"]] == [32.0, 32.0]
        assert isinstance(g["y"], tuple)
        assert float(g["y"][0]) == 8.0

    def test_equal_expressions_are_distinct_sources(self):
        x = gt.asarray(3.0)
        with gt.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = x * x
            z = x * x
            w = y * z
        assert tape.gradient(z, y, unconnected_gradients="none") is None
        assert float(tape.gradient(w, y)) == 9.0
        assert float(tape.gradient(w, x)) == 108.0

    def test_target_that_is_a_source(self):
        x = gt.asarray([1.0, 2.0])
        with gt.GradientTape() as tape:
            tape.watch(x)
        assert tape.gradient(x, x).tolist() == [1.0, 1.0]

    def test_variable_as_target(self):
        v = gt.Variable(2.0)
        with gt.GradientTape() as tape:
            tape.watch(v)
        assert float(tape.gradient(v, v)) == 1.0

    def test_unconnected(self):
        x, y = gt.asarray([1.0, 2.0]), gt.asarray(1.0)
        with gt.GradientTape(persistent=True) as tape:
            tape.watch([x, y])
            z = y * y
        assert tape.gradient(z, x, unconnected_gradients="none") is None
        assert tape.gradient(z, x, unconnected_gradients="zero").tolist() == [0.0, 0.0]
        with pytest.raises(ValueError, match="'nonsense'"):
            tape.gradient(z, x, unconnected_gradients="nonsense")

    def test_output_gradients(self):
        x = gt.asarray([1.0, 2.0])
        with gt.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = x * x
        assert tape.gradient(y, x, output_gradients=gt.asarray([1.0, 10.0])).tolist() == [2.0, 40.0]
        with pytest.raises(ValueError, match="shape"):
            tape.gradient(y, x, output_gradients=[1.0, 2.0, 3.0])
        with pytest.raises(ValueError, match="output_gradients"):
            tape.gradient([y, y], x, output_gradients=[[1.0, 2.0]])
        pair = tape.gradient([y, y], x, output_gradients=[[1.0, 2.0], 10.0])
        assert pair.tolist() == [22.0, 48.0]

    def test_second_call_on_a_non_persistent_tape(self):
        x = gt.asarray(2.0)
        tape = gt.GradientTape()
        square_gradient(tape, x)
        with pytest.raises(RuntimeError, match="persistent=True"):
            tape.gradient(x, x)

    def test_persistent(self):
        x = gt.asarray(2.0)
        with gt.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = x * x
            z = y * y
        assert float(tape.gradient(y, x)) == 4.0
        assert float(tape.gradient(z, x)) == 32.0
        assert float(tape.gradient(z, y)) == 8.0

    def test_never_entered(self):
        with pytest.raises(RuntimeError, match="recorded nothing"):
            gt.GradientTape().gradient(gt.asarray(1.0), gt.asarray(1.0))

    def test_target_of_the_wrong_type(self):
        x = gt.asarray(1.0)
        with gt.GradientTape() as tape:
            tape.watch(x)
        with pytest.raises(ValueError, match="str"):
            tape.gradient("y", x)

    def test_integer_and_boolean_results_are_unconnected(self):
        x = gt.asarray([1.5, -2.5])
        with gt.GradientTape(persistent=True) as tape:
            tape.watch(x)
            whole = gt.cast(x, gt.int32)
            truth = x > 0.0
            y = gt.cast(truth, gt.float64) * 2.0
        assert tape.gradient(whole, x, unconnected_gradients="none") is None
        assert tape.gradient(truth, x, unconnected_gradients="none") is None
        assert tape.gradient(y, x, unconnected_gradients="none") is None

    @pytest.mark.parametrize("step", ["floor", "round", "sign", "ceil", "trunc"])
    def test_steps_have_derivative_zero(self, step):
        x = gt.asarray([1.5, -2.5])
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = getattr(gt, step)(x)
        assert tape.gradient(y, x).tolist() == [0.0, 0.0]

    def test_an_undefined_derivative_raises_and_names_the_op(self):
        x = gt.asarray([1.5, -2.5])
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = gt.numpy_function(np.sin, [x], ((2,), gt.float64)) * 2.0
        with pytest.raises(LookupError, match="numpy_function"):
            tape.gradient(y, x)


class TestHigherOrder:
    def test_inside_a_persistent_tape(self):
        x = gt.asarray(2.0)
        with gt.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = x**4
            g = tape.gradient(y, x)
            h = tape.gradient(g, x)
        assert float(g) == 32.0
        assert float(h) == 48.0
        assert float(tape.gradient(h, x)) == 48.0

    def test_inside_a_non_persistent_tape_recording_stops_first(self):
        x = gt.asarray(2.0)
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = x * x
            g = tape.gradient(y, x)
        assert float(g) == 4.0

    def test_nested_tapes_to_the_third_order(self):
        x = gt.asarray(2.0)
        with gt.GradientTape() as t3:
            t3.watch(x)
            with gt.GradientTape() as t2:
                t2.watch(x)
                with gt.GradientTape() as t1:
                    t1.watch(x)
                    y = x**4
                g = t1.gradient(y, x)
            h = t2.gradient(g, x)
        assert float(t3.gradient(h, x)) == 48.0

    def test_forward_over_reverse_and_reverse_over_forward(self):
        x = gt.asarray([1.0, 2.0])
        v = gt.asarray([1.0, 0.5])
        with gt.ForwardAccumulator(x, v) as acc:
            with gt.GradientTape() as tape:
                tape.watch(x)
                y = gt.sum(x**3)
            g = tape.gradient(y, x)
        assert acc.jvp(g).tolist() == [6.0, 6.0]
        with gt.GradientTape() as tape:
            tape.watch(x)
            with gt.ForwardAccumulator(x, v) as acc:
                y = gt.sum(x**3)
            d = acc.jvp(y)
        assert tape.gradient(d, x).tolist() == [6.0, 6.0]

    def test_a_tape_that_ended_before_the_outer_began(self):
        x = gt.asarray(2.0)
        with gt.GradientTape(persistent=True) as first:
            first.watch(x)
            y = x**3
        with gt.GradientTape() as second:
            second.watch(x)
            g = first.gradient(y, x)
        assert float(g) == 12.0
        assert float(second.gradient(g, x)) == 12.0


class TestBeyond:
    def test_jvp_of_a_tape(self):
        x, y = gt.Variable([1.0, 2.0]), gt.asarray(3.0)
        with gt.GradientTape(persistent=True) as tape:
            tape.watch(y)
            z = x * x * y
        assert tape.jvp(z, [x, y], [[1.0, 1.0], 10.0]).tolist() == [16.0, 52.0]
        assert tape.jvp(gt.asarray([1.0]), x, [1.0, 1.0]).tolist() == [0.0]

    def test_hvp_of_a_tape(self):
        x, y = gt.Variable([1.0, 2.0]), gt.Variable(3.0)
        with gt.GradientTape() as tape:
            z = gt.sum(x**3) * y
        by_x, by_y = tape.hvp(z, [x, y], [[1.0, 0.0], 1.0])
        assert by_x.tolist() == [18.0 + 3.0, 12.0]
        assert float(by_y) == 3.0

    def test_products_with_the_hessian_take_no_new_memory(self):
        x = gt.asarray(np.ones(20_000))

        def product():
            slope = gt.grad(lambda x: gt.sum(gt.sin(x) * x))
            return gt.jvp(slope, (x,), (x,))[1].numpy()

        for _ in range(4):
            product()
        before = gt.counters().bytes_allocated
        for _ in range(10):
            product()
        assert gt.counters().bytes_allocated == before

    def test_report_counts_what_was_recorded_and_kept(self):
        x = gt.Variable(np.ones((3, 3)), name="weights")
        with gt.GradientTape() as tape:
            y = gt.sum(x @ x)
        assert tape.report().startswith("2 ops recorded, 1 source watched, 0 values kept")
        float(y)
        assert "2 values kept (80 bytes)" in tape.report()
        assert "weights: float64[3,3]" in tape.report()


class TestMemory:
    def test_a_consumed_tape_holds_nothing(self):
        data = gt.asarray(np.ones(1000))
        buffer = weakref.ref(data.computed.array)
        tape = gt.GradientTape()
        with tape:
            tape.watch(data)
            y = gt.sum(data * data)
        g = tape.gradient(y, data).numpy()
        del data, y
        assert buffer() is None
        assert g.shape == (1000,)

    def test_a_dropped_tape_holds_nothing(self):
        data = gt.asarray(np.ones(1000))
        buffer = weakref.ref(data.computed.array)
        with gt.GradientTape(persistent=True) as tape:
            tape.watch(data)
            y = gt.sum(data * data)
        assert float(y) == 1000.0
        del tape, data
        # No Python code may run where a tape dies: the next flush or tape lets go of its values.
        assert float(y + 1.0) == 1001.0
        assert buffer() is None

    @pytest.mark.parametrize("persistent", [False, True])
    @pytest.mark.parametrize("look", [False, True])
    def test_repeated_use_grows_no_objects(self, persistent, look):
        x = gt.asarray(np.ones(8))

        def step():
            with gt.GradientTape(persistent=persistent) as tape:
                tape.watch(x)
                y = gt.sum(gt.sin(x) * x)
            if look:
                float(y)
            return tape.gradient(y, x).numpy()

        for _ in range(20):
            step()
        assert least_growth(step, 20, enough=5) <= 5

    def test_a_loop_of_persistent_tapes_without_deleting_them(self):
        x = gt.asarray(1.0)
        built = None
        for step in range(12):
            with gt.GradientTape(persistent=True) as tape:
                tape.watch(x)
                y = gt.sin(x) * x
            float(tape.gradient(y, x))
            if step == 3:
                built = gt.counters().plans_built
        assert gt.counters().plans_built == built
