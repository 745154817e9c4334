---- MODULE Breaker ----
\* The circuit breaker of one service, which sidecars share through Redis. Each action below "The scripts" is one call
\* of an operator of BreakerScripts, to which this module adds sidecars, time and faults. Times are the ticks that
\* remain, so they need no bound: Tick shortens all of them. A sidecar measures ends by its own clock and reports them
\* with its calls ("over"). A jump of Redis's clock is longer than any permit or vote. Only the order of generations
\* counts.
EXTENDS BreakerScripts, TLC
CONSTANTS Sidecars, Live, \* the fleet; the sidecars that never stop for good
  Permits, Reporters, Quorum, \* the trials of a half-open breaker; the sidecars that must report failures, an outage
  OpenFor, OpenMax, ForcedFor, Life, Lapse, \* ticks: open time, its limit, forced state, trial permit, outage and vote
  MaxChanges, MaxFaults, \* after MaxChanges generations nothing fails and operators rest; the number of faults
  Uses, \* the scripts in use, of: report, vote, trip, down, force
  Faults \* wipe, failover, restart, forward, back, early (before sidecars know Redis's state)
VARIABLES redis, replica, \* the keys: see BreakerScripts
  view, \* by sidecar [h: its copy of the hash, own: whether its own clock measures the ends rightly]
  runs, \* the trials that sidecars run: [s, gen, left]
  micros, healthy, faults, \* Redis's clock for generations; whether the service is back for good; the faults so far
  log \* history: issued generations, decisions <<generation acted on, new one>>, the operator's last order, streak
vars == <<redis, replica, view, runs, micros, healthy, faults, log>>
Inf == 99  Alike == Permutations(Sidecars)
Voters == {"failures", "outage"} \X Sidecars
Hash(g) == [st |-> "closed", cause |-> "none", gen |-> g, left |-> NoEnd, forced |-> "no", fleft |-> NoEnd,
  streak |-> 0, since |-> 0, trips |-> 0, lapse |-> 0, by |-> "", reason |-> "", sums |-> NoSums,
  num |-> TRUE] \* whether the ends fit Redis's clock; the fields from since to sums are not modeled
Keys(g) == [NoKeys(Sidecars, Voters) EXCEPT !.h = Hash(g)]
NoOrder == [gen |-> 0, left |-> 0]  V(s) == view[s].h
Init == /\ redis = Keys(1) /\ replica = Keys(1) /\ view = [s \in Sidecars |-> [h |-> Hash(1), own |-> TRUE]]
  /\ runs = {} /\ micros = 1 /\ healthy = FALSE /\ faults = 0
  /\ log = [issued |-> <<1>>, acted |-> {}, order |-> NoOrder, streak |-> 0]
\* A call of sidecar s: its copy, the generation e that it expects, the ends that it reports, the random step. A
\* sidecar that found a state after a jump waits until those that measured the state have corrected the end.
Claims(s, end, is) == IF ~is \/ end = NoEnd THEN {FALSE} ELSE IF view[s].own THEN {end = 0}
  ELSE IF G("grace") /\ \E t \in Sidecars : view[t].own /\ V(t).gen = V(s).gen THEN {end = 0} ELSE BOOLEAN
Call(s, e) == {[NoCall EXCEPT !.origin = s, !.id = s, !.knows = TRUE, !.known = V(s), !.expect = e,
    !.at_least = V(s).gen, !.over = o, !.forced_over = f, !.random = x, !.cause = "failures", !.open_min = OpenFor,
    !.open_max = OpenMax, !.lapse = Lapse, !.reporters = Reporters, !.permits = Permits, !.lifetime = Life,
    !.quorum = Quorum] :
  o \in Claims(s, V(s).left, V(s).st = "open"), f \in Claims(s, V(s).fleft, V(s).forced # "no"),
  x \in IF "back" \in Faults /\ G("random_step") THEN {0, 1} ELSE {0}}
\* The call as it reaches the hash h: an end is known by its state; a clock ahead of the last generation is ahead by
\* more than any random step. Steps that equal each other or the clock by chance are left out.
Same(h, k) == G("known_end") => h.gen = k.gen /\ h.left = k.left /\ h.fleft = k.fleft /\ h.num = k.num
Issued == {log.issued[i] : i \in DOMAIN log.issued}  More == Len(log.issued) < MaxChanges
Unissued(n) == IF ~G("random_step") THEN n
  ELSE CHOOSE m \in n..(n + Len(log.issued)) : m \notin Issued /\ n..(m - 1) \subseteq Issued
At(c, h) == LET same == Same(h, c.known)  first == h.gen + 1 + c.random  timed == G("generation_from_clock") IN
  [c EXCEPT !.until = If(same, h.left, Unknown), !.forced_until = If(same, h.fleft, Unknown),
    !.clock = IF timed /\ micros >= h.gen THEN Unissued(micros + 1) ELSE 0,
    !.random = IF ~timed THEN @ ELSE IF micros >= h.gen THEN 0 ELSE @ + Unissued(first) - first]
C(c) == At(c, redis.h)
Adopt(v, h) == IF h.gen > v.h.gen THEN [h |-> h, own |-> h.num] ELSE IF h.gen < v.h.gen THEN v
  ELSE [h |-> [h EXCEPT !.left = Max(@, v.h.left)], own |-> v.own \/ h.num]
RECURSIVE Logged(_, _)
Logged(l, changes) == IF changes = <<>> THEN l ELSE LET n == Head(changes) IN
  Logged([l EXCEPT !.issued = Append(@, n.gen), !.acted = IF n.on = 0 THEN @ ELSE @ \cup {<<n.on, n.gen>>},
    !.streak = IF n.st = "closed" THEN 0 ELSE IF n.cause = "failures" /\ n.st = "open" THEN Min(@ + 1, 3) ELSE @],
    Tail(changes))
\* The result of a script, without the fields that are not modeled. x is its [r, log, result].
Bounded(x) == [x.r EXCEPT !.h.trips = 0, !.h.lapse = 0, !.h.streak = Min(@, 3), !.h.num = @ \/ x.log # <<>>]
Reply(c, x, trials, order) == LET s == c.origin IN
  /\ redis' = Bounded(x) /\ log' = [Logged(log, x.log) EXCEPT !.order = order] /\ micros' = micros + Len(x.log)
  /\ runs' = trials /\ view' = [view EXCEPT ![s] = Adopt(@, redis'.h)] /\ UNCHANGED <<replica, healthy, faults>>
Runs(c, x) == Reply(c, x, runs, log.order)
\* The scripts.
Sync(c) == LET k == c.known  lost == Lost(redis, c)
    r == [redis EXCEPT !.h.num = @ \/ (redis.h.gen = k.gen /\ view[c.origin].own)] IN \* corrected after a jump
  Runs(c, SyncScript(r, At(c, IF lost THEN [k EXCEPT !.streak = If(G("restore_streak"), @, 0)] ELSE r.h)))
Report(c) == \* any report may trip
  Runs(c, ReportScript(redis, C(c), [window |-> NoWindow, sums |-> NoSums], "failures"))
Vote(c) == Runs(c, VoteScript(redis, C(c)))
Trip(c, cause) == Runs(c, TripScript(redis, [C(c) EXCEPT !.cause = cause]))
HalfOpen(c) == Runs(c, HalfOpenScript(redis, C(c)))
Trial(c) == LET x == TrialScript(redis, [C(c) EXCEPT !.expect = Any])  h == Adopt(view[c.origin], Bounded(x).h).h
    new == {t \in {[s |-> c.origin, gen |-> h.gen, left |-> Life]} : x.result = 1 /\ h.st = "half_open"} IN
  Reply(c, x, runs \cup new, log.order)
Outcome(c, t, o) == Reply(c, OutcomeScript(redis, [C(c) EXCEPT !.outcome = o]), runs \ {t}, log.order)
Close(c, cause) == Runs(c, CloseScript(redis, [C(c) EXCEPT !.cause = cause]))
Down(c) == Runs(c, DownScript(redis, [C(c) EXCEPT !.expect = Any]))
Up(c, trial) == Runs(c, UpScript(redis, [C(c) EXCEPT !.trial = trial]))
Force(c, f, left) == LET gen == If(G("at_least"), Max(redis.h.gen, c.known.gen), redis.h.gen)
    d == [At(c, [redis.h EXCEPT !.gen = gen]) EXCEPT
            !.state = f, !.for = If(G("whole_order"), left, 1), !.cause = "forced"]
    x == ForceScript(redis, d) IN
  Reply(c, x, runs, IF f = "auto" THEN NoOrder ELSE [gen |-> x.r.h.gen, left |-> If(left = NoEnd, Inf, left)])
\* When sidecars call which script.
Free(s) == V(s).forced = "no"  Reads(s) == \E c \in Call(s, V(s).gen) : Sync(c)
Fails(s) == ~healthy /\ More /\ \E c \in Call(s, V(s).gen) :
  \/ V(s).st = "closed" /\ (("report" \in Uses /\ Report(c)) \/ ("vote" \in Uses /\ Free(s) /\ Vote(c)))
  \/ (V(s).st = "closed" \/ V(s).cause = "limit") /\ "trip" \in Uses /\ Free(s) /\ Trip(c, "limit")
  \/ "down" \in Uses /\ Down(c)
Waits(s) == Free(s) /\ \E c \in Call(s, V(s).gen) : c.over /\ HalfOpen(c)
Tries(s) == /\ Free(s) /\ V(s).cause # "limit" /\ ~\E t \in runs : t.s = s /\ t.gen = V(s).gen
  /\ \E c \in Call(s, V(s).gen) : (V(s).st = "half_open" \/ c.over) /\ Trial(c)
Ended(s, o) == \E t \in runs : /\ t.s = s /\ (o # "ok" => ~healthy /\ More) /\ (G("current_trials") => t.gen = V(s).gen)
  /\ \E c \in Call(s, t.gen) : Outcome(c, t, o)
Room(s) == V(s).st # "closed" /\ \E c \in Call(s, V(s).gen) :
  (Free(s) /\ V(s).cause = "limit" /\ Close(c, "limit")) \/ (V(s).cause = "outage" /\ \E t \in BOOLEAN : Up(c, t))
Operator(s) == "force" \in Uses /\ More /\ \E c \in Call(s, V(s).gen) :
  (\E f \in {"open", "closed"}, left \in {ForcedFor, NoEnd} : Force(c, f, left)) \/ Force(c, "auto", NoEnd)
\* Time and faults. An order is void once neither Redis nor a sidecar remembers it.
Sub(n) == If(n \in {Inf, NoEnd}, n, Max(0, n - 1))  Less(f) == [s \in DOMAIN f |-> Sub(f[s])]
Older(h) == [h EXCEPT !.left = Sub(@), !.fleft = Sub(@)]
Aged(r) == [r EXCEPT !.h = Older(@), !.trials = If(G("lifetime"), Less(@), @), !.votes = Less(@)]
Tick == /\ redis' = Aged(redis) /\ replica' = Aged(replica) /\ UNCHANGED <<micros, healthy, faults>>
  /\ view' = [s \in Sidecars |-> [view[s] EXCEPT !.h = Older(@)]] /\ log' = [log EXCEPT !.order.left = Sub(@)]
  /\ runs' = {[t EXCEPT !.left = @ - 1] : t \in {t \in runs : t.left > 1}}
Fault(f) == f \in Faults /\ faults < MaxFaults /\ faults' = faults + 1 /\ UNCHANGED healthy
Forget == LET g == log.order.gen IN
  log' = [log EXCEPT !.order = If(redis'.h.gen = g \/ \E s \in Sidecars : view'[s].h.gen = g, @, NoOrder)]
Knows(s) == "early" \in Faults \/ (V(s).gen = redis.h.gen /\ view[s].own)
Lose == /\ (Fault("wipe") /\ redis' = Keys(0)) \/ (Fault("failover") /\ redis' = replica)
  /\ (\A s \in Sidecars : Knows(s)) /\ replica' = redis' /\ UNCHANGED <<view, runs, micros>> /\ Forget
Replicate == "failover" \in Faults /\ replica' = redis /\ UNCHANGED <<redis, view, runs, micros, healthy, faults, log>>
Restart(s) == Fault("restart") /\ (\E t \in Sidecars \ {s} : Knows(t)) /\ UNCHANGED <<redis, replica, micros>>
  /\ view' = [view EXCEPT ![s] = [h |-> Hash(0), own |-> TRUE]] /\ runs' = {t \in runs : t.s # s} /\ Forget
Shift(h) == [h EXCEPT !.num = @ /\ h.left \in {0, NoEnd} /\ h.fleft \in {0, NoEnd}]
Wrong(r) == [r EXCEPT !.h = Shift(@), !.trials = Off(@), !.votes = Off(@)]
Jump == (\E s \in Sidecars : Knows(s)) /\ ((Fault("forward") /\ UNCHANGED micros) \/ (Fault("back") /\ micros' = 0))
  /\ redis' = Wrong(redis) /\ replica' = Wrong(replica) /\ UNCHANGED <<runs, log>>
  /\ view' = [s \in Sidecars |-> [view[s] EXCEPT !.h = Shift(@)]]
Recover == ~healthy /\ healthy' = TRUE /\ UNCHANGED <<redis, replica, view, runs, micros, faults, log>>
Works(s) == Reads(s) \/ Waits(s) \/ Tries(s) \/ Room(s)
Next == Tick \/ Lose \/ Replicate \/ Jump \/ Recover \/ \E s \in Sidecars :
  Works(s) \/ Fails(s) \/ Operator(s) \/ Restart(s) \/ \E o \in {"ok", "error", "ignore"} : Ended(s, o)
Spec == Init /\ [][Next]_vars
FairSpec == Spec /\ WF_vars(Tick) /\ SF_vars(\E s \in Sidecars : Ended(s, "ok")) /\ \A s \in Live : WF_vars(Works(s))
\* The promises.
GenerationsRise == \A i, j \in DOMAIN log.issued : i < j => log.issued[i] < log.issued[j]
GenerationsDiffer == \A i, j \in DOMAIN log.issued : i # j => log.issued[i] # log.issued[j]
OneDecisionPerGeneration == \A p, q \in log.acted : p[1] = q[1] => p = q
ForcedStateHolds == log.order.left > 0 => redis.h.gen <= log.order.gen
TrialsBounded == \A t \in runs : Cardinality({u \in runs : u.gen = t.gen}) <= Permits
StreakSurvives == redis.h.gen = log.issued[Len(log.issued)] /\ redis.h.st # "closed" /\ redis.h.forced = "no"
  => redis.h.streak = log.streak
Calm(h) == h.st = "closed" \/ h.forced # "no"  Closes == healthy ~> Calm(redis.h) /\ \A s \in Live : Calm(V(s))
Timed == redis.h.forced # "no" /\ redis.h.fleft # NoEnd  ForcedEnds == Timed ~> ~Timed
====
