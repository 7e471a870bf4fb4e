"""The network of a machine: who connects to it is connected on to HOST:PORT, from the machine's own address. Prints its port.

    relay.py HOST:PORT ADDRESS"""

import asyncio
import sys


async def copy(reader, writer):
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def main(upstream, address):
    host, port = upstream.rsplit(":", 1)

    async def connect(reader, writer):
        try:
            far_reader, far_writer = await asyncio.open_connection(host, int(port), local_addr=(address, 0))
        except OSError:
            writer.close()
            return
        await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer))

    server = await asyncio.start_server(connect, address, 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main(sys.argv[1], sys.argv[2]))
