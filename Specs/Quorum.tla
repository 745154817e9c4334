---------------------------------------------------- MODULE Quorum ----------------------------------------------------
\* An exclusive lock on a majority of independent Redis servers. Each script call is one atomic action on one server. A
\* call that was sent runs at any later time, in any order, or never. Times are relative: a Tick shortens them all.
EXTENDS QuorumScripts, FiniteSets, TLC
CONSTANTS Servers, Attempts, \* Attempts: the acquire calls; with "retry", one that gave up begins again
  Shared,  \* the attempts with one token, which their owner chose; each other attempt has a token of its own
  Renewing, Releasing, Stopping, \* the attempts whose callers renew, may release, may disappear
  Ahead,   \* the servers whose time of day is ahead, which matters only for the numbers that they mint
  Ttl, Drift, Window,  \* ticks: of a lease; by which a fast clock may end it early; within which a restore may run
  MaxWipes, MaxBreaks, \* the number of restarts without data; of calls that break the lock on one server
  MaxNumber, Guards, Assumptions \* an even limit for numbers; the safeguards in force; the environment's promises
VARIABLES srv, \* server -> [tok, left, num, away]: the lock's token and its ticks, its number, ticks until it is up
  att, \* attempt -> [st, left: ticks of validity, vote: server -> reply, or call in flight, fence, rel: servers with
       \* a release in flight]; of its last renewal rleft, rvote, rf: the fence to restore, <= 0 before a majority
  env  \* [fence, by: the highest granted and its token; calm: ticks since a restart; wipes, breaks; the promises kept]
vars == <<srv, att, env>>          Token(a) == IF a \in Shared THEN "owner" ELSE a
Has(x) == x \in Guards \cup Assumptions             Min(x, y) == -Max(-x, -y)
Most(set) == CHOOSE n \in set : \A m \in set : m <= n     IsMajority(set) == 2 * Cardinality(set) > Cardinality(Servers)
All(x) == [s \in Servers |-> x]     In(vote, kinds) == {s \in Servers : vote[s][1] \in kinds}
Clear(vote, kinds) == [s \in Servers |-> IF vote[s][1] \in kinds THEN vote[s] ELSE <<"end", 0>>]
Clock(s) == IF Has("clocks_agree") THEN Most({env.fence} \cup {srv[r].num : r \in Servers}) + 1
            ELSE IF s \in Ahead THEN 8 ELSE 0
Valid == IF Has("drift") THEN Ttl - Drift ELSE Ttl
Mint(s, k) == Min(Minted(IF Has("mint_above_last") THEN k.num ELSE 0, Clock(s)), MaxNumber)
Idle == [st |-> "idle", left |-> 0, vote |-> All(<<"-", 0>>), fence |-> 0, rel |-> {}, rleft |-> 0,
         rvote |-> All(<<"-", 0, 0>>), rf |-> 0]
Init == /\ srv = All([tok |-> None, left |-> 0, num |-> 0, away |-> 0]) /\ att = [a \in Attempts |-> Idle]
        /\ env = [fence |-> 0, by |-> None, calm |-> Ttl, wipes |-> 0, breaks |-> 0, rises |-> TRUE, same |-> TRUE,
                  honest |-> TRUE, kept |-> TRUE]
