"""Random numbers of programs: the same in every run, whoever imports the module."""

from __future__ import annotations

from importlib.machinery import PathFinder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any


class SeededRandom:
    """Finds the `random` module, and seeds it as soon as it is loaded.

    Loading it ahead would cost every program three shared libraries, and few programs want it.
    """

    def __init__(self) -> None:
        self.seed = 0

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Where the module lies; None for all others."""
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
