"""Runs with this checkout and with an earlier commit: equal episodes, metrics and weights, byte for byte.

python -m tests.same_bytes COMMIT [CONFIG [KEY=VALUE...]]
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.processes import ROOT

TIMED = ("_seconds", "_per_second")

OVERRIDES = (
    *("algorithm.max_updates=2", "output.record_tokens=true", "output.save_final_model=true"),
    *("output.report=false", "evaluation.num_tasks=2"),
)


def hashes(checkout: Path, folder: Path, config: str, overrides: list[str]) -> dict[str, str]:
    """Train with a checkout, and return the hash of each thing that the run has left."""
    train = [sys.executable, "-m", "llm_decpomdp.benchmarks", "train", "--config", config]
    command = [*train, "--output", str(folder), "--override", *OVERRIDES, *overrides]
    environment = {**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    subprocess.run(command, cwd=checkout, env=environment, check=True, capture_output=True)
    kept = {"episodes.jsonl": (folder / "episodes.jsonl").read_bytes()}
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    untimed = [{k: v for k, v in row.items() if not k.endswith(TIMED)} for row in rows]
    kept["metrics.jsonl, without times"] = json.dumps(untimed).encode()
    for path in sorted((folder / "final_model").rglob("*.safetensors")):
        kept[str(path.relative_to(folder))] = path.read_bytes()
    return {name: hashlib.sha256(content).hexdigest()[:16] for name, content in kept.items()}


def main(commit: str, config: str = "demo", *overrides: str) -> None:
    """Compare both, and print the hashes."""
    with tempfile.TemporaryDirectory() as temporary:
        earlier = Path(temporary, "earlier")
        worktree = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*worktree, "add", "--detach", str(earlier), commit], check=True)
        try:
            runs = [
                hashes(checkout, Path(temporary, name), config, list(overrides))
                for name, checkout in (("then", earlier), ("now", ROOT))
            ]
        finally:
            subprocess.run([*worktree, "remove", "--force", str(earlier)], check=True)
    for name in dict.fromkeys([*runs[0], *runs[1]]):
        then, now = (run.get(name) for run in runs)
        print(f"{'equal' if then == now else 'DIFFERENT'}: {name} {then} {now}")
    raise SystemExit(runs[0] != runs[1])


if __name__ == "__main__":
    main(*sys.argv[1:])
