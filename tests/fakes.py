"""Anthropic's and Gemini's live calls and the three batch APIs on loopback, from the SDKs' own types.

Counts what it is asked. A test sets how a batch stands and may change its lines before they are handed out.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime

from aiohttp import web

from tests.loopback import REPLY, Loopback, completion, serve


def message(text: str | None = REPLY, stop: str = "end_turn", **usage: object) -> dict:
    """The body of an Anthropic message."""
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "loopback-2026",
        "content": [{"type": "text", "text": text}] if text else [],
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": 11, "output_tokens": 7} | usage,
    }


def content(text: str | None = REPLY, finish: str = "STOP", **usage: object) -> dict:
    """The body of Gemini's generated content."""
    parts = [{"text": text}] if text else []
    return {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": finish, "index": 0}],
        "usageMetadata": {"promptTokenCount": 11, "candidatesTokenCount": 7, "totalTokenCount": 18} | usage,
        "modelVersion": "loopback-2026",
    }


class Fakes(Loopback):
    """A loopback server that speaks all three APIs.

    `batches` holds what was submitted: the wire id to {"requests": {custom id: body}, "tag", "status"}. `status` is
    what new batches begin with, `change` maps the lines of the results (dicts) before they are handed out, and
    `cut` makes the next submission break off after the provider took it.
    """

    def __init__(self, status: str = "ended", **named):
        super().__init__(**named)
        self.status, self.cut = status, False
        self.batches: dict[str, dict] = {}
        self.files: dict[str, str] = {}
        self.polls = 0
        self.change: Callable[[list[dict]], list[dict]] = lambda lines: lines
        self.error_file: Callable[[list[dict]], list[dict]] | None = None

    @property
    def root(self) -> str:
        return self.base_url.removesuffix("/v1")

    def routes(self, app: web.Application) -> None:
        super().routes(app)
        add = app.router
        add.add_post("/v1/messages", self._message)
        add.add_post("/v1/messages/batches", self._claude_submit)
        add.add_get("/v1/messages/batches", self._claude_list)
        add.add_get("/v1/messages/batches/{id}", self._claude_get)
        add.add_get("/v1/messages/batches/{id}/results", self._claude_results)
        add.add_post("/v1/files", self._openai_upload)
        add.add_get("/v1/files/{id}/content", self._openai_content)
        add.add_post("/v1/batches", self._openai_submit)
        add.add_get("/v1/batches", self._list)
        add.add_get("/v1/batches/{id}", self._get)
        add.add_post("/upload/{version}/files", self._gemini_start)
        add.add_post("/upload-here/{id}", self._gemini_upload)
        add.add_get("/{version}/files/{id}:download", self._gemini_download)
        add.add_post("/{version}/models/{model}:generateContent", self._gemini)
        add.add_post("/{version}/models/{model}:batchGenerateContent", self._gemini_submit)

    # live

    async def _message(self, request: web.Request) -> web.Response:
        body = await request.json()
        return await self._answer(request, body, body["messages"][-1]["content"], message())

    async def _gemini(self, request: web.Request) -> web.Response:
        body = await request.json()
        return await self._answer(request, body, body["contents"][-1]["parts"][0]["text"], content())

    # what all batches share

    def _new(self, kind: str, requests: dict, tag: str) -> str:
        number = len(self.batches) + 1
        wire = {"openai": f"batch_{number}", "claude": f"msgbatch_{number}", "gemini": f"batches/b{number}"}[kind]
        self.batches[wire] = {"requests": requests, "tag": tag, "status": self.status, "at": time.time()}
        return wire

    def _cut(self, request: web.Request) -> None:
        if self.cut:
            self.cut = False
            request.transport.close()

    # OpenAI

    async def _openai_upload(self, request: web.Request) -> web.Response:
        form = await request.post()
        assert form["purpose"] == "batch"
        name = f"file-{len(self.files) + 1}"
        self.files[name] = form["file"].file.read().decode()
        body = {"id": name, "object": "file", "bytes": 1, "created_at": 1, "filename": "f", "purpose": "batch",
                "status": "processed"}  # fmt: skip
        return web.json_response(body)

    async def _openai_submit(self, request: web.Request) -> web.Response:
        body = await request.json()
        if self.answers:
            status, headers, answer = self.answers.pop(0)
            return web.json_response(answer, status=status, headers=headers)
        lines = [json.loads(line) for line in self.files[body["input_file_id"]].splitlines()]
        assert all(line["method"] == "POST" and line["url"] == "/v1/chat/completions" for line in lines)
        requests = {line["custom_id"]: line["body"] for line in lines}
        wire = self._new("openai", requests, (body.get("metadata") or {}).get("judge_designs", ""))
        self._cut(request)
        return web.json_response(self._openai(wire))

    def _openai(self, wire: str) -> dict:
        batch = self.batches[wire]
        ended = batch["status"] in ("ended", "expired", "cancelled", "empty")
        n = len(batch["requests"])
        status = {"ended": "completed", "running": "in_progress", "empty": "completed"}.get(
            batch["status"], batch["status"]
        )
        errors = {"object": "list", "data": [{"code": "token_limit_exceeded", "message": "Enqueued token limit"}]}
        good, bad = self._openai_lines(wire) if ended else ([], [])
        return {
            "id": wire, "object": "batch", "endpoint": "/v1/chat/completions", "completion_window": "24h",
            "input_file_id": "file-1", "created_at": int(batch["at"]), "metadata": {"judge_designs": batch["tag"]},
            "status": status, "request_counts": {"total": n, "completed": n if ended else 1, "failed": 0},
            "errors": errors if status == "failed" else None,
            "output_file_id": f"out-{wire}" if good else None, "error_file_id": f"err-{wire}" if bad else None,
        }  # fmt: skip

    def _openai_lines(self, wire: str) -> tuple[list[dict], list[dict]]:
        def line(key: str) -> dict:
            return {
                "id": "r",
                "custom_id": key,
                "response": {"status_code": 200, "body": completion()},
                "error": None,
            }

        good = self.change([line(key) for key in self.batches[wire]["requests"]])
        bad = self.error_file(good) if self.error_file else []
        taken = {each["custom_id"] for each in bad}
        return [each for each in good if isinstance(each, str) or each["custom_id"] not in taken], bad

    async def _openai_content(self, request: web.Request) -> web.Response:
        kind, wire = request.match_info["id"].split("-", 1)
        lines = self._openai_lines(wire)[kind == "err"]
        return web.Response(text="\n".join(each if isinstance(each, str) else json.dumps(each) for each in lines))

    # Anthropic

    async def _claude_submit(self, request: web.Request) -> web.Response:
        body = await request.json()
        if self.answers:
            status, headers, answer = self.answers.pop(0)
            return web.json_response(answer, status=status, headers=headers)
        assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", each["custom_id"]) for each in body["requests"])
        wire = self._new("claude", {each["custom_id"]: each["params"] for each in body["requests"]}, "")
        self._cut(request)
        return web.json_response(self._claude(wire))

    def _claude(self, wire: str) -> dict:
        batch = self.batches[wire]
        ended, n = batch["status"] == "ended", len(batch["requests"])
        counts = {
            "processing": 0 if ended else n,
            "succeeded": n if ended else 0,
            "errored": 0,
            "canceled": 0,
            "expired": 0,
        }
        at = datetime.fromtimestamp(batch["at"], UTC).isoformat()
        return {
            "id": wire, "type": "message_batch", "processing_status": "ended" if ended else "in_progress",
            "request_counts": counts, "created_at": at, "expires_at": at, "ended_at": at if ended else None,
            "results_url": f"{self.root}/v1/messages/batches/{wire}/results" if ended else None,
            "archived_at": None, "cancel_initiated_at": None,
        }  # fmt: skip

    async def _claude_list(self, request: web.Request) -> web.Response:
        data = [self._claude(wire) for wire in reversed(self.batches)]
        return web.json_response({"data": data, "has_more": False, "first_id": None, "last_id": None})

    async def _claude_get(self, request: web.Request) -> web.Response:
        self.polls += 1
        wire = request.match_info["id"]
        if wire not in self.batches:
            return web.json_response(
                {"type": "error", "error": {"type": "not_found_error", "message": wire}}, status=404
            )
        return web.json_response(self._claude(wire))

    async def _claude_results(self, request: web.Request) -> web.Response:
        keys = self.batches[request.match_info["id"]]["requests"]
        lines = [{"custom_id": key, "result": {"type": "succeeded", "message": message()}} for key in keys]
        return web.Response(text="\n".join(json.dumps(line) for line in self.change(lines)))

    # Gemini; its batches share the address of OpenAI's

    async def _gemini_start(self, request: web.Request) -> web.Response:
        name = f"f{len(self.files) + 1}"
        self.files[name] = ""
        url = f"{self.root}/upload-here/{name}"
        return web.Response(text="{}", headers={"x-goog-upload-url": url, "x-goog-upload-status": "active"})

    async def _gemini_upload(self, request: web.Request) -> web.Response:
        name = request.match_info["id"]
        self.files[name] += (await request.read()).decode()
        body = {"file": {"name": f"files/{name}", "mimeType": "application/jsonl"}}
        return web.json_response(body, headers={"x-goog-upload-status": "final"})

    async def _gemini_submit(self, request: web.Request) -> web.Response:
        body = (await request.json())["batch"]
        if self.answers:
            status, headers, answer = self.answers.pop(0)
            return web.json_response(answer, status=status, headers=headers)
        name = body["inputConfig"]["fileName"].removeprefix("files/")
        lines = [json.loads(line) for line in self.files[name].splitlines()]
        wire = self._new("gemini", {line["key"]: line["request"] for line in lines}, body["displayName"])
        self._cut(request)
        return web.json_response(self._google(wire))

    def _google(self, wire: str) -> dict:
        batch = self.batches[wire]
        state = {"ended": "SUCCEEDED", "running": "RUNNING"}.get(batch["status"], batch["status"].upper())
        metadata = {"displayName": batch["tag"], "state": f"BATCH_STATE_{state}", "model": "models/m"}
        if state == "SUCCEEDED":
            metadata["output"] = {"responsesFile": f"files/out-{wire.removeprefix('batches/')}"}
        return {"name": wire, "metadata": metadata}

    async def _gemini_download(self, request: web.Request) -> web.Response:
        wire = "batches/" + request.match_info["id"].removeprefix("out-")
        lines = [{"key": key, "response": content()} for key in self.batches[wire]["requests"]]
        return web.Response(text="\n".join(json.dumps(line) for line in self.change(lines)))

    async def _list(self, request: web.Request) -> web.Response:
        if "pageSize" in request.query:
            return web.json_response({"operations": [self._google(wire) for wire in self.batches]})
        data = [self._openai(wire) for wire in reversed(self.batches)]
        return web.json_response({"object": "list", "data": data, "has_more": False})

    async def _get(self, request: web.Request) -> web.Response:
        self.polls += 1
        wire = request.match_info["id"]
        if f"batches/{wire}" in self.batches:
            return web.json_response(self._google(f"batches/{wire}"))
        if wire not in self.batches:
            return web.json_response({"error": {"message": f"No batch {wire}"}}, status=404)
        return web.json_response(self._openai(wire))


if __name__ == "__main__":
    import asyncio
    import sys

    asyncio.run(serve(Fakes(delay=float(sys.argv[1]))))
