"""Evaluate a team in Inspect, each agent played by a model of its own; here by two that only pretend.

pip install '.[inspect]'; then: python examples/inspect_roles.py
"""

from tempfile import mkdtemp

from inspect_ai import eval
from inspect_ai.model import ModelOutput, ModelUsage, get_model

from llm_decpomdp.integrations import inspect


def model(text):
    """Stands for a model such as "openai/gpt-5": a role may be its name."""

    def answer(*_):
        output = ModelOutput.from_content("pretender", text)
        output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        return output

    return get_model("mockllm/pretender", custom_outputs=answer, memoize=False)


roles = {
    "aux_0": model("def aux(*values):\n    return values"),
    "main_0": model("I am sorry, but I do not know how to do this."),
}
task = inspect.team("coophumaneval-v0", source="bundled", num_turns=2)
(log,) = eval(task, model=model(""), model_roles=roles, log_dir=mkdtemp(), display="none", limit=8)
for score in log.results.scores:
    print(f"{score.name:30} {score.metrics['mean'].value:.2f}")
