"""Import hook that seeds `random`, so that programs draw the same numbers in every run."""

from __future__ import annotations

from importlib.machinery import PathFinder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any


class SeededRandom:
    """Finder of the `random` module, which it seeds as soon as it is loaded.

    Preloading it would cost every program three shared libraries, and few programs need it.
    """

    def __init__(self) -> None:
        self.seed = 0

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Return the spec of `random`; None for all other modules."""
        if name != "random":
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_seed(module: ModuleType) -> None:
                load(module)
                module.seed(self.seed)

            spec.loader.exec_module = load_and_seed  # type: ignore[method-assign]
        return spec
