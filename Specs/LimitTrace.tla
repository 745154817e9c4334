--------------------------------------------- MODULE LimitTrace ----------------------------------------------
\* Checks recorded calls of take.lua, peek.lua, refund.lua and throttle.lua. traces/limits.py translates them. Times are
\* microseconds relative to the call, and `left` is in ms. A recorded counter also has `rep`, the parts of its key that
\* only repeat or describe the others: see Sound.
EXTENDS LimitScripts, Steps

Core(k) == [n |-> k.n, left |-> k.left, log |-> k.log]
Cores(ks) == TLCEval([i \in DOMAIN ks |-> Core(ks[i])])
\* x.phase is the time since the aligned window began. A fixed window of 1 ms lasts for 2 ms.
Rule(x) == [alg |-> x.alg, limit |-> x.limit, window |-> x.window, cap |-> x.cap, shadow |-> x.shadow, length |->
  CASE x.alg = "fixed" -> Max(1 + Last, x.window \div Unit) * Unit
    [] x.alg = "aligned" -> x.window - x.phase [] OTHER -> x.window]
\* A counter without units is equivalent to no counter. A fixed window keeps its end after all units were refunded.
Live(r, k) ==
  CASE r.alg = "gcra" /\ k.n <= 0 -> Empty [] r.alg = "aligned" /\ k.left <= 0 -> Empty
    [] r.alg = "sliding" /\ Units(k.log) = 0 -> Empty [] OTHER -> k
\* The parts of a key that a script leaves are consistent. A log's `total` is the sum of its units, `last` the age of
\* its latest entry; entries are in order, and no entry was lost or left behind. An aligned window's key ends with the
\* window. A gcra counter names the rule under which it was written.
Sound(r, k) ==
  CASE k.rep = <<>> -> TRUE
    [] r.alg = "sliding" -> k.log # <<>> /\ k.rep = <<Units(k.log), k.log[Len(k.log)][1], 0>>
                            /\ \A i \in 2..Len(k.log) : k.log[i - 1][1] >= k.log[i][1]
    [] r.alg = "aligned" -> k.rep = <<k.left>>
    [] OTHER -> k.rep = <<"own">>
Becomes(r, new, k, after) == Live(r, new) = Live(r, Core(after)) /\ (after = k \/ Sound(r, after))
AllBecome(r, new, s) == \A i \in DOMAIN r : Becomes(r[i], new[i], s.before[i], s.after[i])
\* A trace without replies shows only what changed.
Replied(s, reply) == "reply" \in DOMAIN s => s.reply = reply

\* A charge is <<counter, cost>>. The reply answers the charges of a run in their order.
Cost(charges) == [i \in {c[1] : c \in {charges[j] : j \in DOMAIN charges}} |->
                  charges[CHOOSE j \in DOMAIN charges : charges[j][1] = i][2]]
Runs(s) == TLCEval([i \in DOMAIN s.runs |->
  [count |-> s.runs[i].count, waits |-> s.runs[i].waits, cost |-> Cost(s.runs[i].charges)]])
Answer(s, v) == [v EXCEPT !.runs = [i \in DOMAIN v.runs |-> LET charges == s.runs[i].charges IN [v.runs[i] EXCEPT
  !.fit = [j \in DOMAIN charges |-> v.runs[i].fit[charges[j][1]]],
  !.wait = [j \in DOMAIN charges |-> v.runs[i].wait[charges[j][1]]]]]]
LegalTake(s, r) ==
  LET take == TakeScript(r, Cores(s.before), s.ends, s.mode, Runs(s))
  IN /\ \A i \in DOMAIN r : s.asked[i] = Asked(Runs(s), i)
     /\ AllBecome(r, take[1], s) /\ Replied(s, Answer(s, take[2]))

LegalPeek(s, r) ==
  LET peek == [i \in DOMAIN r |-> PeekScript(r[i], Core(s.before[i]))]
  IN AllBecome(r, [i \in DOMAIN r |-> peek[i][1]], s) /\ Replied(s, [i \in DOMAIN r |-> peek[i][2]])

\* The parts <<counter, units, since>> of a refund, in order: a counter may have several.
RECURSIVE Refunds(_, _, _, _)
Refunds(r, k, parts, credited) == IF parts = <<>> THEN <<k, credited>> ELSE
  LET p == Head(parts)
      refund == RefundScript(r[p[1]], k[p[1]], p[2], p[3])
  IN Refunds(r, [k EXCEPT ![p[1]] = refund[1]], Tail(parts), credited + refund[2])
LegalRefund(s, r) ==
  LET refund == Refunds(r, Cores(s.before), s.parts, 0) IN AllBecome(r, refund[1], s) /\ Replied(s, refund[2])

LegalThrottle(s, r) ==
  LET throttle == ThrottleScript(r[1], Core(s.before[1]), s.n, 1000 * Unit)
  IN AllBecome(r, <<throttle[1]>>, s) /\ Replied(s, throttle[2])

\* Without memory, or on a replica, Redis rejects a script's first write. After the first write, all others succeed.
\* An unexpected step has an error or a reply that no script gives.
Legal(s) == IF "unexpected" \in DOMAIN s THEN FALSE ELSE
  IF s.script = "failed" THEN s.after = s.before ELSE
  LET r == TLCEval([i \in DOMAIN s.rules |-> Rule(s.rules[i])]) IN
  CASE s.script = "take" -> LegalTake(s, r) [] s.script = "peek" -> LegalPeek(s, r)
    [] s.script = "refund" -> LegalRefund(s, r) [] s.script = "throttle" -> LegalThrottle(s, r)
ASSUME PrintT(<<"illegal", {i \in 1..Len(Steps) : ~Legal(Steps[i])}>>)
==============================================================================================================
