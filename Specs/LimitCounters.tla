-------------------------------------------- MODULE LimitCounters --------------------------------------------
\* The counters of rate limits: the arithmetic of counters.lua, batch.lua and refund.lua. LimitScripts.tla has the
\* scripts, Limit.tla their callers, and LimitTrace.tla checks recorded calls. All times are relative to now, in ticks:
\* microseconds in a trace. A counter is a record of
\*   n     the units counted; for gcra the theoretical arrival time in limit-ths of a tick, which is a whole number
\*   left  the Units (below) until its key expires, or its aligned window ends; 0 if there is no key
\*   log   for a sliding window <<age, units>> of each grant, oldest first; ages are below 0 after a clock was set back
\* A rule is a limit as one counter applies it: alg, limit (units per window), window, cap (the units at once), shadow
\* (whether it refuses nothing), and `length`, the ticks until a fixed or aligned window that begins now ends.
EXTENDS Integers, FiniteSets, Sequences, TLC
CONSTANTS Unit,    \* the ticks per ms, in which Redis counts the lifetimes of keys; 1 in the model
          Guards   \* the safeguards in force

On(guard) == guard \in Guards
Min(a, b) == IF a < b THEN a ELSE b
Max(a, b) == IF a > b THEN a ELSE b
Up(a, b) == (a + b - 1) \div b
RECURSIVE Sum(_, _)
Sum(f, S) == IF S = {} THEN 0 ELSE LET x == CHOOSE x \in S : TRUE IN f[x] + Sum(f, S \ {x})
\* A key still exists in the ms in which it expires. In that ms, no script relies on its end. Rates that are not a whole
\* number of microseconds are rounded, by at most one. A tick of the model is longer than either.
Last == IF Unit = 1 THEN 0 ELSE 1
\* A sliding window includes both its ends, so the caller retries one tick later. A reply takes a microsecond anyway.
Late == 1 - Last

Empty == [n |-> 0, left |-> 0, log |-> <<>>]
Full(r) ==
  CASE r.alg = "gcra" -> Up(r.cap * r.window, r.limit) [] r.alg = "sliding" -> r.window + Late [] OTHER -> r.window

\* ---- Logs of sliding windows
RECURSIVE UnitsTo(_, _)
UnitsTo(log, i) == IF i = 0 THEN 0 ELSE log[i][2] + UnitsTo(log, i - 1)
Units(log) == UnitsTo(log, Len(log))
Recent(r, log) == SelectSeq(log, LAMBDA e : e[1] <= (IF On("closed_window") THEN r.window ELSE r.window - 1))
\* Each entry in the future gets the current time. The key of a log lasts for a window. The model needs no such end,
\* because the entries end.
Restamped(log) == TLCEval([i \in 1..Len(log) |-> <<Max(0, log[i][1]), log[i][2]>>])
Life(r) == IF Unit = 1 THEN 0 ELSE r.window \div Unit + 1 + Last
\* The age of the entry, of log[i] and later, with which the first `units` end.
RECURSIVE Due(_, _, _)
Due(log, i, units) == IF log[i][2] >= units THEN log[i][1] ELSE Due(log, i + 1, units - log[i][2])
\* The log without its latest n units.
RECURSIVE Back(_, _)
Back(log, n) == IF log = <<>> \/ n = 0 THEN log ELSE
  LET e == log[Len(log)] IN Append(Back(SubSeq(log, 1, Len(log) - 1), n - Min(n, e[2])), <<e[1], e[2] - Min(n, e[2])>>)
\* The index of a grant of that age in log[low..high], by bisection; 0 if there is none.
RECURSIVE Find(_, _, _, _)
Find(log, age, low, high) == LET m == (low + high) \div 2 IN
  IF low > high THEN 0 ELSE IF log[m][1] = age THEN m
  ELSE IF log[m][1] > age THEN Find(log, age, m + 1, high) ELSE Find(log, age, low, m - 1)
\* The model's abstraction: joins the entries of one tick, and drops entries without units.
RECURSIVE Joined(_)
Joined(log) == IF log = <<>> THEN <<>> ELSE LET rest == Joined(Tail(log)) e == Head(log) IN
  IF e[2] = 0 THEN rest ELSE IF rest = <<>> \/ Head(rest)[1] # e[1] THEN <<e>> \o rest
  ELSE <<<<e[1], e[2] + Head(rest)[2]>>>> \o Tail(rest)

