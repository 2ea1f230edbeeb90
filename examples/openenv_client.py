"""Play a served team with OpenEnv alone: nothing of llm_decpomdp is needed where this runs.

llm-decpomdp serve coophumaneval-v0 --env-option source=bundled; then: python examples/openenv_client.py
"""

import sys

from openenv.core import GenericEnvClient

address = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000"

with GenericEnvClient(base_url=address).sync() as env:
    result = env.reset(seed=7)
    while not result.done:
        prompts = result.observation["prompts"]
        for agent, prompt in prompts.items():
            print(f"{agent} is asked:\n{prompt}\n")
        result = env.step({"actions": dict.fromkeys(prompts, "def solve(): ...")})
        info = result.observation["infos"]["main_0"]
        print(f"reward {result.reward:.2f}, tests {info['tests_passed']}\n")
