internal import CLua

/// Access to a Lua state's stack in Swift types. No function here raises a Lua error unless memory runs out, because an
/// error would jump over Swift's frames.
struct LuaStack {
    let state: OpaquePointer

    var count: Int32 { lua_gettop(state) }

    func drop(_ count: Int32 = 1) { lua_settop(state, -count - 1) }

    /// Reserves space for this many more values. Returns whether that succeeded.
    func reserve(_ count: Int) -> Bool { lua_checkstack(state, Int32(clamping: count)) != 0 }

    func type(_ index: Int32) -> Int32 { lua_type(state, index) }

    // MARK: Pushing

    func push(_ bytes: Bytes) {
        bytes.storage.withUnsafeBufferPointer { buffer in
            buffer.withMemoryRebound(to: CChar.self) { lua_pushlstring(state, $0.baseAddress, $0.count) }
        }
    }

    func push(_ text: String) { push(Bytes(text)) }

    func push(_ text: StaticString) {
        text.withUTF8Buffer { buffer in
            buffer.withMemoryRebound(to: CChar.self) { lua_pushlstring(state, $0.baseAddress, $0.count) }
        }
    }

    func push(_ number: Double) { lua_pushnumber(state, number) }

    func push(_ value: Bool) { lua_pushboolean(state, value ? 1 : 0) }

    func pushArray(_ strings: some Collection<Bytes>) {
        lua_createtable(state, Int32(clamping: strings.count), 0)
        var index: Int32 = 0
        for string in strings {
            index += 1
            push(string)
            lua_rawseti(state, -2, index)
        }
    }

    /// Pushes a table with one field.
    func pushTable(_ name: StaticString, _ value: Bytes) {
        lua_createtable(state, 0, 1)
        push(value)
        setField(name)
    }

    /// Moves the top value into the table below it.
    func setField(_ name: StaticString) {
        push(name)
        lua_insert(state, -2)
        lua_rawset(state, -3)
    }

    /// Pushes an error in the form that Redis's own functions raise: a table with the text.
    ///
    /// - Parameter text: an error code and a message.
    func pushError(_ text: Bytes) { pushTable("err", text) }

    // MARK: Reading

    /// Returns a string, or a number in Lua's format; `nil` for other types.
    func bytes(_ index: Int32) -> Bytes? {
        var length = 0
        guard let start = lua_tolstring(state, index, &length) else { return nil }
        return Bytes(Array(UnsafeRawBufferPointer(start: start, count: length)))
    }

    /// Returns an argument of `redis.call`. A number is formatted with all its digits.
    func argument(_ index: Int32) -> Bytes? {
        type(index) == LUA_TNUMBER ? Bytes(lua_tonumber(state, index)) : bytes(index)
    }

    /// Returns a string field of the table at `index`.
    func field(_ name: StaticString, of index: Int32) -> Bytes? {
        pushField(name, of: index)
        defer { drop() }
        return type(-1) == LUA_TSTRING ? bytes(-1) : nil
    }

    /// Pushes a field of the table at `index`, counted from the top.
    func pushField(_ name: StaticString, of index: Int32) {
        push(name)
        lua_rawget(state, index - 1)
    }
}

/// Conversion of replies to Lua values, and of a script's value to a reply.
extension LuaStack {
    func push(_ reply: Reply) {
        // No reply is nested deeply enough to make this fail.
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

    /// Pops the top value and converts it to a reply.
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

    /// Converts a number to an integer as C does on the platforms of Redis.
    private static func truncated(_ number: Double) -> Int64 {
        Int64(exactly: number.rounded(.towardZero)) ?? .min
    }
}
