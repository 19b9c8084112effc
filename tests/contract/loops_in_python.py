"""What cond, switch, while_loop, fori_loop, scan and map compute, written out in Python."""

import gradtape as gt


class InPython:
    """The same functions as loops over values."""

    @staticmethod
    def scan(f, init, xs=None, length=None, reverse=False):
        leaves, structure = gt.pytree.flatten(xs)
        count = length if length is not None else leaves[0].shape[0]
        carry, rows = init, [None] * count
        for step in reversed(range(count)) if reverse else range(count):
            x = gt.pytree.unflatten(structure, [leaf[step] for leaf in leaves])
            carry, rows[step] = f(carry, x)
        flat = [gt.pytree.flatten(row) for row in rows]
        columns = zip(*[leaves for leaves, _ in flat], strict=True)
        return carry, gt.pytree.unflatten(flat[0][1], [gt.stack(list(c)) for c in columns])

    @staticmethod
    def while_loop(cond_fn, body_fn, init):
        while bool(cond_fn(init)):
            init = body_fn(init)
        return init

    @staticmethod
    def fori_loop(lower, upper, body_fn, init):
        for i in range(int(lower), int(upper)):
            init = body_fn(i, init)
        return init

    @staticmethod
    def map(f, xs):
        return InPython.scan(lambda _, x: (None, f(x)), None, xs)[1]

    @staticmethod
    def cond(pred, true_fn, false_fn, *operands):
        return true_fn(*operands) if bool(pred) else false_fn(*operands)

    @staticmethod
    def switch(index, branches, *operands):
        return branches[max(0, min(len(branches) - 1, int(index)))](*operands)
