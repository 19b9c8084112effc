"""Iterators and generators of random numbers outside, which every call moves on."""

from __future__ import annotations

import itertools
import random

import numpy as np
from tests.jit.outside.scenarios import Scenario, scenario


@scenario
def counting_iterator() -> Scenario:
    own = [itertools.count(1)]
    return Scenario(
        lambda x: x * next(own[0]), lambda number: own.__setitem__(0, itertools.count(int(number)))
    )


@scenario
def iterator_of_list() -> Scenario:
    own = iter(list(range(1000)))
    return Scenario(lambda x: x * next(own), lambda number: next(own))


@scenario
def generator_outside() -> Scenario:
    def numbers():
        number = 1.0
        while True:
            number = (yield number) or number + 1.0

    own = numbers()
    next(own)
    return Scenario(lambda x: x * next(own), lambda number: own.send(number))


@scenario
def cycle_outside() -> Scenario:
    own = itertools.cycle([1.0, 2.0, 3.0])
    return Scenario(lambda x: x * next(own), lambda number: next(own))


@scenario
def generator_of_numpy() -> Scenario:
    own = np.random.default_rng(3)
    return Scenario(lambda x: x * own.random(), lambda number: own.random())


@scenario
def generator_of_python() -> Scenario:
    own = random.Random(3)
    return Scenario(lambda x: x * own.gauss(0.0, 1.0), lambda number: own.random())


@scenario
def old_generator_of_numpy() -> Scenario:
    own = np.random.RandomState(3)
    return Scenario(lambda x: x * own.rand(), lambda number: own.rand())


@scenario
def draws_passed_on() -> Scenario:
    own = random.Random(3)
    return Scenario(lambda x: x * next(iter(own.random, None)), lambda number: own.random())


@scenario
def draws_mapped() -> Scenario:
    own = random.Random(3)
    return Scenario(
        lambda x: x * sum(itertools.starmap(own.uniform, [(0.0, 1.0)] * 3)),
        lambda number: own.random(),
    )


@scenario
def shuffled_list() -> Scenario:
    own, numbers = random.Random(3), [1.0, 2.0, 3.0]

    def f(x):
        own.shuffle(numbers)
        return x * numbers[0]

    return Scenario(f, lambda number: numbers.append(number), state=lambda: numbers)
