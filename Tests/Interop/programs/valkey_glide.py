"""valkey-glide, which requests the role with INFO REPLICATION first."""

import asyncio
import sys

from glide import GlideClient, GlideClientConfiguration, NodeAddress, RequestError, ServerCredentials


async def main() -> None:
    port, key = int(sys.argv[1]), sys.argv[2]
    configuration = GlideClientConfiguration(
        [NodeAddress("127.0.0.1", port)], credentials=ServerCredentials(password=key), request_timeout=5000
    )
    one, other = [await GlideClient.create(configuration) for _ in range(2)]
    print((await one.ping()).decode())
    lease = await one.custom_command(["LOCK.ACQUIRE", "orders", "30000"])
    print(len(lease))
    held = await other.custom_command(["LOCK.ACQUIRE", "orders", "30000"])
    print("nil" if held is None else held)
    print(await one.custom_command(["LOCK.RELEASE", "orders", lease[0]]))
    print((await one.custom_command(["LIMIT.TAKE", "catalog"]))[0])
    try:
        await one.custom_command(["LOCK.ACQUIRE", "orders"])
    except RequestError as error:
        # glide puts its own text before the server's error.
        print("ERR" if "LOCK.ACQUIRE" in str(error) or "arguments" in str(error) else error)
    for client in (one, other):
        await client.close()


asyncio.run(main())
