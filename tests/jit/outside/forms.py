"""Forms of decorated functions: methods, partials, nested functions, and inside transforms."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tests.jit.outside.holders import Holder
from tests.jit.outside.scenarios import Scenario, scenario

import gradtape as gt

Read = Callable[[], Any]


def attribute():
    own = Holder(1.0)
    return (lambda: own.number), (lambda number: setattr(own, "number", number))


def helper():
    space = {}
    exec("def helper(): return 1.0\ndef read(): return helper()", space)
    return space["read"], lambda number: exec(f"def helper(): return {number}", space)


def layers():
    own = [Holder(1.0), Holder(1.0)]
    return (
        lambda: sum(each.get() for each in own),
        lambda number: own.append(Holder(number)),
    )


def variable():
    own = gt.Variable(1.0)
    return (lambda: own.value), (lambda number: own.assign(number))


def method(read: Read):
    class Own:
        @gt.function
        def step(self, x):
            return x * read()

    return Own().step


def static_method(read: Read):
    class Own:
        @gt.function
        @staticmethod
        def step(x):
            return x * read()

    return Own().step


def class_method(read: Read):
    class Own:
        @classmethod
        @gt.function
        def step(cls, x):
            return x * read()

    return Own.step


def called_object(read: Read):
    class Own:
        def __call__(self, x):
            return x * read()

    return gt.function(Own())


def partial_of_decorated(read: Read):
    return functools.partial(gt.function(lambda a, x: x * read() * a), 1.0)


def decorated_partial(read: Read):
    return gt.function(functools.partial(lambda a, x: x * read() * a, 1.0))


def nested(read: Read):
    inner = gt.function(lambda x: x * read())
    return gt.function(lambda x: inner(x) + 1.0)


def nested_twice(read: Read):
    inner = gt.function(lambda x: x * read())
    middle = gt.function(lambda x: inner(x) + inner(x * 2.0))
    return gt.function(lambda x: middle(x) * 1.0)


def in_tape(read: Read):
    decorated = gt.function(lambda x: x * x * read())

    def run(x):
        with gt.GradientTape() as tape:
            tape.watch(x)
            z = decorated(x)
        return tape.gradient(z, x)

    return run


def tape_inside(read: Read):
    def run(x):
        with gt.GradientTape() as tape:
            tape.watch(x)
            z = x * x * read()
        return tape.gradient(z, x)

    return gt.function(run)


def in_grad(read: Read):
    return gt.grad(gt.function(lambda x: x * x * read()))


def grad_decorated(read: Read):
    return gt.function(gt.grad(lambda x: x * x * read()))


def in_vmap(read: Read):
    mapped = gt.vmap(gt.function(lambda x: x * read()))
    return lambda x: mapped(gt.stack([x, x * 2.0]))


def vmap_decorated(read: Read):
    mapped = gt.function(gt.vmap(lambda x: x * read()))
    return lambda x: mapped(gt.stack([x, x * 2.0]))


def in_jacobian(read: Read):
    return gt.function(lambda x: gt.jacfwd(lambda y: y * y * read())(x))


def in_checkpoint(read: Read):
    return gt.function(gt.grad(gt.checkpoint(lambda x: gt.sin(x) * read())))


def with_keyword(read: Read):
    decorated = gt.function(lambda x, *, scale: x * scale * read())
    return lambda x: decorated(x, scale=2.0)


def with_static_argument(read: Read):
    decorated = gt.function(lambda x, kind: x * read() * len(kind), static_argnames="kind")
    return lambda x: decorated(x, "ab")


def audited(read: Read):
    return gt.function(lambda x: x * read(), recheck=1)


def recursive(read: Read):
    def power(x, count):
        return x if count == 0 else power(x * read(), count - 1)

    return gt.function(lambda x: power(x, 3))


def branching(read: Read):
    def run(x):
        if x > 0.0:
            return x * read()
        return x

    return gt.function(run)


FORMS = [
    method, static_method, class_method, called_object, partial_of_decorated, decorated_partial,
    nested, nested_twice, in_tape, tape_inside, in_grad, grad_decorated, in_vmap, vmap_decorated,
    in_jacobian, in_checkpoint, with_keyword, with_static_argument, audited,
    recursive, branching,
]  # fmt: skip
KINDS = [attribute, helper, layers, variable]


def _made(form, kind) -> Scenario:
    read, write = kind()
    return Scenario(_undecorated(form, read), write, decorate=lambda _: form(read))


def _undecorated(form, read):
    """What a form makes where gt.function does nothing."""

    def plain(function=None, **_):
        return function

    real, gt.function = gt.function, plain
    try:
        return form(read)
    finally:
        gt.function = real


for _form in FORMS:
    # An audit looks through all objects there are: one kind is enough.
    for _kind in KINDS[:1] if _form is audited else KINDS:
        _maker = functools.partial(_made, _form, _kind)
        _maker.__name__ = f"{_form.__name__}_of_{_kind.__name__}"
        scenario(_maker)
