"""Train a team of models with MAGRPO.

`python benchmarks/train_magrpo.py --config magrpo_he_config`
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    # The checkout's root instead of this folder, whose files would shadow modules.
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    from llm_decpomdp.benchmarks.cli.scripts import main

    main("magrpo", "magrpo_he_config")
