"""One call with all its attempts: the one retry policy, for every judge.

What is transient is asked again after a wait that grows and is drawn at random, or after what the provider asks for.
A clock bounds all the attempts together. Nothing is asked again because of what a reply says.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import tenacity

from lib.pace import Pace
from lib.providers import CallError, Provider, Reply

# Attempts of a call that fails, and of one that the provider puts off because there are too many.
ATTEMPTS, PUT_OFF = 5, 20
# One attempt; all the attempts of a call with their waits; and the longest wait that a provider may ask for before
# the run stops to be resumed. Seconds.
ATTEMPT_S, CALL_S, LONGEST_WAIT_S = 330.0, 900.0, 120.0


_transient = tenacity.retry_if_exception(lambda error: getattr(error, "kind", "") == "transient")


@dataclass
class Tried:
    """How often a call was tried, and for how long since the first attempt began, in seconds.

    `lose` is told of each attempt that broke off and may have been charged; it says whether one more can be paid.
    """

    lose: Callable[[], bool] = lambda: True
    attempts: int = 0
    began: float = 0.0

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began if self.attempts else 0.0


async def ask(provider: Provider, request: dict, pace: Pace, tokens: float, tried: Tried) -> Reply:
    """The reply to a request that will use about so many tokens; `tried` counts along. Raises CallError."""
    async for attempt in tenacity.AsyncRetrying(
        retry=_transient,
        wait=lambda state: wait(state),
        stop=lambda state: _enough(state, tried),
        reraise=True,
    ):
        with attempt:
            reply = await _attempt(provider, request, pace, tokens, tried)
    return reply


async def again(question: Callable[..., Awaitable[Any]], *arguments: object) -> Any:
    """The answer to a question that changes nothing and costs nothing, asked again while its failure is transient."""
    async for attempt in tenacity.AsyncRetrying(
        retry=_transient, wait=lambda state: wait(state), stop=tenacity.stop_after_attempt(ATTEMPTS), reraise=True
    ):
        with attempt:
            answer = await question(*arguments)
    return answer


async def _attempt(provider: Provider, request: dict, pace: Pace, tokens: float, tried: Tried) -> Reply:
    async with pace.turn(tokens) as began:
        tried.began = tried.began or began
        tried.attempts += 1
        bound = max(1.0, min(ATTEMPT_S, CALL_S - tried.seconds))
        try:
            async with asyncio.timeout(bound):
                reply = await provider.ask(request)
        except TimeoutError:
            lost = CallError(f"no whole answer within {bound:.0f} s", "transient", maybe_paid=True)
            raise _no_more(lost, tried) from None
        except CallError as error:
            if (error.retry_after or 0) > LONGEST_WAIT_S:
                message = f"the provider asks to wait {error.retry_after:.0f} s; run again then ({error})"
                raise CallError(message, "fatal") from None
            if error.slow:
                pace.too_much(began, error.retry_after)
            raise _no_more(error, tried) from None
    pace.answered()
    return reply


def _no_more(error: CallError, tried: Tried) -> CallError:
    """The error of an attempt; not transient any more if it may have been charged and another cannot be paid."""
    if not error.maybe_paid or tried.lose():
        return error
    return CallError(f"{error}; what it may have cost leaves too little of max_usd to try again", "row")


def _enough(state: tenacity.RetryCallState, tried: Tried) -> bool:
    put_off = getattr(state.outcome.exception(), "slow", False)
    return tried.attempts >= (PUT_OFF if put_off else ATTEMPTS) or tried.seconds + state.upcoming_sleep >= CALL_S


_backoff = tenacity.wait_random_exponential(multiplier=0.5, max=30)


def wait(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception()
    return max(_backoff(state), getattr(error, "retry_after", None) or 0.0)
