"""The guard itself: a test that reaches for the network must fail."""

import socket
import subprocess
import sys

import pytest
from sitecustomize import ConnectionBeyondLoopback


def test_a_connection_beyond_loopback_fails_before_it_is_made():
    with pytest.raises(ConnectionBeyondLoopback, match="192.0.2.1"), socket.socket() as plug:
        plug.connect(("192.0.2.1", 80))


def test_a_name_beyond_loopback_is_not_even_looked_up():
    with pytest.raises(ConnectionBeyondLoopback, match="huggingface.co"):
        socket.getaddrinfo("huggingface.co", 443)


def test_loopback_is_reached():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as plug:
        assert plug.getpeername() == server.getsockname()


def test_processes_that_tests_start_are_guarded_too():
    code = "import socket; socket.getaddrinfo('pypi.org', 443)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode != 0 and "ConnectionBeyondLoopback" in done.stderr
