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
  Guards           \* the safeguards in force: see Retention, Occupied, See and Late
VARIABLES
  quota,   \* Redis: for each data plane "quota expiry previous-quota previous-expiry demand"
  flight,  \* for each data plane the quotas on their way to it, oldest first: q, and the age in ticks
  inuse,   \* what each data plane uses: q tokens for `left` ticks
  limit,   \* the current limit
  faults   \* the number of faults so far
vars == <<quota, flight, inuse, limit, faults>>

On(guard) == guard \in Guards
Min(a, b) == IF a < b THEN a ELSE b
Max(a, b) == IF a > b THEN a ELSE b
RECURSIVE Sum(_, _)
Sum(f, S) == IF S = {} THEN 0 ELSE LET x == CHOOSE x \in S : TRUE IN f[x] + Sum(f, S \ {x})
\* Redis counts a quota for as long as the data plane may use it.
Retention == Lifetime + (IF On("count_delay") THEN Delay ELSE 0)

Free == [q |-> 0, left |-> 0, prev |-> 0, prevLeft |-> 0, need |-> 0]
Init == /\ quota = [p \in Planes |-> Free] /\ flight = [p \in Planes |-> <<>>]
        /\ inuse = [p \in Planes |-> [q |-> 0, left |-> 0]] /\ limit = Limit /\ faults = 0

\* An entry as a call sees and corrects it: it lasts at most Retention, also after the clock was set back.
See(e) == IF On("set_back") THEN [e EXCEPT !.left = Min(@, Retention), !.prevLeft = Min(@, Retention)] ELSE e
\* The part of the limit that an entry occupies: the new quota may not have arrived, so the previous one counts.
Occupied(e) == Max(IF e.left > 0 THEN e.q ELSE 0, IF e.prevLeft > 0 /\ On("count_previous") THEN e.prev ELSE 0)
\* The fair quota of p among the data planes S: the smallest demands are met first, each with at most an even part of
\* the remainder, and the rest is divided evenly.
Fair(p, S, e) ==
  LET before(a, b) == e[a].need < e[b].need \/ (e[a].need = e[b].need /\ a <= b)
      n == Cardinality(S)
      rank(a) == Cardinality({b \in S : before(b, a)})
      at(i) == CHOOSE a \in S : rank(a) = i
      rest[i \in 0..n] == IF i = 0 THEN limit ELSE rest[i - 1] - Min(e[at(i)].need, rest[i - 1] \div (n - i + 1))
      spare[i \in 0..n] == IF i = 0 THEN rest[n] ELSE spare[i - 1] - spare[i - 1] \div (n - i + 1)
  IN (rest[rank(p) - 1] - rest[rank(p)]) + (spare[rank(p) - 1] - spare[rank(p)])
\* The new entry of p, which needs `need` tokens.
Assigned(p, need) ==
  LET e == [r \in Planes |-> IF r = p THEN [See(quota[r]) EXCEPT !.need = need] ELSE See(quota[r])]
      known == {p} \cup {r \in Planes : Occupied(e[r]) > 0 \/ e[r].left > 0}
      taken == Sum([r \in Planes |-> Occupied(e[r])], known \ {p})
      free == Max(0, limit - taken)
      target == Fair(p, known, e)
      current == IF e[p].left > 0 THEN e[p].q ELSE 0
      first == Min(target, free)
      \* The limit was lowered, and the others' quotas last until they expire.
      kept == IF taken + current > limit THEN Max(first, Min(current, target)) ELSE first
      same == current > 0 /\ current <= free /\ Max(kept - current, current - kept) * 10 <= current
      q == IF same \/ (kept < current /\ e[p].prevLeft > 0 /\ current <= free) THEN current ELSE kept
      replaces == e[p].prevLeft = 0 \/ e[p].prev < current
  IN CASE q < current -> [q |-> q, left |-> Retention, need |-> need, prev |-> IF replaces THEN current ELSE e[p].prev,
                          prevLeft |-> Max(e[p].prevLeft, e[p].left)]
       [] kept >= current /\ e[p].prevLeft = 0 -> [Free EXCEPT !.q = q, !.left = Retention, !.need = need]
       [] OTHER -> [e[p] EXCEPT !.q = q, !.left = Retention]

\* quota.lua: assigns a quota to p. A session has at most two batches in flight.
Assign(p, need) ==
  LET new == Assigned(p, need) IN
  /\ Len(flight[p]) < 2 /\ quota' = [r \in Planes |-> IF r = p THEN new ELSE See(quota[r])]
  /\ flight' = [flight EXCEPT ![p] = Append(@, [q |-> new.q, age |-> 0])] /\ UNCHANGED <<inuse, limit, faults>>
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
==============================================================================================================
