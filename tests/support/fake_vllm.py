"""A server that speaks the routes of vLLM, with a tiny model and this project's own sampler.

`python -m tests.support.fake_vllm serve MODEL --port PORT`; further flags of `vllm serve` change nothing.
"""

from __future__ import annotations

import json
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import torch

from llm_decpomdp.agents.adapters import load_base
from llm_decpomdp.agents.inference.in_flight import InFlightSteps
from llm_decpomdp.agents.inference.options import ModelOptions, Sampling
from llm_decpomdp.agents.inference.sampler import Prompt, sample
from llm_decpomdp.agents.models.engine import ModelEngine
from llm_decpomdp.agents.remote.options import BASE
from tests.support import servers

OPTIONS = ModelOptions(compute_dtype="float32", device="cpu")


class FakeVllm(servers.Server):
    """Samples by a model, and keeps what it was asked."""

    def __init__(self, model: str | Path, port: int = 0) -> None:
        super().__init__(Handler, port)
        base, tokenizer = load_base(model, OPTIONS)
        self.engine = ModelEngine(base, tokenizer, compute_dtype="float32")
        self.adapters: set[str] = set()
        self.version = "default"
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.paused = False
        self.open: list[int] = []  # the places of prompts that were not answered
        self.fault = "none"  # or `dies`, which forgets all, or `hangs`
        self.fault_in = -1  # after so many prompts
        self.other_name: str | None = None  # of the weights that it says it has
        self.noise = 0.0  # added to log-probabilities
        self.counts = True  # open requests
        self.changed = threading.Condition()
        self.group: Any = None  # that full weights are received in
        self.holds_at: int | None = None  # the token before which a stream waits for other weights
        self.held = threading.Event()  # a stream waits
        self.told = 0  # number of answers with the present version

    def load(self, name: str, folder: str) -> None:
        from peft import PeftModel

        model = self.engine.model
        if not hasattr(model, "peft_config"):
            model = PeftModel.from_pretrained(model, folder, adapter_name=name)
            self.engine = ModelEngine(model, self.engine.tokenizer, compute_dtype="float32")
        else:
            if name in model.peft_config:
                model.delete_adapter(name)
            model.load_adapter(folder, name)
            model.set_adapter(name)
        self.adapters.add(name)

    def unload(self, name: str) -> None:
        self.adapters.remove(name)
        if self.engine.adapter != name:  # peft warns of deleting the active one
            self.engine.model.delete_adapter(name)

    def reload(self, folder: str) -> None:
        self.engine.model.load_state_dict(load_base(folder, OPTIONS)[0].state_dict())

    def receive(self, info: dict[str, Any]) -> None:
        """Take the tensors of an update from the group, in their order."""
        weights = dict(self.engine.model.named_parameters())
        for name, dtype, shape in zip(*info.values(), strict=True):
            tensor = self.group.receive()
            assert str(tensor.dtype) == f"torch.{dtype}" and list(tensor.shape) == shape, name
            weights[name].data.copy_(tensor)

    def forget(self) -> None:
        """Be as if started anew."""
        for name in list(self.adapters):
            self.unload(name)
        self.paused, self.version = False, "default"

    def copy_weights(self) -> dict[str, torch.Tensor]:
        return {name: weight.clone() for name, weight in self.engine.model.state_dict().items()}

    def continued(
        self, body: dict[str, Any], before: dict[str, torch.Tensor], at: int
    ) -> list[dict[str, Any]]:
        """Write an answer by earlier weights, and from a token on by the present ones."""
        after, passes = self.copy_weights(), iter(range(1, body["max_tokens"]))
        self.engine.model.load_state_dict(before)

        def refresh() -> None:
            if next(passes) == at:
                self.engine.model.load_state_dict(after)

        choices = self.rows(body, steps=partial(InFlightSteps, refresh=refresh))
        self.engine.model.load_state_dict(after)
        return choices

    def rows(self, body: dict[str, Any], **options: Any) -> list[dict[str, Any]]:
        generator = torch.Generator().manual_seed(body["seed"])
        stops = body.get("stop")
        sampling = Sampling(
            temperature=body["temperature"], max_new_tokens=body["max_tokens"], stop=stops
        )
        prompt = Prompt(body["prompt"], sampling, generator)
        if body["model"] != BASE:
            self.engine.activate(body["model"])
        skips = body.get("skip_special_tokens", True)
        decode = self.engine.text.decode if skips else self.engine.text.decode_whole
        ends = body["stop_token_ids"]
        found = sample(self.engine.model, [prompt], body["n"], ends, decode=decode, **options)
        return [
            {
                "index": index,
                "token_ids": row.tokens,
                "logprobs": {"token_logprobs": [p + self.noise for p in row.log_probs]},
                "finish_reason": "stop" if row.stopped else "length",
                "stop_reason": next(
                    (s for s in stops or () if s in decode(row.tokens)),
                    None,
                ),
            }
            for index, row in enumerate(found)
        ][::-1]


