"""An OpenAI-compatible chat server on loopback, for tests and `make bench`: counts what it is asked.

`python -m tests.fakes SECONDS` runs one in a process of its own and prints its port.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter

from aiohttp import web

# As an answer: the connection breaks in the middle of the reply.
CUT = object()
REPLY = json.dumps({"verdict": "supported", "score": 5, "confidence": 0.9, "supported_claims": [], "rationale": "r"})


def completion(text: str | None = REPLY, finish: str = "stop", **usage: int) -> dict:
    """The body of a chat completion."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "loopback-2026",
        "choices": [{"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18} | usage,
    }


class Loopback:
    """A context manager: `base_url`, the `requests` that came (bodies), and how often each user message was asked.

    `answers` is a list of (status, headers, body) that are given first, one a request; then completions follow.
    `headers` are those of the requests.
    """

    def __init__(self, delay: float = 0.0, answers: list[tuple[int, dict, object]] | None = None):
        self.delay, self.answers = delay, list(answers or [])
        self.requests: list[dict] = []
        self.headers: list[dict] = []
        self.asked: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()

    async def _chat(self, request: web.Request) -> web.Response:
        body = await request.json()
        return await self._answer(request, body, body["messages"][-1]["content"], completion())

    async def _answer(self, request: web.Request, body: dict, user: str, usual: dict) -> web.Response:
        self.requests.append(body)
        self.headers.append(dict(request.headers))
        self.asked[user] += 1
        await asyncio.sleep(self.delay)
        status, headers, answer = self.answers.pop(0) if self.answers else (200, {}, usual)
        if answer is CUT:
            # In the middle of the reply: the head and half of a body that was said to be longer.
            response = web.StreamResponse(headers={"content-length": "1000", "content-type": "application/json"})
            await response.prepare(request)
            await response.write(b'{"choices": [{"message"')
            request.transport.close()
            return response
        self.answered[user] += 1
        if isinstance(answer, str):
            return web.Response(status=status, headers=headers, text=answer)
        body = json.dumps(answer).encode()
        return web.Response(status=status, headers={**headers, "content-type": "application/json"}, body=body)

    def routes(self, app: web.Application) -> None:
        app.router.add_post("/v1/chat/completions", self._chat)

    async def start(self) -> int:
        app = web.Application(client_max_size=2**30)
        self.routes(app)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        port = site._server.sockets[0].getsockname()[1]
        self.base_url = f"http://127.0.0.1:{port}/v1"
        return port

    def __enter__(self) -> Loopback:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self.start(), self._loop).result()
        return self

    def __exit__(self, *error) -> None:
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def serve(server: Loopback) -> None:
    """Run a server until this process is stopped; its port is printed first."""
    print(await server.start(), flush=True)
    await asyncio.Event().wait()
