"""Exit with one clear line unless a server can listen on HOST PORT."""

import errno
import socket
import sys


def problem(host: str, port: str) -> str | None:
    if not (port.isascii() and port.isdigit() and 1 <= int(port) <= 65535):
        return f"PORT must be a whole number from 1 to 65535, not {port!r}"
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does
            listener.bind(address)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return f"port {port} is in use; choose another one, for example PORT={int(port) % 65535 + 1}"
        return f"can't listen on {host} port {port}: {error.strerror or error}"
    return None


if __name__ == "__main__":
    sys.exit(problem(*sys.argv[1:]))
