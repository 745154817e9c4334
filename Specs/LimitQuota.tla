---------------------------------------------- MODULE LimitQuota ----------------------------------------------
\* The quotas of Envoy's rate limit quota service: quota.lua divides a limit among data planes, each of which enforces
\* its quota on its own. Time is unbounded, counted in ticks, and stored relative to now, so the state is finite.
EXTENDS Integers, FiniteSets, Sequences
CONSTANTS
  Planes,          \* the data planes, as numbers, because quota.lua orders equal demands by name
  Limit,           \* the tokens of the limit
  Needs,           \* the demands that a data plane may report
  Lifetime,        \* the ticks for which a data plane follows an assignment
  Delay,           \* the ticks that an assignment may take to arrive
  Faults,          \* "back", "forward": Redis's clock jumps; "wipe": Redis restarts empty; "lower": Limit falls
  MaxFaults, Jump, \* how many faults happen at most, and the ticks by which a clock jumps at most
  Guards           \* the safeguards in force: see Retention, Late and LimitQuotaScripts
VARIABLES
  quota,   \* Redis: for each data plane "quota expiry previous-quota previous-expiry demand"
  flight,  \* for each data plane the quotas on their way to it, oldest first: q, and the age in ticks
  inuse,   \* what each data plane uses: q tokens for `left` ticks
  limit,   \* the current limit
  faults   \* the number of faults so far
vars == <<quota, flight, inuse, limit, faults>>

INSTANCE LimitQuotaScripts
\* Redis counts a quota for as long as the data plane may use it.
Retention == Lifetime + (IF On("count_delay") THEN Delay ELSE 0)

Init == /\ quota = [p \in Planes |-> Free] /\ flight = [p \in Planes |-> <<>>]
        /\ inuse = [p \in Planes |-> [q |-> 0, left |-> 0]] /\ limit = Limit /\ faults = 0

\* quota.lua: assigns a quota to p. A session has at most two batches in flight.
Assign(p, need) ==
  LET assign == QuotaScript(quota, p, need, limit, Retention, Cardinality(Planes)) IN
  /\ Len(flight[p]) < 2 /\ quota' = assign[1]
  /\ flight' = [flight EXCEPT ![p] = Append(@, [q |-> assign[2], age |-> 0])] /\ UNCHANGED <<inuse, limit, faults>>
\* The oldest assignment of p arrives, and replaces the one in use.
Deliver(p) ==
  /\ flight[p] # <<>> /\ flight' = [flight EXCEPT ![p] = Tail(@)]
  /\ inuse' = [inuse EXCEPT ![p] = [q |-> Head(flight[p]).q, left |-> Lifetime]] /\ UNCHANGED <<quota, limit, faults>>
\* The sidecar does not send an assignment that is late (QuotaSession.swift).
Late(s) == SelectSeq([i \in DOMAIN s |-> [s[i] EXCEPT !.age = Min(Delay + 1, @ + 1)]],
                     LAMBDA a : ~On("drop_late") \/ a.age <= Delay)
Clock(d) == quota' = [p \in Planes |-> IF quota[p].left <= d /\ quota[p].prevLeft <= d THEN Free
  ELSE [quota[p] EXCEPT !.left = IF @ = 0 THEN 0 ELSE Max(0, @ - d), !.prevLeft = IF @ = 0 THEN 0 ELSE Max(0, @ - d)]]
Tick == /\ Clock(1) /\ flight' = [p \in Planes |-> Late(flight[p])]
        /\ inuse' = [p \in Planes |-> IF inuse[p].left <= 1 THEN [q |-> 0, left |-> 0]
                                       ELSE [inuse[p] EXCEPT !.left = @ - 1]]
        /\ UNCHANGED <<limit, faults>>
Fault ==
  /\ faults < MaxFaults /\ faults' = faults + 1
  /\ \/ "back" \in Faults /\ (\E d \in 1..Jump : Clock(-d)) /\ UNCHANGED limit
     \/ "forward" \in Faults /\ (\E d \in 1..Jump : Clock(d)) /\ UNCHANGED limit
     \/ "wipe" \in Faults /\ quota' = [p \in Planes |-> Free] /\ UNCHANGED limit
     \/ "lower" \in Faults /\ limit > 1 /\ limit' = limit - 1 /\ UNCHANGED quota
  /\ UNCHANGED <<flight, inuse>>

Next == Tick \/ Fault \/ \E p \in Planes : Deliver(p) \/ \E need \in Needs : Assign(p, need)
Spec == Init /\ [][Next]_vars

QuotasWithinLimit == Sum([p \in Planes |-> inuse[p].q], Planes) <= limit
AssignedWithinLimit == Sum([p \in Planes |-> Occupied(quota[p])], Planes) <= limit
\* What a data plane uses, or is about to use, is counted.
UsedIsCounted == \A p \in Planes :
  /\ inuse[p].q <= Occupied(quota[p])
  /\ \A i \in DOMAIN flight[p] : flight[p][i].q <= Occupied(quota[p])
\* No entry outlasts a call by more than its retention, so that the quota of a data plane that is gone becomes free.
EntriesLapse == [][\A p, r \in Planes : Len(flight'[p]) > Len(flight[p]) =>
  quota'[r].left <= Retention /\ quota'[r].prevLeft <= Retention]_vars
==============================================================================================================
