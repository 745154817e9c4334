internal import CLua

/// The libraries that scripts can use: Lua's own except those for files and processes, cjson, cmsgpack and `redis`.
enum ScriptLibraries {
    /// The error handler, which adds the line of an error to its message, as in Redis.
    private static let errorHandler = """
        local dbg = debug
        debug = nil
        function __redis__err__handler(err)
          local i = dbg.getinfo(2,'nSl')
          if i and i.what == 'C' then
            i = dbg.getinfo(3,'nSl')
          end
          if type(err) ~= 'table' then
            err = {err='ERR ' .. tostring(err)}
          end
          if i then
            err['source'] = i.source
            err['line'] = i.currentline
          end
          return err
        end
        """

    /// Fills the globals. Returns the registry references of the globals and the error handler.
    static func open(in lua: LuaStack) -> (globals: Int32, errorHandler: Int32) {
        let state = lua.state
        let libraries: [(StaticString, LuaFunction)] = [
            ("", luaopen_base), ("table", luaopen_table), ("string", luaopen_string), ("math", luaopen_math),
            ("debug", luaopen_debug),
        ]
        for (name, open) in libraries {
            lua_pushcclosure(state, open, 0)
            lua.push(name)
            lua_call(state, 1, 0)
        }
        lua_pushvalue(state, LUA_GLOBALSINDEX)
        lua_pushcclosure(state, luaopen_cjson, 0)
        lua_call(state, 0, 1)
        lua.setField("cjson")
        for name: StaticString in ["dofile", "loadfile", "print"] {
            lua_pushnil(state)
            lua.setField(name)
        }
        luaL_loadbuffer(state, errorHandler, errorHandler.utf8.count, "@err_handler_def")
        lua_call(state, 0, 0)
        lua.pushField("__redis__err__handler", of: -1)
        let handler = luaL_ref(state, LUA_REGISTRYINDEX)
        return (luaL_ref(state, LUA_REGISTRYINDEX), handler)
    }

    /// Adds the Swift functions and makes the globals read-only for scripts.
    static func register(engine: UnsafeMutableRawPointer, in lua: LuaStack, globals: Int32) {
        let state = lua.state
        /// Adds a function to the table on top of the stack.
        func add(_ name: StaticString, _ function: @escaping LuaFunction) {
            lua_pushcclosure(state, function, 0)
            lua_pushlightuserdata(state, engine)
            lua_pushcclosure(state, lua_call_and_raise, 2)
            lua.setField(name)
        }
        lua_rawgeti(state, LUA_REGISTRYINDEX, globals)
        add("pcall", ScriptFunctions.protectedCall)

        lua_createtable(state, 0, 16)
        add("call", ScriptFunctions.call)
        add("pcall", ScriptFunctions.callReturningErrors)
        add("error_reply", ScriptFunctions.errorReply)
        add("status_reply", ScriptFunctions.statusReply)
        add("sha1hex", ScriptFunctions.sha1hex)
        add("log", ScriptFunctions.log)
        let levels: [StaticString] = ["LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING"]
        for (level, name) in levels.enumerated() {
            lua.push(Double(level))
            lua.setField(name)
        }
        lua.push(SimulatedServer.version)
        lua.setField("REDIS_VERSION")
        lua.setField("redis")

        lua_createtable(state, 0, 2)
        add("pack", ScriptFunctions.pack)
        add("unpack", ScriptFunctions.unpack)
        lua.setField("cmsgpack")

        lua.pushField("math", of: -1)
        add("random", ScriptFunctions.random)
        add("randomseed", ScriptFunctions.seedRandom)
        lua.drop()

        // Scripts see an empty table in front of the globals, which rejects writes.
        lua_createtable(state, 0, 1)
        add("__index", ScriptFunctions.refuseUnknownGlobal)
        lua_setmetatable(state, -2)
        lua_createtable(state, 0, 0)
        lua_createtable(state, 0, 2)
        lua_pushvalue(state, -3)
        lua.setField("__index")
        add("__newindex", ScriptFunctions.refuseNewGlobal)
        lua_setmetatable(state, -2)
        lua_pushvalue(state, -1)
        lua_replace(state, LUA_GLOBALSINDEX)
        lua.setField("_G")
        lua_settop(state, 0)
    }
}
