"""Error texts for names and arguments that do not exist here: they say what to use instead.

`suggestions.toml` translates the names of NumPy, JAX, PyTorch and TensorFlow; other names are
compared with those that exist. It is read when a name or an argument is found to be missing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from importlib import import_module
from typing import Any, NoReturn

from gradtape.caches import remembered
from gradtape.errors import shown

# Attributes that a class does not have, and that explain themselves.
ATTRIBUTES = {
    "Operators": (
        "abs abs_ absolute acos add add_ addmm addressable_shards allclose angle argsort argwhere "
        "as_numpy asin at atan atan2 aval backward baddbmm base bernoulli block_until_ready bmm "
        "bool byte ceil cholesky choose chunk clamp clamp_ clone compress contiguous copy_ cos "
        "cosh cpu cross ctypes cuda cumprod cumsum data det detach detach_ device_buffer diag "
        "diagonal diff dim div div_ divide dot_ double eigh element_size eq equal erf erfc eval "
        "exp exp_ expand expand_as expand_dims expm1 fill fill_ flat flip float floor fmod gather "
        "gather_nd ge get get_shape grad grad_fn graph gt half hypot iloc index_add_ index_select "
        "initializer inner int inverse is_contiguous is_cuda is_leaf is_sparse isclose isfinite "
        "isinf isnan itemset kron layout le lerp lgamma log log10 log1p log2 log_ log_sigmoid "
        "log_softmax logdet logical_and logical_not logical_or logsumexp long lt masked_fill "
        "masked_fill_ matmul maximum median minimum mm moveaxis movedim mul mul_ multiply mv "
        "nan_to_num narrow ndimension ne neg neg_ nelement new_empty new_full new_ones new_tensor "
        "new_zeros nonzero norm normal_ not_equal numel numpy_ op outer partition permute "
        "pin_memory pinv pow pow_ ptp put qr quantile read_value reciprocal reduce_mean "
        "reduce_sum register_hook register_post_accumulate_grad_hook relu relu_ remainder repeat "
        "repeat_interleave requires_grad requires_grad_ reshape_as retain_grad roll roll_ round "
        "round_ rsqrt scatter scatter_ scatter_add scatter_add_ searchsorted set set_shape "
        "set_value sharding share_memory_ short sigmoid sigmoid_ sign sin sinh slogdet softmax "
        "softplus solve sort split sqrt sqrt_ square square_ squeeze_ stack storage strides sub "
        "sub_ subtract svd swapaxes t t_ take tan tanh tanh_ tile to to_numpy toarray tobytes "
        "tofile topk trace transpose_ tril triu trunc type type_as unbind unfold uniform_ unique "
        "unsqueeze unsqueeze_ values var_mean view view_as weak_type where zero_"
    ),
    "Tensor": ("assign assign_add assign_sub value"),
    "Optimizer": (
        "add_param_group backward compute_gradients get_lr init learning_rates lr param_groups "
        "state step zero_grad"
    ),
    "Module": (
        "add_module append apply buffers build children compile count_params cpu cuda double "
        "evaluate fit float forward get_parameter get_weights half init named_buffers "
        "named_children params predict predict_on_batch register_buffer register_forward_hook "
        "register_parameter requires_grad_ save save_pretrained set_weights summary to "
        "train_on_batch trainable_weights weights zero_grad"
    ),
    "GradientTape": (
        "backward close forward_gradient grad gradients hessians jacobians record start_recording "
        "stop_gradient unwatch value value_and_grad vjp zero_grad"
    ),
}


@remembered(1)
def tables() -> dict[str, dict[str, Any]]:
    """The tables of `suggestions.toml`.

    >>> from gradtape.suggestions import tables
    >>> tables()["names"]["jit"], tables()["arguments"]["keepdim"]
    ('gt.function', ['keepdims'])
    """
    # Loaded here because it is needed only when a name is wrong, and slows every import else.
    import tomllib

    with open(f"{__file__.removesuffix('.py')}.toml", "rb") as file:
        return tomllib.load(file)


def instead(name: str) -> str:
    """The sentence that says what to use for a name of another library; empty if none is known.

    >>> from gradtape.suggestions import instead
    >>> instead("cat"), instead("cuda")
    ('Use gt.concat.', 'Leave it out: the only device is the CPU.')
    """
    found = tables()["names"].get(name, "")
    return found and (f"{found}." if found[0].isupper() else f"Use {found}.")


def of_two(name: str) -> str:
    """What takes two tensors, for a function of one tensor and an axis; empty if nothing does.

    >>> from gradtape.suggestions import of_two
    >>> of_two("max"), of_two("mean")
    ('gt.maximum(a, b)', '')
    """
    return str(tables()["of_two"].get(name, ""))


# Public namespaces that are searched for a name that `gradtape` itself does not have.
NAMESPACES = ("linalg", "fft", "random", "nn", "optimizers", "testing", "errors")
_PARTS = (*NAMESPACES, "nn.losses", "nn.activations", "nn.initializers", "optimizers.schedules")


def nearest(name: str, public: Iterable[str]) -> list[str]:
    """Public names that a misspelt or shortened name may stand for, the likeliest first.

    >>> from gradtape.suggestions import nearest
    >>> nearest("sinn", ["cos", "sin", "sinh"])
    ['sin', 'sinh']
    """
    # Loaded here because it is needed only when a name is wrong, and slows every import else.
    import difflib

    names = list(public)
    almost_equal = difflib.get_close_matches(name, names, 2, 0.8)
    having_the_word = [each for each in names if name in each.split("_")]
    similar = difflib.get_close_matches(name, names, 2, 0.6)
    return list(dict.fromkeys([*almost_equal, *having_the_word, *similar]))


def missing_name(
    name: str, public: Iterable[str], path: str = "gradtape", like: str | None = None
) -> str:
    """The text of the AttributeError for a name that `gradtape`, or a part of it, does not have."""
    sentence = f"module {path!r} has no attribute {name!r}."
    if name.startswith("_"):
        return sentence
    part = path.removeprefix("gradtape").lstrip(".")
    library = sys.modules["gradtape"]
    if part and name in library.__all__ and name not in NAMESPACES:
        return f"{sentence} Use gt.{name}."
    if known := instead(name):
        return f"{sentence} {known}"
    # `gradtape.ops` and its like are imported by the library only. An import statement reads
    # the attribute before it checks sys.modules, so this branch must stay cheap.
    if f"{path}.{name}" in sys.modules:
        return (
            f"{sentence} It is an internal package; gradtape itself exports its public functions."
        )
    short = f"gt.{part}." if part else "gt."
    found = [short + each for each in nearest(name, public)]
    for each in reversed(_PARTS):
        if each != part and name in import_module(f"gradtape.{each}").__all__:
            found.insert(0, f"gt.{each}.{name}")
    if found:
        return f"{sentence} Did you mean {' or '.join(found[:2])}?"
    return f"{sentence} dir({path}) lists the public names."


def namespace(module: dict[str, Any]) -> tuple[Callable[[str], NoReturn], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a public module: hints for missing names, public names.

    >>> find, listed = gt.libraries.namespace(vars(gt.linalg))
    >>> "norm" in listed()
    True
    """
    path = module["__name__"]

    def find(name: str) -> NoReturn:
        raise AttributeError(
            missing_name(name, module["__all__"], path), name=name, obj=sys.modules[path]
        )

    def listed() -> list[str]:
        return sorted({*module["__all__"], *(name for name in module if name.startswith("__"))})

    return find, listed


