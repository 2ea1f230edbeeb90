# Write the demonstrations of suite.yaml beside it: problems that no agent of the suite trains on or is tested on.
set -e
cd "$(dirname "$0")"
for option in "" --first=aux_0 --same-parameters; do
    case $option in --first=aux_0) name=_in_order ;; --same-parameters) name=_known_call ;; *) name= ;; esac
    llm-decpomdp demonstrations mbpp-v1 --split train --without 'mbpp-v1:test[:117]' $option --output mbpp.all
    llm-decpomdp demonstrations humaneval-v1 --split 'test[:105]' --without coophumaneval-v0 $option --output humaneval.all
    # Answers begin with `def`, so a part that begins with an import cannot be one.
    for data in mbpp humaneval; do grep '"completion": "def' $data.all > $data$name.jsonl; done
done
rm mbpp.all humaneval.all
