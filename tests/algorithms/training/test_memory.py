from __future__ import annotations

import numpy as np
import pytest
import torch

from llm_decpomdp.algorithms.training.trainer import memory_ran_out


def raised(work: object) -> BaseException:
    with pytest.raises(BaseException) as caught:
        work()  # type: ignore[operator]
    return caught.value


def test_all_ways_to_run_out_of_memory_are_known() -> None:
    assert memory_ran_out(raised(lambda: torch.empty(2**60)))
    assert memory_ran_out(raised(lambda: np.empty(2**55)))
    assert memory_ran_out(raised(lambda: bytearray(2**60)))
    assert memory_ran_out(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB"))
    assert memory_ran_out(
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate")
    )


def test_other_failures_are_not_taken_for_it() -> None:
    assert not memory_ran_out(raised(lambda: torch.zeros(2) @ torch.zeros(3)))
    assert not memory_ran_out(ValueError("out of memory"))
    assert not memory_ran_out(KeyboardInterrupt())
