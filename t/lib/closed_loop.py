# SPDX-License-Identifier: BSD-3-Clause
"""Clients in a process of their own that send again as soon as they have a reply. Each batch takes the server longer than the
clients. `python3 closed_loop.py PORT CLIENTS` prints "begun" when all clients have a reply. At the end it prints "closed" if the
server closed all connections, else the error. It ends in any case, after a fixed number of requests."""
import selectors
import socket
import sys

REQUEST, REPLY = (b"get" + b" miss" * 200 + b"\r\n") * 18, b"END\r\n" * 18
REQUESTS_MAX = 1000000


def serve_all(port, count):
    waiting, begun, came = selectors.EpollSelector(), set(), {}
    for _ in range(count):
        s = socket.create_connection(("127.0.0.1", port))
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        waiting.register(s, selectors.EVENT_READ)
        s.sendall(REQUEST)
    asked = count
    while waiting.get_map() and asked < REQUESTS_MAX:
        for key, _ in waiting.select():
            s = key.fileobj
            got, ended = came.pop(s, b""), False
            try:
                piece = s.recv(200)
                got, ended = got + piece, piece == b""
                if got == REPLY:
                    s.sendall(REQUEST)
                    asked += 1
            except ConnectionError:
                ended = True
            if ended and got in (b"", REPLY):
                waiting.unregister(s)
                s.close()
            elif ended or not REPLY.startswith(got):
                return "got %r" % got
            elif got != REPLY:
                came[s] = got
            elif len(begun) < count:
                begun.add(s)
                if len(begun) == count:
                    print("begun", flush=True)
    return "closed" if asked < REQUESTS_MAX else "goes on"


if __name__ == "__main__":
    print(serve_all(int(sys.argv[1]), int(sys.argv[2])))