\* ---- Counters
\* Whether a window goes on: with the guard "keep_refunded_window" even if all its units were refunded.
Lasts(k) == k.n > 0 \/ (k.left > 0 /\ On("keep_refunded_window"))
\* Whether the script uses the end of a fixed window that the sidecar knows, instead of PTTL.
Known(r, k, end) == k.n > 0 /\ end > Last /\ end <= r.length \div Unit
\* Whether a gcra counter owes more than the limit ever grants, because the clock was set back.
Over(r, k) == k.n - Last * (k.n % r.limit) > r.cap * r.window + Last * r.limit
\* A counter as a call sees and corrects it. After a clock was set back, none may last longer than its limit needs.
See(r, k, end) ==
  CASE r.alg = "fixed" -> IF ~On("set_back") \/ Known(r, k, end) THEN k
                          ELSE [k EXCEPT !.left = Min(@, r.length \div Unit)]
    [] r.alg = "aligned" -> IF k.left <= 0 THEN Empty
                            ELSE IF On("set_back") THEN [k EXCEPT !.left = Min(@, Up(r.length, Unit))] ELSE k
    [] r.alg = "gcra" -> IF ~On("set_back") \/ ~Over(r, k) THEN [k EXCEPT !.n = Max(0, @)]
                         ELSE [k EXCEPT !.left = Min(@, Max(2 * Last, Up(Full(r), Unit)))]
    [] r.alg = "sliding" -> IF ~On("set_back") THEN [k EXCEPT !.log = Recent(r, @)] ELSE
         [k EXCEPT !.log = Recent(r, Restamped(@)),
                   !.left = IF Restamped(k.log) # k.log /\ Units(Recent(r, k.log)) > 0 THEN Life(r) ELSE @]
\* The units counted. For gcra, all numbers above the capacity become the same.
Used(r, k) ==
  CASE r.alg = "sliding" -> Units(k.log) [] r.alg = "gcra" -> Min(r.cap + 1, Up(k.n, r.window)) [] OTHER -> k.n
Fits(r, k, n) == Used(r, k) + n <= r.cap
\* The Units until the end of a fixed window that a call reports.
End(r, k, end) == IF ~Lasts(k) THEN r.length \div Unit ELSE IF Known(r, k, end) THEN end ELSE k.left
\* The ticks until n units fit, if m more are taken now.
Wait(r, k, end, m, n) ==
  CASE r.alg = "fixed" -> End(r, k, end) * Unit
    [] r.alg = "aligned" -> IF k.n + m + n <= r.cap THEN 0 ELSE IF On("set_back") THEN r.length ELSE k.left * Unit
    [] r.alg = "gcra" -> LET wait == Max(0, Up(k.n + (m + n - r.cap) * r.window, r.limit))
                         IN IF Over(r, k) THEN Min(k.left * Unit, wait) ELSE wait
    [] r.alg = "sliding" -> LET units == Units(k.log) + m + n - r.cap
                                log == IF m > 0 THEN Append(k.log, <<0, m>>) ELSE k.log
                            IN IF units <= 0 THEN 0 ELSE Max(1, Late + r.window - Due(log, 1, units))
\* The ticks until all units have recovered, if m more are taken now.
Reset(r, k, end, m) ==
  IF r.alg # "sliding" THEN Wait(r, k, end, m, r.cap) ELSE IF m > 0 THEN r.window
  ELSE IF Units(k.log) > 0 THEN Max(1, r.window - k.log[Len(k.log)][1]) ELSE 0
\* A gcra counter whose arrival time becomes m. If a clock that was set back caused its debt, it lasts no longer than
\* before.
Written(r, k, m) == IF m <= 0 THEN Empty ELSE [k EXCEPT !.n = m, !.left =
  LET left == Up(Up(m, r.limit), Unit) IN Last + (IF Over(r, k) THEN Min(@, left) ELSE left)]
\* A counter from which m units are taken, or to which -m units are returned.
Add(r, k, m) ==
  CASE m = 0 -> k
    [] r.alg = "sliding" -> IF m < 0 THEN [k EXCEPT !.log = Back(@, -m)]
                            ELSE [k EXCEPT !.log = Append(@, <<0, m>>), !.left = Life(r)]
    [] r.alg = "gcra" -> Written(r, k, k.n + m * r.window)
    [] OTHER -> [k EXCEPT !.n = @ + m, !.left = IF Lasts(k) THEN @ ELSE Up(r.length, Unit)]
\* The `since` of a refund, relative to now: when the window ends, when the grant was, or when gcra would recover.
Since(r, k, end) == CASE r.alg = "fixed" -> end [] r.alg = "gcra" -> k.left - 1 [] OTHER -> 0
\* Whether n units can be refunded that were taken `since`. Nothing refunds to aligned windows.
Refundable(r, k, since) ==
  CASE r.alg = "fixed" -> k.left > Last /\ (On("same_window") =>
         Max(k.left * Unit - since, since - k.left * Unit) <= (r.window - 1) \div 2)
    [] r.alg = "sliding" -> Find(k.log, -since, 1, Len(k.log)) > 0
    [] r.alg = "gcra" -> k.left > 0 /\ since > 0
    [] OTHER -> FALSE
Credit(r, k, n, since) ==
  CASE r.alg = "gcra" /\ k.left > 0 -> LET seen == See(r, k, 0) IN IF since <= 0 THEN seen ELSE
         Written(r, seen, Max(seen.n - n * r.window, IF On("recovered_units") THEN seen.n - since * r.limit ELSE 0))
    [] ~Refundable(r, k, since) -> k
    [] r.alg = "fixed" -> [k EXCEPT !.n = @ - Min(n, @)]
    [] r.alg = "sliding" -> [k EXCEPT !.log[Find(k.log, -since, 1, Len(k.log))][2] = @ - Min(n, @)]
\* A counter after d ticks of its clock; d < 0 if the clock is set back. Expired keys are deleted at once.
Shift(r, k, d) ==
  LET left == IF k.left = 0 THEN 0 ELSE Max(0, k.left - d)
      log == [i \in 1..Len(k.log) |-> <<k.log[i][1] + d, k.log[i][2]>>]
  IN [left |-> left, n |-> IF left = 0 THEN 0 ELSE IF r.alg = "gcra" THEN Max(0, k.n - d * r.limit) ELSE k.n,
      log |-> Recent(r, log)]
==============================================================================================================
