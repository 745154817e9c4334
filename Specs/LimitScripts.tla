-------------------------------------------- MODULE LimitScripts ---------------------------------------------
\* The scripts of rate limits. Each maps the counters k and the arguments to <<the new counters, the reply>>. Limit.tla
\* has the callers, and LimitTrace.tla checks recorded calls. r has the rule of each counter. Waits are in ticks.
EXTENDS LimitCounters

\* An operator on a value, and a value for each counter. Both are evaluated once. TLC would otherwise evaluate the value
\* at each use, especially when it checks whether an action is enabled.
With(value, Use(_)) == CHOOSE y \in {Use(x) : x \in {value}} : TRUE
All(r, f(_)) == TLCEval([l \in DOMAIN r |-> f(l)])
Least(set) == CHOOSE a \in set : \A b \in set : a <= b
\* How many of `count` requests of that cost fit, and a usage after more units: returned units do not lower it below 0.
Fit(r, used, blocked, count, cost) ==
  IF blocked > 0 THEN 0 ELSE IF cost < 0 THEN count
  ELSE IF cost = 0 THEN (IF used > r.cap THEN 0 ELSE count) ELSE Max(0, Min(count, (r.cap - used) \div cost))
Moved(used, units) == IF units < 0 /\ used + units < 0 THEN Min(used, 0) ELSE used + units

\* One run of equal requests: count, cost (of each counter that it charges), and waits: whether refused ones wait, so
\* that no later request overtakes them. s is the usage, the ticks for which waiting requests block each counter, the
\* requests that a shadow limit would refuse, and the answers so far. The modes: "all" takes from all limits or from
\* none, "each" from each limit on its own, and "count" also counts refused requests.
Run(r, k, end, mode, before, s, run) ==
  LET charged == DOMAIN run.cost
      strict == {l \in charged : ~r[l].shadow}
      wait(used, l) == Max(Max(1, s.blocked[l]),
                           Wait(r[l], k[l], end[l], used[l] - before[l], Min(run.cost[l], r[l].cap)))
      result(fit, granted, used, waits) ==
        LET blocks(l) == mode = "all" /\ run.waits /\ l \in strict /\ fit[l] < run.count /\ fit[l] = granted IN
        [used |-> used, blocked |-> All(r, LAMBDA l : IF blocks(l) THEN waits[l] ELSE s.blocked[l]),
         excess |-> All(r, LAMBDA l : s.excess[l] + (IF l \in charged THEN Max(0, granted - fit[l]) ELSE 0)),
         runs |-> Append(s.runs, [all |-> \A l \in charged : fit[l] = run.count, fit |-> fit, wait |-> waits])]
      taken(fit, granted, l) == IF mode = "count" THEN run.count ELSE Min(fit[l], granted)
      grant(fit, granted) ==
        With(All(r, LAMBDA l : IF l \notin charged THEN s.used[l]
                               ELSE Moved(s.used[l], taken(fit, granted, l) * run.cost[l])), LAMBDA used :
          With(All(run.cost, LAMBDA l : IF fit[l] = run.count THEN 0 ELSE wait(used, l)), LAMBDA waits :
            result(fit, granted, used, waits)))
  IN With(All(run.cost, LAMBDA l : Fit(r[l], s.used[l], s.blocked[l], run.count, run.cost[l])), LAMBDA fit :
       With(IF mode # "all" THEN run.count ELSE Least({run.count} \cup {fit[l] : l \in strict}), LAMBDA granted :
         grant(fit, granted)))
RECURSIVE Fold(_, _, _, _, _, _, _)
Fold(r, k, end, mode, before, s, runs) == IF runs = <<>> THEN s ELSE
  With(Run(r, k, end, mode, before, s, Head(runs)), LAMBDA next : Fold(r, k, end, mode, before, next, Tail(runs)))
Asked(runs, l) == Sum([i \in DOMAIN runs |-> IF l \in DOMAIN runs[i].cost THEN runs[i].count * runs[i].cost[l] ELSE 0],
                      DOMAIN runs)

\* take.lua with batch.lua and reply.lua. `end` has the ends of fixed windows that the caller knows. The reply has the
\* earlier usage, the ms until all units recover, and, unless all is granted, the answers to runs and shadows' excess.
TakeScript(r, k, end, mode, runs) ==
  LET zero == All(r, LAMBDA l : 0)
      refunds == \E i \in DOMAIN runs : \E l \in DOMAIN runs[i].cost : runs[i].cost[l] < 0
      more(before, s, l) == s.used[l] - before[l]
      result(seen, before, all, s) ==
        <<All(r, LAMBDA l : Add(r[l], seen[l], more(before, s, l))),
          [all |-> all, before |-> before,
           excess |-> IF all THEN zero ELSE s.excess, runs |-> IF all THEN <<>> ELSE s.runs,
           reset |-> All(r, LAMBDA l : Up(Reset(r[l], seen[l], end[l], more(before, s, l)), Unit))]>>
      decide(seen, before) == LET start == [used |-> before, blocked |-> zero, excess |-> zero, runs |-> <<>>] IN
        With(Fold(r, seen, end, mode, before, start, runs), LAMBDA s :
          result(seen, before, ~refunds /\ \A l \in DOMAIN r : before[l] + Asked(runs, l) <= r[l].cap, s))
  IN With(All(r, LAMBDA l : See(r[l], k[l], end[l])), LAMBDA seen :
       With(All(r, LAMBDA l : Used(r[l], seen[l])), LAMBDA before : decide(seen, before)))
\* peek.lua, for one counter: <<the usage, the ms until all units recover, the ticks until one unit fits>>.
PeekScript(r, k) ==
  LET seen == See(r, k, 0)
      used == Used(r, seen)
      reset == IF r.alg = "fixed" THEN seen.left * Unit ELSE Reset(r, seen, 0, 0)
      wait == IF r.alg = "fixed" THEN (IF used >= r.cap THEN reset ELSE 0) ELSE Wait(r, seen, 0, 0, 1)
  IN <<k, <<used, Up(reset, Unit), wait>>>>
\* refund.lua, for one counter, of n units that were taken `since`. The reply is the number of credited counters.
RefundScript(r, k, n, since) == <<Credit(r, k, n, since), IF Refundable(r, k, since) THEN 1 ELSE 0>>
\* throttle.lua: a take of n units from one gcra limit, with another reply; n = 0 changes nothing. A second has that
\* many ticks.
ThrottleScript(r, k, n, second) ==
  LET seen == See(r, k, 0)
      used == Used(r, seen)
      limited == used + n > r.cap
      more == IF limited THEN 0 ELSE n
  IN <<IF n = 0 THEN k ELSE Add(r, seen, more),
       <<IF limited THEN 1 ELSE 0, r.cap, Max(0, r.cap - used - more),
         IF limited /\ n <= r.cap THEN Up(Wait(r, seen, 0, 0, n), second) ELSE -1,
         Up(Reset(r, seen, 0, more), second)>>>>
==============================================================================================================
