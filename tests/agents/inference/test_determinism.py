from __future__ import annotations

import pytest
import torch

from llm_decpomdp.agents.inference import determinism
from llm_decpomdp.agents.inference.determinism import (
    cumulative_sum,
    deterministic,
    sum_in_blocks,
    use_deterministic_kernels,
)


@pytest.mark.parametrize("shape", [(1,), (3, 511), (2, 512), (2, 513), (2, 3, 2000)])
def test_sums_in_blocks_are_cumulative_sums(shape: tuple[int, ...]) -> None:
    values = torch.rand(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    torch.testing.assert_close(sum_in_blocks(values), values.cumsum(-1))


def test_the_sum_in_blocks_stands_for_the_kernel_of_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    values = torch.rand(5)
    assert torch.equal(cumulative_sum(values), values.cumsum(-1))
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    monkeypatch.setattr(determinism, "sum_in_blocks", lambda values: "blocks")
    assert torch.equal(cumulative_sum(values), values.cumsum(-1))
    with deterministic():
        assert cumulative_sum(values) == "blocks"


def test_kernels_are_deterministic_within_the_block_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(determinism.WORKSPACE, raising=False)
    with pytest.raises(ValueError), deterministic():
        assert torch.are_deterministic_algorithms_enabled()
        assert not torch.backends.cuda.mem_efficient_sdp_enabled()
        assert determinism.os.environ[determinism.WORKSPACE] == ":4096:8"
        raise ValueError
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.backends.cuda.mem_efficient_sdp_enabled()


def test_a_workspace_that_is_not_deterministic_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(determinism.WORKSPACE, ":0:0")
    with pytest.raises(ValueError, match=r"CUBLAS_WORKSPACE_CONFIG=:0:0\. Set it to :4096:8"):
        use_deterministic_kernels()
