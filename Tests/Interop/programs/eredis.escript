%% Erlang's eredis, which sends AUTH "KEY" as an inline command.
main([Port, Key]) ->
    [Lib] = filelib:wildcard("/usr/lib/erlang/lib/redis_client-*/ebin"),
    true = code:add_path(Lib),
    Connect = fun() -> {ok, C} = eredis:start_link("127.0.0.1", list_to_integer(Port), 0, Key), C end,
    One = Connect(),
    Other = Connect(),
    {ok, Pong} = eredis:q(One, ["PING"]),
    {ok, Lease} = eredis:q(One, ["LOCK.ACQUIRE", "orders", "30000"]),
    {ok, Held} = eredis:q(Other, ["LOCK.ACQUIRE", "orders", "30000"]),
    {ok, Released} = eredis:q(One, ["LOCK.RELEASE", "orders", hd(Lease)]),
    {ok, [Limited | _]} = eredis:q(One, ["LIMIT.TAKE", "catalog"]),
    {error, Error} = eredis:q(One, ["LOCK.ACQUIRE", "orders"]),
    Nil = case Held of undefined -> "nil"; _ -> "not nil" end,
    io:format("~s~n~b~n~s~n~s~n~s~n~s~n", [Pong, length(Lease), Nil, Released, Limited, hd(string:split(Error, " "))]).
