"""Weights that go to a server from GPU to GPU: vLLM's weight transfer over NCCL, without vLLM in this process.

The server is started with `--weight-transfer-config '{"backend": "nccl"}'`. Both sides join a group: this process
is rank 0, and the GPUs of the server follow. The identity of the group goes to the server over HTTP; joining ends
with the sum of one number. An update names all weights, and each is broadcast in this order (vLLM's
`docs/training/weight_transfer/nccl.md`). It has not been run on GPUs: tests use a double.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from multiprocessing.pool import ThreadPool
from typing import Any, Protocol

import torch
from torch import Tensor, distributed

from llm_decpomdp.agents.remote.client import VllmClient
from llm_decpomdp.agents.remote.server import free_port

BACKEND = '{"backend": "nccl"}'  # value of the server's flag `--weight-transfer-config`


class TransferGroup(Protocol):
    """A group of this process, which sends, and the GPUs of a server."""

    size: int  # number of members, with this process

    def join(self) -> None:
        """Wait until all members are there."""

    def identity(self) -> bytes:
        """Wait for the identity that the other members need; another thread joins meanwhile."""

    def broadcast(self, tensor: Tensor) -> None:
        """Send a tensor to all other members, which expect it."""


class NcclGroup:
    """A group of NCCL.

    Args:
        device: The GPU of this process.
        size: Number of members, with this process.
    """

    def __init__(self, device: torch.device, size: int) -> None:
        self.size, self._device = size, device
        # Only this process joins the store; vLLM's workers learn the identity over HTTP.
        nccl: Any = distributed  # whose types leave much out, and whose CPU builds have no NCCL
        self._store = nccl.TCPStore("127.0.0.1", free_port(), 1, is_master=True)
        options = nccl.ProcessGroupNCCL.Options()
        self._group = nccl.ProcessGroupNCCL(self._store, 0, size, options)

    def join(self) -> None:
        """Wait until all members are there."""
        self._group.allreduce([torch.ones(1, device=self._device)]).wait()

    def identity(self) -> bytes:
        """Wait for the identity that NCCL has given the group."""
        self._store.wait(["0"])
        return bytes(self._store.get("0"))

    def broadcast(self, tensor: Tensor) -> None:
        """Send a tensor to all other members."""
        self._group.broadcast([tensor.contiguous()], distributed.BroadcastOptions()).wait()


def connect(client: VllmClient, group: TransferGroup) -> None:
    """Let a server join a group; raises the errors of the server."""
    with ThreadPool(1) as pool:
        entry = pool.apply_async(group.join)
        identity = b64encode(group.identity()).decode()
        info = {"rank_offset": 1, "world_size": group.size, "nccl_unique_id_b64": identity}
        client.call("POST", "/init_weight_transfer_engine", {"init_info": info})
        entry.get(client.timeout)


def send_weights(
    client: VllmClient,
    group: TransferGroup,
    version: str,
    weights: Mapping[str, Tensor],
    dtype: torch.dtype,
) -> None:
    """Replace all weights of a server's model, by name, and set their version if the server keeps one.

    Each weight is rounded to the format of the server when its turn comes. The server has joined the group.
    """
    info = {
        "names": list(weights),
        "dtype_names": [str(dtype).removeprefix("torch.")] * len(weights),
        "shapes": [list(weight.shape) for weight in weights.values()],
    }
    with client.pause(), ThreadPool(1) as pool:
        client.call("POST", "/start_weight_update", {})
        answer = pool.apply_async(client.call, ("POST", "/update_weights", {"update_info": info}))
        for weight in weights.values():
            group.broadcast(weight.detach().to(dtype))
        answer.get(client.timeout)
        client.call("POST", "/finish_weight_update", {})
        client.end_update(version)
