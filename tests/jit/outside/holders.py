"""Objects outside that are read through attributes, methods and special methods."""

from __future__ import annotations

import functools

from tests.jit.outside.scenarios import Place, place


class Holder:
    limit = 1.0

    def __init__(self, number=1.0):
        self.number = number

    def get(self):
        return self.number

    @property
    def doubled(self):
        return self.number * 2.0

    @classmethod
    def of_class(cls):
        return cls.limit

    @staticmethod
    def twice(number):
        return 2.0 * number

    def __call__(self):
        return self.number

    def __getitem__(self, key):
        return self.number

    def __len__(self):
        return int(self.number)

    def __iter__(self):
        return iter([self.number])

    def __float__(self):
        return self.number

    def __int__(self):
        return int(self.number)

    def __index__(self):
        return int(self.number)

    def __bool__(self):
        return self.number > 1.5

    def __contains__(self, key):
        return key < self.number

    def __add__(self, other):
        return self.number + other

    def __rmul__(self, other):
        return other * self.number

    def __neg__(self):
        return -self.number

    def __eq__(self, other):
        return self.number == other

    def __hash__(self):
        return 1

    def __enter__(self):
        return self.number

    def __exit__(self, *_):
        return None

    def __matmul__(self, other):
        return self.number * other

    def __round__(self):
        return round(self.number)

    def __abs__(self):
        return abs(self.number)


def _holder(read) -> Place:
    holder = Holder()
    return (lambda: read(holder)), (lambda number: setattr(holder, "number", number))


TEMPLATE, PERCENT = "{0.number}", "%(number)s"


def _with(holder):
    with holder as number:
        return number


HOLDER_READS = {
    "attribute": lambda h: h.number,
    "method": lambda h: h.get(),
    "property": lambda h: h.doubled,
    "call": lambda h: h(),
    "getitem": lambda h: h[0],
    "len": lambda h: float(len(h)),
    "iter": lambda h: sum(h),
    "unpack": lambda h: sum([*h]),
    "float": lambda h: float(h),
    "int": lambda h: float(int(h)),
    "index": lambda h: float(range(10)[h]),
    "bool": lambda h: 3.0 if h else 1.0,
    "contains": lambda h: 2.0 if 1.5 in h else 1.0,
    "add": lambda h: h + 1.0,
    "reflected": lambda h: 2.0 * h,
    "negative": lambda h: -h,
    "equal": lambda h: 2.0 if h == 1.0 else 1.0,
    "with": _with,
    "matmul": lambda h: h @ 2.0,
    "round": lambda h: float(round(h)),
    "abs": lambda h: abs(h),
    "getattr": lambda h: getattr(h, "num" + "ber"),
    "vars": lambda h: vars(h)["number"],
    "dictionary": lambda h: h.__dict__["number"],
    "max": lambda h: max(h, key=lambda each: each),
    "sorted": lambda h: sorted(h)[0],
    "zip": lambda h: next(iter(zip(h, h, strict=True)))[0],
    "comprehension": lambda h: sum([each * 2.0 for each in h]),
    "star_call": lambda h: max(*h, 0.0),
    "hash": lambda h: {1.0: 2.0}.get(h, 5.0),
    "text": lambda h: float(f"{h.number:.2f}"),
    "dict_of": lambda h: dict(vars(h))["number"],
    "dir": lambda h: float(len(dir(h))) * h.number,
    "key": lambda h: sorted([h, Holder(2.5)], key=Holder.get)[0].number,
    "two_names": lambda h: (h.number if h is not None else 0.0) + h.get(),
    "percent": lambda h: float(PERCENT % vars(h)),
    "template": lambda h: float(TEMPLATE.format(h)),
    "template_mapped": lambda h: float(next(map(TEMPLATE.format, [h]))),
}
for _name, _read in HOLDER_READS.items():
    place(functools.partial(_holder, _read), f"holder_{_name}")
