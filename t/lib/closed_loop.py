# SPDX-License-Identifier: BSD-3-Clause
"""Clients in a process of their own that send again as soon as they have a reply. Each batch takes the server longer than the
clients. `python3 closed_loop.py PORT CLIENTS LINES` sends batches of LINES gets of 200 keys. It prints "begun" when all clients
have a reply. At the end it prints "closed" if the server closed all connections, else the error. It ends in any case, after a fixed
number of requests."""
import selectors
import socket
import sys

REQUEST, REPLY = b"get" + b" miss" * 200 + b"\r\n", b"END\r\n"
REQUESTS_MAX = 1000000


def serve_all(port, count, lines):
    request, reply = REQUEST * lines, REPLY * lines
    waiting, begun, came = selectors.EpollSelector(), set(), {}
    for _ in range(count):
        s = socket.create_connection(("127.0.0.1", port))
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        waiting.register(s, selectors.EVENT_READ)
        s.sendall(request)
    asked = count
    while waiting.get_map() and asked < REQUESTS_MAX:
        for key, _ in waiting.select():
            s = key.fileobj
            got, ended = came.pop(s, b""), False
            try:
                piece = s.recv(200)
                got, ended = got + piece, piece == b""
                if got == reply:
                    s.sendall(request)
                    asked += 1
            except ConnectionError:
                ended = True
            if ended and got in (b"", reply):
                waiting.unregister(s)
                s.close()
            elif ended or not reply.startswith(got):
                return "got %r" % got
            elif got != reply:
                came[s] = got
            elif len(begun) < count:
                begun.add(s)
                if len(begun) == count:
                    print("begun", flush=True)
    return "closed" if asked < REQUESTS_MAX else "goes on"


if __name__ == "__main__":
    print(serve_all(*(int(arg) for arg in sys.argv[1:])))
