internal import CLua

typealias LuaFunction = @Sendable @convention(c) (OpaquePointer?) -> Int32

/// Functions that Lua calls. Each returns the number of values that it pushed, or -1 to raise the top value as an
/// error; see `lua_call_and_raise`. The second upvalue is the engine.
enum ScriptFunctions {
    // MARK: redis

    static let call: LuaFunction = { state in command(state, raises: true) }

    static let callReturningErrors: LuaFunction = { state in command(state, raises: false) }

    private static func command(_ state: OpaquePointer?, raises: Bool) -> Int32 {
        guard let stack = LuaStack(state) else { return 0 }
        let count = stack.count
        var arguments: [Bytes] = []
        arguments.reserveCapacity(Int(count))
        for index in 0..<count {
            guard let argument = stack.argument(index + 1) else { break }
            arguments.append(argument)
        }
        // Makes space for the reply.
        stack.drop(count)
        let isError: Bool
        if count == 0 {
            stack.pushError("ERR Please specify at least one argument for this redis lib call")
            isError = true
        } else if arguments.count < count {
            stack.pushError("ERR Lua redis lib command arguments must be strings or integers")
            isError = true
        } else {
            isError = stack.engine.call(arguments, replyTo: stack)
        }
        return isError && raises ? -1 : 1
    }

    static let errorReply: LuaFunction = { state in
        guard let stack = LuaStack(state) else { return 0 }
        guard stack.count == 1, stack.type(1) == LUA_TSTRING, let text = stack.bytes(1) else {
            stack.pushError("ERR wrong number or type of arguments")
            return 1
        }
        stack.pushError(normalized(text))
        return 1
    }

    /// Returns an error as a code and a message. A single word becomes the message of an `ERR`.
    private static func normalized(_ text: Bytes) -> Bytes {
        let words = (text.storage.first == UInt8(ascii: "-") ? text.storage.dropFirst() : text.storage[...])
            .prefix { $0 != 0 }
        let isLineBreak: (UInt8) -> Bool = { $0 == 10 || $0 == 13 }
        var (code, message) = (ArraySlice("ERR".utf8), words)
        if let space = words.firstIndex(of: UInt8(ascii: " ")) {
            (code, message) = (words[..<space], words[(space + 1)...])
        }
        message = message.drop(while: isLineBreak)
        while let last = message.last, isLineBreak(last) { message.removeLast() }
        return Bytes(code + [UInt8(ascii: " ")] + message)
    }

    static let statusReply: LuaFunction = { state in
        guard let stack = LuaStack(state) else { return 0 }
        guard stack.count == 1, stack.type(1) == LUA_TSTRING, let text = stack.bytes(1) else {
            stack.pushError("ERR wrong number or type of arguments")
            return 1
        }
        stack.pushTable("ok", text)
        return 1
    }

    static let sha1hex: LuaFunction = { state in
        guard let stack = LuaStack(state) else { return 0 }
        guard stack.count == 1 else {
            stack.pushError("ERR wrong number of arguments")
            return -1
        }
        stack.push(ScriptEngine.digest(of: stack.bytes(1) ?? ""))
        return 1
    }

    /// Validates the arguments of `redis.log` and discards the message.
    static let log: LuaFunction = { state in
        guard let stack = LuaStack(state) else { return 0 }
        guard stack.count >= 2 else {
            stack.pushError("ERR redis.log() requires two arguments or more.")
            return -1
        }
        guard lua_isnumber(state, 1) != 0 else {
            stack.pushError("ERR First argument must be a number (log level).")
            return -1
        }
        guard (0...3).contains(lua_tointeger(state, 1)) else {
            stack.pushError("ERR Invalid debug level.")
            return -1
        }
        return 0
    }

    // MARK: Globals

    /// The global `pcall`, which returns an error's text if the error is a table.
    static let protectedCall: LuaFunction = { state in
        guard let stack = LuaStack(state) else { return 0 }
        let count = stack.count
        stack.push(true)
        lua_insert(state, 1)
        // Errors reach this call only over frames of Lua and C, never over Swift's.
        guard lua_pcall(state, max(0, count - 1), LUA_MULTRET, 0) != 0 else { return stack.count }
        lua_remove(state, 1)
        if stack.type(-1) == LUA_TTABLE {
            stack.pushField("err", of: -1)
            if lua_isstring(state, -1) != 0 { lua_replace(state, -2) } else { stack.drop() }
        }
        stack.push(false)
        lua_insert(state, 1)
        return stack.count
    }

