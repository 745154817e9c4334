"""gRPC, HTTP/2 and WebSocket through the proxy, with each protocol's library on both sides. Prints `fine` at the end.

Usage: python streams.py HTTP_PORT GRPC_PORT WEBSOCKET_PORT
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any

import grpc
import httpx
import websockets

http_port, grpc_port, websocket_port = (int(word) for word in sys.argv[1:4])
LARGE = b"x" * 1_000_000
SHOP = (("interlock-service", "shop"),)


class Shop(grpc.GenericRpcHandler):
    """Echoes requests in the four kinds of gRPC calls; `fail` ends with the requested status."""

    def service(self, details: Any) -> Any:
        method = details.method.removeprefix("/shop.Shop/")
        handlers = {
            "Echo": grpc.unary_unary_rpc_method_handler(self.echo),
            "Repeat": grpc.unary_stream_rpc_method_handler(self.repeat),
            "Join": grpc.stream_unary_rpc_method_handler(self.join),
            "Talk": grpc.stream_stream_rpc_method_handler(self.talk),
            "Fail": grpc.unary_unary_rpc_method_handler(self.fail),
        }
        return handlers.get(method)

    async def echo(self, request: bytes, context: Any) -> bytes:
        context.set_trailing_metadata((("shop-trailer", "kept"),))
        return request

    async def repeat(self, request: bytes, _: Any) -> AsyncIterator[bytes]:
        for _ in range(100):
            yield request

    async def join(self, requests: AsyncIterator[bytes], _: Any) -> bytes:
        return b"".join([part async for part in requests])

    async def talk(self, requests: AsyncIterator[bytes], _: Any) -> AsyncIterator[bytes]:
        async for part in requests:
            yield part.upper()

    async def fail(self, request: bytes, context: Any) -> bytes:
        await context.abort(grpc.StatusCode[request.decode()], "the shop says no: 100 %")
        return b""


async def check_grpc_calls(channel: Any) -> None:
    echo = channel.unary_unary("/shop.Shop/Echo")
    call = echo(b"hello", metadata=SHOP, timeout=10)
    assert await call == b"hello"
    assert ("shop-trailer", "kept") in tuple(await call.trailing_metadata())
    assert ("interlock-state", "closed") in tuple(await call.initial_metadata())
    assert await asyncio.gather(*(echo(b"%d" % n, metadata=SHOP, timeout=20) for n in range(500))) == [
        b"%d" % n for n in range(500)
    ]
    assert await echo(LARGE, metadata=SHOP, timeout=20) == LARGE

    repeated = [
        part async for part in channel.unary_stream("/shop.Shop/Repeat")(LARGE[:50_000], metadata=SHOP, timeout=20)
    ]
    assert repeated == [LARGE[:50_000]] * 100

    async def parts() -> AsyncIterator[bytes]:
        for _ in range(50):
            yield LARGE[:20_000]

    assert await channel.stream_unary("/shop.Shop/Join")(parts(), metadata=SHOP, timeout=20) == LARGE

    # Each word is answered before the next one is sent, so no hop buffers until the end of a stream.
    talk = channel.stream_stream("/shop.Shop/Talk")(metadata=SHOP, timeout=20)
    for word in (b"one", b"two", b"three"):
        await talk.write(word)
        assert await talk.read() == word.upper()
    await talk.done_writing()
    assert await talk.read() is grpc.aio.EOF
    assert await talk.code() == grpc.StatusCode.OK


async def check_grpc_failures(channel: Any) -> None:
    async def outcome(method: str, request: bytes, service: str = "shop", seconds: float = 10) -> grpc.aio.AioRpcError:
        call = channel.unary_unary(method)
        try:
            answer = await call(request, metadata=(("interlock-service", service),), timeout=seconds)
        except grpc.aio.AioRpcError as error:
            return error
        raise AssertionError(f"{method} {request!r} returned {answer!r}")

    error = await outcome("/shop.Shop/Fail", b"NOT_FOUND")
    assert (error.code(), error.details()) == (grpc.StatusCode.NOT_FOUND, "the shop says no: 100 %"), error
    assert (await outcome("/shop.Shop/None", b"")).code() == grpc.StatusCode.UNIMPLEMENTED
    assert (await outcome("/shop.Shop/Echo", b"", "nowhere")).code() == grpc.StatusCode.UNIMPLEMENTED
    # The limit of this service is one call a minute.
    assert await channel.unary_unary("/shop.Shop/Echo")(b"1", metadata=(("interlock-service", "narrow"),)) == b"1"
    error = await outcome("/shop.Shop/Echo", b"2", "narrow")
    assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED and "limit" in (error.details() or ""), error
    assert int(dict(error.trailing_metadata() or error.initial_metadata())["grpc-retry-pushback-ms"]) > 0
    # A gRPC failure status opens the breaker, although each response has HTTP status 200.
    for _ in range(10):
        error = await outcome("/shop.Shop/Fail", b"UNAVAILABLE", "frail")
        assert error.code() == grpc.StatusCode.UNAVAILABLE
        if "breaker" in (error.details() or ""):
            break
    else:
        raise AssertionError("the breaker never opened")


async def check_http2(port: int) -> None:
    base = f"http://127.0.0.1:{port}"
    async with httpx.AsyncClient(http1=False, http2=True, base_url=base, timeout=20) as client:
        answer = await client.get("/healthz")
        assert (answer.http_version, answer.status_code) == ("HTTP/2", 200), answer
        assert (await client.head("/healthz")).status_code == 200
        granted = await client.post("/v1/locks/orders", json={"ttl_ms": 30000})
        assert granted.status_code == 201 and granted.json()["fence"] > 0, granted.text
        assert (await client.post("/v1/locks/orders", json={"ttl_ms": 30000})).status_code == 409
        assert (await client.get("/nowhere")).status_code == 404
        large = await client.post("/v1/locks/large", content=b"x" * 100_000)
        assert large.status_code == 413, large
        # An HTTP/1.1 upstream behind an HTTP/2 client: a request that is not a WebSocket gets a response too.
        plain = await client.get("/proxy/chat/", headers=[("cookie", "a=1"), ("cookie", "b=2")])
        assert plain.status_code == 426, (plain.status_code, plain.text)
        assert plain.headers["interlock-service"] == "chat"


async def echo_messages(connection: Any) -> None:
    async for message in connection:
        await connection.send(message)


async def check_websocket(port: int) -> None:
    for uri, headers in (
        (f"ws://127.0.0.1:{port}/proxy/chat/room", {}),
        (f"ws://127.0.0.1:{port}/room", {"Interlock-Service": "chat"}),
    ):
        async with websockets.connect(uri, additional_headers=headers, max_size=None, compression="deflate") as chat:
            assert chat.response is not None and chat.response.headers["Interlock-Service"] == "chat"
            for message in ("hello", b"\x00\xff", "y" * 3_000_000):
                await chat.send(message)
                assert await chat.recv() == message
            await (await chat.ping())
        assert chat.close_code == 1000
    try:
        await websockets.connect(f"ws://127.0.0.1:{port}/proxy/nowhere/")
        raise AssertionError("an unknown service was called")
    except websockets.InvalidStatus as refusal:
        assert refusal.response.status_code == 404


async def main() -> None:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((Shop(),))
    assert server.add_insecure_port(f"127.0.0.1:{grpc_port}") == grpc_port
    await server.start()
    async with websockets.serve(echo_messages, "127.0.0.1", websocket_port, max_size=None):
        await check_http2(http_port)
        await check_websocket(http_port)
        async with grpc.aio.insecure_channel(f"127.0.0.1:{http_port}") as channel:
            await check_grpc_calls(channel)
            await check_grpc_failures(channel)
    await server.stop(None)
    print("fine")


asyncio.run(main())