Unfenced(v) == In(v.vote, IF v.fence > 0 THEN {"fence", "granted", "renewed"} ELSE {}) \* ---- An attempt
Round(a, v, now, waits) == \* QuorumRound.swift: the next state of attempt v after a reply, or when it waits no longer
  LET yes == In(v.vote, {"granted", "renewed"})  open == IF waits THEN In(v.vote, {"out"}) ELSE {}
      done == In(v.vote, {"done"})  numbers == {v.vote[s][2] : s \in yes}
      agreed == {n \in numbers : Odd(n) /\ IsMajority({s \in yes : v.vote[s] = <<"renewed", n>>})}
      top == IF Has("highest_number") THEN Most(numbers) ELSE CHOOSE n \in numbers : \A m \in numbers : n <= m
      enough(set) == IsMajority(set) \/ (~Has("majority") /\ set # {})  valid == v.left > 0 \/ ~Has("validity")
      gaveUp == [v EXCEPT !.st = "gaveup", !.left = 0, !.vote = Clear(v.vote, {"out", "fence"}),
        !.fence = IF In(v.vote, {"fence"}) = {} THEN 0 ELSE @, \* a release that can change nothing is left out
        !.rel = {s \in Servers \ In(v.vote, {"held"}) : a \in Shared \cup Renewing \/ now[s].tok = Token(a)}]
  IN CASE v.st = "ask" /\ valid /\ enough(yes) -> IF agreed = {} /\ a \in Shared /\ open # {} THEN v ELSE
            [v EXCEPT !.st = "record", !.fence = IF agreed # {} THEN Most(agreed) ELSE MakeOdd(top),
                      !.vote = [s \in Servers |-> IF s \in yes THEN <<"fence", @[s][2]>> ELSE @[s]]]
       [] v.st = "ask" -> IF valid /\ IsMajority(yes \cup open) THEN v ELSE gaveUp
       [] v.st = "record" /\ valid /\ (enough(done) \/ ~Has("record_fence")) ->
            [v EXCEPT !.st = "granted", !.left = IF Has("validity") THEN @ ELSE Valid,
                      !.vote = Clear(@, {"out", "fence", "granted", "renewed"})]
       [] v.st = "record" -> IF valid /\ waits /\ IsMajority(done \cup open \cup Unfenced(v)) THEN v ELSE gaveUp
       [] OTHER -> v
SaysHeld(v) == \* whether the answer after giving up is "held"; also after the last retry if attempts only collided
  LET held == In(v.vote, {"held"}) IN v.st = "ask" /\ held # {} /\ (~Has("held_majority") \/ ~IsMajority(Servers \ held)
    \/ ((\E s \in held : v.vote[s][2] = 0) /\ IsMajority(In(v.vote, {"held", "granted", "renewed"}))))
Become(a, v, w) == \* attempt a becomes w, after the replies in v; env keeps what its caller is answered
  LET granted == v.st # "granted" /\ w.st = "granted"  higher == w.fence > env.fence
  IN att' = [att EXCEPT ![a] = w] /\ env' = [env EXCEPT
    !.honest = @ /\ (w.st = "gaveup" /\ SaysHeld(v) => IsMajority(Servers \ In(v.vote, {"out"}))),
    !.kept = @ /\ w.rleft # -1, !.fence = IF granted THEN Max(@, w.fence) ELSE @,
    !.rises = @ /\ (granted => higher \/ env.by = Token(a)), !.by = IF granted /\ higher THEN Token(a) ELSE @,
    !.same = @ /\ (granted => w.fence >= env.fence \/ env.by # Token(a))]
Call(a, s, r, v) == srv[s].away = 0 /\ srv' = [srv EXCEPT ![s] = r[1]] /\ Become(a, v, Round(a, v, srv', TRUE))
End(a, st, rel) == [att[a] EXCEPT !.st = st, !.left = 0, !.rel = rel]
Only(a, v) == att' = [att EXCEPT ![a] = v] /\ UNCHANGED <<srv, env>>
Begin(a) == att[a].st = "idle" /\ Only(a, [Idle EXCEPT !.st = "ask", !.left = Valid, !.vote = All(<<"out", 0>>)])
Acquire(a, s) == \* quorum-acquire.lua; a grant that comes after the attempt failed is given back
  LET r == AcquireScript(srv[s], Token(a), Ttl, "take", Mint(s, srv[s])) IN att[a].vote[s][1] = "out" /\ Call(a, s, r,
    IF att[a].st # "gaveup" THEN [att[a] EXCEPT !.vote[s] = <<r[2][1], r[2][2]>>]
    ELSE [att[a] EXCEPT !.vote[s] = <<"end", 0>>, !.rel = IF r[2][1] = "held" THEN @ ELSE @ \cup {s}])
