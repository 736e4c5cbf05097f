"""Makes every connection beyond loopback fail, in this process and in each one that it starts.

`tests/conftest.py` imports it and puts its folder on PYTHONPATH, so kernels and subprocesses load it at start.
"""

import ipaddress
import os
import socket


class ConnectionBeyondLoopback(AssertionError):
    """A test reached for the network."""


def _check(address) -> None:
    if not isinstance(address, tuple):
        return  # a Unix socket's path
    host = address[0] if isinstance(address[0], str) else address[0].decode()
    if host in ("localhost", ""):
        return
    try:
        if ipaddress.ip_address(host.split("%")[0]).is_loopback:
            return
    except ValueError:
        pass
    raise ConnectionBeyondLoopback(f"no test may reach beyond loopback, but this one asked for {host}")


def _guarded(function, place):
    def guarded(*arguments, **named):
        _check(arguments[place] if place else (arguments[0],))
        return function(*arguments, **named)

    return guarded


def _install() -> None:
    socket.socket.connect = _guarded(socket.socket.connect, 1)
    socket.socket.connect_ex = _guarded(socket.socket.connect_ex, 1)
    resolve = socket.getaddrinfo
    # Binding to "all addresses" (None) resolves nothing.
    socket.getaddrinfo = lambda host, *rest, **named: (
        resolve(host, *rest, **named) if host is None else _guarded(resolve, 0)(host, *rest, **named)
    )


if not getattr(socket, "guarded_for_tests", False):
    _install()
    socket.guarded_for_tests = True

# Kernels that a test starts read their judges from a file of the test's.
if os.environ.get("TEST_JUDGES"):
    from pathlib import Path

    from lib import paths

    paths.JUDGES = Path(os.environ["TEST_JUDGES"])