    /// Raises the error for reading an undefined global variable.
    static let refuseUnknownGlobal: LuaFunction = { state in
        guard let stack = LuaStack(state) else { return 0 }
        let name = stack.bytes(2)?.text ?? ""
        return stack.raise("Script attempted to access nonexistent global variable '\(name)'")
    }

    /// Raises the error for writing a global variable.
    static let refuseNewGlobal: LuaFunction = { state in
        LuaStack(state)?.raise("Attempt to modify a readonly table") ?? 0
    }

    // MARK: math

    static let random: LuaFunction = { state in
        guard let stack = LuaStack(state) else { return 0 }
        let count = stack.count
        guard count <= 2 else { return stack.raise("wrong number of arguments") }
        for index in 0..<count where lua_isnumber(state, index + 1) == 0 {
            return stack.raise(
                "bad argument #\(index + 1) to 'random' (number expected, got \(stack.typeName(index + 1)))")
        }
        let fraction = stack.engine.random.next()
        guard count > 0 else {
            stack.push(fraction)
            return 1
        }
        let low = count == 2 ? lua_tonumber(state, 1).rounded(.towardZero) : 1
        let high = lua_tonumber(state, count).rounded(.towardZero)
        guard low <= high else { return stack.raise("bad argument #\(count) to 'random' (interval is empty)") }
        stack.push((fraction * (high - low + 1)).rounded(.down) + low)
        return 1
    }

    static let seedRandom: LuaFunction = { state in
        guard let stack = LuaStack(state) else { return 0 }
        guard lua_isnumber(state, 1) != 0 else {
            return stack.raise("bad argument #1 to 'randomseed' (number expected, got \(stack.typeName(1)))")
        }
        stack.engine.random.seed(Int32(truncatingIfNeeded: lua_tointeger(state, 1)))
        return 0
    }

    // MARK: cmsgpack

    static let pack: LuaFunction = { state in
        guard let stack = LuaStack(state) else { return 0 }
        let count = stack.count
        guard count > 0 else { return stack.raise("bad argument #0 to 'pack' (MessagePack pack needs input.)") }
        var packer = MessagePacker(stack: stack)
        for index in 1...count {
            lua_pushvalue(state, index)
            packer.pack(level: 0)
        }
        stack.push(Bytes(packer.bytes))
        return 1
    }

    static let unpack: LuaFunction = { state in
        guard let stack = LuaStack(state) else { return 0 }
        guard let bytes = stack.bytes(1) else {
            return stack.raise("bad argument #1 to 'unpack' (string expected, got \(stack.typeName(1)))")
        }
        lua_settop(state, 1)
        var unpacker = MessageUnpacker(bytes, stack: stack)
        do throws(MessageUnpacker.Violation) {
            while !unpacker.isAtEnd { try unpacker.unpack() }
        } catch {
            return stack.raise(error.text)
        }
        return stack.count - 1
    }
}

extension LuaStack {
    fileprivate init?(_ state: OpaquePointer?) {
        guard let state else { return nil }
        self.state = state
    }

    /// The engine of the running function.
    fileprivate var engine: ScriptEngine {
        guard let pointer = lua_touserdata(state, LUA_GLOBALSINDEX - 2) else { fatalError("a function without its engine") }
        // Safe because the engine owns the state and therefore exists. `register` passed its pointer to every function.
        return Unmanaged.fromOpaque(pointer).takeUnretainedValue()
    }

    /// Pushes an error with the caller's line. Returns the value that raises it.
    fileprivate func raise(_ message: String) -> Int32 {
        luaL_where(state, 1)
        push(message)
        lua_concat(state, 2)
        return -1
    }

    fileprivate func typeName(_ index: Int32) -> String {
        type(index) == LUA_TNONE ? "no value" : String(cString: lua_typename(state, type(index)))
    }
}