class _Missing:
    """An attribute that a class does not have; the error says what to use instead.

    Unlike a `__getattr__` of the class it costs nothing when an attribute exists. Without a remedy
    it has the name of a function, or that of one in place, such as `exp_`.
    """

    def __init__(self, name: str, table: str) -> None:
        self.name = name
        self.table = table

    def __get__(self, found: object, kind: type) -> Any:
        own = getattr(found, "__dict__", {})
        if self.name in own:  # A user's class has it.
            return own[self.name]
        raise AttributeError(
            f"{kind.__name__!r} object has no attribute {self.name!r}. {self._remedy()}",
            name=self.name,
            obj=kind if found is None else found,
        )

    def __set__(self, found: object, value: object) -> None:
        own = getattr(found, "__dict__", None)
        if own is None:
            self.__get__(found, type(found))
        else:
            own[self.name] = value

    def __delete__(self, found: object) -> None:
        self.__get__(found, type(found))
        del found.__dict__[self.name]

    def _remedy(self) -> str:
        if known := tables()["attributes"][self.table].get(self.name):
            return f"{known}."
        library, name = sys.modules["gradtape"], self.name.rstrip("_")
        parts = [each for each in ("", *_PARTS) if name in _public(library, each)]
        if not parts:
            return instead(name) or instead(self.name)
        call = f"{'.'.join(filter(None, ('gt', parts[0])))}.{name}(x)"
        return f"Use {call}." if name == self.name else f"Write x = {call}."


