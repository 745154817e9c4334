// Lua 5.1 as Swift sees it, and the JSON library that Redis offers its scripts.
#pragma once

// lua_State, the stack, lua_pcall, lua_error.
#include <lua5.1/lua.h>
// luaL_newstate, luaL_loadbuffer, luaL_ref.
#include <lua5.1/lauxlib.h>
// luaopen_base, luaopen_string, luaopen_table, luaopen_math, luaopen_debug.
#include <lua5.1/lualib.h>

// Opens cjson; Debian's own header of it is for C++.
int luaopen_cjson(lua_State *state);

// A function of Lua around one of Swift, its first upvalue, that raises what lies on top of the stack when that returns a
// negative number. `lua_error` jumps over frames without unwinding them: here all of them are C's.
static inline int lua_call_and_raise(lua_State *state) {
    int results = lua_tocfunction(state, lua_upvalueindex(1))(state);
    return results < 0 ? lua_error(state) : results;
}
