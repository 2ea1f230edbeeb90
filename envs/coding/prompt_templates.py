"""Prompts that users word themselves.

A template is a text file. A field in braces is replaced by what the current task says; braces that are to stay
are doubled.

| field           | what it stands for                                                         | for          |
|-----------------|----------------------------------------------------------------------------|--------------|
| `{problem}`     | the problem as the data states it                                          | all          |
| `{entry_point}` | name of the function that the problem asks for                             | all          |
| `{signature}`   | its header, such as `def f(x: int) -> str`                                 | all          |
| `{helpers}`     | names of the team's helper functions, with commas; empty for an agent alone | all          |
| `{helper}`      | name of the helper function that this agent writes                         | helpers only |

A template must show `{problem}`, and a helper's `{helper}` as well.
"""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from llm_decpomdp.validation import unknown


@dataclass(frozen=True)
class Template:
    """The wording of a prompt."""

    text: str

    @classmethod
    def load(cls, path: str, fields: Sequence[str], required: Sequence[str]) -> Template:
        """Read and check a template.

        Args:
            path: A text file.
            fields: What it may mention.
            required: What it must mention.

        Raises:
            ValueError: If there is no such file, or a field is unknown, malformed or missing.
        """
        if not isinstance(path, str) or not Path(path).is_file():
            raise ValueError(f"template must be the path of a text file, got {path!r}")
        text = Path(path).read_text("utf-8")
        try:
            parts = list(string.Formatter().parse(text))
        except ValueError as error:
            raise ValueError(f"template {path}: {error}; write {{{{ and }}}} for braces") from None
        mentions = [name for _, name, _, _ in parts if name is not None]
        for _, name, form, conversion in parts:
            if name is not None and name not in fields:
                raise ValueError(f"template {path}: {unknown('field', name, fields)}")
            if form or conversion:
                raise ValueError(
                    f"template {path}: field {name!r} takes no format, write {{{name}}}"
                )
        for name in required:
            if name not in mentions:
                raise ValueError(
                    f"template {path}: field {name!r} is missing, write {{{name}}}; all fields: "
                    + ", ".join(fields)
                )
        return cls(text)

    def fill(self, values: Mapping[str, str]) -> str:
        """The prompt."""
        return self.text.format_map(values)
