---- MODULE Breaker ----
\* The circuit breaker of one service, which sidecars share through Redis. Each action below "The scripts" is one call
\* of Sources/Interlock/Breakers/breaker-NAME.lua, which Redis runs as one step. Times are the ticks that remain, so
\* they need no bound: Tick shortens all of them. A sidecar measures ends by its own clock and reports them with its
\* calls ("over"). A jump of Redis's clock is longer than any permit or vote. Only the order of generations counts.
EXTENDS Integers, Sequences, FiniteSets, TLC
CONSTANTS Sidecars, Live, \* the fleet; the sidecars that never stop for good
  Permits, Reporters, Quorum, \* the trials of a half-open breaker; the sidecars that must report failures, an outage
  OpenFor, OpenMax, ForcedFor, Life, Lapse, \* ticks: open time, its limit, forced state, trial permit, outage and vote
  MaxChanges, MaxFaults, \* after MaxChanges generations nothing fails and operators rest; the number of faults
  Uses, \* the scripts in use, of: report, vote, trip, down, force
  Faults, Guards \* wipe, failover, restart, forward, back, early (before sidecars know Redis's state); the safeguards
VARIABLES redis, replica, \* [h: hash, ok: successful trials, trials, votes, outage: ticks that each sidecar's lasts]
  view, \* by sidecar [h: its copy of the hash, own: whether its own clock measures the ends rightly]
  runs, \* the trials that sidecars run: [s, gen, left]
  micros, healthy, faults, \* Redis's clock for generations; whether the service is back for good; the faults so far
  log \* history: issued generations, decisions <<generation acted on, new one>>, the operator's last order, streak
vars == <<redis, replica, view, runs, micros, healthy, faults, log>>
Inf == 99  Alike == Permutations(Sidecars)  G(guard) == guard \in Guards
Min(a, b) == IF a < b THEN a ELSE b  Max(a, b) == IF a > b THEN a ELSE b  If(p, a, b) == IF p THEN a ELSE b
Zero == [s \in Sidecars |-> 0]  Count(f) == Cardinality({s \in Sidecars : f[s] > 0})
Hash(g) == [st |-> "closed", cause |-> "none", gen |-> g, left |-> 0, forced |-> "no", fleft |-> 0, streak |-> 0,
            num |-> TRUE] \* left, fleft: of the open time, of the forced state; num: whether they fit Redis's clock
Keys(g) == [h |-> Hash(g), ok |-> 0, trials |-> Zero, votes |-> Zero, outage |-> Zero]
NoOrder == [gen |-> 0, left |-> 0]  V(s) == view[s].h
Init == /\ redis = Keys(1) /\ replica = Keys(1) /\ view = [s \in Sidecars |-> [h |-> Hash(1), own |-> TRUE]]
  /\ runs = {} /\ micros = 1 /\ healthy = FALSE /\ faults = 0
  /\ log = [issued |-> <<1>>, acted |-> {}, order |-> NoOrder, streak |-> 0]
\* A call of sidecar s: its copy h, the generation e that it expects, the ends that it reports, the random step x. A
\* sidecar that found a state after a jump waits until those that measured the state have corrected the end.
Claims(s, end, is) == IF ~is \/ end = Inf THEN {FALSE} ELSE IF view[s].own THEN {end = 0}
  ELSE IF G("grace") /\ \E t \in Sidecars : view[t].own /\ V(t).gen = V(s).gen THEN {end = 0} ELSE BOOLEAN
Call(s, e) == {[s |-> s, h |-> V(s), e |-> e, over |-> o, forced_over |-> f, x |-> x] :
  o \in Claims(s, V(s).left, V(s).st = "open"), f \in Claims(s, V(s).fleft, V(s).forced # "no"),
  x \in IF "back" \in Faults /\ G("random_step") THEN {1, 2} ELSE {1}}
\* breaker.lua and its parts. w is Redis r with the history l and the clock m.
Expected(w, c) == G("expected_generation") => c.e = w.r.h.gen  AtLeast(w, c) == G("at_least") => w.r.h.gen >= c.h.gen
Forced(w) == G("forced") /\ w.r.h.forced # "no"  May(w, c) == Expected(w, c) /\ ~Forced(w)
Issued(w) == {w.l.issued[i] : i \in DOMAIN w.l.issued}  More == Len(log.issued) < MaxChanges
NewGen(w, x) == LET n == If(G("generation_from_clock") /\ w.m >= w.r.h.gen, w.m + 1, w.r.h.gen + x) IN
  IF ~G("generation_from_clock") \/ ~G("random_step") THEN n \* that random steps are equal by chance is left out
  ELSE CHOOSE m \in n..(n + Len(w.l.issued)) : m \notin Issued(w) /\ n..(m - 1) \subseteq Issued(w)
Change(w, x, e, h) == LET g == NewGen(w, x)  k(n) == IF h.st = "closed" THEN 0 ELSE n IN \* breaker-change.lua
  [r |-> [Keys(0) EXCEPT !.h = [h EXCEPT !.gen = g, !.num = TRUE, !.streak = k(@)], !.outage = w.r.outage],
   l |-> [w.l EXCEPT !.issued = Append(@, g), !.acted = IF e = 0 THEN @ ELSE @ \cup {<<e, g>>},
                     !.streak = k(IF h.cause = "failures" /\ h.st = "open" THEN Min(@ + 1, 3) ELSE @)], m |-> w.m + 1]
New(h, st, cause, left, f, fleft) == [h EXCEPT !.st = st, !.cause = cause, !.left = left, !.forced = f, !.fleft = fleft]
To(w, c, st, cause, left) == Change(w, c.x, c.e, New(w.r.h, st, cause, left, "no", 0))
Open(w, c, cause) == IF cause = "limit" THEN To(w, c, "open", cause, OpenFor) ELSE \* breaker-open.lua
  [To(w, c, "open", cause, Min(OpenMax, OpenFor * 2^w.r.h.streak)) EXCEPT !.r.h.streak = Min(@ + 1, 3)]
Same(h, k) == G("known_end") => h.gen = k.gen /\ h.left = k.left /\ h.fleft = k.fleft /\ h.num = k.num
Due(w, c) == c.over /\ w.r.h.st = "open" /\ Same(w.r.h, c.h)
On(w, c) == [c EXCEPT !.e = w.r.h.gen]  Half(w, c, cause) == To(w, c, "half_open", cause, 0)
Ends(w, c) == \* breaker-ends.lua: every script first ends a forced state whose time is over
  If(c.forced_over /\ w.r.h.forced # "no" /\ Same(w.r.h, c.h), To(w, On(w, c), "closed", "auto", 0), w)
W(c) == Ends([r |-> redis, l |-> log, m |-> micros], c)
Adopt(v, h) == IF h.gen > v.h.gen THEN [h |-> h, own |-> h.num] ELSE IF h.gen < v.h.gen THEN v
  ELSE [h |-> [h EXCEPT !.left = Max(@, v.h.left)], own |-> v.own \/ h.num]
Reply(c, w, trials) == /\ redis' = w.r /\ log' = w.l /\ micros' = w.m /\ runs' = trials
  /\ view' = [view EXCEPT ![c.s] = Adopt(@, w.r.h)] /\ UNCHANGED <<replica, healthy, faults>>
\* The scripts. Their result is 1 in the branch that changes the state.
Sync(c) == LET lost == G("restore") /\ (G("newer_only") => c.h.gen > redis.h.gen)
    h == IF lost THEN If(G("restore_streak"), c.h, [c.h EXCEPT !.streak = 0])
         ELSE [redis.h EXCEPT !.num = @ \/ (redis.h.gen = c.h.gen /\ view[c.s].own)] IN \* corrected after a jump
  Reply(c, Ends([r |-> [redis EXCEPT !.h = h, !.ok = If(lost, 0, @)], l |-> log, m |-> micros], c), runs)
Report(c, trips) == LET w == W(c) IN \* trips: whether the sums in the window demand it
  Reply(c, If(May(w, c) /\ w.r.h.st = "closed" /\ trips, Open(w, c, "failures"), w), runs)
Vote(c) == LET w == W(c) v == [w EXCEPT !.r.votes[c.s] = Lapse] IN
  Reply(c, IF ~May(w, c) \/ w.r.h.st # "closed" THEN w
           ELSE If(Count(v.r.votes) < Reporters, v, Open(v, c, "failures")), runs)
Trip(c, cause) == LET w == W(c) IN Reply(c, If(May(w, c) /\ w.r.h.st # "open", Open(w, c, cause), w), runs)
HalfOpen(c) == LET w == W(c) IN Reply(c, If(May(w, c) /\ Due(w, c), Half(w, c, w.r.h.cause), w), runs)
Trial(c) == LET w == W(c) v == If(Due(w, c), Half(w, On(w, c), w.r.h.cause), w)
    room == v.r.h.st = "half_open" /\ Count(v.r.trials) + v.r.ok < Permits
    u == If(room, [v EXCEPT !.r.trials[c.s] = Life], v)
    h == Adopt(view[c.s], u.r.h).h
    granted == h.st = "half_open" /\ (room \/ v.r.h.st = "closed")
    new == {t \in {[s |-> c.s, gen |-> h.gen, left |-> Life]} : granted} IN
  If(Forced(w) \/ ~AtLeast(w, c), Reply(c, w, runs), Reply(c, u, runs \cup new))
Outcome(c, t, o) == LET w == W(c) v == [w EXCEPT !.r.trials[c.s] = 0] IN
  Reply(c, IF ~May(w, c) \/ w.r.h.st # "half_open" \/ w.r.trials[c.s] = 0 THEN w
           ELSE CASE o = "error" -> Open(v, c, "failures") [] o = "ignore" -> v [] o = "ok" ->
             If(v.r.ok + 1 < Permits, [v EXCEPT !.r.ok = @ + 1], To(v, c, "closed", "trials", 0)), runs \ {t})
Close(c, cause) == LET w == W(c) over == w.r.h.st = "half_open" \/ Due(w, c) IN
  Reply(c, If(May(w, c) /\ w.r.h.cause = cause /\ over, To(w, c, "closed", cause, 0), w), runs)
Down(c) == LET u == W(c) w == [u EXCEPT !.r.outage[c.s] = Lapse] h == w.r.h
    left == If(h.st = "open", Max(h.left, Lapse), Lapse) IN
  Reply(c, IF ~AtLeast(w, c) \/ Forced(w) \/ Count(w.r.outage) < Quorum THEN w
           ELSE If(h.st = "open" /\ h.cause = "outage", [w EXCEPT !.r.h.left = left],
                   To(w, On(w, c), "open", "outage", left)), runs)
Up(c, trial) == LET u == W(c) w == [u EXCEPT !.r.outage[c.s] = 0] h == w.r.h IN
  Reply(c, IF ~May(w, c) \/ h.st = "closed" \/ h.cause # "outage" \/ Count(w.r.outage) >= Quorum THEN w
           ELSE If(~trial, To(w, c, "closed", "probe", 0), If(h.st = "open", Half(w, c, "probe"), w)), runs)
Force(c, f, left) == LET gen == If(G("at_least"), Max(redis.h.gen, c.h.gen), redis.h.gen)
    w == [r |-> [redis EXCEPT !.h.gen = gen], l |-> log, m |-> micros]
    v == Change(w, c.x, 0, New(w.r.h, If(f = "open", "open", "closed"), "forced", 0, f, left)) IN
  Reply(c, [v EXCEPT !.l.order = If(f = "no", NoOrder, [gen |-> v.r.h.gen, left |-> left])], runs)
\* When sidecars call which script.
Free(s) == V(s).forced = "no"  Reads(s) == \E c \in Call(s, V(s).gen) : Sync(c)
Fails(s) == ~healthy /\ More /\ \E c \in Call(s, V(s).gen) :
  \/ V(s).st = "closed" /\ (("report" \in Uses /\ Report(c, TRUE)) \/ ("vote" \in Uses /\ Free(s) /\ Vote(c)))
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
  (\E f \in {"open", "closed"}, left \in {ForcedFor, Inf} : Force(c, f, left)) \/ Force(c, "no", 0)
\* Time and faults. An order is void once neither Redis nor a sidecar remembers it.
Sub(n) == If(n = Inf, n, Max(0, n - 1))  Less(f) == [s \in Sidecars |-> Sub(f[s])]
Older(h) == [h EXCEPT !.left = Sub(@), !.fleft = Sub(@)]
Aged(r) == [r EXCEPT !.h = Older(@), !.trials = If(G("lifetime"), Less(@), @), !.votes = Less(@), !.outage = Less(@)]
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
Shift(h) == [h EXCEPT !.num = @ /\ h.left = 0 /\ h.fleft \in {0, Inf}]
Wrong(r) == [r EXCEPT !.h = Shift(@), !.trials = Zero, !.votes = Zero, !.outage = Zero]
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
Timed == redis.h.forced # "no" /\ redis.h.fleft # Inf  ForcedEnds == Timed ~> ~Timed
====
