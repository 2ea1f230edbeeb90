# Write the demonstrations of suite.yaml beside it: divided programs of the untrained model, about problems that are not tested. About two hours of one core.
set -e
cd "$(dirname "$0")"
# usage: divide ENV SPLIT OPTION...: one coder writes 8 programs for each problem, and the right ones are divided.
divide() {
    env=$1 split=$2; shift 2
    runs="samples/$env-$(echo "$split" | tr -dc a-z0-9)"
    llm-decpomdp eval --config mbpp.yaml --baseline single_agent_matched --split "$split" --samples 8 --at-a-time 32 \
        --override env.id="$env" dataset.train_split="$split" env.order=simultaneous algorithm.rollout.mode=chain model.temperature=0.7 model.max_new_tokens=64 --output "$runs"
    llm-decpomdp demonstrations "$env" --split "$split" --programs "$runs" --per-problem 4 --first main_0 --prefill def "$@" --output "$runs.jsonl"
}
for split in train 'test[117:]' validation; do divide mbpp-v0 "$split"; done
divide humaneval-v0 'test[:105]' --without coophumaneval-v0
cat samples/mbpp-v0-*.jsonl > mbpp.jsonl
cat samples/mbpp-v0-*.jsonl samples/humaneval-v0-*.jsonl > coophumaneval.jsonl
