------------------------------------------------ MODULE Limit ------------------------------------------------
\* Rate limits of a fleet over one Redis. Each script call is one action. LimitScripts.tla has the scripts, which
\* LimitTrace.tla compares with recorded calls. LimitQuota.tla specifies Envoy's quotas. Time is unbounded, in ticks.
\* Every stored time is relative to now, because the scripts use only differences of times, so the state is finite.
EXTENDS Integers, FiniteSets, Sequences, TLC
CONSTANTS
  Callers,         \* the clients, each with a sidecar of its own
  Limits,          \* the limits of every call, each named after its algorithm: "fixed", "aligned", "sliding", "gcra"
  Limit, Window,   \* units per window, ticks per window
  Burst,           \* the units that gcra grants early
  Costs,           \* the costs of calls
  Faults,          \* what may happen besides takes: see Init, Refund, Replicate and Fault
  MaxFaults, Jump, \* how many faults happen at most, and the ticks by which a clock jumps at most
  Guards           \* the safeguards in force: see LimitCounters, Part and Mode
VARIABLES
  keys,    \* Redis: the counter of each limit
  rep,     \* the replica's copy of keys
  phase,   \* Redis's clock modulo Window, for aligned windows
  ends,    \* sidecar: the ticks until the end of the fixed window that Redis reported; 0 or less if unknown or past
  local,   \* sidecar: the counters that it uses without Redis
  cut,     \* the callers whose sidecars do not reach Redis
  calls,   \* caller: its latest refundable grant: cost (0: none), true age, and the `since` of refund.lua
  retry,   \* caller: the cost of its refused call (0: none), and the ticks until it can be granted without competition
  recent,  \* ghost: for each limit, the units granted and not refunded, by their true age
  win,     \* ghost: the fixed or aligned window: true ticks left, true age, units granted and not refunded
  faults   \* the number of faults so far
vars == <<keys, rep, phase, ends, local, cut, calls, retry, recent, win, faults>>

Sidecars == Cardinality(Callers)
LongWindow == IF Limit >= Sidecars THEN Window ELSE (Window * Sidecars + Limit - 1) \div Limit
INSTANCE LimitScripts WITH Unit <- 1
Calendar == {"fixed", "aligned"} \cap Limits

\* The rules in Redis, and the part of each that a sidecar applies without Redis (LocalQuota.swift).
Rule == [l \in Limits |-> [alg |-> l, limit |-> Limit, window |-> Window, shadow |-> FALSE,
                           cap |-> IF l = "gcra" THEN Burst + 1 ELSE Limit,
                           length |-> IF l = "aligned" THEN Window - phase ELSE Window]]
Part == IF ~On("local_quota") THEN Rule ELSE [l \in Limits |->
  LET window == IF l = "gcra" THEN Window * Sidecars ELSE LongWindow
  IN [Rule[l] EXCEPT !.window = window, !.cap = Max(1, @ \div Sidecars), !.length = window]]

None == [l \in Limits |-> Empty]
NoCall == [cost |-> 0, age |-> 0, since |-> [l \in Limits |-> 0]]
NoRetry == [c \in Callers |-> [cost |-> 0, left |-> 0]]
Init ==
  /\ keys = None /\ rep = None /\ phase = 0 /\ ends = [c \in Callers |-> 0] /\ local = [c \in Callers |-> None]
  /\ cut = (IF "down" \in Faults THEN Callers ELSE {}) /\ faults = 0 /\ calls = [c \in Callers |-> NoCall]
  /\ retry = NoRetry /\ recent = [l \in Limits |-> [a \in 0..Window |-> 0]]
  /\ win = [l \in Calendar |-> [left |-> 0, age |-> 0, sum |-> 0]]

\* The counters as the model keeps them: see Joined.
Kept(k) == [l \in Limits |-> [k[l] EXCEPT !.log = Joined(@)]]
\* A call of cost n, which is a batch of one run, and the decision in its reply v: whether it is granted, from which
\* limits it takes, and the wait after a refusal.
Mode == IF On("all_or_none") THEN "all" ELSE "each"
Call(n) == <<[count |-> 1, waits |-> FALSE, cost |-> [l \in Limits |-> n]]>>
Decision(v) ==
  LET fits == IF v.all THEN Limits ELSE {l \in Limits : v.runs[1].fit[l] = 1}
      waits == {0} \cup {v.runs[1].wait[l] : l \in Limits \ fits}
  IN [granted |-> v.all, takes |-> IF v.all \/ Mode = "each" THEN fits ELSE {},
      wait |-> CHOOSE w \in waits : \A x \in waits : w >= x]
