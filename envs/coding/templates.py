"""Names and prompts of a user's own for the agents of a team that writes one function: the option `roles`.

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

import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from llm_decpomdp.envs.coding.roles import AuxRole, Role
from llm_decpomdp.validation import unknown


def load_template(path: str, fields: Sequence[str], required: Sequence[str]) -> str:
    """Read and check a template.

    Raises:
        ValueError: If there is no such file, or a field is unknown, malformed or missing.
    """
    if not isinstance(path, str) or not Path(path).is_file():
        raise ValueError(f"template must be the path of a text file, got {path!r}")
    text = Path(path).read_text("utf-8")
    try:
        parts = [part for part in string.Formatter().parse(text) if part[1] is not None]
    except ValueError as error:
        raise ValueError(f"template {path}: {error}; write {{{{ and }}}} for braces") from None
    for _, name, form, conversion in parts:
        if name not in fields:
            raise ValueError(f"template {path}: {unknown('field', name, fields)}")
        if form or conversion:
            message = f"template {path}: field {name!r} takes no format, write {{{name}}}"
            raise ValueError(message)
    for name in required:
        if all(name != mention for _, mention, _, _ in parts):
            raise ValueError(
                f"template {path}: field {name!r} is missing, write {{{name}}}; all fields: "
                + ", ".join(fields)
            )
    return text


AGENT_NAME = re.compile(r"[a-z]+_[0-9]+")


def change_roles(
    team: Sequence[Role], changes: Mapping[str, Mapping[str, str]]
) -> tuple[Role, ...]:
    """Return a team with a user's changes.

    Args:
        team: The roles.
        changes: For some of the agents `name`, the agent's id, and `template`, the path of a file that words its
            first prompt.

    Raises:
        ValueError: If the changes are no such mapping, name an unknown agent, or give two agents one name; or if a
            template is wrong.
    """
    if not isinstance(changes, Mapping):
        raise ValueError(f"roles must be a mapping of agents to their changes, got {changes!r}")
    agents = [role.original_agent for role in team]
    keys = ("name", "template")
    for agent, change in changes.items():
        if agent not in agents:
            raise ValueError(unknown("agent in roles", agent, agents))
        if not isinstance(change, Mapping):
            message = f"roles[{agent!r}] must be a mapping with name or template, got {change!r}"
            raise ValueError(message)
        for key in change:
            if key not in keys:
                raise ValueError(unknown(f"key in roles[{agent!r}]", key, keys))
    new_team = tuple(_change_role(role, changes.get(role.original_agent, {})) for role in team)
    names = [role.agent for role in new_team]
    if len(set(names)) < len(names):
        raise ValueError(f"the agents need different names, got {', '.join(names)}")
    return new_team


def _change_role(role: Role, change: Mapping[str, str]) -> Role:
    name = change.get("name", role.agent)
    if not isinstance(name, str) or not AGENT_NAME.fullmatch(name):
        raise ValueError(
            f"an agent's name must look like 'role_0' (lower-case letters, an underscore, digits), got {name!r}"
        )
    template = role.template
    if "template" in change:
        helper = ("helper",) if isinstance(role, AuxRole) else ()
        fields = (*helper, "problem", "entry_point", "signature", "helpers")
        template = load_template(change["template"], fields, ("problem", *helper))
    return replace(role, agent=name, template=template)
