"""The program of the process that serves models.

    python -m activities.training.serve SOCKET BASE...

SOCKET is the number of the listening socket. The process ends with its standard input.
"""

import asyncio
import sys
from socket import socket
from threading import Thread

from activities.training.stage import end_with_input

if __name__ == "__main__":
    # First of all, since a dead worker's port is free again only when this process has ended, too.
    Thread(target=end_with_input, daemon=True).start()
    # torch takes seconds to import.
    from activities.training.serving import serve

    asyncio.run(serve(socket(fileno=int(sys.argv[1])), sys.argv[2:]))
