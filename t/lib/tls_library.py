# SPDX-License-Identifier: BSD-3-Clause
"""A TLS 1.3 client by OpenSSL's own calls, for what Python's ssl does not offer: a client that asks for new keys.

    with Connection(port, "ca.pem") as c:
        c.write(b"mn\\r\\n")
        c.ask_for_new_key()
        c.read(4)
"""
import ctypes
import ctypes.util
import socket

from farcached import connect, deadline

KEY_UPDATE_REQUESTED = 1
VERIFY_PEER = 1


def _library():
    name = ctypes.util.find_library("ssl")
    if name is None:
        return None
    library = ctypes.CDLL(name)
    for function in ("TLS_client_method", "SSL_CTX_new", "SSL_new"):
        getattr(library, function).restype = ctypes.c_void_p
    return library


SSL = _library()


def is_available():
    return SSL is not None


class Connection:
    """Blocking, to 127.0.0.1. authority: the path of the certificate that the server's is verified by."""

    def __init__(self, port, authority):
        self.socket = connect(("127.0.0.1", port), deadline())
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(None)  # OpenSSL uses the descriptor
        self.context = ctypes.c_void_p(SSL.SSL_CTX_new(ctypes.c_void_p(SSL.TLS_client_method())))
        self._good(SSL.SSL_CTX_load_verify_locations(self.context, authority.encode(), None), "load_verify_locations")
        SSL.SSL_CTX_set_verify(self.context, VERIFY_PEER, None)
        self.tls = ctypes.c_void_p(SSL.SSL_new(self.context))
        SSL.SSL_set_fd(self.tls, self.socket.fileno())
        self._good(SSL.SSL_connect(self.tls), "connect")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        SSL.SSL_free(self.tls)
        SSL.SSL_CTX_free(self.context)
        self.socket.close()

    def _good(self, result, what):
        if result <= 0:
            raise AssertionError("%s: %d" % (what, result))
        return result

    def write(self, data):
        self._good(SSL.SSL_write(self.tls, data, len(data)), "write")

    def read(self, size):
        """That many bytes."""
        got = b""
        room = ctypes.create_string_buffer(size)
        while len(got) < size:
            taken = self._good(SSL.SSL_read(self.tls, room, size - len(got)), "read after %d bytes" % len(got))
            got += room.raw[:taken]
        return got

    def ask_for_new_key(self):
        """Sends a new key, and the request for the server's."""
        self._good(SSL.SSL_key_update(self.tls, KEY_UPDATE_REQUESTED), "key_update")
        self._good(SSL.SSL_do_handshake(self.tls), "do_handshake")
