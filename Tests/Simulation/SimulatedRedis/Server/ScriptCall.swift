/// One call of a script: its arguments, its reply, and its keys before and after.
package struct ScriptCall {
    /// The SHA-1 digest of the source, in hexadecimal.
    let digest: Bytes
    let source: Bytes
    let keys: [Bytes]
    let arguments: [Bytes]
    let reply: Reply
    /// The server's time, as Unix time in microseconds. It does not advance while a script runs.
    let microseconds: Int64
    /// The entries of the keys; `nil` for keys that do not exist.
    let before, after: [Keyspace.Entry?]
    /// The messages that the script sent by `PUBLISH`.
    let published: [Publication]
    /// The errors that the script's commands returned, also those that it handled.
    let refused: [Bytes]

    /// A message, and the number of clients that received it.
    struct Publication {
        let channel: Bytes
        let message: Bytes
        let receivers: Int64
    }

    /// The call as a JSON object on one line.
    ///
    /// Each byte of a string becomes the character with its number, so that different strings stay different. The
    /// times at which keys expire are Unix times in milliseconds.
    package func json(server: String) -> String {
        var line = JSONLine()
        line.text += "{\"server\":\"\(server)\",\"script\":\"\(digest.text)\",\"time\":\(microseconds),\"keys\":"
        line.append(keys) { $0.append($1) }
        line.text += ",\"args\":"
        line.append(arguments) { $0.append($1) }
        line.text += ",\"reply\":"
        line.append(reply)
        line.text += ",\"before\":"
        line.append(before) { $0.append($1) }
        line.text += ",\"after\":"
        line.append(after) { $0.append($1) }
        line.text += ",\"published\":"
        line.append(published) { $0.append($1) }
        line.text += ",\"refused\":"
        line.append(refused) { $0.append($1) }
        return line.text + "}"
    }

    /// The script's source as a JSON object on one line, from which readers of the calls get the script's name.
    package var sourceJSON: String {
        var line = JSONLine()
        line.text += "{\"script\":\"\(digest.text)\",\"source\":"
        line.append(source)
        return line.text + "}"
    }

    package var scriptDigest: String { digest.text }
}

/// A line of JSON.
private struct JSONLine {
    var text = ""

    mutating func append<Elements: Sequence>(_ elements: Elements, _ write: (inout JSONLine, Elements.Element) -> Void) {
        text += "["
        var separator = ""
        for element in elements {
            text += separator
            separator = ","
            write(&self, element)
        }
        text += "]"
    }

    mutating func append(_ bytes: Bytes) {
        text += "\""
        for byte in bytes.storage {
            switch byte {
            case UInt8(ascii: "\""): text += "\\\""
            case UInt8(ascii: "\\"): text += "\\\\"
            case ..<0x20: text += byte < 16 ? "\\u000\(String(byte, radix: 16))" : "\\u00\(String(byte, radix: 16))"
            default: text.unicodeScalars.append(Unicode.Scalar(byte))
            }
        }
        text += "\""
    }

    mutating func append(_ reply: Reply) {
        switch reply {
        case .ok: text += "{\"status\":\"OK\"}"
        case .status(let status): appendObject("status", status)
        case .error(let error): appendObject("error", error)
        case .integer(let number): text += String(number)
        case .bulk(let bytes): append(bytes)
        case .null: text += "null"
        case .array(let replies), .several(let replies): append(replies) { $0.append($1) }
        }
    }

    private mutating func appendObject(_ name: String, _ value: Bytes) {
        text += "{\"\(name)\":"
        append(value)
        text += "}"
    }

    mutating func append(_ publication: ScriptCall.Publication) {
        text += "["
        append(publication.channel)
        text += ","
        append(publication.message)
        text += ",\(publication.receivers)]"
    }

    mutating func append(_ entry: Keyspace.Entry?) {
        guard let entry else { return text += "null" }
        text += "{\"\(entry.value.typeName)\":"
        switch entry.value {
        case .string(let bytes): append(bytes)
        case .hash(let fields):
            append(fields.all) { line, field in line.append([field.name, field.value]) { $0.append($1) } }
        case .sortedSet(let set):
            append(set.elements) { line, element in line.append([element.member, Bytes(element.score)]) { $0.append($1) } }
        // No script reads a stream; its type suffices.
        case .stream: text += "null"
        }
        if let until = entry.expiryMilliseconds { text += ",\"until\":\(until)" }
        text += "}"
    }
}
