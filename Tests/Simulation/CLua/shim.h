// Lua 5.1 for Swift, and the JSON library of Redis's scripts.
#pragma once

// lua_State, the stack, lua_pcall, lua_error.
#include <lua5.1/lua.h>
// luaL_newstate, luaL_loadbuffer, luaL_ref.
#include <lua5.1/lauxlib.h>
// luaopen_base, luaopen_string, luaopen_table, luaopen_math, luaopen_debug.
#include <lua5.1/lualib.h>

// Opens cjson. Debian's header for it is C++ only.
int luaopen_cjson(lua_State *state);

// Calls a Swift function, the first upvalue. If it returns a negative number, the top value is raised as an error.
// `lua_error` jumps over frames without unwinding them; all frames here are C.
static inline int lua_call_and_raise(lua_State *state) {
    int results = lua_tocfunction(state, lua_upvalueindex(1))(state);
    return results < 0 ? lua_error(state) : results;
}
