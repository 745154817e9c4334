"""The Redis protocol for connections on which many commands are under way."""


def encode(*words):
    """A command as it is sent."""
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        word = word if isinstance(word, bytes) else str(word).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(word), word))
    return b"".join(parts)


class Incomplete(Exception):
    """The rest has not come yet."""


class Replies:
    """What comes over one connection, reply by reply."""

    def __init__(self):
        self.rest = b""

    def feed(self, data):
        """The replies that are complete with these bytes."""
        data = self.rest + data
        replies, place = [], 0
        try:
            while place < len(data):
                reply, place = parse(data, place)
                replies.append(reply)
        except Incomplete:
            pass
        self.rest = data[place:]
        return replies


def parse(data, place):
    """The reply that begins there, and where the next one does. An error is raised."""
    end = data.find(b"\r\n", place)
    if end < 0:
        raise Incomplete
    kind, rest, place = data[place:place + 1], data[place + 1:end], end + 2
    if kind == b":":
        return int(rest), place
    if kind == b"+":
        return rest, place
    if kind == b"$":
        if rest == b"-1":
            return None, place
        end = place + int(rest)
        if len(data) < end + 2:
            raise Incomplete
        return data[place:end], end + 2
    if kind == b"*":
        elements = []
        for _ in range(int(rest)):
            element, place = parse(data, place)
            elements.append(element)
        return elements, place
    raise RuntimeError(rest.decode())
