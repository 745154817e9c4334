"""redis-py as a client of the RESP API. Prints `fine` at the end.

Usage: python redis_py.py RESP_PORT REDIS_SOCKET VERSION
"""

import sys

import redis

port, redis_socket, version = int(sys.argv[1]), sys.argv[2], sys.argv[3]
assert redis.__version__ == version, f"{redis.__version__} was imported instead of {version}"

# None: the default of this version of redis-py.
for protocol in (2, 3, None):
    options = {} if protocol is None else {"protocol": protocol}
    client = redis.Redis(port=port, decode_responses=True, client_name="redis-py", **options)
    assert client.ping()
    name = f"orders-{protocol}"
    token, fence, valid = client.execute_command("LOCK.ACQUIRE", name, 30000, "LABEL", "redis-py")
    assert token.startswith("redis-py/") and fence > 0 and 0 < valid < 30000
    assert client.execute_command("LOCK.ACQUIRE", name, 30000) is None
    information = client.execute_command("LOCK.INFO", name)
    if isinstance(information, list):
        information = dict(zip(information[::2], information[1::2], strict=True))
    assert information["label"] == "redis-py" and information["fence"] == fence
    # A retry by the same owner, on the same connection, has the same lease.
    for words in ((), ("SHARED",), ("PERMITS", 2), ("LINKED",), ("WAIT", 100)):
        retried = ("LOCK.ACQUIRE", f"retried-{protocol}-{'-'.join(map(str, words))}", 30000, "OWNER", "me", *words)
        assert {client.execute_command(*retried)[0] for _ in range(3)} == {"me"}
    with client.pipeline(transaction=False) as pipeline:
        for _ in range(100):
            pipeline.execute_command("ECHO", "x")
        pipeline.execute_command("LOCK.RELEASE", name, token)
        assert pipeline.execute() == ["x"] * 100 + [1]
    try:
        client.execute_command("LOCK.ACQUIRE", "a b", 1000)
        raise AssertionError("a name with a space was accepted")
    except redis.ResponseError as error:
        assert str(error).startswith("INVALID"), error
    pubsub = client.pubsub()
    pubsub.subscribe("interlock:events")
    assert pubsub.get_message(timeout=10)["type"] == "subscribe"
    pubsub.close()
    client.close()

# redis-py's own lock on the same key excludes Interlock, and Interlock excludes it.
server = redis.Redis(unix_socket_path=redis_socket)
client = redis.Redis(port=port, decode_responses=True)
redis_py_lock = server.lock("interlock:lock:{shared}", timeout=30)
assert redis_py_lock.acquire(blocking=False)
assert client.execute_command("LOCK.ACQUIRE", "shared", 30000) is None
redis_py_lock.release()
token = client.execute_command("LOCK.ACQUIRE", "shared", 30000)[0]
assert not redis_py_lock.acquire(blocking=False)
assert client.execute_command("LOCK.RELEASE", "shared", token) == 1
print("fine")