def _public(library: Any, part: str) -> Collection[str]:
    found: Collection[str] = (import_module(f"gradtape.{part}") if part else library).__all__
    return found


def explain_attributes(cls: type) -> None:
    """Let a class of a name in `ATTRIBUTES` explain attributes that other libraries have.

    >>> gt.libraries.explain_attributes(gt.GradientTape)
    >>> try:
    ...     gt.GradientTape().backward()
    ... except AttributeError as error:
    ...     print(str(error).partition(". ")[2])
    Use tape.gradient(loss, variables).
    """
    for name in ATTRIBUTES[cls.__name__].split():
        if not any(name in vars(base) for base in cls.__mro__):
            setattr(cls, name, _Missing(name, cls.__name__))
    if cls.__dir__ is object.__dir__:
        setattr(cls, "__dir__", without_internals(""))  # noqa: B010


def without_internals(internal: str) -> Callable[[object], list[str]]:
    """The `__dir__` of a class that leaves out internal and missing attributes."""

    hidden = internal.split()

    def listed(self: object) -> list[str]:
        kind = type(self)
        return [
            name
            for name in object.__dir__(self)
            if name not in hidden
            and not any(isinstance(vars(each).get(name), _Missing) for each in kind.__mro__)
        ]

    return listed


def no_output(name: str, out: object) -> TypeError:
    """The error for an argument after the operands of an op."""
    remedies = tables()["operands"]
    remedy = remedies.get(name) or remedies["others"]
    return TypeError(f"{name}: {shown(out)} follows the operands. {remedy}.")


def unexpected_arguments(more: tuple[object, ...], unknown: Mapping[str, object]) -> TypeError:
    """The error of the function that calls this, for arguments that it does not take."""
    code = sys._getframe(1).f_code
    count = code.co_argcount
    names = code.co_varnames[: count + code.co_kwonlyargcount]
    title = code.co_qualname.removesuffix(".__init__")
    return refused_call(title, names, count, count + len(more), unknown)


def refused_call(
    title: str, names: Collection[str], places: int, given: int, unknown: Iterable[str]
) -> TypeError:
    """The error for too many arguments by position, of which there are `places`, or unknown names.

    >>> from gradtape.suggestions import refused_call
    >>> print(refused_call("sum", ["x", "axis", "keepdims"], 2, 1, ["dim"]))
    sum: there is no argument 'dim'; here it is called axis.
    """
    names = [name for name in names if name != "self"]
    for name in unknown:
        sentence = f"{title}: there is no argument {name!r}"
        known = tables()["arguments"].get(name, ())
        if isinstance(known, str):
            return TypeError(f"{sentence}. {known}")
        here = [each for each in known if each in names]
        if here:
            return TypeError(f"{sentence}; here it is called {here[0]}.")
        if near := nearest(name, names):
            return TypeError(f"{sentence}. Did you mean {near[0]}?")
        return TypeError(f"{sentence}. It takes {', '.join(names) or 'no arguments'}.")
    by_name = names[places:]
    remedy = f"Pass {', '.join(by_name)} by name" if by_name else "Leave out the others"
    return TypeError(
        f"{title}: {given} arguments by position, and it takes at most {places}: "
        f"{', '.join(names[:places])}. {remedy}."
    )