\* Updates the ghosts. A window lasts for its true length at least, and for as long as Redis counts in it. A grant is
\* competition for the other callers. A call that can never be granted is not retried.
Answer(c, n, r, d) ==
  /\ recent' = [l \in Limits |-> IF l \in d.takes THEN [recent[l] EXCEPT ![0] = @ + n] ELSE recent[l]]
  /\ win' = [l \in Calendar |-> CASE l \notin d.takes -> win[l]
       [] keys[l].n > 0 \/ (win[l].left > 0 /\ (win[l].sum > 0 \/ On("keep_refunded_window"))) ->
            [win[l] EXCEPT !.sum = @ + n]
       [] OTHER -> [left |-> r[l].length, age |-> 0, sum |-> n]]
  /\ retry' = IF d.granted THEN NoRetry ELSE [retry EXCEPT ![c] =
       IF \E l \in Limits : n > r[l].cap THEN NoRetry[c] ELSE [cost |-> n, left |-> d.wait]]
\* take.lua (throttle.lua if Limits = {"gcra"}): caller c takes n units from all limits or from none.
Take(c, n) ==
  \E take \in {TakeScript(Rule, keys, [l \in Limits |-> IF l = "fixed" THEN ends[c] ELSE 0], Mode, Call(n))} :
  LET v == take[2]
      end == v.reset["fixed"]
  IN /\ c \notin cut /\ keys' = Kept(take[1])
     /\ ends' = IF "fixed" \in Limits /\ v.before["fixed"] > 0 THEN [ends EXCEPT ![c] = end] ELSE ends
     /\ calls' = IF ~v.all \/ "client_leaves" \notin Faults THEN calls ELSE [calls EXCEPT ![c] =
          [cost |-> n, age |-> 0, since |-> [l \in Limits |-> Since(Rule[l], keys'[l], end)]]]
     /\ Answer(c, n, Rule, Decision(v)) /\ UNCHANGED <<rep, phase, local, cut, faults>>
\* LocalCounters.swift, with when_redis_is_down: local. Not a script.
TakeLocal(c, n) ==
  \E take \in {TakeScript(Part, local[c], [l \in Limits |-> 0], Mode, Call(n))} :
     /\ c \in cut /\ local' = [local EXCEPT ![c] = Kept(take[1])]
     /\ Answer(c, n, Part, Decision(take[2])) /\ UNCHANGED <<keys, rep, phase, ends, cut, calls, faults>>
\* refund.lua: the client of caller c's latest grant left before its answer.
Refund(c) ==
  LET call == calls[c] IN
  /\ call.cost > 0 /\ c \notin cut /\ calls' = [calls EXCEPT ![c] = NoCall]
  /\ keys' = Kept([l \in Limits |-> RefundScript(Rule[l], keys[l], call.cost, call.since[l])[1]])
  /\ recent' = [l \in Limits |-> [recent[l] EXCEPT ![call.age] = @ - call.cost]]
  /\ win' = [l \in Calendar |-> IF call.age > win[l].age THEN win[l] ELSE [win[l] EXCEPT !.sum = @ - call.cost]]
  /\ UNCHANGED <<rep, phase, ends, local, cut, retry, faults>>
\* Redis's clock advances by d ticks, and the true time by t. A caller may return a grant for one window.
Elapse(d, t) ==
  /\ keys' = [l \in Limits |-> Shift(Rule[l], keys[l], d)] /\ rep' = [l \in Limits |-> Shift(Rule[l], rep[l], d)]
  /\ phase' = (IF "aligned" \in Limits THEN (phase + d) % Window ELSE 0)
  /\ ends' = [c \in Callers |-> IF "fixed" \in Limits THEN Max(-Jump * MaxFaults, ends[c] - d) ELSE 0]
  /\ local' = [c \in Callers |-> [l \in Limits |-> Shift(Part[l], local[c][l], t)]]
  /\ calls' = [c \in Callers |-> IF calls[c].cost = 0 \/ calls[c].age + t > Window THEN NoCall ELSE
       [calls[c] EXCEPT !.age = @ + t, !.since = [l \in Limits |-> @[l] - d]]]
  /\ recent' = [l \in Limits |-> [a \in 0..Window |-> IF a >= t THEN recent[l][a - t] ELSE 0]]
  /\ win' = [l \in Calendar |-> [win[l] EXCEPT !.left = Max(0, @ - t), !.age = Min(Window, @ + t)]]
  /\ UNCHANGED cut
Tick ==
  /\ Elapse(1, 1) /\ retry' = [c \in Callers |-> [retry[c] EXCEPT !.left = Max(0, @ - 1)]] /\ UNCHANGED faults
Replicate == "failover" \in Faults /\ rep' = keys
             /\ UNCHANGED <<keys, phase, ends, local, cut, calls, retry, recent, win, faults>>
Fault ==
  /\ faults < MaxFaults /\ faults' = faults + 1 /\ retry' = NoRetry
  /\ \/ "back" \in Faults /\ \E d \in 1..Jump : Elapse(-d, 0)
     \/ "forward" \in Faults /\ \E d \in 1..Jump : Elapse(d, 0)
     \/ /\ \/ "wipe" \in Faults /\ keys' = None /\ UNCHANGED <<ends, cut>>
           \/ "failover" \in Faults /\ keys' = rep /\ UNCHANGED <<ends, cut>>
           \* A sidecar loses Redis or finds it again, and forgets the windows' ends.
           \/ "cut" \in Faults /\ UNCHANGED keys /\ \E c \in Callers :
                /\ cut' = (IF c \in cut THEN cut \ {c} ELSE cut \cup {c}) /\ ends' = [ends EXCEPT ![c] = 0]
        /\ UNCHANGED <<rep, phase, local, calls, recent, win>>

Next == Tick \/ Replicate \/ Fault \/ \E c \in Callers : Refund(c) \/ \E n \in Costs : Take(c, n) \/ TakeLocal(c, n)
Retry(c) == retry[c].cost > 0 /\ retry[c].left = 0 /\ (Take(c, retry[c].cost) \/ TakeLocal(c, retry[c].cost))
Spec == Init /\ [][Next]_vars /\ WF_vars(Tick) /\ \A c \in Callers : WF_vars(Retry(c))
Symmetry == Permutations(Callers)

\* The units that callers took in the last a ticks and this one, and did not return.
Taken(l, a) == Sum(recent[l], 0..a)
\* At most the limit, and `more`, in every fixed or aligned window and in every sliding window, both ends included. For
\* gcra, Burst + 1 at once and then the rate: so at most Limit + Burst in a window.
Within(l, more) ==
  CASE l \in Calendar -> win[l].sum <= Limit + more
    [] l = "sliding" -> Taken(l, Window) <= Limit + more
    [] l = "gcra" -> \A a \in 0..Window - 1 : Taken(l, a) * Window <= (Burst + 1 + more) * Window + a * Limit
NeverOverLimit == \A l \in Limits : Within(l, 0)
LimitPlusLocalQuotas == \A l \in Limits : Within(l, Sidecars * Part[l].cap)
TwiceAroundTheEnd == \A l \in Limits : Taken(l, Window - 1) <= Limit  \* not a promise: a fixed window breaks it
AtMostTwice == \A l \in Limits : Taken(l, Window - 1) <= 2 * Limit
AllOrNone == \A l, m \in Limits : recent[l] = recent[m]
\* What callers took and did not return is still counted.
RefundsNeverExceedGrants == \A l \in Limits :
  CASE l \in Calendar -> keys[l].left > 0 => keys[l].n >= win[l].sum
    [] l = "sliding" -> Used(Rule[l], keys[l]) >= Taken(l, Window)
    [] l = "gcra" -> \A a \in 0..Window : keys[l].n >= Taken(l, a) * Window - a * Limit
WaitBounded == \A c \in Callers : \E l \in Limits :
  retry[c].left <= Full(IF c \in cut THEN Part[l] ELSE Rule[l])
\* A refused call is granted after its retry-after, unless another call was granted meanwhile.
RetryGranted == \A c \in Callers : retry[c].cost > 0 /\ retry[c].left = 0 /\ c \notin cut =>
  \A l \in Limits : Fits(Rule[l], keys[l], retry[c].cost)
RetrySucceeds == \A c \in Callers : retry[c].cost > 0 ~> retry[c].cost = 0
==============================================================================================================
