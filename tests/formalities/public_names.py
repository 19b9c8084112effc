"""The public surface: every public callable and every method of the classes that users hold."""

import importlib
import inspect
import operator
import pkgutil

import gradtape as gt

# Folders that users do not import from. What they export is public through `gradtape` itself.
INTERNAL = {"autodiff", "compiler", "ir", "ops", "runtime", "trace"}
# Its docstring describes its names: an alias of a type has no docstring of its own.
ALIASES = "typing"

CLASSES_WITH_DOCUMENTED_METHODS = [
    "Tensor", "Variable", "GradientTape", "ForwardAccumulator",
    "nn.Module", "nn.Layer", "nn.Sequential", "optimizers.Optimizer",
    "tf.Tensor", "tf.Variable", "tf.GradientTape", "tf.Module", "tf.TensorShape",
]  # fmt: skip


def public_modules():
    yield gt
    for module in pkgutil.iter_modules(gt.__path__, prefix="gradtape."):
        name = module.name.removeprefix("gradtape.")
        if not name.startswith("_") and name not in (*INTERNAL, ALIASES):
            found = importlib.import_module(module.name)
            yield found
            # Modules of a package that have exports are public too: `gt.nn.losses`.
            inside = getattr(found, "__path__", ())
            for inner in pkgutil.walk_packages(inside, f"{module.name}."):
                part = importlib.import_module(inner.name)
                if hasattr(part, "__all__"):
                    yield part


def belongs_to_numpy(thing) -> bool:
    return (getattr(thing, "__module__", None) or "").split(".")[0] == "numpy"


def public_names() -> dict[str, object]:
    """Dotted name to object; a thing exported from two modules is listed once."""
    found: dict[str, object] = {}
    seen: set[int] = set()
    for module in public_modules():
        for name in sorted(getattr(module, "__all__", ())):
            thing = getattr(module, name)
            if callable(thing) and not belongs_to_numpy(thing) and id(thing) not in seen:
                seen.add(id(thing))
                found[f"{module.__name__}.{name}"] = thing
    return found


def public_methods() -> dict[str, object]:
    found: dict[str, object] = {}
    for class_name in CLASSES_WITH_DOCUMENTED_METHODS:
        cls = operator.attrgetter(class_name)(gt)
        # `object` has methods too, all of them with underscores.
        for name in sorted(dir(cls)):
            if name.startswith("_"):
                continue
            member = inspect.getattr_static(cls, name)
            if callable(member) or isinstance(member, property | classmethod | staticmethod):
                found[f"gradtape.{class_name}.{name}"] = member
    return found