Fence(a, s) == \* quorum-fence.lua
  LET v == att[a]  r == FenceScript(srv[s], Token(a), v.fence, Ttl, <<v.vote[s][2]>>) IN s \in Unfenced(v) /\
    Call(a, s, r, [v EXCEPT !.vote[s] = <<IF r[2] > 0 /\ v.st = "record" THEN "done" ELSE "end", 0>>])
TimeOut(a) == \* replies may be late; with "patient", only servers that are down do not reply
  /\ att[a].st \in {"ask", "record"} /\ (Has("patient") => \A s \in In(att[a].vote, {"out", "fence"}) : srv[s].away > 0)
  /\ UNCHANGED srv /\ Become(a, att[a], Round(a, att[a], srv, FALSE))
Release(a) == a \in Releasing /\ att[a].st = "granted" /\ Only(a, End(a, "released", Servers))
GiveBack(a, s) == \* quorum-release.lua
  LET only == IF att[a].st # "gaveup" THEN att[a].fence ELSE IF a \in Shared /\ Has("unrecorded_only") THEN -1 ELSE 0
      t == IF Has("release_own") THEN Token(a) ELSE srv[s].tok
  IN s \in att[a].rel /\ Call(a, s, ReleaseScript(srv[s], t, only), [att[a] EXCEPT !.rel = @ \ {s}])
Stop(a) == a \in Stopping /\ att[a].st # "stopped" /\ Only(a, End(a, "stopped", {}))
BeginRenewal(a) == \* ---- A renewal (QuorumRenewalAttempt.swift); the calls of the last one have run or are lost
  /\ a \in Renewing /\ att[a].st = "granted" /\ att[a].left > 0 /\ (Has("prompt") => att[a].rleft < Valid)
  /\ Only(a, [att[a] EXCEPT !.rleft = Valid, !.rvote = All(<<"out", 0, 0>>), !.rf = IF @ = 0 THEN 0 ELSE -1])
