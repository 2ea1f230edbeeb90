"""Code blocks of the README and the pages.

`python -m tests.documentation.blocks` counts them, and lists what no test runs, with the reasons.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from tests.support.processes import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

MINUTES = "takes minutes"
HOURS = "takes hours, or a GPU"
GPUS = "needs several processes with a GPU each, or minutes"
NETWORK = "needs a network"
SERVER = "needs a server of models"
ENVIRONMENT = "makes an environment of its own"

NOT_RUN = {
    "accelerate": GPUS,
    "export LLM_DECPOMDP_VLLM_PYTHON": GPUS,
    "export OPENAI_API_KEY": NETWORK,
    "build/release/bin/twine": NETWORK,
    "class SeatEnv": "needs SkyRL-gym",
    "def harness": "needs AgileRL",
    "def parts": "needs comlrl",
    "env = DataCollector": "needs Minari",
    "env = openenv.client": "needs OpenEnv, which has an environment of its own: `make openenv`",
    "env = supersuit": "needs SuperSuit",
    "from llm_decpomdp.integrations import openenv": "needs OpenEnv: `make openenv`",
    "from llm_decpomdp.integrations import reasoning_gym": "needs it: `make reasoning-gym`",
    "from llm_decpomdp.integrations import textarena": "needs TextArena: `make textarena`",
    'game = llm_decpomdp.make("openspiel': "needs OpenSpiel: `make openspiel`",
    'llm-decpomdp play "openspiel': "needs OpenSpiel: `make openspiel`",
    "head=": "needs a cluster",
    "export RAY_AUTH_MODE": "needs a cluster",
    "ray get-auth-token": "needs a cluster",
    "srun": "needs a cluster",
    "inspect": "needs Inspect, and a server of models: `make inspect`",
    "llm-decpomdp check data classeval-v0": MINUTES,
    "llm-decpomdp bench arms.yaml": MINUTES,
    "llm-decpomdp bench cooperation": MINUTES,
    "llm-decpomdp bench credit.yaml": MINUTES,
    "llm-decpomdp bench horizon.yaml": MINUTES,
    "llm-decpomdp bench laptop": MINUTES,
    "llm-decpomdp bench mine.yaml --only wide": MINUTES,
    "llm-decpomdp bench paper --only": HOURS,
    "python -m studies.gather_messages": MINUTES,
    "python -m studies.hypotheses": MINUTES,
    "llm-decpomdp bench smoke": "run by the tests of suites",
    "llm-decpomdp doctor --cluster": "needs a cluster",
    "llm-decpomdp eval --config demo --override model.name=path/to/model": "needs that model",
    "llm-decpomdp eval --model": SERVER,
    "llm-decpomdp play coophumaneval-v0 --agent main_0 --source bundled": "waits for a person",
    "llm-decpomdp play coophumaneval-v0 --policy my-model": SERVER,
    "llm-decpomdp serve": "needs OpenEnv, and runs until it is ended: `make openenv`",
    "llm-decpomdp train --config demo --override inference.engine=vllm": GPUS,
    "llm-decpomdp train --config mine --override model.history": "needs a model with a chat template",
    "llm-decpomdp train --config demo_tldr --override algorithm.train_batch_size=8 "
    "algorithm.rollout.rollout_batch_size=2 cluster.engine=ray": "needs Ray",
    "llm-decpomdp train --config demo --override algorithm.reward_model": "needs the reward model's own model",
    "make": ENVIRONMENT,
    "pip install": ENVIRONMENT,
    "python -m tools.performance": MINUTES,
    "python -m pytest": "runs tests, as this is one",
    "python -m tests.attacks": MINUTES,
    "python benchmarks/train_magrpo.py": HOURS,
    "python examples/openenv_client.py": "needs OpenEnv: `make openenv`",
    "python examples/openspiel_tiny_hanabi.py": "needs OpenSpiel: `make openspiel`",
    "llm-decpomdp demonstrations mbpp-v0 --split train --programs": "needs a model that solves problems",
    "python examples/reasoning_gym_sums.py": "needs reasoning-gym: `make reasoning-gym`",
    "python examples/textarena_guess.py": "needs TextArena: `make textarena`",
    "python examples/trl_lockstep.py": "needs TRL, which has an environment of its own: `make trl`",
    "python3 -m venv": ENVIRONMENT,
    "register_env": "needs RLlib",
    "torchrun": GPUS,
    "vf-eval": "needs verifiers, and a server of models: `make verifiers`",
}
"""Reasons why no test runs a command or a block of Python, by what it begins with."""


@dataclass(frozen=True)
class Block:
    """A block of code."""

    page: str
    language: str
    text: str
    before: str
    """The paragraph that introduces it."""

    @property
    def commands(self) -> list[str]:
        """Command lines of a block of shell, each on one line, without comments and `.venv/bin/`."""
        lines = self.text.replace("\\\n", " ").splitlines()
        lines = [re.sub(r"(^|\s+)#.*", "", line).replace(".venv/bin/", "") for line in lines]
        return [" ".join(line.split()) for line in lines if line]

    @property
    def saved_as(self) -> str | None:
        """The file that the reader saves it as, if the paragraph before says so."""
        names = re.findall(r"Save this as\s+`([\w.]+)`", self.before)
        names += re.findall(r"begins with a file\s+`([\w.]+)`", self.before)
        return names[-1] if names else None


def blocks(language: str | None = None) -> list[Block]:
    """All blocks, or those of a language, page by page."""
    result = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in BLOCK.finditer(text):
            before = text[: match.start()].rstrip().rpartition("\n\n")[2]
            result.append(Block(page.name, match[1], match[2], before))
    return [block for block in result if language in (None, block.language)]


def reason(code: str) -> str | None:
    """Why no test runs a command or a block; `None` if one does."""
    return next((why for start, why in NOT_RUN.items() if code.startswith(start)), None)


def units() -> list[tuple[str, str, str]]:
    """Page, language and text of every command, and of every block in other languages that are code."""
    commands = [(b.page, b.language, line) for b in blocks("bash") for line in b.commands]
    return commands + [
        (b.page, b.language, b.text) for b in blocks() if b.language not in ("bash", "text")
    ]


if __name__ == "__main__":
    skipped = [(page, code, why) for page, _, code in units() if (why := reason(code))]
    print(dict(Counter(language for _, language, _ in units())), f"{len(skipped)} are not run:")
    for page, code, why in skipped:
        print(f"{page}: {code.splitlines()[0][:80]}: {why}")
