internal import CLua

/// Replies of commands as Lua's values, and a script's value as its reply.
extension LuaStack {
    func push(_ reply: Reply) {
        // No reply is so deep that there is no room for it.
        _ = reserve(4)
        switch reply {
        case .ok: pushTable("ok", "OK")
        case .status(let text): pushTable("ok", text)
        case .error(let text):
            pushError(text)
            push(true)
            setField("ignore_error_stats_update")
        case .integer(let number): push(Double(number))
        case .bulk(let bytes): push(bytes)
        case .null: push(false)
        case .array(let replies), .several(let replies):
            lua_createtable(state, Int32(clamping: replies.count), 0)
            for (index, reply) in replies.enumerated() {
                push(reply)
                lua_rawseti(state, -2, Int32(index + 1))
            }
        }
    }

    /// Takes the value on top as a reply.
    func popReply() -> Reply {
        guard reserve(4) else {
            drop()
            return .error("ERR reached lua stack limit")
        }
        defer { drop() }
        switch type(-1) {
        case LUA_TSTRING: return .bulk(bytes(-1) ?? "")
        case LUA_TBOOLEAN: return lua_toboolean(state, -1) != 0 ? .integer(1) : .null
        case LUA_TNUMBER: return .integer(Self.truncated(lua_tonumber(state, -1)))
        case LUA_TTABLE: return tableReply()
        default: return .null
        }
    }

    private func tableReply() -> Reply {
        if let error = field("err", of: -1) { return .error(error) }
        if let status = field("ok", of: -1) {
            return .status(Bytes(status.storage.map { $0 == 10 || $0 == 13 ? 32 : $0 }))
        }
        pushField("double", of: -1)
        let double = type(-1) == LUA_TNUMBER ? lua_tonumber(state, -1) : nil
        drop()
        if let double { return .score(double) }
        var replies: [Reply] = []
        while true {
            lua_rawgeti(state, -1, Int32(replies.count + 1))
            guard type(-1) != LUA_TNIL else {
                drop()
                return .array(replies)
            }
            replies.append(popReply())
        }
    }

    /// As C's conversion has it on the machines that Redis runs on.
    private static func truncated(_ number: Double) -> Int64 {
        Int64(exactly: number.rounded(.towardZero)) ?? .min
    }
}
