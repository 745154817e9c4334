------------------------------------------ MODULE LimitQuotaScripts ------------------------------------------
\* quota.lua: divides a limit among data planes, which are numbers in the order of their names. LimitQuota.tla has the
\* data planes, and LimitQuotaTrace.tla checks recorded calls. All times are relative to now. The entry of a data plane
\* is its quota q, the time for which it may be used, the quota that it replaced, the time for that, and its demand.
EXTENDS Integers, FiniteSets, Sequences
CONSTANT Guards  \* the safeguards in force: see Occupied and See

On(guard) == guard \in Guards
Min(a, b) == IF a < b THEN a ELSE b
Max(a, b) == IF a > b THEN a ELSE b
RECURSIVE Sum(_, _)
Sum(f, S) == IF S = {} THEN 0 ELSE LET x == CHOOSE x \in S : TRUE IN f[x] + Sum(f, S \ {x})
Free == [q |-> 0, left |-> 0, prev |-> 0, prevLeft |-> 0, need |-> 0]

\* An entry as a call sees and corrects it: it lasts at most `retention`, also after the clock was set back.
See(e, retention) ==
  IF On("set_back") THEN [e EXCEPT !.left = Min(@, retention), !.prevLeft = Min(@, retention)] ELSE e
\* The part of the limit that an entry occupies: the new quota may not have arrived, so the previous one counts.
Occupied(e) == Max(IF e.left > 0 THEN e.q ELSE 0, IF e.prevLeft > 0 /\ On("count_previous") THEN e.prev ELSE 0)
\* The data planes whose entries count in a call of p. The others are deleted.
Counted(e, p) == {p} \cup {r \in DOMAIN e : Occupied(e[r]) > 0 \/ e[r].left > 0}
\* The parts of `rest` for demands in ascending order. Each gets at most an equal part of the remainder.
RECURSIVE Met(_, _)
Met(needs, rest) == IF needs = <<>> THEN <<>> ELSE
  LET part == Min(Head(needs), rest \div Len(needs)) IN <<part>> \o Met(Tail(needs), rest - part)
\* The fair quota of p among the data planes S: the smallest demands are met first, and the rest is divided evenly.
Fair(p, S, e, limit) ==
  LET before(a, b) == e[a].need < e[b].need \/ (e[a].need = e[b].need /\ a <= b)
      rank(a) == Cardinality({b \in S : before(b, a)})
      met == Met([i \in 1..Cardinality(S) |-> e[CHOOSE a \in S : rank(a) = i].need], limit)
      spare == limit - Sum(met, DOMAIN met)
  IN met[rank(p)] + Met([i \in DOMAIN met |-> spare], spare)[rank(p)]
\* The new entry of p, from the corrected entries e, which have its new demand.
Assigned(e, p, limit, retention) ==
  LET known == Counted(e, p)
      taken == Sum([r \in known |-> Occupied(e[r])], known \ {p})
      free == Max(0, limit - taken)
      target == Fair(p, known, e, limit)
      current == IF e[p].left > 0 THEN e[p].q ELSE 0
      first == Min(target, free)
      \* The limit was lowered, and the others' quotas last until they expire.
      kept == IF taken + current > limit THEN Max(first, Min(current, target)) ELSE first
      same == current > 0 /\ current <= free /\ Max(kept - current, current - kept) <= current \div 10
      q == IF same \/ (kept < current /\ e[p].prevLeft > 0 /\ current <= free) THEN current ELSE kept
      replaces == e[p].prevLeft = 0 \/ e[p].prev < current
  IN CASE q < current -> [e[p] EXCEPT !.q = q, !.left = retention, !.prev = IF replaces THEN current ELSE @,
                                      !.prevLeft = Max(@, e[p].left)]
       [] q >= current /\ e[p].prevLeft = 0 -> [Free EXCEPT !.q = q, !.left = retention, !.need = e[p].need]
       [] OTHER -> [e[p] EXCEPT !.q = q, !.left = retention]
\* Whether there is no room for another data plane.
Full(e, p, most) == Cardinality(Counted(e, p)) > most /\ e[p].left = 0
\* Maps the entries e and the arguments to <<the new entries, the quota of p>>. `most` is the maximum number of data
\* planes. Without room, the quota is 0, and nothing is stored for p.
QuotaScript(e, p, need, limit, retention, most) ==
  LET seen == [r \in DOMAIN e |-> See(e[r], retention)]
      new == Assigned([seen EXCEPT ![p].need = need], p, limit, retention)
      full == Full(seen, p, most)
  IN <<[r \in DOMAIN e |-> IF r \notin Counted(seen, p) THEN Free ELSE IF r = p /\ ~full THEN new ELSE seen[r]],
       IF full THEN 0 ELSE new.q>>
==============================================================================================================