Renewed(v) == \* QuorumRenewal.swift; rleft becomes -1 if the renewal is answered "lost"
  LET yes == In(v.rvote, {"renewed"}) IN
  IF v.rf <= 0 /\ v.rleft > 0 /\ (IsMajority(yes) \/ (~Has("restore_majority") /\ yes # {}))
  THEN [v EXCEPT !.rf = v.fence, !.left = IF v.st = "granted" THEN v.rleft ELSE 0]
  ELSE IF v.rf <= 0 /\ v.st = "granted" /\ v.left > 0 /\ ~IsMajority(Servers \ In(v.rvote, {"missing"}))
  THEN [v EXCEPT !.left = 0, !.rleft = -1] ELSE v
Renew(a, s) == \* quorum-renew.lua
  LET r == RenewScript(srv[s], Token(a), Ttl, att[a].fence) IN
  att[a].rvote[s][1] = "out" /\ Call(a, s, r, Renewed([att[a] EXCEPT !.rvote[s] = r[2]]))
Lacking(a) == {s \in In(att[a].rvote, {"missing", "renewed"}) : att[a].rf > 0 /\ Has("restore") /\
                (att[a].rvote[s][1] = "missing" \/ att[a].rvote[s][2] # att[a].rf)}
Restore(a, s) == \* quorum-fence.lua; replies -1 and runs again while another attempt has the lock
  LET r == FenceScript(srv[s], Token(a), att[a].rf, Ttl, <<att[a].rvote[s][2], att[a].rvote[s][3], Window>>) IN
  s \in Lacking(a) /\ r[2] # -1 /\ Call(a, s, r, [att[a] EXCEPT !.rvote[s] = <<"end", 0, 0>>])
Open(a) == att[a].rel \cup In(att[a].vote, {"out"}) \cup Unfenced(att[a]) \* ---- Time and faults
Pending(a) == att[a].st # "stopped" /\
  (att[a].st \in {"ask", "record"} \/ (att[a].left > 0 /\ a \in Renewing /\ att[a].rleft < Valid) \/
   \E s \in Servers : srv[s].away = 0 /\ (s \in Open(a) \cup In(att[a].rvote, {"out"}) \/
     (s \in Lacking(a) /\ srv[s].tok \in {None, Token(a)})))
Aged(x) == IF x[1] \in {"missing", "renewed"} THEN <<x[1], x[2], Min(x[3] + 1, Window + 1)>> ELSE x
Tick == \* with "prompt", calls to servers that are up take less than a tick, and every tick each lease is renewed
  /\ Has("prompt") => \A a \in Attempts : ~Pending(a)
  /\ srv' = [s \in Servers |-> LET k == IF srv[s].left > 1 THEN srv[s] ELSE Free(srv[s])
                               IN [k EXCEPT !.left = Max(@ - 1, 0), !.away = Max(@ - 1, 0)]]
  /\ att' = [a \in Attempts |-> LET v == att[a] IN 
      IF Has("retry") /\ Open(a) = {} /\ v.st = "gaveup" /\ a \notin Stopping THEN Idle ELSE
      [v EXCEPT !.left = Max(@ - 1, 0), !.rleft = Max(@ - 1, 0), !.rvote = [s \in Servers |-> Aged(@[s])]]]
  /\ env' = [env EXCEPT !.calm = Min(@ + 1, Ttl)]
Early(s) == srv[s].left \in 1..Drift /\ srv' = [srv EXCEPT ![s] = Free(@)] /\ UNCHANGED <<att, env>>
Wipe(s) == \* restarts without data; "stay_down": a TTL later; "one_at_a_time": each TTL one, after leases were renewed
  /\ IF ~Has("one_at_a_time") THEN env.wipes < MaxWipes ELSE env.calm = Ttl /\ \A a \in Renewing :
       att[a].st \notin {"ask", "record"} /\ (att[a].left = 0 \/ att[a].rf = -1)
  /\ srv' = [srv EXCEPT ![s] = [tok |-> None, left |-> 0, num |-> 0, away |-> IF Has("stay_down") THEN Ttl ELSE 0]]
  /\ env' = [env EXCEPT !.wipes = IF Has("one_at_a_time") THEN @ ELSE @ + 1, !.calm = 0] /\ UNCHANGED att
Break(s, t) == env.breaks < MaxBreaks /\ srv[s].away = 0 /\ srv' = [srv EXCEPT ![s] = BreakScript(@, t)[1]]
               /\ env' = [env EXCEPT !.breaks = @ + 1] /\ UNCHANGED att
Calls(a) == \E s \in Servers : Acquire(a, s) \/ Fence(a, s) \/ GiveBack(a, s) \/ Renew(a, s) \/ Restore(a, s)
Next == \/ Tick \/ \E s \in Servers : Early(s) \/ Wipe(s) \/ Break(s, None)
        \/ \E a \in Attempts : Begin(a) \/ TimeOut(a) \/ Release(a) \/ BeginRenewal(a) \/ Stop(a) \/ Calls(a)
Spec == Init /\ [][Next]_vars
Fair == Spec /\ WF_vars(Tick \/ \E a \in Attempts : TimeOut(a) \/ Calls(a)) /\ \A a \in Attempts : WF_vars(Begin(a))
Believes(a) == /\ att[a].st = "granted" /\ att[a].left > 0 \* and no other attempt of the owner has released the lease
               /\ ~\E b \in Attempts : att[b].st = "released" /\ Token(b) = Token(a) /\ att[b].fence = att[a].fence
MutualExclusion == \A a, b \in Attempts : Believes(a) /\ Believes(b) => Token(a) = Token(b) \* ---- Promises
FencesRise == env.rises            OwnersFencesRise == env.same \* above those of other tokens; not below its own
UnavailableNotHeld == env.honest   NoRenewedLeaseLost == env.kept
OneAcquires == <>(\E a \in Attempts : att[a].st = "granted") \* not a promise: attempts may split the servers each time
OtherAcquires == \A b \in Stopping : \A a \in Attempts \ {b} : att[b].st = "stopped" ~> att[a].st = "granted"
Symmetry == Permutations(Shared) \cup Permutations(Attempts \ Shared) \cup Permutations(Servers \ Ahead)
=======================================================================================================================