def part(choice: dict[str, Any], first: int, last: int | None) -> dict[str, Any]:
    """Return some tokens of a choice, as a part of a stream."""
    tokens, log_probs = choice["token_ids"], choice["logprobs"]["token_logprobs"]
    ends = last is None or last >= len(tokens)
    reasons = {key: choice[key] if ends else None for key in ("finish_reason", "stop_reason")}
    parts = {"token_ids": tokens[first:last], "logprobs": {"token_logprobs": log_probs[first:last]}}
    return {"index": choice["index"], **parts, **reasons}


class Handler(servers.Handler):
    server: FakeVllm

    def do_GET(self) -> None:
        server = self.server
        answers: dict[str, Any] = {
            "/health": {},
            "/load": {"server_load": len(server.open) if server.counts else 0},
            "/weight_info": {"weight_version": server.version},
        }
        self.answer(200 if self.path in answers else 404, answers.get(self.path, {}))
        if self.path == "/weight_info":
            with server.changed:
                server.told += 1
                server.changed.notify_all()

    def do_POST(self) -> None:
        server, place = self.server, urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else {}
        with server.changed:
            server.calls.append((self.path, body))
        if place.path == "/v1/completions":
            return self.complete(body)
        with server.changed:
            status = self.change(place.path, body)
            server.changed.notify_all()
        self.answer(status, {"status": "done" if status == 200 else "not found"})

    def change(self, path: str, body: dict[str, Any]) -> int:
        """Do what a route is for, and return the status."""
        server, name = self.server, body.get("lora_name", "")
        match path:
            case "/v1/load_lora_adapter" if (name in server.adapters) == body.get(
                "load_inplace", False
            ):
                server.load(name, body["lora_path"])
            case "/v1/unload_lora_adapter" if name in server.adapters:
                server.unload(name)
            case "/collective_rpc":
                assert body["method"] == "reload_weights" and server.paused, body
                server.reload(body["kwargs"]["weights_path"])
            case "/init_weight_transfer_engine":
                self.server.group.enter(body["init_info"])
            case "/start_weight_update" | "/finish_weight_update":
                assert server.paused
            case "/update_weights":
                server.receive(body["update_info"])
            case "/update_weight_version":
                server.version, server.told = body["new_version"], 0
            case "/pause" | "/resume":
                server.paused = path == "/pause"
            case "/reset_prefix_cache":
                pass
            case _:
                return 404
        return 200

    def complete(self, body: dict[str, Any]) -> None:
        server = self.server
        if body["model"] not in (BASE, *server.adapters):
            return self.answer(404, {"error": f"The model {body['model']} does not exist."})
        place = body.get("priority", 0)
        with server.changed:
            server.open.append(place)
            server.changed.notify_all()
            server.changed.wait_for(lambda: not server.paused and place == min(server.open), 30)
            gone = body["model"] not in (BASE, *server.adapters)  # with a server that has died
            fault, server.fault_in = server.fault_in == 0, server.fault_in - 1
            if fault and server.fault == "dies":
                server.forget()
            choices = None if fault or gone else server.rows(body)
            server.open.remove(place)
            server.changed.notify_all()
        if fault and server.fault == "hangs":
            server.closing.wait(60)
        if choices is not None and body.get("stream"):
            self.stream(body, choices)
        elif choices is not None:
            self.answer(200, {"model": server.other_name or body["model"], "choices": choices})

    def stream(self, body: dict[str, Any], choices: list[dict[str, Any]]) -> None:
        """Send an answer in two parts; with `holds_at`, the second waits for other weights, which write it."""
        server, at = self.server, self.server.holds_at or 1
        self.send_response(200)
        self.end_headers()
        self.event(body, [part(choice, 0, at) for choice in choices])
        if server.holds_at is not None:
            with server.changed:
                before = server.copy_weights()
                server.held.set()
                old = server.version
                # A client knows of other weights once it has asked for the version again.
                server.changed.wait_for(lambda: server.told > 1 and server.version != old, 30)
                choices = server.continued(body, before, at)
        self.event(body, [part(choice, at, None) for choice in choices if choice["token_ids"][at:]])
        self.wfile.write(b"data: [DONE]\n\n")

    def event(self, body: dict[str, Any], choices: list[dict[str, Any]]) -> None:
        name = self.server.other_name or body["model"]
        self.wfile.write(f"data: {json.dumps({'model': name, 'choices': choices})}\n\n".encode())
        self.wfile.flush()

    def answer(self, status: int, body: dict[str, Any]) -> None:
        self.send(status, json.dumps(body), {"Content-Type": "application/json"})


def main() -> None:
    torch.set_num_threads(1)
    print("loading", flush=True)
    with FakeVllm(sys.argv[2], int(sys.argv[sys.argv.index("--port") + 1])) as server:
        server.closing.wait()


if __name__ == "__main__":
    main()
